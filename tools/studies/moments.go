package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// corrections prints E_reg of the spectral method, over data sets, without and with corrections, and in how many
// sets it is at most .01:
//
//	go -C tools/studies run . corrections -sets 10
func corrections(ctx context.Context) {
	sets := flag.Int("sets", 10, "data sets of each setting")
	parse()
	r2, r3 := math.Sqrt(.5), math.Sqrt(1./3)
	for _, c := range []searchtest.Leaned{
		{Family: relu.Family, K: 2, N: 1_000_000, Gate: []float64{r2, r2}},
		{Family: relu.Family, K: 2, N: 5_000},
		{Family: relu.Family, K: 3, N: 20_000},
		{Family: identity.Family, K: 2, N: 2_500},
		{Family: identity.Family, K: 4, N: 10_000},
		{Family: relu.Family, K: 2, N: 100_000, Gate: []float64{r2, r2}},
		{Family: relu.Family, K: 2, N: 100_000, Gate: []float64{r3, r3, r3}},
		{Family: relu.Family, K: 2, N: 100_000, Gate: []float64{2 * r2, 2 * r2}},
		{Family: relu.Family, K: 2, N: 100_000, Gate: []float64{4 * r2, 4 * r2}},
	} {
		for _, transform := range []host.Transform{host.Optimal, host.Polynomial} {
			text := fmt.Sprintf("%v, %s:", c, transform)
			for _, rounds := range []int{0, 20} {
				var errs []float64
				good, unsettled := 0, 0
				for seed := range uint64(*sets) {
					src := c.Draw(100 + seed)
					m := must(host.Fit(ctx, activation(c.Family), src, host.Config{K: c.K,
						Method: host.Spectral{Corrections: rounds}, Transform: transform,
						Noise: host.Shared{Sigma: .05}, Truth: src.Truth}))
					if errs = append(errs, m.Truth.EReg); m.Truth.EReg <= .01 {
						good++
					}
					for _, n := range m.Fit.Notes {
						if strings.HasPrefix(n, "corrections") {
							unsettled++
						}
					}
				}
				text += fmt.Sprintf("  %d rounds: median %.3g, largest %.3g, %d of %d at most .01, %d unsettled;",
					rounds, median(errs), slices.Max(errs), good, *sets, unsettled)
			}
			fmt.Println(text)
		}
	}
}

// inputs prints the median E_reg on clustered features by method and --inputs, and what method auto ends at: the
// largest difference of its log-likelihoods and the median seconds.
//
//	go -C tools/studies run . inputs -sets 5
func inputs(ctx context.Context) {
	sets := flag.Int("sets", 5, "data sets of each setting")
	parse()
	var cases []searchtest.Clustered
	for _, f := range []sdk.Family{identity.Family, relu.Family} {
		for _, n := range []int{10_000, 100_000} {
			cases = append(cases, searchtest.Clustered{Family: f, K: 2, D: 5, N: n},
				searchtest.Clustered{Family: f, K: 2, D: 5, N: n, Centres: searchtest.Corner})
			if n == 10_000 {
				cases = append(cases, searchtest.Clustered{Family: f, K: 2, D: 20, N: n},
					searchtest.Clustered{Family: f, K: 3, D: 6, N: n},
					searchtest.Clustered{Family: f, K: 3, D: 20, N: n})
			}
		}
	}
	for _, c := range cases {
		text := c.String()
		for _, by := range []struct {
			name   string
			method host.Method
			inputs host.Inputs
		}{
			{"T4", host.Moments{}, host.GaussianInputs}, {"T3", host.Spectral{}, host.GaussianInputs},
			{"T4 mixture", host.Moments{}, host.MixtureInputs}, {"T3 mixture", host.Spectral{}, host.MixtureInputs},
			{"corrected", host.Spectral{Corrections: 20}, host.MixtureInputs},
		} {
			var all []float64
			for seed := range uint64(*sets) {
				src, truth := c.Draw(2000 + seed)
				ereg := 1.0 // where there is no estimate
				if m, err := host.Fit(ctx, activation(c.Family), src, host.Config{K: c.K, Method: by.method,
					Inputs: by.inputs, Truth: truth, Seed: 1, Threads: 1}); err == nil {
					ereg = m.Truth.EReg
				}
				all = append(all, ereg)
			}
			text += fmt.Sprintf(" | %s %.2g", by.name, median(all))
		}
		if c.N == 10_000 {
			most, seconds := 0., [2][]float64{}
			for seed := range uint64(*sets) {
				var logs [2]float64
				for i, inputs := range []host.Inputs{host.GaussianInputs, host.MixtureInputs} {
					begin := time.Now()
					src, truth := c.Draw(2000 + seed)
					logs[i] = must(host.Fit(ctx, activation(c.Family), src, host.Config{K: c.K, Inputs: inputs,
						Truth: truth, Seed: 1, Threads: 1})).Fit.LogLikelihood
					seconds[i] = append(seconds[i], time.Since(begin).Seconds())
				}
				most = max(most, math.Abs(logs[0]-logs[1]))
			}
			text += fmt.Sprintf(" | auto: %.2g apart, %.2g s, mixture %.2g s", most, median(seconds[0]),
				median(seconds[1]))
		}
		fmt.Println(text)
	}
}
