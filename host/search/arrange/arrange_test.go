package arrange

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestArrangement: rows that have gone down a known tree, by their experts' labels alone,
// give the tree back, whatever the order in which the experts came; and a gate's gradient
// and Hessian are its differences.
func TestArrangement(t *testing.T) {
	const n, d = 2000, 4
	for _, c := range []struct {
		shape string
		kinds []int
	}{{"2x2", nil}, {"3x2", nil}, {"2x2x2", nil}, {"2x(3,1)", nil}, {"2x2x2", []int{0, 1, 0, 1, 0, 1, 0, 1}}} {
		h, err := model.ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		k := h.Leaves()
		rng := rand.New(rand.NewPCG(8, uint64(k)))
		p := model.NewParams(k, d)
		p.Tree = h
		copy(p.Gating, model.RandomDirections(rng, k-1, d))
		// Expert i stands at leaf at[i].
		at := rng.Perm(k)
		if c.kinds != nil { // an expert stays at leaves of its kind
			for i := range at {
				at[i] = (i + 2) % k
			}
		}
		x, r := numeric.Columns(d, n), numeric.Columns(k, n)
		for t := range n {
			for j := range d {
				x[j][t] = 2 * rng.NormFloat64()
			}
			leaf, branches := 0, h
			for len(branches.Branches) > 0 {
				pick, from := math.Inf(-1), leaf
				var next model.Hierarchy
				for i, b := range branches.Branches {
					eta := 0.0
					if last := from + b.Leaves() - 1; i < len(branches.Branches)-1 {
						for j, w := range p.Gate(last) {
							eta += w * x[j][t]
						}
					}
					// The largest of logits with Gumbel noise is a draw from their softmax.
					if eta -= math.Log(rng.ExpFloat64()); eta > pick {
						pick, leaf, next = eta, from, b
					}
					from += b.Leaves()
				}
				branches = next
			}
			r[slices.Index(at, leaf)][t] = 1
		}
		a := &arrangement{tree: h, nodes: h.Gates(), kinds: c.kinds, x: x, r: r, fitted: map[string]fittedGate{}}
		places, err := a.best(t.Context(), rng)
		if err != nil {
			t.Fatal(err)
		}
		truth := make([]int, k)
		for i, leaf := range at {
			truth[leaf] = i
		}
		got, _ := a.value(t.Context(), places)
		want, _ := a.value(t.Context(), truth)
		if got < want-1e-6 {
			t.Errorf("%s: arranged as %v with %v, the truth %v has %v", c.shape, places, got, truth, want)
		}
		// The same branches, in any order: all gates are of the same experts.
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: arranged as %v, better than the truth %v by %v", c.shape, places, truth, got-want)
		}

		var branches [][]int
		for branch := range a.nodes[0].Ends {
			from, to := a.nodes[0].Branch(branch)
			branches = append(branches, places[from:to])
		}
		b := newBranching(a.x, a.r, branches)
		g, err := a.gate(t.Context(), a.nodes[0], places)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := b.Value(t.Context(), g.w); math.Abs(-v*b.n-g.gain) > 1e-12*math.Abs(g.gain) {
			t.Errorf("%s: the gate in the order of its branches has %v, fitted %v", c.shape, -v*b.n, g.gain)
		}
		w := slices.Clone(g.w)
		for i := range w {
			w[i] += 0.3
		}
		grad, up, down := make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
		hess := mat.NewSymDense(len(w), nil)
		if _, err := b.Hessian(t.Context(), hess, grad, w); err != nil {
			t.Fatal(err)
		}
		const step = 1e-5
		for i := range w {
			moved := slices.Clone(w)
			moved[i] += step
			above, _ := b.Grad(t.Context(), up, moved)
			moved[i] -= 2 * step
			below, _ := b.Grad(t.Context(), down, moved)
			if v, _ := b.Value(t.Context(), moved); math.Abs(v-below) > 1e-13 {
				t.Errorf("%s: value %v beside the gradient, %v alone", c.shape, below, v)
			}
			if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > 1e-8 {
				t.Errorf("%s: entry %d of the gradient is %v, want %v", c.shape, i, grad[i], want)
			}
			for j := range w {
				if want := (up[j] - down[j]) / (2 * step); math.Abs(hess.At(i, j)-want) > 1e-8 {
					t.Errorf("%s: entry (%d, %d) of the Hessian is %v, want %v", c.shape, i, j, hess.At(i, j), want)
				}
			}
		}
	}
}

