package host

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestCertainParts: where y = 1 for x > 0 in all rows the features tell every target without any part; where one row is
// otherwise, without its part alone.
func TestCertainParts(t *testing.T) {
	for flipped, want := range map[bool]int{false: 3, true: 1} {
		x, y := mat.NewDense(30, 1, nil), make([]float64, 30)
		for r := range y {
			x.Set(r, 0, math.Cos(float64(r+1)))
			if (x.At(r, 0) > 0) != (flipped && r == 4) {
				y[r] = 1
			}
		}
		held, err := CrossValidate(t.Context(), logistic, dataset.Matrix(x, y), 1, 1, 3, Config{Family: "binomial", Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if held[0].Certain != want {
			t.Errorf("with an error %v: %d of 3 fits are certain, want %d", flipped, held[0].Certain, want)
		}
		if flipped {
			continue
		}
		found, err := Compare(t.Context(), []Alternative{{Activation: logistic, Source: dataset.Matrix(x, y), From: 1, To: 1,
			Config: Config{Family: "binomial", Seed: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		m, said := new(fitted.Model), 0
		found.Tell(&m.Fit)
		for _, w := range m.Fit.Warnings {
			if strings.Contains(w, "with certainty in 10 of 10 fits: the likelihood has no finite maximum") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("said %d times, want once: %q", said, m.Fit.Warnings)
		}
	}
}

// TestCertainExpert: an expert of successes that is y = 1 where x1 > 0.2 has no finite maximum, and the fit says which it is;
// one that is right in all but one of its rows has.
func TestCertainExpert(t *testing.T) {
	testslow.Mark(t)
	for _, flipped := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(7, 7))
		x, y := mat.NewDense(400, 2, nil), make([]float64, 400)
		for r := range y {
			x.Set(r, 0, rng.NormFloat64())
			x.Set(r, 1, rng.NormFloat64())
			if rng.Float64() < 1/(1+math.Exp(-4*x.At(r, 1))) {
				if x.At(r, 0) > 0.2 {
					y[r] = 1
				}
				if flipped && rng.Float64() < 0.1 {
					y[r] = 1 - y[r]
				}
			} else if rng.Float64() < 0.5 {
				y[r] = 1
			}
		}
		m, err := Fit(t.Context(), logistic, dataset.Matrix(x, y), Config{K: 2, Family: "binomial", Intercepts: BothIntercepts})
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(m.Fit.Status, "is certain of its rows")
		if said == flipped || m.Fit.Converged != flipped {
			t.Errorf("with errors %v: converged %v, %q", flipped, m.Fit.Converged, m.Fit.Status)
		}
	}
}
