package host_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// flat is constant on most of the line: 29 rows of 30 have g = 0.
var flat = sdk.Func{
	Name: "flat", Kinks: []float64{1.8},
	G: func(z float64) float64 { return max(z-1.8, 0) },
	DG: func(z float64) float64 {
		if z > 1.8 {
			return 1
		}
		return 0
	},
}

// TestEveryMethodOnHardTargets: with a target without noise, with values far outside
// those of g, and with a g that is constant on most of the line, every method gives a model of
// finite numbers or an error of one line.
func TestEveryMethodOnHardTargets(t *testing.T) {
	testslow.Mark(t)
	identity := sdk.Func{Name: "identity", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}
	bounded := sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { return 1 - math.Tanh(z)*math.Tanh(z) }}
	rectified := sdk.Func{Name: "rectified", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0) }, DG: func(z float64) float64 {
		if z > 0 {
			return 1
		}
		return 0
	}}
	methods := []host.Method{
		host.Auto{Starts: 3}, host.Moments{}, host.Moments{Mu: 1}, host.Spectral{}, host.EM{Starts: 2},
		host.L2{MiniBatches: host.MiniBatches{Epochs: 2}, Starts: 1}, host.L4{MiniBatches: host.MiniBatches{Epochs: 2}},
	}
	for name, c := range map[string]struct {
		act    sdk.Func
		k      int
		target func(mean float64, rng *rand.Rand, row int) float64
		sigma  float64 // given to the fit
	}{
		"identity, no noise":  {identity, 2, func(mean float64, _ *rand.Rand, _ int) float64 { return mean }, 0},
		"rectified, no noise": {rectified, 2, func(mean float64, _ *rand.Rand, _ int) float64 { return mean }, 0},
		"σ far too small":     {rectified, 2, func(mean float64, rng *rand.Rand, _ int) float64 { return mean + .5*rng.NormFloat64() }, 1e-9},
		"tanh, far away":      {bounded, 2, func(mean float64, rng *rand.Rand, _ int) float64 { return 1e6 + 1e3*mean + rng.NormFloat64() }, 0},
		"tanh, a few far away": {bounded, 2, func(mean float64, rng *rand.Rand, row int) float64 {
			if row%100 == 0 {
				return 1e9
			}
			return mean + .1*rng.NormFloat64()
		}, 0},
		"flat":           {flat, 2, func(mean float64, rng *rand.Rand, _ int) float64 { return mean + .05*rng.NormFloat64() }, 0},
		"flat, no noise": {flat, 2, func(mean float64, _ *rand.Rand, _ int) float64 { return mean }, 0},
		"flat, σ given":  {flat, 2, func(mean float64, rng *rand.Rand, _ int) float64 { return mean + .05*rng.NormFloat64() }, .05},
	} {
		const n, d = 1000, 5
		rng := rand.New(rand.NewPCG(11, 1))
		x, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i := range n {
			for j := range d {
				x.Set(i, j, rng.NormFloat64())
			}
			y[i] = c.target(c.act.G(x.At(i, rng.IntN(2))), rng, i)
		}
		for _, method := range methods {
			for _, transform := range append(moment.Transforms(), "") {
				if m := method.Name(); transform != "" && m != "moments" && m != "spectral" {
					continue
				}
				config := host.Config{K: c.k, Method: method, Transform: transform, Seed: 1}
				if c.sigma > 0 {
					config.Noise = host.Shared{Sigma: c.sigma}
				}
				m, err := host.Fit(t.Context(), c.act, dataset.Matrix(x, y), config)
				if err != nil {
					if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "NaN") || strings.Contains(text, "panic") || len(text) > 400 {
						t.Errorf("%s, %s %s: %q", name, method.Name(), transform, text)
					}
					t.Logf("%s, %s %s: %v", name, method.Name(), transform, err)
					continue
				}
				for _, row := range append(append([][]float64{m.Sigma, m.Proportions}, m.Regressors...), m.Gating...) {
					if !numeric.Finite(row...) {
						t.Errorf("%s, %s %s: %v", name, method.Name(), transform, row)
					}
				}
				if _, err := m.JSON(); err != nil {
					t.Errorf("%s, %s %s: %v", name, method.Name(), transform, err)
				}
			}
		}
	}
}
