package predict

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
)

// TestBaselines: what an evaluation says of simpler models is what their parameters, as the file has them, say of the rows, and
// nothing where there are none.
func TestBaselines(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(7, 3))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y[i] = 5 + 2*x.At(i, 0) + rng.NormFloat64()
	}
	p := model.NewParams(2, 2)
	p.Sigma[0] = 1
	m := &fitted.Model{K: 2, D: 2, Baselines: &fitted.Baselines{
		Mean:   fitted.Baseline{Intercept: 4, Sigma: 2},
		Linear: &fitted.Baseline{Coefficients: []float64{1.5, 0.25}, Intercept: 5, Sigma: 1.25},
	}}
	m.SetParams(p)
	e, err := EvaluateModel(t.Context(), m, identity{}, dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	total := n * stat.PopVariance(y, nil)
	for _, c := range []struct {
		name string
		got  Baseline
		of   *fitted.Baseline
	}{{"mean", e.Baselines.Mean, &m.Baselines.Mean}, {"linear", *e.Baselines.Linear, m.Baselines.Linear}} {
		logLikelihood, sse := 0.0, 0.0
		for i, v := range y {
			mean := c.of.Intercept
			for j, b := range c.of.Coefficients {
				mean += b * x.At(i, j)
			}
			logLikelihood += distuv.Normal{Mu: mean, Sigma: c.of.Sigma}.LogProb(v)
			sse += (v - mean) * (v - mean)
		}
		want := []float64{logLikelihood, math.Sqrt(sse / n), 1 - sse/total}
		for i, got := range []float64{*c.got.LogLikelihood, c.got.RMSE, *c.got.R2} {
			if math.Abs(got-want[i]) > 1e-10*math.Abs(want[i]) { // rounding
				t.Errorf("%s: number %d is %v, want %v", c.name, i, got, want[i])
			}
		}
	}
	whole := mat.NewDense(2, 2, []float64{1, 2, 3, 4})
	counts := *m
	counts.Family, counts.Sigma = "poisson", nil
	c, err := EvaluateModel(t.Context(), &counts, identity{}, dataset.Matrix(whole, []float64{3, 4}))
	if err != nil {
		t.Fatal(err)
	}
	if b := c.Baselines; b.Mean.LogLikelihood != nil || b.Linear.LogLikelihood != nil || !(b.Mean.RMSE > 0) {
		t.Errorf("a normal density beside the probabilities of counts: %+v, %+v", b.Mean, b.Linear)
	}
	m.Baselines = nil
	if e, err = EvaluateModel(t.Context(), m, identity{}, dataset.Matrix(x, y)); err != nil || e.Baselines != nil {
		t.Errorf("a model without baselines: %+v, %v", e.Baselines, err)
	}
}

// TestBeyondError: the message begins with the file where there is one.
func TestBeyondError(t *testing.T) {
	e := &BeyondError{Activation: "g", Z: 9, Lo: -8, Hi: 8}
	const what = "an argument of g is 9, and the file's approximation of it covers -8 <= z < 8"
	if got := e.Outside(); got != what {
		t.Errorf("%q, want %q", got, what)
	}
	if e.File = "m.json"; e.Outside() != "m.json: "+what {
		t.Errorf("%q, want the file's name before it", e.Outside())
	}
}
