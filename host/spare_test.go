package host

import (
	"testing"

	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestHeldOthers: where the others have adapted to the absence of the spare expert the best place is not met, and starts
// agree on another that is 1.75 lower; where they are held as they are it is.
func TestHeldOthers(t *testing.T) {
	testslow.Mark(t)
	g, extra := searchtest.Spare(4903)
	src, _ := g.Draw(4903)
	cfg := configOf(g)
	cfg.K, cfg.Seed = g.K+extra, 1
	if _, _, _, m := fitInSteps(t, g.Act, src, cfg); m.Fit.LogLikelihood < -2453.3 {
		t.Errorf("log-likelihood %.2f, and -2453.27 is known", m.Fit.LogLikelihood)
	}
}

// TestKnownSigmaStays: a level of noise that the user knows is that of the model, where an expert is spare too.
func TestKnownSigmaStays(t *testing.T) {
	g := searchtest.Design{Act: ident, K: 1, D: 2, N: 400, Sigma: 0.3}
	src, _ := g.Draw(1)
	m, err := Fit(t.Context(), g.Act, src, Config{K: 2, Intercepts: BothIntercepts, Noise: Shared{Sigma: 0.35}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Sigma) != 1 || m.Sigma[0] != 0.35 {
		t.Errorf("sigma %v, want 0.35", m.Sigma)
	}
}
