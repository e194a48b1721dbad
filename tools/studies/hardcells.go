package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// hardCells counts the starts that climb to the best optimum known, that of the truth
// among them, where starts do fail: the moment start with the polynomials and unit rows (as it
// was) and with the default, the spectral one, and one start in the span of T̂2 by either
// transform. Three cells of 002's design; a minute of one core with 6 data sets:
//
//	go -C tools/studies run . hard-cells -sets 6
func hardCells(ctx context.Context) {
	sets := flag.Int("sets", 6, "data sets of each cell")
	parse()
	for _, c := range []struct {
		family  sdk.Family
		k, d, n int
	}{{identity.Family, 8, 20, 2000}, {identity.Family, 5, 20, 1000}, {relu.Family, 6, 20, 5000}} {
		counts := map[string]int{}
		for seed := range uint64(*sets) {
			act := activation(c.family)
			s := must(sample.New(sample.Config{Activation: act, K: c.k, D: c.d, N: c.n, Sigma: .05,
				Design: sample.Paper, Seed: seed + 1}))
			p := must(problem.Load(ctx, s, act, problem.Request{K: c.k, Seed: 1, Threads: 1}))
			ends := map[string]float64{"truth": climbed(ctx, p, s.Truth)}
			for transform, mu := range map[moment.Transform]float64{moment.Polynomial: moment.UnitMu, "": 0} {
				e := must(moment.Measure(ctx, p, moment.Want{Transform: transform}))
				if e.Subspace == nil {
					continue
				}
				name := string(transform)
				if name == "" {
					name = "default"
				}
				draw := func(kind string, start starts.Start) {
					q := must(start.Draw(ctx, rand.New(rand.NewPCG(seed, 5))))
					ends[kind+", "+name] = climbed(ctx, p, q)
				}
				draw(starts.KindSpan, starts.Subspace(p, e, e.Subspace.Project(p.Rows)))
				est, _, err := moment.EstimateParams(ctx, p, e, mu)
				if check(err); est != nil {
					draw(starts.KindMoments, starts.Moments(p, e, starts.KindMoments, est, p.Rows))
				}
				est, _, err = moment.EstimateSpectral(ctx, p, e)
				if check(err); est != nil {
					draw(starts.KindSpectral, starts.Moments(p, e, starts.KindSpectral, est, p.Rows))
				}
			}
			best := ends["truth"]
			for _, v := range ends {
				best = max(best, v)
			}
			for kind, v := range ends {
				if best-v < 0.5 {
					counts[kind]++
				}
			}
		}
		fmt.Printf("%s k=%d d=%d n=%d, of %d data sets: %v\n", c.family.Name, c.k, c.d, c.n, *sets, counts)
	}
}
