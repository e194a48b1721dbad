package predict

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
)

// TestPredictionsOverArrangements compares them with sums over the predictions of each arrangement alone, written out;
// one without a weight, far away, has no part in them.
func TestPredictionsOverArrangements(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 1))
	m := uncertain(rng, 0.1)
	weights := []float64{0.6, 0.3, 0, 0.1}
	m.Arrangements = &fitted.Arrangements{Rows: []float64{1, 1}, Weight: &weights[0]}
	alone := []*fitted.Model{m}
	for i := range weights[1:] {
		o := uncertain(rng, 0.2)
		a := fitted.Arrangement{Rows: []float64{1, 1}, Weight: &weights[1+i], Covariance: o.Covariance, StandardErrors: o.StandardErrors}
		a.SetParams(o.Params())
		m.Arrangements.Others = append(m.Arrangements.Others, a)
		alone = append(alone, o)
	}
	x, y := mat.NewDense(3, 2, []float64{0.3, 1, -0.5, 0.2, 2, -1}), []float64{0.1, 1.2, -0.4}
	src := dataset.Matrix(x, y)
	block := func(m *fitted.Model, u *Uncertainty) (*Predictor, *Prediction) {
		p := NewPredictor(m.Params(), tanh{}, "").With(u)
		data, err := dataset.Load(context.Background(), src)
		if err != nil {
			t.Fatal(err)
		}
		pred, err := p.Predict(context.Background(), &data.Blocks[0])
		if err != nil {
			t.Fatal(err)
		}
		return p, pred
	}
	p, got := block(m, UncertaintyOf(m))
	for r := range y {
		var mean, density, predictive, below float64
		gate, posterior, expert := make([]float64, 2), make([]float64, 2), make([]float64, 2)
		for a, w := range weights {
			own := *alone[a]
			own.Arrangements = nil
			q, pred := block(&own, UncertaintyOf(&own))
			f := w * math.Exp(pred.LogDens[r])
			predictive += w * q.distribution(pred, r).Density(y[r])
			mean, density, below = mean+w*pred.Mean[r], density+f, below+w*q.distribution(pred, r).CDF(0.3)
			for i := range gate {
				at := i*len(y) + r
				gate[i] += w * pred.Gate[at]
				posterior[i] += f * pred.Posterior[at]
				expert[i] += w * pred.Gate[at] * pred.Experts[at]
			}
		}
		check := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-12 {
				t.Errorf("row %d: %s %v, want %v", r+1, what, got, want)
			}
		}
		check("mean", got.Mean[r], mean)
		check("log density", got.LogDens[r], math.Log(density))
		check("log of the predictive density", p.LogPredictive(got, r, y[r]), math.Log(predictive))
		check("F(0.3)", p.distribution(got, r).CDF(0.3), below)
		for i := range gate {
			at := i*len(y) + r
			check("gate", got.Gate[at], gate[i])
			check("posterior", got.Posterior[at], posterior[i]/density)
			check("mean under an expert", got.Experts[at], expert[i]/gate[i])
		}
		lower, upper := p.distribution(got, r).Interval(0.9)
		check("probability of the interval", p.distribution(got, r).CDF(upper)-p.distribution(got, r).CDF(lower), 0.9)
	}
	if table := column(t, Predictions(m.Params(), tanh{}, src, Extras{Uncertainty: UncertaintyOf(m)}), 0); math.Abs(table[0]-got.Mean[0]) > 1e-15 {
		t.Errorf("without intervals the mean is %v, want %v", table[0], got.Mean[0])
	}
}
