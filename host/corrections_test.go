package host

import (
	"errors"
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/relu"
)

// ereg is that of the spectral method with so many rounds of corrections.
func ereg(t *testing.T, c searchtest.Leaned, seed uint64, corrections int) float64 {
	t.Helper()
	src := c.Draw(seed)
	m, err := Fit(t.Context(), activation(c.Family, nil), src, Config{K: c.K, Method: Spectral{Corrections: corrections},
		Transform: Optimal, Noise: Shared{Sigma: .05}, Truth: src.Truth})
	if err != nil {
		t.Fatal(err)
	}
	return m.Truth.EReg
}

// TestCorrections: corrected moments have less of a bias from a gate between the regressors, and under an orthogonal gate
// the errors are smaller too. In 40 other data sets each the error was at most half of what it was in 38 under the
// former, and at most .94 in 39 under the latter: the median of three is above these once in a hundred times.
func TestCorrections(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		searchtest.Leaned
		most float64 // of what the error is without
	}{
		{searchtest.Leaned{Family: relu.Family, K: 2, N: 50_000, Gate: []float64{math.Sqrt(.5), math.Sqrt(.5)}}, .5},
		{searchtest.Leaned{Family: relu.Family, K: 2, N: 50_000}, .94},
	} {
		var ratios []float64
		for seed := range uint64(3) {
			before := ereg(t, c.Leaned, 7+seed, 0)
			after := ereg(t, c.Leaned, 7+seed, 20)
			ratios = append(ratios, after/before)
		}
		if !(median(ratios) <= c.most) {
			t.Errorf("%v: E_reg with corrections %.3v of that without", c.Leaned, ratios)
		}
	}
}

// TestCorrectionsRefused: a number that is none, and noise whose tensors are not corrected.
func TestCorrectionsRefused(t *testing.T) {
	act, src, _ := cell{relu.Family, nil, 2, 6, 2000, .05, sample.Paper}.draw(t, 1)
	for want, cfg := range map[string]Config{
		"corrections = -1, want 0 or more":     {K: 2, Method: Spectral{Corrections: -1}},
		"corrections: the noise is not normal": {K: 2, Method: Spectral{Corrections: 3}, Family: "logistic"},
	} {
		var refused *RequestError
		if _, err := Fit(t.Context(), act, src, cfg); !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
