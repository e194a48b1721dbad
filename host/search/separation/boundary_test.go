package separation

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestNearest against points whose nearest is known: a corner, an edge, a face.
func TestNearest(t *testing.T) {
	for name, c := range map[string]struct{ points, want []float64 }{
		"corner": {[]float64{1, 1, 0, 2, 1, 0, 1, 3, 1}, []float64{1, 1, 0}},
		"edge":   {[]float64{1, 1, 0, 1, -3, 0, 4, 0, 5}, []float64{1, 0, 0}},
		"face":   {[]float64{3, 0, 0, 0, 3, 0, 0, 0, 3, 4, 4, 4}, []float64{1, 1, 1}},
		"inside": {[]float64{1, 0, 0, -1, 1, 0, -1, -1, 1, -1, -1, -1}, []float64{0, 0, 0}},
	} {
		got := nearest(func(v []float64) []float64 {
			best, at := math.Inf(1), 0
			for i := 0; i < len(c.points); i += 3 {
				if d := floats.Dot(append([]float64{0, 0, 0}, v...)[len(v):], c.points[i:i+3]); v != nil && d < best {
					best, at = d, i
				}
			}
			return slices.Clone(c.points[at : at+3])
		}, 3)
		if !floats.EqualApprox(got, c.want, 1e-9) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestBoundaries: of two cells with rows on both sides of a known strip, the
// hyperplane is its middle, in the user's columns as in those of the fit; experts that
// share rows stand together.
func TestBoundaries(t *testing.T) {
	const n = 400
	rng := rand.New(rand.NewPCG(3, 9))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		// 3u − 4v = 5 is the middle of a strip of half width 1, touched by six rows.
		side, far := float64(1-2*(i%2)), 1+rng.ExpFloat64()
		along := rng.NormFloat64()
		if i < 6 {
			far = 1
		}
		at := side*far + 1 // of the unit normal (0.6, −0.8), whose middle is at 1
		x.SetRow(i, []float64{0.6*at + 0.8*along, -0.8*at + 0.6*along})
		y[i] = 5*side + rng.NormFloat64()
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), problem.Request{K: 3, Intercepts: problem.BothIntercepts})
	q := p.Shape.Blank(1)
	copy(q.Gating, []float64{600, -800, 600, -800})
	copy(q.GatingIntercepts, []float64{-1000, -1000.5})
	q = p.Units.Into(q)
	got, err := Boundaries(t.Context(), p, q, UnderOne([]int{1, 1, 2}))
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, error %v", got, err)
	}
	b := got[0]
	if !slices.Equal(b.Above, []int{0, 1}) || !slices.Equal(b.Below, []int{2}) {
		t.Errorf("between %v and %v", b.Above, b.Below)
	}
	// In the units of the fit the strip is another: that of the margin is at least as wide.
	for i := range n {
		row := []float64{(x.At(i, 0) - p.Units.Mean[0]) / p.Units.SD[0], (x.At(i, 1) - p.Units.Mean[1]) / p.Units.SD[1]}
		v := floats.Dot(b.Normal, row) + b.Offset
		if side := float64(1 - 2*(i%2)); side*v < b.Margin-1e-9 {
			t.Errorf("row %d, of side %v, is at %v, the margin is %v", i, side, v, b.Margin)
		}
	}
	scaled := math.Hypot(0.6*p.Units.SD[0], 0.8*p.Units.SD[1])
	if b.Margin < 1/scaled-1e-9 || math.Abs(floats.Norm(b.Normal, 2)-1) > 1e-12 {
		t.Errorf("margin %v of a normal of length %v, the strip's half width is %v", b.Margin, floats.Norm(b.Normal, 2), 1/scaled)
	}
}

