package gauss

import (
	"errors"
	"math"
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
)

// TestGrowth: g = ±exp(z²/a)·(1+z²)^(c/2) has E[g⁴·Z⁴] < ∞ where a > 8, and at a = 8 where 4c + 4 < −1. Near there what is
// said is not wrong, and farther off it is said, on one side and on both.
func TestGrowth(t *testing.T) {
	testslow.Mark(t)
	sides := map[string]func(g, z float64) float64{
		"odd": math.Copysign, "even": func(g, _ float64) float64 { return g },
		"right": func(g, z float64) float64 {
			if z < 0 {
				return 1 - z
			}
			return g
		},
	}
	for _, a := range []float64{4, 6, 7, 7.5, 7.9, 7.95, 7.99, 7.999, 8, 8.001, 8.01, 8.05, 8.1, 8.3, 8.5, 9, 10, 12, 20} {
		for _, c := range []float64{-20, -8, -3, -1.5, -1, 0, 4} {
			for name, side := range sides {
				_, err := NewGrid(t.Context(), of(func(z float64) float64 {
					return side(math.Exp(z*z/a)*math.Pow(1+z*z, c/2), z)
				}), nil)
				if err != nil && !errors.Is(err, ErrGrowth) {
					t.Fatal(err)
				}
				finite := a > 8 || a == 8 && 4*c+4 < -1
				if err == ErrGrowth && finite || (err == nil || err == errBeyond) && !finite {
					t.Errorf("%s, a = %v, c = %v: %v", name, a, c, err)
				}
				if told := a <= 7.95 || a >= 8.05; told && err == errUnclear {
					t.Errorf("%s, a = %v, c = %v: not told", name, a, c)
				}
				if a >= 9 && err != nil {
					t.Errorf("%s, a = %v, c = %v: %v", name, a, c, err)
				}
			}
		}
	}
}

// TestGrowthOfOthers: functions with all moments have a grid unless they need a wider one than there is, those without are
// refused, and what turns to growth far out is not called finite.
func TestGrowthOfOthers(t *testing.T) {
	power := func(p float64) func(float64) float64 {
		return func(z float64) float64 { return math.Pow(math.Abs(z), p) }
	}
	steep := func(b float64) func(float64) float64 { return func(z float64) float64 { return math.Exp(b * z) } }
	for name, c := range map[string]struct {
		g    func(float64) float64
		want error
	}{
		"z²⁰": {power(20), nil}, "z³⁰": {power(30), nil}, "exp(z)": {steep(1), nil}, "exp(-4.5z)": {steep(-4.5), nil},
		"cosh(4z)":        {func(z float64) float64 { return math.Cosh(4 * z) }, nil},
		"exp(12z)":        {steep(12), errBeyond}, // the largest part of E g⁴ is at 48
		"exp(19z)":        {steep(19), errBeyond}, // and overflows
		"exp(21z)":        {steep(21), errBeyond}, // g too
		"Γ":               {func(z float64) float64 { return math.Gamma(math.Abs(z) + 1) }, nil},
		"z·sin 3z":        {func(z float64) float64 { return z * math.Sin(3*z) }, nil},
		"z·sin z/3":       {func(z float64) float64 { return z * math.Sin(z/3) }, nil},
		"exp(z²/10)sin":   {func(z float64) float64 { return math.Exp(z*z/10) * math.Sin(z) }, nil},
		"exp(z²/7.9)sin":  {func(z float64) float64 { return math.Exp(z*z/7.9) * math.Sin(z) }, errUnclear},
		"exp(|z|^2.1/12)": {func(z float64) float64 { return math.Exp(math.Pow(math.Abs(z), 2.1) / 12) }, ErrGrowth},
		"exp(|z|^1.9/8)":  {func(z float64) float64 { return math.Exp(math.Pow(math.Abs(z), 1.9) / 8) }, nil},
		"cut":             {func(z float64) float64 { return math.Exp(min(z*z, 300) / 7) }, nil},
		"late":            {func(z float64) float64 { return z + math.Exp(z*z-300) }, errUnclear},
		"relu(z − 12)":    {func(z float64) float64 { return max(0, z-12) }, nil},
		"the issue":       {func(z float64) float64 { return math.Exp(z*z/7.9) * z / (1 + z*z*z*z) }, ErrGrowth},
		"falls too fast":  {func(z float64) float64 { return math.Exp(-z * z) }, nil},
	} {
		if _, err := NewGrid(t.Context(), of(c.g), nil); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestWide: moments that reach beyond the usual range are those of closed forms: E[exp(4z²/a)·Z⁴] = 3·(1 − 8/a)^(−5/2),
// and E[exp(pbZ)] = exp(p²b²/2).
func TestWide(t *testing.T) {
	for _, a := range []float64{8.5, 9, 10} {
		grid, err := NewGrid(t.Context(), of(func(z float64) float64 { return math.Exp(z * z / a) }), nil)
		if err != nil {
			t.Fatal(err)
		}
		if (grid.Reach() > Range) != (a < 8.8) {
			t.Errorf("a = %v: the grid reaches to %v", a, grid.Reach())
		}
		got, _ := grid.Expect(func(z, g float64) float64 { return g * g * g * g * z * z * z * z })
		// The part of 9 beyond 20 is 2e−8.
		if want := 3 * math.Pow(1-8/a, -2.5); math.Abs(got/want-1) > 1e-7 {
			t.Errorf("a = %v: %v, want %v", a, got, want)
		}
	}
	grid, err := NewGrid(t.Context(), of(func(z float64) float64 { return math.Exp(4.5 * z) }), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := grid.Expect(func(_, g float64) float64 { return g * g * g * g }); math.Abs(got/math.Exp(162)-1) > 1e-9 {
		t.Errorf("%v, want %v", got, math.Exp(162))
	}
}
