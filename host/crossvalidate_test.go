package host_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
)

// TestCrossValidate: with a fold for every row and one linear expert the held-out
// residuals are those of leave-one-out least squares, e/(1 − h), which need one fit
// (PRESS; Allen 1974). The likelihood of a row is the normal density with the variance
// of the fit without it.
func TestCrossValidate(t *testing.T) {
	const n = 30
	rng := rand.New(rand.NewPCG(3, 14))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	design := mat.NewDense(n, 3, nil)
	for i := range y {
		a, b := rng.NormFloat64(), 3+2*rng.NormFloat64()
		x.SetRow(i, []float64{a, b})
		design.SetRow(i, []float64{1, a, b})
		y[i] = 1 + a - 0.5*b + 0.3*rng.NormFloat64()
	}
	target := mat.NewVecDense(n, y)
	var qr mat.QR
	qr.Factorize(design)
	var beta mat.VecDense
	if err := qr.SolveVecTo(&beta, false, target); err != nil {
		t.Fatal(err)
	}
	var gram, inverse mat.Dense
	gram.Mul(design.T(), design)
	if err := inverse.Inverse(&gram); err != nil {
		t.Fatal(err)
	}
	sse := 0.0
	residuals, leverage := make([]float64, n), make([]float64, n)
	for i := range y {
		row := design.RowView(i)
		residuals[i] = y[i] - mat.Dot(row, &beta)
		leverage[i] = mat.Inner(row, &inverse, row)
		sse += residuals[i] * residuals[i]
	}
	press, want := 0.0, 0.0
	for i, e := range residuals {
		out := e / (1 - leverage[i])
		press += out * out
		variance := (sse - e*out) / (n - 1) // of the fit without the row
		want += -0.5*math.Log(2*math.Pi*variance) - out*out/(2*variance)
	}
	identity, err := catalog.Open(context.Background(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.CrossValidate(context.Background(), identity.Activation, dataset.Matrix(x, y), 1, 1, n, host.Config{Intercepts: host.BothIntercepts, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Fits end within 1e−8 or so of the maximum.
	if h := got[0]; math.Abs(h.RMSE-math.Sqrt(press/n)) > 1e-6 || math.Abs(h.LogLikelihood-want) > 1e-5 || h.Converged != n {
		t.Errorf("%+v, want RMSE %v and log-likelihood %v", h, math.Sqrt(press/n), want)
	}
	for _, folds := range []int{1, n + 1} {
		if _, err := host.CrossValidate(context.Background(), identity.Activation, dataset.Matrix(x, y), 1, 1, folds, host.Config{}); err == nil {
			t.Errorf("%d folds of %d rows are accepted", folds, n)
		}
	}
}
