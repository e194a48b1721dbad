package predict

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// tanh is an activation.
type tanh struct{}

func (tanh) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = math.Tanh(v)
	}
	return nil
}

func (tanh) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 1 - math.Tanh(v)*math.Tanh(v)
	}
	return nil
}

// identity is another, without bounds.
type identity struct{}

func (identity) Eval(_ context.Context, dst, z []float64) error { copy(dst, z); return nil }

func (identity) Deriv(_ context.Context, dst, _ []float64) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

// randomModel returns parameters with everything a mixture may have, and rows.
func randomModel(n int) (*model.Params, *mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(7, 7))
	p := model.NewParams(3, 2)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = make([]float64, 3), make([]float64, 2), []float64{0.5, 1, 2}
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range n {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y[i] = rng.NormFloat64()
	}
	return p, x, y
}

// naive evaluates the model's formulas for one row as they are written.
func naive(p *model.Params, x []float64, y float64) (mean float64, gate, posterior []float64, density float64) {
	linear := func(c []float64, b float64) float64 { return c[0]*x[0] + c[1]*x[1] + b }
	gate, posterior = make([]float64, p.K), make([]float64, p.K)
	total := 0.0
	for i := range gate {
		gate[i] = 1
		if i < p.K-1 {
			gate[i] = math.Exp(linear(p.Gate(i), p.GatingIntercepts[i]))
		}
		total += gate[i]
	}
	for i := range gate {
		gate[i] /= total
		g := math.Tanh(linear(p.Regressor(i), p.RegressorIntercepts[i]))
		mean += gate[i] * g
		s := p.SigmaOf(i)
		posterior[i] = gate[i] * math.Exp(-(y-g)*(y-g)/(2*s*s)) / (s * math.Sqrt(2*math.Pi))
		density += posterior[i]
	}
	for i := range posterior {
		posterior[i] /= density
	}
	return mean, gate, posterior, density
}

func TestPredictions(t *testing.T) {
	const n = 2*model.BlockRows + 5
	p, x, y := randomModel(n)
	src := Predictions(p, tanh{}, dataset.Matrix(x, y), Extras{})
	want := []string{"mean", "p1", "p2", "p3", "posterior1", "posterior2", "posterior3"}
	if diff := cmp.Diff(want, src.Schema().Columns()); diff != "" {
		t.Error(diff)
	}
	at := 0
	err := src.Read(context.Background(), func(b *model.Block) error {
		for i := range b.N {
			mean, gate, posterior, _ := naive(p, x.RawRowView(at), y[at])
			for j, v := range append(append([]float64{mean}, gate...), posterior...) {
				if got := b.Col(j)[i]; math.Abs(got-v) > 1e-13 { // sums of a few terms of order 1
					t.Fatalf("row %d, %s: %v, want %v", at, want[j], got, v)
				}
			}
			at++
		}
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%d rows, %v", at, err)
	}
	without := Predictions(p, tanh{}, dataset.Matrix(x, nil), Extras{})
	if diff := cmp.Diff(want[:4], without.Schema().Columns()); diff != "" {
		t.Error(diff)
	}
}

func TestEvaluate(t *testing.T) {
	const n = 2*model.BlockRows + 5
	p, x, y := randomModel(n)
	for i := range y {
		y[i] += 1e6 // far from 0: Σy² − nȳ² would lose ten digits of R2
	}
	p.Sigma = []float64{1e6, 2e6, 3e6}
	var want Evaluation
	var sum, sse, sst float64
	for _, v := range y {
		sum += v
	}
	for i, v := range y {
		mean, _, _, density := naive(p, x.RawRowView(i), v)
		want.LogLikelihood += math.Log(density)
		sse += (v - mean) * (v - mean)
		sst += (v - sum/n) * (v - sum/n)
	}
	r2 := 1 - sse/sst
	want.RMSE, want.R2 = math.Sqrt(sse/n), &r2
	got, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	relative := func(a, b float64) float64 { return math.Abs(a-b) / math.Abs(b) }
	// y carries 10 digits of its spread: ȳ, and with it Σ(y − ȳ)², keep 9.
	if got.N != n || relative(got.LogLikelihood, want.LogLikelihood) > 1e-12 || relative(got.RMSE, want.RMSE) > 1e-12 || relative(*got.R2, *want.R2) > 1e-9 {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if _, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, nil)); err == nil {
		t.Error("no target, and no error")
	}
}

