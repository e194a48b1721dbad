package host_test

import (
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestStartsAreKept: a fit that begins at an optimum does not end below it. Two experts too many have optima with steep
// gates, which the ridge of the screening leaves.
func TestStartsAreKept(t *testing.T) {
	act := activation(t, identity.Family)
	for name, c := range map[string]host.Config{
		"one gate":    {K: 3},
		"given sigma": {K: 3, Noise: host.Shared{Sigma: 0.3}},
		"per expert":  {K: 3, Noise: host.PerExpert{}},
		"a tree":      {K: 3, Hierarchy: model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}},
	} {
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
