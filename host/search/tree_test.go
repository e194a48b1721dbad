package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// TestOrder: branches come in the order of their proportions, as far as they may stand for
// each other.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		shape       string
		kinds       []int
		proportions []float64
		want        []int // the expert that stands at each place
	}{
		{"4", nil, []float64{0.1, 0.4, 0.3, 0.2}, []int{1, 2, 3, 0}},
		{"4", nil, []float64{0.2, 0.3, 0.2, 0.3}, []int{1, 3, 0, 2}}, // equals stay in their order
		{"3", []int{0, 1, 0}, []float64{0.1, 0.5, 0.4}, []int{2, 1, 0}},
		{"2x2", nil, []float64{0.1, 0.2, 0.3, 0.4}, []int{3, 2, 1, 0}},
		{"2x2", []int{0, 1, 0, 1}, []float64{0.1, 0.2, 0.3, 0.4}, []int{2, 3, 0, 1}},
		{"2x2", []int{0, 1, 1, 0}, []float64{0.1, 0.2, 0.3, 0.4}, []int{0, 1, 2, 3}},
		{"2x(1,2)", nil, []float64{0.1, 0.2, 0.7}, []int{0, 2, 1}},
		{"3x(2,1,2)", nil, []float64{0.1, 0.2, 0.1, 0.4, 0.2}, []int{3, 4, 2, 1, 0}},
	} {
		h, err := model.ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]int, len(c.want))
		for place, i := range c.want {
			want[i] = place
		}
		if got := order(h, c.kinds, c.proportions); !slices.Equal(got, want) {
			t.Errorf("%s %v %v: %v, want %v", c.shape, c.kinds, c.proportions, got, want)
		}
	}
}

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
		x, r := newColumns(d, n), newColumns(k, n)
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

// BenchmarkArrangement is the search for the places of six experts of random posteriors.
func BenchmarkArrangement(b *testing.B) {
	const n, d, k = 8192, 10, 6
	h, err := model.ParseHierarchy("3x2")
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 6))
	x, r := newColumns(d, n), newColumns(k, n)
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
