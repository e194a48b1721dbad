package newton_test

import (
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// TestOldPasses: the parts of a pass in testdata, which a version without fingerprints, digests and climbs wrote, are read,
// merge, and go on to where a fit on one machine is.
func TestOldPasses(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("they were summed by the kernels of amd64")
	}
	act, ctx := shardtest.Activation(t, sigmoid.Family), t.Context()
	rows := shardtest.Drawn(t, sample.Config{Activation: act, K: 2, D: 5, N: 600, Sigma: 0.1, Seed: 8, Design: sample.Random})
	files := []string{"a", "b"}
	var passes []*newton.Sums
	for _, name := range []string{"old-1.newton", "old-2.newton"} {
		n, err := newton.Read(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		passes = append(passes, n)
	}
	s, err := newton.Merge(files, passes)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pass != 2 || !s.GoOn() || s.Model.Fit.Prints != nil {
		t.Errorf("pass %d, go on %v", s.Pass, s.GoOn())
	}
	for s.GoOn() {
		s = pass(t, rows, 3, s.Model, act)
	}
	want, err := host.Fit(ctx, act, rows, host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Certified || math.Abs(s.Model.Fit.LogLikelihood-want.Fit.LogLikelihood) > 1e-9*math.Abs(want.Fit.LogLikelihood) {
		t.Errorf("ended %v at %v, the fit at %v", s.Certified, s.Model.Fit.LogLikelihood, want.Fit.LogLikelihood)
	}
	if s.Model.Fit.Certificate.Optimum != want.Fit.Certificate.Optimum {
		t.Errorf("optimum %s: %s", s.Model.Fit.Certificate.Optimum, s.Model.Fit.Certificate.Reason)
	}
}
