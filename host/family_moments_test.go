package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestMomentsOfADensity: under a density that is not normal auto begins from the moment estimates too, methods spectral and
// moments fit from these alone, with E_reg below what 20,000 rows leave (.01 in the median), and where there is none a note says why.
func TestMomentsOfADensity(t *testing.T) {
	c := densityCases["poisson"]
	s, err := sample.New(sample.Config{Activation: c.act, K: 2, D: 8, N: 20_000, Family: c.family, Design: sample.Paper, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []Method{Spectral{}, Moments{}, Auto{Starts: 4}} {
		m, err := Fit(t.Context(), c.act, s, Config{K: 2, Family: c.family, Method: method, Truth: s.Truth})
		if err != nil {
			t.Fatal(err)
		}
		if m.Truth.EReg > .05 || m.Truth.EGating > .1 || m.Fit.MomentsEstimate == nil || m.Fit.Transform != "optimal" {
			t.Errorf("%s: E_reg %v, E_gating %v, transform %q, notes %q", method.Name(), m.Truth.EReg, m.Truth.EGating, m.Fit.Transform, m.Fit.Notes)
		}
		said := func(what string) bool {
			return slices.ContainsFunc(m.Fit.Notes, func(note string) bool { return strings.Contains(note, what) })
		}
		if !said("the moment tensors are of the density poisson with regressors of norm 1, which") {
			t.Errorf("%s: notes %q", method.Name(), m.Fit.Notes)
		}
		if method.Name() != "auto" {
			continue
		}
		for _, kind := range []string{"moments", "spectral"} {
			at := slices.IndexFunc(m.Fit.Starts, func(start fitted.Start) bool { return start.Kind == kind })
			if at < 0 || !m.Fit.Starts[at].Agrees {
				t.Errorf("of the starts %+v none of kind %s met the optimum", m.Fit.Starts, kind)
			}
		}
	}
	real, _ := densityCases["logistic"].draw(t, 2, 3, 400)
	m, err := Fit(t.Context(), activation(identity.Family, nil), real, Config{K: 2, Family: "logistic", Method: Auto{Starts: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "no moment estimate: d = 3 is not above 2k-1 = 3; the likelihood was maximised from other starts"; !slices.Contains(m.Fit.Notes, want) {
		t.Errorf("notes %q", m.Fit.Notes)
	}
}
