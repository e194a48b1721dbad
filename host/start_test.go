package host_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestStartsAreKept: a fit that begins at an optimum does not end below it. Two experts too many have optima with steep
// gates, which the ridge of the screening leaves.
func TestStartsAreKept(t *testing.T) {
	testslow.Mark(t)
	act := activation(t, identity.Family)
	for name, c := range map[string]host.Config{
		"one gate":    {K: 3},
		"given sigma": {K: 3, Noise: host.Shared{Sigma: 0.3}},
		"per expert":  {K: 3, Noise: host.PerExpert{}},
		"a tree":      {K: 3, Hierarchy: model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}},
	} {
		if (c.Noise == host.PerExpert{} || c.Hierarchy.Branches != nil) && !testslow.Wanted() {
			continue
		}
		s, err := sample.New(sample.Config{Activation: act, K: 1, D: 4, N: 400, Sigma: 0.3, Seed: 4})
		if err != nil {
			t.Fatal(err)
		}
		c.Intercepts, c.Seed, c.Method = host.BothIntercepts, 4, host.EM{Starts: 40}
		from, err := host.Fit(t.Context(), act, s, c)
		if err != nil {
			t.Fatal(err)
		}
		c.Method, c.Start = host.Auto{Starts: 1}, from.Params()
		m, err := host.Fit(t.Context(), act, s, c)
		if err != nil {
			t.Fatal(err)
		}
		if lost := from.Fit.LogLikelihood - m.Fit.LogLikelihood; lost > 1e-4 { // what Newton's method leaves
			t.Errorf("%s: ended %.4g below where it began", name, lost)
		}
	}
}

// TestStartsOfSeveralTargetsAreKept: likewise under one gate, though the start says nothing of correlations.
func TestStartsOfSeveralTargetsAreKept(t *testing.T) {
	testslow.Mark(t)
	act := activation(t, identity.Family)
	x, y := drawn(t, identity.Family, 400, 4, 1, 2)
	features := mat.DenseCopyOf(x.Slice(0, 400, 1, 4))
	targets := []host.Target{{Source: dataset.Matrix(features, y)}, {Source: dataset.Matrix(features, mat.Col(nil, 0, x))}}
	fit := func(seed uint64, starts int) *fitted.Vector {
		t.Helper()
		v, err := host.FitSharedGate(t.Context(), act, targets, host.Full, host.Config{K: 3, Intercepts: host.BothIntercepts, Seed: seed, Method: host.Auto{Starts: starts}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	from := fit(2, 64)
	for j := range targets {
		targets[j].Start = from.Params(j)
	}
	to := fit(9, 1)
	if lost := from.SharedGate.Fit.LogLikelihood - to.SharedGate.Fit.LogLikelihood; lost > 1e-2 { // what EM leaves of a gate that grows
		t.Errorf("ended %.4g below where it began", lost)
	}
}
