package solver_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

func curves(t *testing.T, act sdk.Func, sigma float64) (solver.Curves, solver.Transform, *solver.Optimal) {
	t.Helper()
	tr, _ := solve(t, act, sigma)
	o := optimal(t, act, sigma, 2)
	c, err := solver.CurvesOf(t.Context(), act, tr, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, tr, o
}

// TestCurvesAreDrawn: where the points are, and T_r at each by its definition: the polynomial
// less its mean, which takes the noise in, over what it leaves.
func TestCurvesAreDrawn(t *testing.T) {
	const sigma = .3
	for _, act := range []sdk.Func{relu, absolute, window, fn("kink outside", math.Tanh, nil, 3.5, -7)} {
		c, tr, o := curves(t, act, sigma)
		var inside, want []float64
		for _, k := range act.Kinks {
			if math.Abs(k) < 3.5 {
				inside = append(inside, k)
				want = append(want, k-1e-9, k+1e-9)
			}
		}
		for i := range 701 {
			want = append(want, float64(i-350)/100)
		}
		slices.Sort(want)
		if !slices.Equal(c.Kinks, inside) || !slices.EqualFunc(c.Z, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-14 }) {
			t.Errorf("%s: kinks %v, %d places", act.Name, c.Kinks, len(c.Z))
		}
		lo, hi := slices.Min(c.G)-.9, slices.Max(c.G)+.9
		if len(c.Y) != 601 {
			t.Fatalf("%s: %d values of y", act.Name, len(c.Y))
		}
		for i, y := range c.Y {
			if !near(y, lo*(1-float64(i)/600)+hi*float64(i)/600, 1e-14) {
				t.Fatalf("%s: value %d of y is %v", act.Name, i, y)
			}
		}
		grid, err := gauss.NewGrid(t.Context(), act.Eval, act.Kinks)
		if err != nil {
			t.Fatal(err)
		}
		for i, by := range []struct {
			q func(float64) float64
			c float64
		}{{tr.Q2, tr.C2}, {tr.P3, tr.Cubic.C3}, {tr.Q4, tr.C4}} {
			r := i + 2
			curve := c.T[i]
			if curve.Order != r || (curve.Polynomial != nil) != tr.Has(r) || (curve.Optimal != nil) != o.Has(r) {
				t.Errorf("%s: %d, polynomial %v, least %v", act.Name, curve.Order, curve.Polynomial != nil, curve.Optimal != nil)
			}
			if tr.Has(r) {
				mean, _ := grid.Expect(func(_, g float64) float64 {
					return overNoise(func(e float64) float64 { return by.q(g + sigma*e) })
				})
				for j, y := range c.Y {
					if want := (by.q(y) - mean) / by.c; !near(curve.Polynomial[j], want, 1e-9) {
						t.Fatalf("%s: T%d(%v) = %v, want %v", act.Name, r, y, curve.Polynomial[j], want)
					}
				}
			}
			for j, v := range curve.Optimal {
				if v != o.At(r, c.Y[j]) {
					t.Fatalf("%s: T%d(%v) = %v of least variance, want %v", act.Name, r, c.Y[j], v, o.At(r, c.Y[j]))
				}
			}
		}
	}
	if c, _, _ := curves(t, constant, 0); c.Y[0] != math.Pi-1 || c.Y[600] != math.Pi+1 {
		t.Errorf("a constant without noise is drawn from %v to %v", c.Y[0], c.Y[600])
	}
}

// TestSpectra: in closed form by E[z⁴·He2] = 12, E[z⁴·He4] = 24 and Var z⁴ = 96, and of
// polynomials of degree 8 and 6 in z the squares add up to 1.
func TestSpectra(t *testing.T) {
	c, _, _ := curves(t, square, 0)
	want := []float64{0, 0, 12 / math.Sqrt(2*96), 0, 24 / math.Sqrt(24*96), 0, 0, 0, 0}
	if !slices.EqualFunc(c.Spectrum2, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
		t.Errorf("z²: %v, want %v", c.Spectrum2, want)
	}
	sum := func(v []float64) (s float64) {
		for _, x := range v {
			s += x * x
		}
		return s
	}
	if s := sum(c.Spectrum4); !near(s, 1, 1e-12) || !(math.Abs(c.Spectrum4[8]) > .1) {
		t.Errorf("z²: squares add up to %v: %v", s, c.Spectrum4)
	}
	c, _, _ = curves(t, cube, .5)
	if s := sum(c.Spectrum2); !near(s, 1, 1e-12) || !(math.Abs(c.Spectrum2[6]) > .1) {
		t.Errorf("z³: squares add up to %v: %v", s, c.Spectrum2)
	}
}

// TestCurvesOfOthers: a g without a fourth moment has values but neither spectra nor
// polynomials; of one that fails the error is passed on, with its name.
func TestCurvesOfOthers(t *testing.T) {
	wild := fn("exp(z²/8)", func(z float64) float64 { return math.Exp(z * z / 8) }, nil)
	o := optimal(t, wild, .05, 2)
	c, err := solver.CurvesOf(t.Context(), wild, solver.Transform{Sigma: .05, C4: 1, C2: 1}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.G) != 701 || len(c.Spectrum4) != 9 || len(c.Spectrum2) != 9 || slices.Max(c.Spectrum4) != 0 || slices.Max(c.Spectrum2) != 0 {
		t.Errorf("%d values, spectra %v, %v", len(c.G), c.Spectrum4, c.Spectrum2)
	}
	for _, curve := range c.T {
		if curve.Polynomial != nil || (curve.Optimal != nil) != o.Has(curve.Order) {
			t.Errorf("order %d: polynomial %v, least %v", curve.Order, curve.Polynomial != nil, curve.Optimal != nil)
		}
	}
	for _, act := range []sdk.Func{fn("log", math.Log, nil), fn("nothing", nil, nil)} {
		if _, err := solver.CurvesOf(t.Context(), act, solver.Transform{}, o); err == nil || !strings.Contains(err.Error(), `curves of activation "`+act.Name) {
			t.Errorf("%s: %v", act.Name, err)
		}
	}
}
