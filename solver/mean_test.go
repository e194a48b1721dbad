package solver

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// TestMeans: the means given g(Z) are those of the transform over the noise, by Simpson's rule, and have the Hermite
// coefficients that the theory asks of E[T_r(y)|Z]. σ = .002 is below the floor of the noise.
func TestMeans(t *testing.T) {
	act := sdk.Func{Name: "relu", G: func(z float64) float64 { return max(z, 0) }, Kinks: []float64{0}}
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := gauss.NewGrid(t.Context(), act.Eval, act.Kinks)
	if err != nil {
		t.Fatal(err)
	}
	for _, sigma := range []float64{.002, .05, .3} {
		o, err := NewOptimal(t.Context(), act, sigma, 2)
		if err != nil {
			t.Fatal(err)
		}
		q, _ := Solve(m, m.System(sigma), sigma)
		for name, v := range map[string]interface {
			Outputs
			Means(int) func(dst, m []float64)
		}{"polynomial": q, "optimal": o} {
			for _, r := range Orders() {
				means := v.Means(r)
				at := func(g float64) float64 {
					var out [1]float64
					means(out[:], []float64{g})
					return out[0]
				}
				size := 0.0
				for _, g := range []float64{0, .01, .5, 1.7, 3} {
					const steps = 4000
					sum := 0.0
					for i := range steps + 1 {
						x, w := -8+16*float64(i)/steps, 2.0+2*float64(i%2)
						if i == 0 || i == steps {
							w = 1
						}
						var y [1]float64
						v.Apply(r, y[:], []float64{g + sigma*x})
						sum += w / 3 * 16 / steps * y[0] * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
						size = max(size, math.Abs(y[0]))
					}
					if got := at(g); !(math.Abs(got-sum) <= 1e-6*size) {
						t.Errorf("%s of order %d, σ = %v: mean at %v is %v, by Simpson's rule %v", name, r, sigma, g, got, sum)
					}
				}
				for h := 1; h <= r && sigma >= .05; h++ { // the grid of Z is coarse beside .002
					want := 0.0
					if h == r {
						want = 1
					}
					got := grid.Mean(func(z, g float64) float64 { return at(g) * gauss.Hermite(h, z) })
					if !(math.Abs(got-want) <= 1e-5*max(1, size/100)) {
						t.Errorf("%s of order %d, σ = %v: Hermite coefficient %d is %v, want %v", name, r, sigma, h, got, want)
					}
				}
			}
		}
	}
}
