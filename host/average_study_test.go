package host

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// TestAverageStudy prints, of splits of the tables of docs/heldout.md, the predictive log-likelihood of a quarter of the
// rows by the k of the least BIC corrected for few rows, of 1 to 4, and by the mean of all k, weighted by exp(−BICc/2):
//
//	go test ./host -run TestAverageStudy -heldout DIR -splits 5 -v -timeout 0
func TestAverageStudy(t *testing.T) {
	act := activation(identity.Family, nil)
	onSplits(t, func(name string, split uint64, train, test dataset.Loaded) {
		var terms [][]float64
		var weights []float64
		for k := 1; k <= 4; k++ {
			m, err := Fit(t.Context(), act, train, Config{K: k, Intercepts: BothIntercepts, Seed: 1})
			if err != nil { // of too few rows
				break
			}
			r := criterion.Fit{Candidate: fitted.Candidate{LogLikelihood: m.Fit.LogLikelihood, BIC: m.Fit.BIC}, Few: criterion.Fewness(float64(m.Fit.N), m.Fit.Parameters())}
			terms, weights = append(terms, rowDensities(t, m, act, test)), append(weights, -r.BICc()/2)
		}
		best, mean := floats.MaxIdx(weights), 0.0
		floats.AddConst(-floats.LogSumExp(weights), weights)
		at := make([]float64, len(weights))
		for r := range terms[0] {
			for k := range at {
				at[k] = weights[k] + terms[k][r]
			}
			mean += floats.LogSumExp(at)
		}
		fmt.Printf("%-12s split %d, %d rows: k = %d %.3f, mean %.3f, difference a row %+.4f\n", name, split, test.Data.N, best+1,
			floats.Sum(terms[best]), mean, (mean-floats.Sum(terms[best]))/float64(test.Data.N))
	})
}

// rowDensities are the logs of a model's predictive densities of rows.
func rowDensities(t *testing.T, m *fitted.Model, act sdk.Activation, rows dataset.Loaded) (out []float64) {
	t.Helper()
	m = m.ForNewRows()
	predictor := predict.NewPredictor(m.Params(), act, "").With(predict.UncertaintyOf(m))
	for _, b := range rows.Data.Blocks {
		pred, err := predictor.Predict(t.Context(), &b)
		if err != nil {
			t.Fatal(err)
		}
		for r, y := range b.Y {
			out = append(out, math.Max(predictor.Law(pred, r).LogDensity(y), -1e6))
		}
	}
	return out
}
