package host

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
)

// TestCertainExpert: an expert of successes that is y = 1 where x1 > 0.2 has no finite maximum, and the fit says which it is;
// one that is right in all but one of its rows has.
func TestCertainExpert(t *testing.T) {
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
