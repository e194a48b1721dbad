package starts

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// many is 16 lines over 10 features, more than a tensor of rank 10 can tell apart, and their regressors.
func many(t *testing.T, noise problem.Noise) (*problem.Problem, *model.Params) {
	t.Helper()
	return searchtest.Sampled(t, identity.Family,
		sample.Config{K: 16, D: 10, N: 6000, Sigma: 0.05, Design: sample.Separated, Seed: 3}, problem.Request{Noise: noise})
}

// found counts the experts of truth that q has within a fifth of the distance at which the design holds them apart.
func found(q, truth *model.Params) (n int) {
	for i := range truth.K {
		nearest := math.Inf(1)
		for j := range q.K {
			nearest = min(nearest, floats.Distance(q.Regressor(j), truth.Regressor(i), 2))
		}
		if nearest < 0.1 {
			n++
		}
	}
	return n
}

// TestHeteroscedastic: from the same random directions EM finds all of many experts more often with noise levels of
// their own, though they have one, than without: here in four of four, where that leaves out some in three. What they
// lead to has one level again, some multiple of the noise's.
func TestHeteroscedastic(t *testing.T) {
	testslow.Mark(t)
	p, truth := many(t, nil)
	e := searchtest.Measure(t, p)
	start := Heteroscedastic(p, e, p.Rows)
	if start.Kind != KindHeteroscedastic {
		t.Errorf("kind %q", start.Kind)
	}
	all, allByOne := 0, 0
	for seed := range uint64(4) {
		q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Sigma) != 1 || q.Sigma[0] < 0.03 || q.Sigma[0] > 0.3 {
			t.Errorf("noise %v", q.Sigma)
		}
		if found(p.Units.OutOf(q), truth) == truth.K {
			all++
		}
		begin, err := Random(p, e).Draw(t.Context(), rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		l := loss.NewLikelihood(p.Rows, p.G, begin, p.Shape.Free(), 1)
		l.PenaliseGate(ScreenRidge)
		r, err := optim.EM(t.Context(), l, l.Theta(begin), optim.Settings{Iterations: 300, Tolerance: climb.Crawl})
		if err != nil {
			t.Fatal(err)
		}
		if found(p.Units.OutOf(l.Params(r.X)), truth) == truth.K {
			allByOne++
		}
	}
	t.Logf("all experts found: %d of 4, with one level %d", all, allByOne)
	if all < 4 || allByOne > 1 {
		t.Errorf("all experts were found by %d of 4 starts, with one level of noise by %d", all, allByOne)
	}
}

// TestHeteroscedasticOfMany: so many experts that they are fitted without a gate and by pooled steps first are all found
// by three of three starts.
func TestHeteroscedasticOfMany(t *testing.T) {
	testslow.Mark(t)
	p, truth := searchtest.Sampled(t, identity.Family,
		sample.Config{K: 16, D: 33, N: 12000, Sigma: 0.05, Design: sample.Separated, Seed: 3}, problem.Request{})
	if !Pooled(p) {
		t.Fatalf("%d parameters", p.Shape.Parameters())
	}
	start := Heteroscedastic(p, searchtest.Measure(t, p), p.Rows)
	for seed := range uint64(3) {
		q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Sigma) != 1 || q.Sigma[0] < 0.03 || q.Sigma[0] > 0.1 || floats.Norm(q.Gating, 2) != 0 {
			t.Errorf("noise %v, gate %v", q.Sigma, q.Gating)
		}
		if n := found(p.Units.OutOf(q), truth); n < truth.K {
			t.Errorf("seed %d: %d of %d experts are found", seed, n, truth.K)
		}
	}
}

// TestLevelled: few experts, those with noise of their own, other densities, and too much work begin as ever.
func TestLevelled(t *testing.T) {
	shared, _ := many(t, nil)
	own, _ := many(t, problem.PerExpert{})
	few := *shared
	few.Shape.K = 9
	much := *shared
	much.Shape.K, much.Shape.D = 12, 500
	more := *shared
	more.Shape.D = 400
	most := *shared
	most.Shape.D = 4000
	counts := *searchtest.Poisson(t)
	counts.Shape.K = 16
	for name, c := range map[string]struct {
		p    *problem.Problem
		want bool
	}{
		"many, one level":    {shared, true},
		"a level each":       {own, false},
		"few":                {&few, false},
		"many, not Gaussian": {&counts, false},
		"too much work":      {&much, false},
		"less by pooled":     {&more, true},
		"too much by pooled": {&most, false},
	} {
		if got := Levelled(c.p, c.p.Rows); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
