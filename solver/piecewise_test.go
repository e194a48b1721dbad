package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// TestTableError: the table of T_r lies within its bound of T_r at any y, also
// between the points that it was made from and below the floor of σ.
func TestTableError(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(3, 1))
	for name, g := range map[string]func(float64) float64{
		"identity": func(z float64) float64 { return z },
		"relu":     func(z float64) float64 { return math.Max(z, 0) },
		"steps":    func(z float64) float64 { return math.Floor(2*z) + z/10 },
		"cube":     func(z float64) float64 { return z * z * z },
		"tanh":     math.Tanh,
	} {
		law, err := gauss.NewLaw(t.Context(), func(_ context.Context, dst, z []float64) error {
			for i, v := range z {
				dst[i] = g(v)
			}
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, sigma := range []float64{.05, .5} {
			noisy := law.Noisy(sigma)
			c := newConditionals(noisy, noisy.Lo, noisy.Hi, 1e-4*sigma, orthonormal(3), panelTol)
			y, at := make([]float64, 4000), make([]gauss.Conditional, 4000)
			for i := range y {
				y[i] = noisy.Lo + rng.Float64()*(noisy.Hi-noisy.Lo)
				at[i] = noisy.At(y[i])
			}
			for _, r := range Orders() {
				s := c.solve(r, law.SD/math.Hypot(law.SD, sigma))
				p := c.table(r, s.lambda)
				size := 0.0
				for i, y := range y {
					want := s.value(&at[i])
					size = max(size, math.Abs(want))
					if diff := math.Abs(p.at(y) - want); !(diff <= p.bound) {
						t.Fatalf("%s at σ = %v: T%d(%v) is off by %v, bound %v", name, sigma, r, y, diff, p.bound)
					}
				}
				if p.bound > 1e-7*max(1, size) {
					t.Errorf("%s at σ = %v: the bound of T%d is %v for values up to %v", name, sigma, r, p.bound, size)
				}
				const tau = .02
				blurred := smoothed(p, tau)
				for range 200 { // away from the ends, where p has kinks that the sum below does not resolve
					y := noisy.Lo + 10*tau + rng.Float64()*(noisy.Hi-noisy.Lo-20*tau)
					var want float64
					const h = 1. / 64
					for u := -8.5; u <= 8.5; u += h {
						want += h * math.Exp(-u*u/2) / math.Sqrt(2*math.Pi) * p.at(y+tau*u)
					}
					if diff := math.Abs(blurred.at(y) - want); !(diff <= blurred.bound+1e-9*size) {
						t.Fatalf("%s at σ = %v: T%d(%v) averaged over noise is off by %v, bound %v", name, sigma, r, y, diff, blurred.bound)
					}
				}
			}
		}
	}
}

// TestOrthogonalise: G⁻¹ on the functions that are independent, 0 on those that are
// not.
func TestOrthogonalise(t *testing.T) {
	f := [][]float64{{1, 0, 0}, {2, 0, 0}, {1, 1, 0}}
	out := orthogonalise(f, func(int) float64 { return 1e-10 })
	if out.norm[1] != 0 || out.norm[0] == 0 || out.norm[2] == 0 {
		t.Fatalf("norms %v", out.norm)
	}
	// G of the first and the last is [[1, 1], [1, 2]].
	x := out.solve([]float64{0, 5, 1})
	if math.Abs(x[0]+1) > 1e-14 || x[1] != 0 || math.Abs(x[2]-1) > 1e-14 {
		t.Errorf("x = %v", x)
	}
}
