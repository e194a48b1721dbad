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
		y[i] = 3 - a + 0.2*b + rng.NormFloat64()
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