// TestHeavy: rows of which a gate has next to nothing say nothing of it.
func TestHeavy(t *testing.T) {
	r := [][]float64{{0.5, 0, 1e-7, 0, 2e-6}, {0, 0, 1e-7, 1e-6, 0}, {9, 9, 9, 9, 9}, {0, 0.25, 1e-7, 1e-6, 0}}
	if got := heavy(r, [][]int{{0, 1}, {3}}); !slices.Equal(got, []int{0, 1, 3, 4}) {
		t.Errorf("rows %v", got)
	}
}

// TestExchanges: of two branches of the same shape and kinds neither is below the other, and to exchange them twice is nothing.
func TestExchanges(t *testing.T) {
	for _, c := range []struct {
		shape string
		kinds []int
		want  []exchange
	}{
		{"3", nil, []exchange{{0, 1, 1}, {0, 2, 1}, {1, 2, 1}}},
		{"2x2", []int{0, 1, 0, 1}, []exchange{{0, 2, 1}, {0, 2, 2}, {1, 3, 1}}},
		{"2x2", []int{0, 1, 1, 0}, []exchange{{0, 3, 1}, {1, 2, 1}}},
		{"2x(1,2)", nil, []exchange{{0, 1, 1}, {0, 2, 1}, {1, 2, 1}}},
		{"2x2", nil, []exchange{{0, 1, 1}, {0, 2, 1}, {0, 2, 2}, {0, 3, 1}, {1, 2, 1}, {1, 3, 1}, {2, 3, 1}}},
	} {
		got := exchanges(searchtest.Tree(t, c.shape), c.kinds)
		slices.SortFunc(got, func(a, b exchange) int { return cmp.Or(a.i-b.i, a.j-b.j, a.leaves-b.leaves) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %v: %v, want %v", c.shape, c.kinds, got, c.want)
		}
	}
	places := []int{4, 5, 6, 7}
	pair := exchange{0, 2, 2}
	if pair.apply(places); !slices.Equal(places, []int{6, 7, 4, 5}) {
		t.Errorf("exchanged: %v", places)
	}
	if pair.apply(places); !slices.Equal(places, []int{4, 5, 6, 7}) {
		t.Errorf("exchanged twice: %v", places)
	}
}

// TestShuffle: every order of experts of one kind is as likely, within four standard errors, and an expert goes to places of its
// kind only.
func TestShuffle(t *testing.T) {
	const draws = 1200
	rng := rand.New(rand.NewPCG(1, 8))
	seen := map[[3]int]int{}
	for range draws {
		places := []int{0, 1, 2}
		(&arrangement{}).shuffle(rng, places)
		seen[[3]int(places)]++
	}
	for order, n := range seen {
		if math.Abs(float64(n)-draws/6.) > 4*math.Sqrt(draws*5./36) {
			t.Errorf("order %v %d times of %d", order, n, draws)
		}
	}
	if len(seen) != 6 {
		t.Errorf("orders %v", seen)
	}
	kinds, moved := []int{0, 1, 0, 1}, false
	for range 50 {
		places := []int{0, 1, 2, 3}
		(&arrangement{kinds: kinds}).shuffle(rng, places)
		for at, i := range places {
			if kinds[at] != kinds[i] {
				t.Fatalf("expert %d stands at place %d", i, at)
			}
		}
		moved = moved || places[0] == 2
	}
	if !moved {
		t.Error("nothing has moved")
	}
}

// TestReordered: the predictors of branches in another order have the same differences, and the last is 0.
func TestReordered(t *testing.T) {
	const d = 2
	w := []float64{1, 2, -3, 5} // of the first two branches, the third is 0
	all := [][]int{{0, 3}, {1}, {2}}
	of := func(w []float64, c int) []float64 {
		if c == len(all)-1 {
			return make([]float64, d)
		}
		return w[c*d : (c+1)*d]
	}
	for _, perm := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		var branches [][]int
		for _, c := range perm {
			branches = append(branches, all[c])
		}
		got := reordered(w, d, all, branches)
		for a, was := range perm {
			for b, other := range perm {
				for j := range d {
					if of(got, a)[j]-of(got, b)[j] != of(w, was)[j]-of(w, other)[j] {
						t.Errorf("order %v: %v", perm, got)
					}
				}
			}
		}
	}
}

