package newton_test

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestFewerInParts: passes that begin at a fit of which BIC prefers two experts as one do not pass, and say what a fit on
// one machine says; those of the right k pass. Where they begin at a fit of some of the rows, these decide.
func TestFewerInParts(t *testing.T) {
	testslow.Mark(t)
	act := shardtest.Activation(t, identity.Family)
	const blocks = 6
	for _, c := range []struct {
		lines, k, blocks int
		passes           bool
	}{{1, 2, blocks, false}, {1, 2, blocks / 2, false}, {2, 2, blocks, true}} {
		src := shardtest.Drawn(t, sample.Config{Activation: act, K: c.lines, D: 3, N: blocks * model.BlockRows, Sigma: 0.3, Seed: 4})
		cfg := host.Config{K: c.k, Intercepts: host.BothIntercepts, Seed: 1}
		begin := shardtest.InMemory{Source: src.Source, Data: part(src, c.blocks)}
		start, err := host.Fit(t.Context(), act, begin, cfg)
		if err != nil {
			t.Fatal(err)
		}
		s := pass(t, src, 2, start, act)
		for s.GoOn() {
			s = pass(t, src, 2, s.Model, act)
		}
		if !s.Certified {
			t.Fatalf("no certificate: %v", s.Model.Fit.Notes)
		}
		got, want := s.Model.Fit.Certificate, start.Fit.Certificate
		if passes := got.Optimum == infer.Pass; passes != c.passes || got.Optimum != want.Optimum ||
			!passes && (got.Reason != want.Reason || !strings.Contains(got.Reason, "as one have a BIC better")) {
			t.Errorf("%d experts of %d, begun at %d blocks: %s, %s; the fit says %s, %s", c.k, c.lines, c.blocks, got.Optimum,
				got.Reason, want.Optimum, want.Reason)
		}
	}
}
