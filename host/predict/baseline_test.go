package predict

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// TestLinearBaseline: the residual sum of squares is that of gonum's QR solution, also
// where a feature is far from 0 and another is the sum of two.
func TestLinearBaseline(t *testing.T) {
	const n = 700
	rng := rand.New(rand.NewPCG(1, 2))
	x, y, design := mat.NewDense(n, 3, nil), make([]float64, n), mat.NewDense(n, 3, nil)
	for i := range y {
		a, b := rng.NormFloat64(), 2000+5*rng.NormFloat64()
		x.SetRow(i, []float64{a, b, a + b})
		design.SetRow(i, []float64{1, a, b - 2000})
		y[i] = 1e6 - a + 0.2*b + rng.NormFloat64() // far from 0 too
	}
	var qr mat.QR
	qr.Factorize(design)
	var beta, fit mat.VecDense
	if err := qr.SolveVecTo(&beta, false, mat.NewVecDense(n, y)); err != nil {
		t.Fatal(err)
	}
	fit.MulVec(design, &beta)
	want := 0.0
	for i, v := range y {
		want += (v - fit.AtVec(i)) * (v - fit.AtVec(i))
	}
	s := newRegression(3)
	if err := dataset.Matrix(x, y).Read(context.Background(), func(b *model.Block) error { s.add(b); return nil }); err != nil {
		t.Fatal(err)
	}
	got := s.residual()
	// The sums of squares carry 1e−16 of themselves, some 1e−12 of the residual's.
	if math.Abs(got-want) > 1e-8*want {
		t.Errorf("residual %v, want %v", got, want)
	}
	variance := stat.PopVariance(y, nil)
	b := baseline(got, n*variance, n)
	if logLikelihood := -n / 2.0 * (math.Log(2*math.Pi*want/n) + 1); math.Abs(b.LogLikelihood-logLikelihood) > 1e-6 || math.Abs(b.R2-(1-want/n/variance)) > 1e-9 {
		t.Errorf("%+v, want log-likelihood %v", b, logLikelihood)
	}
}

// TestBaselines: what an evaluation says of the mean and of the line, and that of more
// features than that there is no line.
func TestBaselines(t *testing.T) {
	const n = 300
	for _, d := range []int{1, maxRegressors, maxRegressors + 1} {
		rng := rand.New(rand.NewPCG(uint64(d), 3))
		x, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i := range y {
			for j := range d {
				x.Set(i, j, rng.NormFloat64())
			}
			y[i] = 5 + 2*x.At(i, 0) + rng.NormFloat64()
		}
		p := model.NewParams(2, d)
		p.Sigma[0] = 1
		e, err := Evaluate(t.Context(), p, identity{}, dataset.Matrix(x, y))
		if err != nil {
			t.Fatal(err)
		}
		if b := e.Baselines; math.Abs(b.Mean.RMSE-stat.PopStdDev(y, nil)) > 1e-12 || b.Mean.R2 != 0 || (b.Linear == nil) != (d > maxRegressors) {
			t.Fatalf("d = %d: %+v", d, b)
		}
		if d > maxRegressors {
			continue
		}
		s := newRegression(d)
		if err := dataset.Matrix(x, y).Read(t.Context(), func(b *model.Block) error { s.add(b); return nil }); err != nil {
			t.Fatal(err)
		}
		if want := math.Sqrt(s.residual() / n); math.Abs(e.Baselines.Linear.RMSE-want) > 1e-12 {
			t.Errorf("d = %d: a line with RMSE %v, want %v", d, e.Baselines.Linear.RMSE, want)
		}
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
