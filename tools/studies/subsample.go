package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// subsample counts how often passes from the fit of a subsample end where the fit of
// all rows does, by its size: the table of docs/studies/scale.md.
//
//	go -C tools/studies run . subsample -sets 20
func subsample(ctx context.Context) {
	sets := flag.Int("sets", 20, "tables")
	parse()
	const n, d, k = 20480, 6, 3
	for _, family := range []sdk.Family{relu.Family, sigmoid.Family} {
		act := activation(family)
		rows, top := make([]dataset.Loaded, *sets), make([]float64, *sets)
		for i := range rows {
			s := must(sample.New(sample.Config{Activation: act, K: k, D: d, N: n, Sigma: 0.1, Design: sample.Separated,
				Seed: uint64(i)}))
			rows[i] = dataset.InMemory(s.Schema(), must(dataset.Load(ctx, s)))
			m := must(host.Fit(ctx, act, rows[i], host.Config{K: k}))
			top[i] = m.Fit.LogLikelihood
		}
		for size := model.BlockRows; size < n; size *= 2 {
			converged, same, passes := 0, 0, 0
			for i, all := range rows {
				part := dataset.InMemory(all.Schema(), &model.Data{N: size, D: d,
					Blocks: all.Data.Blocks[:size/model.BlockRows]})
				m := must(host.Fit(ctx, act, part, host.Config{K: k}))
				s := passesFrom(ctx, all, m, act)
				if !s.Converged {
					continue
				}
				converged++
				passes += s.Pass
				if s.Model.Fit.LogLikelihood > top[i]-0.05 {
					same++
				}
			}
			fmt.Printf("%s, subsample of %d: %d of %d converged, %d to the optimum of all rows, after %.1f passes\n",
				family.Name, size, converged, *sets, same, float64(passes)/float64(max(1, converged)))
		}
	}
}

// passesFrom makes passes over all rows in one part until they converge or are too many.
func passesFrom(ctx context.Context, src dataset.Source, m *fitted.Model, act sdk.Activation) (s *newton.Step) {
	for s == nil || !s.Converged && s.Pass < newton.MostPasses {
		whole := shard.Place{I: 1, N: 1}
		sums := []*newton.Sums{must(newton.Sum(ctx, src, must(shard.Open(ctx, src)), whole, m, act, 1))}
		if names := []string{"1"}; sums[0].Certificate() {
			s = must(newton.Certify(ctx, names, sums, act, 1))
		} else {
			s = must(newton.Merge(names, sums))
		}
		m = s.Model
	}
	return s
}
