package host

import (
	"bytes"
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestArrangements: among data sets of uniform features and uneven shares are some with another optimum near the
// best. Its likelihood is what a pass over the rows has, it is another mixture, the weights add up to 1, the intervals
// are near those of the best, and the fit itself is the same without the flag.
func TestArrangements(t *testing.T) {
	testslow.Mark(t)
	c := searchtest.Arranged{Name: "uniform, uneven", D: 2, Sigma: 0.5, Intercepts: []float64{1.5, 0.5}, Uniform: true}
	weighed := 0
	for seed := uint64(103); seed < 116 && weighed < 1; seed++ {
		src, _ := c.Draw(1500, seed)
		cfg := Config{K: 3, Intercepts: BothIntercepts, Arrangements: true}
		m, err := Fit(t.Context(), activation(identity.Family, nil), src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		s := m.Arrangements
		if s == nil || s.Weight == nil {
			t.Fatalf("seed %d: no arrangements, or no weight", seed)
		}
		if len(s.Others) == 0 {
			continue
		}
		cfg.Arrangements, cfg.GatePenalty = false, NoPenalty
		plain, err := Fit(t.Context(), activation(identity.Family, nil), src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		sameButArrangements(t, m, plain)
		total, several := 0.0, 0
		add := func(of *fitted.Model, ll float64, w *float64, unweighted string) {
			if w == nil || (*w > 0) == (unweighted != "") {
				t.Fatalf("seed %d: no weight, or one above 0, beside %q", seed, unweighted)
			}
			if total += *w; *w > 0.01 {
				several++
			}
			if got := logLikelihoodOf(t, src, of); math.Abs(got-ll) > 1e-6*math.Abs(ll) {
				t.Errorf("seed %d: log-likelihood %v in the file, %v of the rows", seed, ll, got)
			}
		}
		add(m, m.Fit.LogLikelihood, s.Weight, s.Unweighted)
		for i := range s.Others {
			a := &s.Others[i]
			if a.Below < -1e-6 || a.Below > 6 || a.Moved < 1 || a.Differs == "" {
				t.Errorf("seed %d: %v below, %v rows moved, %q", seed, a.Below, a.Moved, a.Differs)
			}
			add(a.Of(m), a.LogLikelihood, a.Weight, a.Unweighted)
		}
		if math.Abs(total-1) > 1e-9 {
			t.Errorf("seed %d: the weights add up to %v", seed, total)
		}
		if several > 1 {
			weighed++
		}
	}
	if weighed == 0 {
		t.Error("no data set has two arrangements with weights")
	}
}

// sameButArrangements compares two fits' files but for their arrangements.
func sameButArrangements(t *testing.T, a, b *fitted.Model) {
	t.Helper()
	var files [2][]byte
	for i, m := range []*fitted.Model{a, b} {
		own := *m
		own.Arrangements, own.Fit.Notes = nil, nil
		var err error
		if files[i], err = own.JSON(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("with arrangements asked for the fit is another")
	}
}

// logLikelihoodOf is the log-likelihood at a model's parameters.
func logLikelihoodOf(t *testing.T, src dataset.Source, m *fitted.Model) float64 {
	t.Helper()
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Params()
	l := loss.NewLikelihood(model.Rows(data), activation(identity.Family, nil), p, loss.All, 1)
	ll, err := l.LogLikelihood(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return ll
}

// TestPosteriorOfOneOptimum: of experts that the data tell apart the intervals of draws from the posterior are the normal ones around
// the maximum: a quantile of 400 independent draws at 2.5 % has an error of 0.13 standard errors, of which an end may be four off, and the
// mean size of that is 0.11.
func TestPosteriorOfOneOptimum(t *testing.T) {
	testslow.Mark(t)
	src, _ := searchtest.Arranged{Name: "normal, even", D: 2, Sigma: 0.1, Intercepts: []float64{0.3, 0}}.Draw(4000, 1)
	m, err := Fit(t.Context(), activation(identity.Family, nil), src, Config{K: 3, Intercepts: BothIntercepts, Arrangements: true})
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Arrangements; s == nil || s.Weight == nil || *s.Weight < 0.99 || s.Intervals == nil {
		t.Fatal("no interval over one arrangement")
	}
	sum, ends := 0.0, 0.0
	check := func(what string, at, se float64, got []float64) {
		for side, sign := range []float64{-1, 1} {
			off := math.Abs(got[side]-(at+sign*1.96*se)) / se
			if sum, ends = sum+off, ends+1; off > 0.5 {
				t.Errorf("%s: end %v is %.2f standard errors from the normal one", what, got[side], off)
			}
		}
	}
	for i, row := range m.Regressors {
		for j, a := range row {
			check("regressor", a, m.StandardErrors.Regressors[i][j], m.Arrangements.Intervals.Regressors[i][j])
		}
		check("intercept", m.RegressorIntercepts[i], m.StandardErrors.RegressorIntercepts[i], m.Arrangements.Intervals.RegressorIntercepts[i])
	}
	for i, row := range m.Gating {
		for j, w := range row {
			check("gate", w, m.StandardErrors.Gating[i][j], m.Arrangements.Intervals.Gating[i][j])
		}
	}
	if sum/ends > 0.15 {
		t.Errorf("ends are %.2f standard errors from the normal ones in the mean", sum/ends)
	}
}
