package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/problem"
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
	p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 3, Intercept: true})
	q := p.Shape.Blank(1)
	copy(q.Gating, []float64{600, -800, 600, -800})
	copy(q.GatingIntercepts, []float64{-1000, -1000.5})
	q = p.Units.Into(q)
	got, err := Boundaries(t.Context(), p, q, underOne([]int{1, 1, 2}))
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
	p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 2})
	q := p.Shape.Blank(1)
	copy(q.Gating, []float64{0, 1e3})
	got, err := Boundaries(t.Context(), p, p.Units.Into(q), underOne([]int{0, 1}))
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