// TestNewArrangement: the columns that the gate sees, and ones for its intercept, and the posteriors times the weights, over
// more than one block.
func TestNewArrangement(t *testing.T) {
	q, data := searchtest.Quarters(t)
	others := make([][3]float64, model.BlockRows-160)
	for i := range others {
		others[i] = [3]float64{1, 1, 3}
	}
	one := data(others...)
	rows := &model.Data{N: one.N + 60, D: 2, Blocks: []model.Block{one.Blocks[0].Clone(), one.Blocks[0].Clone()}}
	last := &rows.Blocks[1]
	last.X = slices.Concat(last.X[:60], last.X[last.N:last.N+60])
	last.Y, last.N = last.Y[:60], 60
	for i := range rows.Blocks {
		b := &rows.Blocks[i]
		for r := range b.N {
			b.Role[model.Weights] = append(b.Role[model.Weights], 1+float64(r+i)/100)
		}
	}
	p := &problem.Problem{Rows: rows, Shape: problem.Shape{K: 4, D: 2, Gate: []int{1}, Intercept: true, GateIntercept: true, Tree: q.Tree}}
	p.G.Activation = searchtest.Activation(t, identity.Family)
	a, err := newArrangement(t.Context(), p, rows, q, nil)
	if err != nil || len(a.x) != 2 || len(a.r) != 4 {
		t.Fatalf("%d columns of %d experts, error %v", len(a.x), len(a.r), err)
	}
	at := 0
	for i := range rows.Blocks {
		b := &rows.Blocks[i]
		for r := range b.N {
			if a.x[0][at] != b.Col(1)[r] || a.x[1][at] != 1 {
				t.Errorf("row %d of the gate is %v and %v", at, a.x[0][at], a.x[1][at])
			}
			for e := range 4 { // the levels are 33 standard deviations apart: each row is an expert's
				want := 0.0
				if math.Abs(b.Y[r]-10*float64(e)) < 5 {
					want = b.Role[model.Weights][r]
				}
				if math.Abs(a.r[e][at]-want) > 1e-9 {
					t.Errorf("expert %d has %v of row %d, want %v", e, a.r[e][at], at, want)
				}
			}
			at++
		}
	}
}

// TestArranged: experts under a gate that says nothing, in an order that is no tree's, come to the places of the quadrants, with
// their noise and gates that tell nearly all of their rows.
func TestArranged(t *testing.T) {
	for _, shape := range []string{"2x2", "4"} {
		testArranged(t, searchtest.Tree(t, shape))
	}
}

func testArranged(t *testing.T, shape model.Hierarchy) {
	t.Helper()
	_, data := searchtest.Quarters(t)
	rows := data()
	p := &problem.Problem{Rows: rows, Shape: problem.Shape{K: 4, D: 2, Intercept: true, GateIntercept: true, PerExpert: true, Tree: shape}}
	p.G.Activation = searchtest.Activation(t, identity.Family)
	flat := model.NewParams(4, 2)
	flat.GatingIntercepts = make([]float64, 3)
	flat.RegressorIntercepts, flat.Sigma = []float64{30, 0, 10, 20}, []float64{0.33, 0.3, 0.31, 0.32} // 3, 0, 1, 2
	got, err := Best(t.Context(), p, rows, flat, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	b := &rows.Blocks[0]
	prior := make([]float64, 4*b.N)
	mixture.Mixture{}.Prior(prior, got, b)
	for i, level := range got.RegressorIntercepts {
		if want := 0.3 + level/1000; math.Abs(got.Sigma[i]-want) > 1e-12 {
			t.Errorf("the expert at %v has noise %v, want %v", level, got.Sigma[i], want)
		}
		for r, y := range b.Y {
			if v := prior[i*b.N+r]; (v > 0.9) != (math.Abs(y-level) < 5) {
				t.Fatalf("row %d at %v, the expert at %v has %v of it", r, y, level, v)
			}
		}
	}
	if got.Tree.Depth() != shape.Depth() {
		t.Errorf("a tree of depth %d", got.Tree.Depth())
	}
}

// BenchmarkArrangement is the search for the places of six experts of random posteriors.
func BenchmarkArrangement(b *testing.B) {
	const n, d, k = 8192, 10, 6
	h, err := model.ParseHierarchy("3x2")
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 6))
	x, r := numeric.Columns(d, n), numeric.Columns(k, n)
	for t := range n {
		for j := range d {
			x[j][t] = rng.NormFloat64()
		}
		sum := 0.0
		for i := range k {
			r[i][t] = math.Exp(3*rng.NormFloat64() + x[i%d][t])
			sum += r[i][t]
		}
		for i := range k {
			r[i][t] /= sum
		}
	}
	for b.Loop() {
		a := &arrangement{tree: h, nodes: h.Gates(), x: x, r: r, fitted: map[string]fittedGate{}}
		if _, err := a.best(b.Context(), rand.New(rand.NewPCG(1, 2))); err != nil {
			b.Fatal(err)
		}
	}
}
