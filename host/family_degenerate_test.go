package host

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestHeavyTailsThatFitRows: six of ten targets are 0, so that the likelihood of Student's t of one degree of freedom has no
// bound: −log σ for each of them is more than the log σ of the others takes. No verdict says that such a fit is exact; where
// all targets are on a line it is.
func TestHeavyTailsThatFitRows(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(4, 4))
	x, some, all := mat.NewDense(n, 1, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		v := rng.NormFloat64()
		x.Set(i, 0, v)
		if all[i] = 2 * v; i%5 < 2 {
			some[i] = 1 + rng.NormFloat64()
		}
	}
	for name, c := range map[string]struct {
		y       []float64
		verdict string
		reason  string
	}{
		"some": {some, infer.NotJudged, "120 rows are far from every expert"},
		"all":  {all, infer.Pass, "the fit is exact to rounding"},
	} {
		m, err := Fit(t.Context(), activation(identity.Family, nil), dataset.Matrix(x, c.y),
			Config{K: 1, Family: "student-t"})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Fit.Certificate; got == nil || got.Optimum != c.verdict || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: certificate %+v", name, got)
		}
	}
}
