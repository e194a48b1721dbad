package solver

import (
	"math"
	"testing"
)

// TestFreeDirections: where the shortest solution happens to have no He4 part
// but others do, one of those is taken; where none has, it stays.
func TestFreeDirections(t *testing.T) {
	// α + β = 1 is the only equation; the shortest solution (½, ½, 0) has c = 0.
	e := equations{
		a: [][]float64{{1, 1, 0}, {0, 0, 0}, {0, 0, 0}}, b: []float64{1, 0, 0},
		c: []float64{1, -1, 0}, cerr: make([]float64, 3),
	}
	s := e.solve()
	if s.rank != 1 || len(s.free) != 2 || s.residual > 1e-15 {
		t.Fatalf("%+v", s)
	}
	x := e.pick(s, affine{0, 1})
	if math.Abs(e.coefficient(x)) < 1 || e.distance(x) > 1e-15 {
		t.Errorf("x = %v: coefficient %v, residual %v", x, e.coefficient(x), e.distance(x))
	}
	e.c = []float64{1, 1, 0} // now the same for all solutions
	e.c0 = -1
	if x := e.pick(s, affine{0, 1}); math.Abs(e.coefficient(x)) > 1e-15 || math.Abs(x[0]-.5) > 1e-15 {
		t.Errorf("x = %v: coefficient %v", x, e.coefficient(x))
	}
}

// TestInconsistent: 0·x = 1 has no solution, and the residual says so.
func TestInconsistent(t *testing.T) {
	e := equations{a: [][]float64{{0, 0}, {0, 1}}, b: []float64{1, 1}, c: []float64{0, 0}, cerr: []float64{0, 0}}
	if s := e.solve(); s.rank != 1 || s.residual <= s.tolerance || math.Abs(s.residual-1) > 1e-15 {
		t.Errorf("%+v", s)
	}
}

// TestChangeOfScale: the raw polynomial is the standard one of (y − mean)/sd, up
// to scale and constant.
func TestChangeOfScale(t *testing.T) {
	a := affine{-1.7, 0.3}
	x := []float64{0.4, -2, 3.1}
	raw := a.raw(x)
	value := func(x []float64, y float64) float64 { return (((y+x[0])*y+x[1])*y + x[2]) * y }
	difference := func(y float64) float64 {
		return value(raw, y) - math.Pow(a.sd, 4)*value(x, (y-a.mean)/a.sd)
	}
	for _, y := range []float64{-3, 0.2, 5} {
		if math.Abs(difference(y)-difference(0)) > 1e-10 {
			t.Errorf("the polynomials differ by more than a constant at y = %v", y)
		}
	}
}