// Of equal targets, or of one row, there is no R2, and all else. Their mean is off by rounding, and so are squares about it.
func TestEvaluateEqualTargets(t *testing.T) {
	const n = 7
	p, x, y := randomModel(n)
	for i := range y {
		y[i] = 0.1
	}
	for _, rows := range []int{n, 1} {
		var logLikelihood, sse float64
		for i := range rows {
			mean, _, _, density := naive(p, x.RawRowView(i), y[i])
			logLikelihood += math.Log(density)
			sse += (y[i] - mean) * (y[i] - mean)
		}
		some := mat.NewDense(rows, x.RawMatrix().Cols, x.RawMatrix().Data[:rows*x.RawMatrix().Cols])
		got, err := Evaluate(t.Context(), p, tanh{}, dataset.Matrix(some, y[:rows]))
		if err != nil {
			t.Fatal(err)
		}
		// Sums of a few terms of order 1.
		if got.R2 != nil || math.Abs(got.LogLikelihood-logLikelihood) > 1e-12 || math.Abs(got.RMSE-math.Sqrt(sse/float64(rows))) > 1e-13 {
			t.Errorf("%d rows: %+v, want log-likelihood %v, RMSE %v and no R2", rows, *got, logLikelihood, math.Sqrt(sse/float64(rows)))
		}
	}
	// A row of weight 0 counts not at all.
	y[n-1] = 5
	if got, err := Evaluate(t.Context(), p, tanh{}, dataset.WeightedMatrix(x, y, []float64{1, 1, 1, 1, 1, 1, 0})); err != nil || got.R2 != nil {
		t.Errorf("%+v, %v: want no R2", got, err)
	}
}

// A row of weight w counts as w rows, and one of weight 0 not at all.
func TestEvaluateWeighted(t *testing.T) {
	const n = model.BlockRows + 40
	p, x, y := randomModel(n)
	w := make([]float64, n)
	var rows, targets []float64
	for i := range n {
		w[i] = float64(i % 4)
		for range i % 4 {
			rows, targets = append(rows, x.RawRowView(i)...), append(targets, y[i])
		}
	}
	got, err := Evaluate(context.Background(), p, tanh{}, dataset.WeightedMatrix(x, y, w))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(mat.NewDense(len(targets), p.D, rows), targets))
	if err != nil {
		t.Fatal(err)
	}
	want.N, want.Weight = n, float64(len(targets))
	// The sums differ in order alone; an R2 near 0 is a difference of numbers near 1.
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 1e-14)); diff != "" {
		t.Error(diff)
	}
	if _, err := Evaluate(context.Background(), p, tanh{}, dataset.WeightedMatrix(x, y, make([]float64, n))); err == nil {
		t.Error("no weight at all, and no error")
	}
}

// Logits of ±800 and beyond, densities that underflow and squares that
// overflow give finite numbers, but for the log of a density that is below the least of them.
func TestPredictAtTheEdges(t *testing.T) {
	p := model.NewParams(2, 1)
	copy(p.Regressors, []float64{1, -1})
	p.Sigma[0] = 0.05
	for _, test := range []struct{ w, x, y, gate float64 }{
		{800, 1, 1, 1}, {-800, 1, 1, 0}, {1e308, 1, 1, 1}, {-1e308, 1, 1, 0}, {1, 1e10, 5, 1}, {0, 1, 1e200, 0.5}, {0, 1e150, -1e150, 0.5}, {0, 1, 1e308, 0.5},
	} {
		p.Gating[0] = test.w
		b := &model.Block{N: 1, X: []float64{test.x}, Y: []float64{test.y}}
		got, err := NewPredictor(p, identity{}, "").Predict(context.Background(), b)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		for _, v := range append(append(got.Mean, got.Gate...), got.Posterior...) {
			if !numeric.Finite(v) {
				t.Errorf("%+v: %+v", test, *got)
			}
		}
		if reached := math.Abs(test.y) < 1e152; numeric.Finite(got.LogDens[0]) != reached || math.IsNaN(got.LogDens[0]) {
			t.Errorf("%+v: log density %v", test, got.LogDens)
		}
		if got.Gate[0] != test.gate || math.Abs(got.Posterior[0]+got.Posterior[1]-1) > 1e-15 {
			t.Errorf("%+v: gate %v, posterior %v", test, got.Gate, got.Posterior)
		}
	}
	p.Gating[0] = 0
	p.Regressors[0] = 1e10
	b := &model.Block{N: 1, X: []float64{1e300}}
	_, err := NewPredictor(p, identity{}, "data.csv").Predict(context.Background(), b)
	if err == nil || err.Error() != "data.csv: the prediction for row 1 is +Inf: its values are too large" {
		t.Errorf("error %v", err)
	}
}

func BenchmarkPredict(b *testing.B) {
	const n = 100 * model.BlockRows
	p := model.NewParams(3, 10)
	p.Sigma[0] = 0.05
	x, y := mat.NewDense(n, 10, nil), make([]float64, n)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range p.Regressors {
		p.Regressors[i] = rng.NormFloat64()
	}
	for i := range n {
		for j := range 10 {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	data, err := dataset.Load(context.Background(), dataset.Matrix(x, y))
	if err != nil {
		b.Fatal(err)
	}
	predictor := NewPredictor(p, identity{}, "")
	b.SetBytes(n * 11 * 8)
	b.ReportAllocs()
	for b.Loop() {
		for i := range data.Blocks {
			if _, err := predictor.Predict(context.Background(), &data.Blocks[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
