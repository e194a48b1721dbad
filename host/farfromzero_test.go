package host_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/testslow"
)

// fourLines are n rows of four lines, whatever x is, with noise of 0.25, and targets of few digits: those plus a
// number are exact.
func fourLines(n int) (x *mat.Dense, y []float64) {
	rng := rand.New(rand.NewPCG(2, 9))
	x = mat.NewDense(n, 1, nil)
	for i := range n {
		v := 4*rng.Float64() - 2
		x.Set(i, 0, v)
		mean := []float64{1 + 2*v, -1 - v, 3 - v/2, -3 + v/2}[rng.IntN(4)]
		y = append(y, math.Round(4096*(mean+0.25*rng.NormFloat64()))/4096)
	}
	return x, y
}

// plus returns values with c added.
func plus(values []float64, c float64) (out []float64) {
	for _, v := range values {
		out = append(out, v+c)
	}
	return out
}

// sameBut says where a fit of y + c is another than that of y, of which only intercepts may be.
func sameBut(t *testing.T, what string, c float64, got, want *fitted.Model) {
	t.Helper()
	a, b := got.Fit, want.Fit
	if got.K != want.K || math.Abs(a.LogLikelihood-b.LogLikelihood) > 1e-6*math.Abs(b.LogLikelihood) {
		t.Errorf("%s: k %d and log-likelihood %v, want %d and %v", what, got.K, a.LogLikelihood, want.K, b.LogLikelihood)
		return
	}
	if a.Certificate.Optimum != b.Certificate.Optimum || a.Certificate.Model != b.Certificate.Model {
		t.Errorf("%s: optimum %s and model %s, want %s and %s: %s", what, a.Certificate.Optimum, a.Certificate.Model,
			b.Certificate.Optimum, b.Certificate.Model, a.Certificate.Reason)
	}
	for i, s := range want.Sigma {
		if math.Abs(got.Sigma[i]-s) > 1e-6*s {
			t.Errorf("%s: sigma %v, want %v", what, got.Sigma, want.Sigma)
		}
	}
	p, q := got.Params(), want.Params()
	for i, v := range q.Regressors {
		if math.Abs(p.Regressors[i]-v) > 1e-5 {
			t.Errorf("%s: slopes %v, want %v", what, p.Regressors, q.Regressors)
			break
		}
	}
	for i, v := range q.RegressorIntercepts {
		if math.Abs(p.RegressorIntercepts[i]-c-v) > 1e-5 {
			t.Errorf("%s: intercepts %v, want %v and %v more", what, p.RegressorIntercepts, q.RegressorIntercepts, c)
			break
		}
	}
}

