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
	"github.com/gatedlearning/moe/host/scaling"
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

// TestCrossValidateConstantWithoutPart: without an intercept a feature that is 1 in all rows but one is one where that row is
// left out, and the fit is that of least squares.
func TestCrossValidateConstantWithoutPart(t *testing.T) {
	const n = 15
	rng := rand.New(rand.NewPCG(3, 15))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		c, v := 1.0, rng.NormFloat64()
		if i == 6 {
			c = 2
		}
		x.SetRow(i, []float64{c, v})
		y[i] = 2*c + v + 0.3*rng.NormFloat64()
	}
	press := 0.0
	for left := range n {
		rows, targets := new(mat.Dense), mat.NewVecDense(n-1, nil)
		if left == 0 {
			rows.CloneFrom(x.Slice(1, n, 0, 2))
		} else if left == n-1 {
			rows.CloneFrom(x.Slice(0, left, 0, 2))
		} else {
			rows.Stack(x.Slice(0, left, 0, 2), x.Slice(left+1, n, 0, 2))
		}
		copy(targets.RawVector().Data, append(append([]float64{}, y[:left]...), y[left+1:]...))
		var beta mat.VecDense
		if err := beta.SolveVec(rows, targets); err != nil {
			t.Fatal(err)
		}
		e := y[left] - mat.Dot(x.RowView(left), &beta)
		press += e * e
	}
	identity, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.CrossValidate(t.Context(), identity.Activation, dataset.Matrix(x, y), 1, 1, n, host.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if h := got[0]; math.Abs(h.RMSE-math.Sqrt(press/n)) > 1e-6 || h.Converged != n { // as in TestCrossValidate
		t.Errorf("%+v, want RMSE %v", h, math.Sqrt(press/n))
	}
}

// TestCrossValidatePredictive: with σ known, one linear expert and a fold for every row, the predictive density of a row is
// normal around the mean of the fit without it, and its variance σ²(1 + xᵀ(XᵀX)⁻¹x) is σ²/(1 − h), of the row's leverage h
// in all rows. Of log y it is divided by y.
func TestCrossValidatePredictive(t *testing.T) {
	const n, sigma = 24, .4
	rng := rand.New(rand.NewPCG(6, 28))
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	mean := 0.0
	for i := range y {
		x.Set(i, 0, 2+rng.NormFloat64())
		y[i] = 1 - 0.5*x.At(i, 0) + sigma*rng.NormFloat64()
		mean += x.At(i, 0) / n
	}
	sxx, sxy, syy := 0.0, 0.0, 0.0
	for i := range y {
		sxx += (x.At(i, 0) - mean) * (x.At(i, 0) - mean)
		sxy += (x.At(i, 0) - mean) * y[i]
		syy += y[i] / n
	}
	want, plugIn, jacobian := 0.0, 0.0, 0.0
	for i, v := range y {
		d := x.At(i, 0) - mean
		h := 1./n + d*d/sxx
		out := (v - syy - sxy/sxx*d) / (1 - h)
		want -= .5*math.Log(2*math.Pi*sigma*sigma/(1-h)) + out*out*(1-h)/(2*sigma*sigma)
		plugIn -= .5*math.Log(2*math.Pi*sigma*sigma) + out*out/(2*sigma*sigma)
		jacobian -= v // log |d log u/du| at u = e^v
	}
	positive := make([]float64, n)
	for i, v := range y {
		positive[i] = math.Exp(v)
	}
	identity, err := catalog.Open(context.Background(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := host.Config{Intercepts: host.BothIntercepts, Noise: host.Shared{Sigma: sigma}, Seed: 1}
	for name, c := range map[string]struct {
		src dataset.Source
		add float64
	}{
		"y":     {dataset.Matrix(x, y), 0},
		"log y": {dataset.Scaled(dataset.Matrix(x, positive), scaling.Log), jacobian},
	} {
		got, err := host.CrossValidate(t.Context(), identity.Activation, c.src, 1, 1, n, cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := got[0]
		if h.Predictive == nil || math.Abs(*h.Predictive-want-c.add) > 1e-6 || math.Abs(h.LogLikelihood-plugIn-c.add) > 1e-6 {
			t.Errorf("%s: %+v, want %v predictive and %v", name, h, want+c.add, plugIn+c.add)
		}
		if h.Judged() != *h.Predictive {
			t.Errorf("%s: judged by %v", name, h.Judged())
		}
	}
}

// TestCrossValidatePredictiveCounts: with a fold for every row and one Poisson expert the predictive log-likelihood is
// Σ log ∫ e^−m·m^y/y!, log m of N(xᵀβ, xᵀ(XᵀWX)⁻¹x), of β and W = diag(e^xᵀβ) of Fisher's scoring without the row, by 2,000
// steps. Three nodes of a row leave up to a part in a thousand of its probability.
func TestCrossValidatePredictiveCounts(t *testing.T) {
	const n = 24
	rng := rand.New(rand.NewPCG(6, 29))
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for i := range y {
		x.Set(i, 0, rng.NormFloat64())
		y[i] = math.Floor(math.Exp(0.6+0.5*x.At(i, 0)) + 2*rng.Float64())
	}
	want, plugIn := 0.0, 0.0
	for out, v := range y {
		var beta [2]float64
		var inverse [3]float64 // of XᵀWX: the intercept's, the slope's, and theirs together
		for range 50 {
			var a, b, c float64
			var score [2]float64
			for i, v := range y {
				if u, m := x.At(i, 0), math.Exp(beta[0]+beta[1]*x.At(i, 0)); i != out {
					a, b, c = a+m, b+u*u*m, c+u*m
					score[0], score[1] = score[0]+v-m, score[1]+u*(v-m)
				}
			}
			det := a*b - c*c
			inverse = [3]float64{b / det, a / det, -c / det}
			beta[0] += inverse[0]*score[0] + inverse[2]*score[1]
			beta[1] += inverse[2]*score[0] + inverse[1]*score[1]
		}
		u := x.At(out, 0)
		z, deviation := beta[0]+beta[1]*u, math.Sqrt(inverse[0]+2*inverse[2]*u+inverse[1]*u*u)
		logFactorial, _ := math.Lgamma(v + 1)
		at := func(z float64) float64 { return math.Exp(v*z - math.Exp(z) - logFactorial) }
		mean := 0.0
		for j := range 2001 {
			t := float64(j-1000) / 125
			mean += at(z+deviation*t) * math.Exp(-t*t/2) / math.Sqrt(2*math.Pi) / 125
		}
		want, plugIn = want+math.Log(mean), plugIn+math.Log(at(z))
	}
	exp, err := catalog.Open(t.Context(), "exp", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.CrossValidate(t.Context(), exp.Activation, dataset.Matrix(x, y), 1, 1, n, host.Config{Family: "poisson", Intercepts: host.BothIntercepts, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := got[0]
	if h.Predictive == nil || math.Abs(*h.Predictive-want) > 5e-3 || math.Abs(h.LogLikelihood-plugIn) > 1e-5 || h.Judged() != *h.Predictive {
		t.Errorf("%+v, predictive %v: want %v and %v", h, h.Predictive, want, plugIn)
	}
	if t.Logf("predictive %.5f, by steps %.5f, at the parameters %.5f", *h.Predictive, want, plugIn); math.Abs(want-plugIn) < 0.1 {
		t.Errorf("%v is %v at the parameters: nothing is tested", want, plugIn)
	}
}
