package main

import (
	"context"
	"flag"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// smallTrees is the study of docs/studies/trees.md of passes of trees on small tables with wide noise: two fits of each
// table, and one of four times the work, from other random numbers; how many pass, and how many although a better
// optimum is known, by more than .5.
//
//	go -C tools/studies run . small-trees -from 1 -tables 16
func smallTrees(ctx context.Context) {
	from, tables := flag.Uint64("from", 1, "seed of the first table"), flag.Int("tables", 16, "tables of each kind")
	times := flag.Int("times", 1, "times the rows")
	parse()
	fits, passed, wrong := 0, 0, 0
	for seed := range uint64(*tables) {
		for _, kind := range searchtest.WideTrees {
			rows := kind.Draw(*from+seed, *times*kind.Rows)
			cfg := host.Config{Hierarchy: must(model.ParseHierarchy(kind.Shape)), Intercepts: host.BothIntercepts}
			cfg.K = cfg.Hierarchy.Leaves()
			var all []float64
			var verdicts []string
			best := math.Inf(-1)
			for try := range uint64(3) {
				cfg.Seed, cfg.Method = try+1, host.Auto{}
				if try == 2 {
					cfg.Seed, cfg.Method = 77, host.Auto{Starts: 128}
				}
				m := must(host.Fit(ctx, line, rows, cfg))
				all = append(all, m.Fit.LogLikelihood)
				best = max(best, m.Fit.LogLikelihood)
				verdicts = append(verdicts, m.Fit.Certificate.Optimum)
			}
			for i, v := range verdicts[:2] {
				fits++
				if v != infer.Pass {
					continue
				}
				passed++
				if best > all[i]+.5 {
					wrong++
				}
			}
			fmt.Printf("%s %d: %.2f, %s; %.2f, %s; more work %.2f, %s\n", kind.Name, *from+seed, all[0], verdicts[0],
				all[1], verdicts[1], all[2], verdicts[2])
		}
	}
	fmt.Printf("%d fits, %d pass, %d of them with a better optimum known\n", fits, passed, wrong)
}
