package host

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestNearExpertsOfCounts: of small counts two experts may be near in standard deviations of a row and yet far apart in
// standard errors. They keep their errors where BIC wants both, and a fit of two experts to rows of one has none. The
// data set of two is one of TestFamilyRecovery; one start of EM ends at the maximum that a search finds there.
func TestNearExpertsOfCounts(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		k, n   int
		method Method
		errors bool
	}{{1, 500, Auto{}, false}, {2, 10_000, EM{Starts: 1}, true}} {
		s, err := sample.New(sample.Config{Activation: softplus, K: c.k, D: 6, N: c.n, Family: "poisson", Design: sample.Random, Seed: 3004})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Fit(t.Context(), softplus, s, Config{K: 2, Family: "poisson", Method: c.method})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Fit.Merges) == 0 {
			t.Fatalf("k = %d: no two experts are near: %v", c.k, m.Fit.Warnings)
		}
		merge := m.Fit.Merges[0]
		one, err := Fit(t.Context(), softplus, s, Config{K: 1, Family: "poisson", Method: EM{Starts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if gap := one.Fit.LogLikelihood - m.Fit.LogLikelihood - merge.LogLikelihood; math.Abs(gap) > 0.01 {
			t.Errorf("k = %d: as one %v, fitted alone %v off", c.k, merge.LogLikelihood, gap)
		}
		has := m.StandardErrors != nil && !math.IsNaN(m.StandardErrors.Regressors[0][0])
		if has != c.errors || merge.BIC > 0 != c.errors {
			t.Errorf("k = %d: standard errors %v, BIC of one less %v", c.k, has, merge.BIC)
		}
	}
}
