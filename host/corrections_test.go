package host

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// leaned is a setting of k experts along e_1 … e_k in ten dimensions with noise .05 and a gate of its own, nil for the
// papers', which is orthogonal to them.
type leaned struct {
	family sdk.Family
	k, n   int
	gate   []float64 // of two experts, the first coordinates
}

func (c leaned) String() string {
	return fmt.Sprintf("%s k=%d n=%d w=%.3v", c.family.Name, c.k, c.n, c.gate)
}

// ereg is that of the spectral method with so many rounds of corrections.
func (c leaned) ereg(t *testing.T, seed uint64, transform Transform, corrections int) (float64, []string) {
	t.Helper()
	act := activation(c.family, nil)
	src, err := sample.New(sample.Config{Activation: act, K: c.k, D: 10, N: c.n, Sigma: .05, Design: sample.Paper, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	if c.gate != nil {
		clear(src.Truth.Gating)
		copy(src.Truth.Gating, c.gate)
	}
	m, err := Fit(t.Context(), act, src, Config{K: c.k, Method: Spectral{Corrections: corrections}, Transform: transform,
		Noise: Shared{Sigma: .05}, Truth: src.Truth})
	if err != nil {
		t.Fatal(err)
	}
	return m.Truth.EReg, m.Fit.Notes
}

// TestCorrections: corrected moments have less of a bias from a gate between the regressors, and under an orthogonal gate
// the errors are smaller too. In 40 other data sets each the error was at most half of what it was in 38 under the
// former, and at most .94 in 39 under the latter: the median of three is above these once in a hundred times.
func TestCorrections(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		leaned
		most float64 // of what the error is without
	}{
		{leaned{relu.Family, 2, 50_000, []float64{math.Sqrt(.5), math.Sqrt(.5)}}, .5},
		{leaned{relu.Family, 2, 50_000, nil}, .94},
	} {
		var ratios []float64
		for seed := range uint64(3) {
			before, _ := c.ereg(t, 7+seed, Optimal, 0)
			after, _ := c.ereg(t, 7+seed, Optimal, 20)
			ratios = append(ratios, after/before)
		}
		if !(median(ratios) <= c.most) {
			t.Errorf("%v: E_reg with corrections %.3v of that without", c.leaned, ratios)
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

// TestCorrectionsStudy: E_reg of the spectral method, over data sets, without and with corrections, and in how many
// sets it is at most .01:
//
//	MOE_STUDY=10 go test ./host -run TestCorrectionsStudy -v -timeout 2h
func TestCorrectionsStudy(t *testing.T) {
	sets, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		t.Skip("a study: MOE_STUDY is the number of data sets")
	}
	r2, r3 := math.Sqrt(.5), math.Sqrt(1./3)
	for _, c := range []leaned{
		{relu.Family, 2, 1_000_000, []float64{r2, r2}},
		{relu.Family, 2, 5_000, nil},
		{relu.Family, 3, 20_000, nil},
		{identity.Family, 2, 2_500, nil},
		{identity.Family, 4, 10_000, nil},
		{relu.Family, 2, 100_000, []float64{r2, r2}},
		{relu.Family, 2, 100_000, []float64{r3, r3, r3}},
		{relu.Family, 2, 100_000, []float64{2 * r2, 2 * r2}},
		{relu.Family, 2, 100_000, []float64{4 * r2, 4 * r2}},
	} {
		for _, transform := range []Transform{Optimal, Polynomial} {
			text := fmt.Sprintf("%v, %s:", c, transform)
			for _, rounds := range []int{0, 20} {
				var errs []float64
				good, unsettled := 0, 0
				for seed := range uint64(sets) {
					e, notes := c.ereg(t, 100+seed, transform, rounds)
					if errs = append(errs, e); e <= .01 {
						good++
					}
					for _, n := range notes {
						if strings.HasPrefix(n, "corrections") {
							unsettled++
						}
					}
				}
				text += fmt.Sprintf("  %d rounds: median %.3g, largest %.3g, %d of %d at most .01, %d unsettled;", rounds,
					median(errs), slices.Max(errs), good, sets, unsettled)
			}
			t.Log(text)
		}
	}
}