// TestBoundaryThrough0: a gate without an intercept has its boundary through 0, and no
// line of a fine grid has its nearest row farther away.
func TestBoundaryThrough0(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(6, 9))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		from, to, side := 20.0, 160.0, 1.0
		if i%2 == 1 {
			from, to, side = -40, -160, -1
		}
		angle, far := from+(to-from)*rng.Float64(), 1+rng.Float64()
		if i < 2 {
			angle, far = from, 1
		}
		x.SetRow(i, []float64{far * math.Cos(angle*math.Pi/180), far * math.Sin(angle*math.Pi/180)})
		y[i] = side * (1 + x.At(i, 0))
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), problem.Request{K: 2})
	q := p.Shape.Blank(1)
	copy(q.Gating, []float64{0, 1e3})
	got, err := Boundaries(t.Context(), p, p.Units.Into(q), UnderOne([]int{0, 1}))
	if err != nil || len(got) != 1 || got[0].Offset != 0 || !(got[0].Margin > 0) {
		t.Fatalf("%+v, error %v", got, err)
	}
	b := got[0]
	// No line through 0 of a grid has its nearest row farther away, in these units.
	least := func(angle float64) float64 {
		out := math.Inf(1)
		for i := range n {
			row := []float64{x.At(i, 0), x.At(i, 1)}
			if u := p.Units; u != nil {
				row[0], row[1] = (row[0]-u.Mean[0])/u.SD[0], (row[1]-u.Mean[1])/u.SD[1]
			}
			out = min(out, float64(1-2*(i%2))*(math.Cos(angle)*row[0]+math.Sin(angle)*row[1]))
		}
		return out
	}
	if at := least(math.Atan2(b.Normal[1], b.Normal[0])); math.Abs(at-b.Margin) > 1e-9 {
		t.Errorf("margin %v, the nearest row is %v away", b.Margin, at)
	}
	for i := range 10_000 {
		if at := least(2 * math.Pi * float64(i) / 10_000); at > b.Margin+1e-9 {
			t.Fatalf("margin %v, a line has %v", b.Margin, at)
		}
	}
}

// TestNearestOfMany against all corners, edges and faces of random polytopes: the nearest point is the shortest of the
// nearest points of their affine hulls that lie in them.
func TestNearestOfMany(t *testing.T) {
	const dim, n = 3, 8
	rng := rand.New(rand.NewPCG(2, 9))
	for range 200 {
		points := make([][]float64, n)
		for i := range points {
			points[i] = searchtest.Normal(rng, dim)
			points[i][0] += 1.5
		}
		least := math.Inf(1)
		for set := 1; set < 1<<n; set++ {
			var some [][]float64
			for i, p := range points {
				if set>>i&1 == 1 {
					some = append(some, p)
				}
			}
			if len(some) > dim {
				continue
			}
			w := affineNearest(some)
			if w == nil || floats.Min(w) < 0 {
				continue
			}
			x := make([]float64, dim)
			for i, p := range some {
				floats.AddScaled(x, w[i], p)
			}
			least = min(least, floats.Norm(x, 2))
		}
		got := nearest(func(v []float64) []float64 {
			at := 0
			for i, p := range points {
				if v != nil && floats.Dot(v, p) < floats.Dot(v, points[at]) {
					at = i
				}
			}
			return slices.Clone(points[at])
		}, dim)
		// Where the hull holds 0 the corners are not nearest, and the answer is 0.
		if length := floats.Norm(got, 2); length > 1e-6 && math.Abs(length-least) > 1e-6*least || length > least*(1+1e-6) {
			t.Errorf("the nearest of %v is %v away, want %v", points, length, least)
		}
	}
}

// sidesOf are rows of one or two features under a gate, with the groups of its branches.
func sidesOf(x [][]float64, groups []int, offset bool, gate *model.Params) sides {
	b := model.Block{N: len(x), X: make([]float64, gate.D*len(x)), Y: make([]float64, len(x))}
	for r, row := range x {
		for j, v := range row {
			b.Col(j)[r] = v
		}
	}
	s := sides{rows: &model.Data{N: b.N, D: gate.D, Blocks: []model.Block{b}}, offset: offset, node: gate.Hierarchy().Gates()[0], groups: groups, gate: gate}
	for j := range gate.D {
		s.seen = append(s.seen, j)
	}
	return s
}

// TestBetween by hand: between 1 and 3 the middle is 2, wherever 0 is; through 0 the rows below alone may say where the
// hyperplane is.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		x      [][]float64 // above where the last is above 2 or, of the plane, 0
		offset bool
		want   Boundary
	}{
		{[][]float64{{3}, {1}, {7}, {-2}}, true, Boundary{Normal: []float64{1}, Offset: -2, Margin: 1}},
		{[][]float64{{0, 3}, {1, 3}, {-0.5, -1}, {0.5, -1}}, false, Boundary{Normal: []float64{0, 1}, Margin: 1}},
		{[][]float64{{0, 1}, {0.5, 1}, {-0.5, 1}, {0, -3}}, false, Boundary{Normal: []float64{0, 1}, Margin: 1}},
	} {
		gate := model.NewParams(2, len(c.x[0]))
		gate.Gating[len(gate.Gating)-1] = 1
		if c.offset {
			gate.GatingIntercepts = []float64{-2}
		}
		got, err := sidesOf(c.x, []int{0, 1}, c.offset, gate).between(t.Context(), 0, 1, gate.D)
		if err != nil || !floats.EqualApprox(append(got.Normal, got.Offset, got.Margin), append(c.want.Normal, c.want.Offset, c.want.Margin), 1e-9) {
			t.Errorf("rows %v: %+v, want %+v, error %v", c.x, got, c.want, err)
		}
	}
}

