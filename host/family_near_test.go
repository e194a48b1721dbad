package host

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestNearExpertsOfCounts: of small counts two experts may be near in standard deviations of a row and yet far apart in
// standard errors. They keep their errors where BIC wants both, and a fit of two experts to rows of one has none. The
// data set is one of TestFamilyRecovery.
func TestNearExpertsOfCounts(t *testing.T) {
	testslow.Mark(t)
	for k, want := range map[int]bool{1: false, 2: true} {
		s, err := sample.New(sample.Config{Activation: softplus, K: k, D: 6, N: 10_000, Family: "poisson", Design: sample.Random, Seed: 3004})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Fit(t.Context(), softplus, s, Config{K: 2, Family: "poisson"})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Fit.Merges) == 0 {
			t.Fatalf("k = %d: no two experts are near: %v", k, m.Fit.Warnings)
		}
		merge := m.Fit.Merges[0]
		one, err := Fit(t.Context(), softplus, s, Config{K: 1, Family: "poisson"})
		if err != nil {
			t.Fatal(err)
		}
		if gap := one.Fit.LogLikelihood - m.Fit.LogLikelihood - merge.LogLikelihood; math.Abs(gap) > 0.01 {
			t.Errorf("k = %d: as one %v, fitted alone %v off", k, merge.LogLikelihood, gap)
		}
		if has := m.StandardErrors != nil && !math.IsNaN(m.StandardErrors.Regressors[0][0]); has != want || merge.BIC > 0 != want {
			t.Errorf("k = %d: standard errors %v, BIC of one less %v", k, has, merge.BIC)
		}
	}
}