// TestTargetFarFromZero: a fit of y + c is that of y but for its intercepts, however large c is beside the target's
// spread: of a range of k, with a level of noise for each expert, of normal and of heavier noise.
func TestTargetFarFromZero(t *testing.T) {
	testslow.Mark(t)
	identity, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := fourLines(600)
	for name, c := range map[string]struct {
		to  int
		cfg host.Config
	}{
		"range":      {5, host.Config{}},
		"wrong":      {2, host.Config{Gate: host.Constant{}}},
		"per expert": {4, host.Config{Noise: host.PerExpert{}}},
		"student-t":  {4, host.Config{Family: host.StudentT}},
	} {
		t.Run(name, func(t *testing.T) {
			fit := func(y []float64) *fitted.Model {
				cfg, from := c.cfg, c.to
				cfg.Intercepts, cfg.Seed, cfg.Threads = host.BothIntercepts, 1, 1
				if name == "range" {
					from = 1
				}
				m, err := host.FitRange(t.Context(), identity.Activation, dataset.Matrix(x, y), from, c.to, cfg)
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			want := fit(y)
			if name == "range" && want.K != 4 {
				t.Fatalf("k %d of four lines", want.K)
			}
			for _, by := range []float64{1e5, -1e6, 1.7e9} {
				sameBut(t, fmt.Sprint("plus ", by), by, fit(plus(y, by)), want)
			}
		})
	}
}

// TestTargetsFarFromZero is [TestTargetFarFromZero] of several targets under one gate, each with a c of its own.
func TestTargetsFarFromZero(t *testing.T) {
	testslow.Mark(t)
	identity, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := fourLines(600)
	other := make([]float64, len(y))
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range y {
		other[i] = math.Round(4096*(y[i]/2+x.At(i, 0)+0.3*rng.NormFloat64())) / 4096
	}
	for _, noise := range []host.NoiseCovariance{host.Diagonal, host.Full} {
		fit := func(c, d float64) *fitted.Vector {
			v, err := host.FitSharedGate(t.Context(), identity.Activation, []host.Target{
				{Source: dataset.Matrix(x, plus(y, c)).Named([]string{"x1"}, "y")},
				{Source: dataset.Matrix(x, plus(other, d)).Named([]string{"x1"}, "z")},
			}, noise, host.Config{K: 2, Intercepts: host.BothIntercepts, Seed: 1, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		want := fit(0, 0)
		for _, by := range [][2]float64{{1e6, 0}, {1e5, -1.7e9}} {
			got := fit(by[0], by[1])
			for j, c := range by {
				a, b := got.Model(j), want.Model(j)
				a.Fit, b.Fit = *got.SharedGate.Fit, *want.SharedGate.Fit
				sameBut(t, fmt.Sprintf("%s, plus %v, target %d", noise, by, j+1), c, a, b)
			}
		}
	}
}

// studentLine returns the log-likelihood of the line with noise of the t law with dof degrees of freedom at its
// maximum, by iteratively reweighted least squares: weights (ν + 1)/(ν + e²/s²), s² = Σ w·e²/n (Lange, Little &
// Taylor 1989).
func studentLine(x, y []float64, dof float64) float64 {
	a, b, s, n := 1.0, 2.0, 0.1, float64(len(y))
	loglik := 0.0
	for range 2000 {
		var w, wx, wy, wxx, wxy, ss float64
		for i, v := range y {
			e := (v - a - b*x[i]) / s
			u := (dof + 1) / (dof + e*e)
			w, wx, wy, wxx, wxy = w+u, wx+u*x[i], wy+u*v, wxx+u*x[i]*x[i], wxy+u*x[i]*v
		}
		b = (w*wxy - wx*wy) / (w*wxx - wx*wx)
		a = (wy - b*wx) / w
		for i, v := range y {
			e := v - a - b*x[i]
			ss += (dof + 1) / (dof + e*e/(s*s)) * e * e
		}
		s = math.Sqrt(ss / n)
	}
	above, _ := math.Lgamma((dof + 1) / 2)
	below, _ := math.Lgamma(dof / 2)
	for i, v := range y {
		e := (v - a - b*x[i]) / s
		loglik += above - below - math.Log(dof*math.Pi)/2 - math.Log(s) - (dof+1)/2*math.Log1p(e*e/dof)
	}
	return loglik
}

// TestStudentOutliers: rows far off are all of the target's root mean square, and neither keep a t law from its
// maximum nor make the others' noise look like rounding.
func TestStudentOutliers(t *testing.T) {
	testslow.Mark(t)
	identity, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	const n, dof = 300, 4
	rng := rand.New(rand.NewPCG(4, 4))
	x, y := make([]float64, n), make([]float64, n)
	for i := range y {
		x[i] = rng.NormFloat64()
		y[i] = 1 + 2*x[i] + 0.1*rng.NormFloat64()
	}
	for _, far := range []float64{0, 1e3, 1e6, 1e7, 1e8, 1e10} {
		for _, rows := range []int{1, 5} {
			z := append([]float64(nil), y...)
			for i := range rows {
				z[i] += far * float64(i+1)
			}
			for _, noise := range []host.Noise{host.Shared{}, host.PerExpert{}} {
				m, err := host.Fit(t.Context(), identity.Activation, dataset.Matrix(mat.NewDense(n, 1, x), z),
					host.Config{K: 1, Intercepts: host.BothIntercepts, Family: host.StudentT, Dof: dof, Noise: noise})
				if err != nil {
					t.Fatal(err)
				}
				want := studentLine(x, z, dof)
				if got := m.Fit.LogLikelihood; math.Abs(got-want) > 1e-6*math.Abs(want) || m.Fit.Certificate.Optimum != "pass" {
					t.Errorf("%d rows of %g, noise %T: log-likelihood %v, want %v; optimum %s: %s", rows, far, noise, got, want,
						m.Fit.Certificate.Optimum, m.Fit.Certificate.Reason)
				}
			}
		}
	}
}