// TestChoices against sorting: the first choice of a row is the group of its largest predictor, the second that of the
// largest of another group; neighbours are groups that are these two for some row.
func TestChoices(t *testing.T) {
	const k, n = 5, 60
	groups := []int{0, 3, 2, 3, 4}
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 9))
		gate := model.NewParams(k, 2)
		copy(gate.Gating, searchtest.Normal(rng, len(gate.Gating)))
		gate.GatingIntercepts = searchtest.Normal(rng, k-1)
		x := make([][]float64, n)
		for r := range x {
			x[r] = searchtest.Normal(rng, 2)
		}
		s := sidesOf(x, groups, true, gate)
		near := make([]bool, k*k)
		err := s.choices(t.Context(), func(_ *model.Block, first, second []int) {
			for r, row := range x {
				order := []int{0, 1, 2, 3, 4}
				slices.SortFunc(order, func(i, j int) int {
					return cmp.Compare(searchtest.LogitOf(gate, j, row), searchtest.LogitOf(gate, i, row))
				})
				g, h := groups[order[0]], groups[order[1]]
				if g == h {
					h = groups[order[2]]
				}
				if first[r] != g || second[r] != h {
					t.Errorf("row %d: %d and %d, want %d and %d", r, first[r], second[r], g, h)
				}
				near[min(g, h)*k+max(g, h)] = true
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.neighbours(t.Context()); err != nil || !slices.Equal(got, near) {
			t.Errorf("neighbours %v, want %v, error %v", got, near, err)
		}
	}
	// Of 0 and 1 it is enough that rows of 0 are next to 1: here those of 1 are all next to 2.
	line := model.NewParams(3, 1)
	copy(line.Gating, []float64{-2, -1})
	line.GatingIntercepts = []float64{-1, 0} // 0 below −1, 1 between −1 and 0, 2 above
	got, err := sidesOf([][]float64{{-3}, {-0.1}, {2}}, []int{0, 1, 2}, true, line).neighbours(t.Context())
	if want := []bool{false, true, false, false, false, true, false, false, false}; err != nil || !slices.Equal(got, want) {
		t.Errorf("neighbours %v, want %v, error %v", got, want, err)
	}
}

// TestBoundariesOfATree: a gate below another has a boundary between the rows that are its own, here at heights of their
// own, and the first gate has all rows.
func TestBoundariesOfATree(t *testing.T) {
	q, data := searchtest.Quarters(t)
	gates := q.Tree.Gates()
	q.GatingIntercepts[gates[1].Row(0)] = 10 // at 1/2 on the left
	p := &problem.Problem{Rows: data([3]float64{-1, 0.1, 0}, [3]float64{1, 0.1, 3}), Shape: problem.Shape{K: 4, D: 2, Intercept: true, GateIntercept: true, Tree: q.Tree}}
	p.G.Activation = searchtest.Activation(t, identity.Family)
	two := []int{0, 1}
	got, err := Boundaries(t.Context(), p, q, &Groups{gates: gates, of: [][]int{two, two, two}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Boundary{
		{Above: []int{0, 1}, Below: []int{2, 3}, Normal: []float64{-1, 0}, Margin: 1},
		{Above: []int{0}, Below: []int{1}, Normal: []float64{0, -1}, Offset: 0.55, Margin: 0.45},  // between 0.1 and 1
		{Above: []int{2}, Below: []int{3}, Normal: []float64{0, -1}, Offset: -0.45, Margin: 0.55}, // between −1 and 0.1
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

// TestRowsOf: those of a gate are the rows that its experts have by the posterior, of the first gate all. The last gate
// but one of 3x2 has experts 2 and 3.
func TestRowsOf(t *testing.T) {
	q := model.NewParams(6, 1)
	q.Tree = searchtest.Tree(t, "3x2")
	q.RegressorIntercepts, q.Sigma[0] = []float64{0, 10, 20, 30, 40, 50}, 0.3
	b := model.Block{N: 6, X: []float64{1, 1, 1, 1, 1, 1}, Y: []float64{30, 0, 20, 50, 10, 40}}
	p := &problem.Problem{Rows: &model.Data{N: 6, D: 1, Blocks: []model.Block{b}}}
	p.G.Activation = searchtest.Activation(t, identity.Family)
	for i, want := range [][]bool{nil, {false, true, false, false, true, false}, {true, false, true, false, false, false}, {false, false, false, true, false, true}} {
		if got, err := rowsOf(t.Context(), posteriorsOf(p, q), q.Classes(), q.Tree.Gates()[i]); err != nil || !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("gate %d: %v, want %v, error %v", i, got, want, err)
		}
	}
}
