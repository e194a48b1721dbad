package solver_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// TestNoiseLevel: from 2,000 values of y, where g is curved or flat somewhere, σ within
// a quarter: half of it is the tolerance of the search and its quantiles, the rest more
// than four standard errors. For g = z only the mean square tells, with a standard
// error of √(2/n)(1+σ²) of σ²: the upper end is above the truth but for a fifth of the
// draws, and not above what three standard errors of it allow.
func TestNoiseLevel(t *testing.T) {
	const n, sets = 2000, 12
	for _, act := range []sdk.Func{relu, leaky(.1), sigmoid, absolute, identity} {
		law, err := solver.NewLaw(t.Context(), act)
		if err != nil {
			t.Fatal(err)
		}
		for _, sigma := range []float64{.1, .5} {
			below := 0
			for seed := range uint64(sets) {
				rng := rand.New(rand.NewPCG(seed, 7))
				y := make([]float64, n)
				for i := range y {
					y[i] = act.G(rng.NormFloat64()) + sigma*rng.NormFloat64()
				}
				got := law.NoiseLevel(y, nil, n)
				if seed == 0 {
					ones := slices.Repeat([]float64{1}, n)
					if weighted := law.NoiseLevel(y, ones, n); weighted != got {
						t.Errorf("%s: %v, with weights of 1 %v", act.Name, got, weighted)
					}
				}
				lo, hi := .75*sigma, 1.25*sigma
				if act.Name == identity.Name {
					lo, hi = 0, 1.1*sigma+.37 // √(4·√(2/n)) for σ near 0
				}
				if act.Name == sigmoid.Name && sigma == .5 {
					hi = 1.5 * sigma // g is nearly drowned
				}
				if !(got >= lo && got <= hi) {
					t.Errorf("%s at σ = %v: %v", act.Name, sigma, got)
				}
				if got < sigma {
					below++
				}
			}
			if act.Name == identity.Name && below > 7 { // of 12 at .2: 1 in 2,000
				t.Errorf("%s at σ = %v: %d of %d below", act.Name, sigma, below, sets)
			}
		}
	}
	// A value of weight 2 counts as two.
	law, err := solver.NewLaw(t.Context(), relu)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 8))
	var y, w, twice []float64
	for i := range 900 {
		v := max(rng.NormFloat64(), 0) + .1*rng.NormFloat64()
		y, w, twice = append(y, v), append(w, float64(1+i%2)), append(twice, v)
		if i%2 == 1 {
			twice = append(twice, v)
		}
	}
	if a, b := law.NoiseLevel(y, w, 800), law.NoiseLevel(twice, nil, 800); a != b {
		t.Errorf("%v with weights, %v with rows repeated", a, b)
	}
	law, err = solver.NewLaw(t.Context(), constant)
	if err != nil {
		t.Fatal(err)
	}
	if got := law.NoiseLevel([]float64{1, 2}, nil, 2); got != 0 {
		t.Errorf("of a constant: %v", got)
	}
}

// TestFits: draws of g(Z) + σN at any σ fit, as 12 draws of 10,000 values do each time
// with a probability of more than .99; draws of g(rZ) + σN of another norm r of the regressors do
// not, where g can tell: for g = z they are draws of it at another σ.
func TestFits(t *testing.T) {
	const n = 10_000
	for _, act := range []sdk.Func{relu, leaky(.1), sigmoid, identity} {
		law, err := solver.NewLaw(t.Context(), act)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			norm, sigma float64
			fits        bool
		}{{1, .05, true}, {1, .3, true}, {1, 1, true}, {3, .1, false}, {.5, .05, false}} {
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			y := make([]float64, n)
			for i := range y {
				y[i] = act.G(c.norm*rng.NormFloat64()) + c.sigma*rng.NormFloat64()
			}
			want := c.fits || act.Name == identity.Name && c.norm > 1
			if got := law.Fits(y, nil, n); got != want {
				t.Errorf("%s, norm %v, σ = %v: fits %v", act.Name, c.norm, c.sigma, got)
			}
		}
	}
	law, err := solver.NewLaw(t.Context(), constant)
	if err != nil {
		t.Fatal(err)
	}
	if law.Fits([]float64{1, 2}, nil, 2) {
		t.Error("a constant fits")
	}
}

func BenchmarkNoiseLevel(b *testing.B) {
	law, err := solver.NewLaw(b.Context(), relu)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 7))
	y := make([]float64, 10_000)
	for i := range y {
		y[i] = max(rng.NormFloat64(), 0) + .05*rng.NormFloat64()
	}
	for b.Loop() {
		law.NoiseLevel(y, nil, 10_000)
	}
}
