package problem

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestLook: the regression is that of gonum's QR solution of weighted rows, also where a feature is far from 0 and another is the
// sum of two, in the features' own units; the mean is the mean; of more than 100 features there is no regression.
func TestLook(t *testing.T) {
	const n = 700
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	x, y, w, design, target := mat.NewDense(n, 3, nil), make([]float64, n), make([]float64, n), mat.NewDense(n, 3, nil), make([]float64, n)
	for i := range y {
		a, b := rng.NormFloat64(), 2000+5*rng.NormFloat64()
		x.SetRow(i, []float64{a, b, a + b})
		y[i] = 1e6 - a + 0.2*b + rng.NormFloat64() // far from 0 too
		w[i] = float64(1 + rng.IntN(3))
		s := math.Sqrt(w[i])
		design.SetRow(i, []float64{s, s * a, s * (b - 2000)})
		target[i] = s * (y[i] - 1e6)
	}
	var qr mat.QR
	qr.Factorize(design)
	var beta, fit mat.VecDense
	if err := qr.SolveVecTo(&beta, false, mat.NewVecDense(n, target)); err != nil {
		t.Fatal(err)
	}
	fit.MulVec(design, &beta)
	sse, total := 0.0, 0.0
	for i, v := range target {
		sse += (v - fit.AtVec(i)) * (v - fit.AtVec(i))
		total += w[i]
	}
	p, err := Load(t.Context(), dataset.WeightedMatrix(x, y, w), act, Request{K: 1, Intercepts: BothIntercepts})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Look(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := f.Linear
	// The sums of squares carry 1e−16 of themselves, some 1e−12 of the residual's.
	if want := math.Sqrt(sse / total); math.Abs(l.Sigma-want) > 1e-8*want {
		t.Errorf("the noise is %v, want %v", l.Sigma, want)
	}
	// Three coefficients, of which the third feature is the sum: what they predict is what tells.
	for i := range n {
		got := l.Intercept - 1e6
		for j, c := range l.Coefficients {
			got += c * x.At(i, j)
		}
		if want := fit.AtVec(i) / math.Sqrt(w[i]); math.Abs(got-want) > 1e-6 { // 1e6 has 1e−10 of rounding, and coefficients 1e−9 of 2000
			t.Fatalf("row %d is predicted %v, want %v", i, got, want)
		}
	}
	mean, sd := stat.PopMeanStdDev(y, w)
	if m := f.Mean; math.Abs(m.Intercept-mean) > 1e-9*mean || math.Abs(m.Sigma-sd) > 1e-9*sd || m.Coefficients != nil {
		t.Errorf("the mean is %+v, want %v ± %v", m, mean, sd)
	}

	wide, z := mat.NewDense(400, maxRegressors+1, nil), make([]float64, 400)
	for i := range z {
		z[i] = rng.NormFloat64()
		for j := range maxRegressors + 1 {
			wide.Set(i, j, rng.NormFloat64())
		}
	}
	q, err := Load(t.Context(), dataset.Matrix(wide, z), act, Request{K: 1})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Look(t.Context(), q, nil); err != nil || f.Linear != nil || f.Mean == nil {
		t.Errorf("of %d features: %+v, %v", maxRegressors+1, f, err)
	}
}
