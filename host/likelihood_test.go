package host_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
)

// TestOneRowHidesTheOthers: where one target is 1e12 and the others are near 1 a fit is exact
// beside that one alone. Its optimum is not judged, and the row is named; without the row, and
// where the data are exact, it is.
func TestOneRowHidesTheOthers(t *testing.T) {
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sigma := range []float64{0.3, 0} {
		x, y := matrices(t, plugin.Activation, 2, 6, 400, sigma)
		fit := func() (optimum, reason string) {
			m, err := host.Fit(t.Context(), plugin.Activation, dataset.Matrix(x, y), host.Config{K: 2, Intercepts: host.BothIntercepts, Method: host.Auto{Starts: 8}})
			if err != nil {
				t.Fatal(err)
			}
			c := m.Fit.Certificate
			return c.Optimum, c.Reason + strings.Join(m.Fit.Notes, " ")
		}
		if optimum, reason := fit(); optimum != infer.Pass || strings.Contains(reason, "hides") {
			t.Errorf("sigma %g: optimum %s: %s", sigma, optimum, reason)
		}
		y[136] = 1e12
		if optimum, reason := fit(); optimum != infer.NotJudged || !strings.Contains(reason, "row 137, whose target is 1e+12") || strings.Contains(reason, "to the last digits") {
			t.Errorf("sigma %g and a row of 1e12: optimum %s: %s", sigma, optimum, reason)
		}
	}
}

// TestGivenSigmaIsNoExactFit: a noise level that was given far below the residuals does not make
// them rounding.
func TestGivenSigmaIsNoExactFit(t *testing.T) {
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := matrices(t, plugin.Activation, 2, 6, 400, 0.3)
	m, err := host.Fit(t.Context(), plugin.Activation, dataset.Matrix(x, y), host.Config{K: 2, Noise: host.Shared{Sigma: 1e-20}})
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Fit.Certificate; c.Optimum != infer.NotJudged || !strings.Contains(c.Reason, "sigma was given as 1e-20") {
		t.Errorf("optimum %s: %s", c.Optimum, c.Reason)
	}
}

// TestImpossibleStart: a start under which a row's density is 0 is refused, and the row named,
// of one target and of several under one gate; one that is merely bad is not.
func TestImpossibleStart(t *testing.T) {
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := matrices(t, plugin.Activation, 2, 3, 300, 0.3)
	for i := range 300 {
		x.Set(i, 0, math.Abs(x.At(i, 0)))
	}
	for i := range 20 { // which it has all right
		x.Set(i, 0, 0)
	}
	start := model.NewParams(2, 3)
	start.Regressors[0], start.Regressors[3] = 1e200, -1e200
	start.Sigma[0] = 1
	src := dataset.Matrix(x, y)
	var refused *dataset.Error
	for _, m := range []host.Method{host.Auto{}, host.EM{}} {
		_, err := host.Fit(t.Context(), plugin.Activation, src, host.Config{K: 2, Method: m, Start: start})
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "row 21 has a density of 0 at the start") {
			t.Errorf("%s: error %v", m.Name(), err)
		}
	}
	two := []host.Target{{Source: src, Start: start}, {Source: src, Start: start}}
	if _, err := host.FitSharedGate(t.Context(), plugin.Activation, two, host.Diagonal, host.Config{K: 2}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "row 21") {
		t.Errorf("two targets: error %v", err)
	}
	start.Regressors[0], start.Regressors[3] = 1e6, -1e6
	if _, err := host.Fit(t.Context(), plugin.Activation, src, host.Config{K: 2, Start: start}); err != nil {
		t.Error(err)
	}
}

// TestModelsOfRunawayGates: a model whose gate has logits of 1e18, as fits have written, has the
// log-likelihood of the expert that it gives the rows to, not of a rounding error; posteriors
// and predictions are its too.
func TestModelsOfRunawayGates(t *testing.T) {
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := matrices(t, plugin.Activation, 1, 3, 300, 0.3)
	src := dataset.Matrix(x, y)
	one, err := host.Fit(t.Context(), plugin.Activation, src, host.Config{K: 1, Intercepts: host.BothIntercepts})
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.Fit(t.Context(), plugin.Activation, src, host.Config{K: 4, Intercepts: host.BothIntercepts, Gate: host.Constant{}, Method: host.Auto{Starts: 2}})
	if err != nil {
		t.Fatal(err)
	}
	p := m.Params()
	for i := range p.K {
		copy(p.Regressor(i), one.Params().Regressors)
		p.RegressorIntercepts[i] = one.Params().RegressorIntercepts[0] + float64(i)
	}
	copy(p.GatingIntercepts, []float64{2.1e18, -3e17, 5e16})
	p.Sigma[0] = one.Sigma[0]
	m.SetParams(p)
	got, err := predict.New(m, plugin.Activation).Evaluate(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if want := one.Fit.LogLikelihood; math.Abs(got.LogLikelihood-want) > 1e-9*math.Abs(want) {
		t.Errorf("log-likelihood %v, want %v", got.LogLikelihood, want)
	}
	all, err := predict.New(m, plugin.Activation).Matrix(t.Context(), x, y, 0)
	if err != nil {
		t.Fatal(err)
	}
	for r := range y {
		if all.Posterior.At(r, 0) != 1 || all.Gate.At(r, 0) != 1 {
			t.Fatalf("row %d: gate %v, posterior %v", r, all.Gate.At(r, 0), all.Posterior.At(r, 0))
		}
	}
}
