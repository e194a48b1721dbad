package main

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/predict"
)

// experts prints what a ridge and a lasso on the experts do for new rows of real tables:
//
//	go -C tools/studies run . experts -tables DIR -splits 10
func experts(ctx context.Context) {
	on := splitFlags()
	parse()
	for _, table := range []table{
		{"swiss", "Fertility"}, {"trees", "Volume"}, {"airquality", "Ozone"}, {"uscereal", "calories"},
		{"mcycle", "accel"}, {"faithful", "waiting"}, {"boston", "medv"}, {"servo", "Class"},
	} {
		if !on.admits(table.name) {
			continue
		}
		for k := 1; k <= 2; k++ {
			var lines []float64
			var held [3][]float64 // without, by a ridge, by a lasso
			var taken, worse [3]int
			on.each(ctx, table, func(split uint64, train, test dataset.Loaded) {
				auto := host.AutoPenalty
				for by, cfg := range []host.Config{{}, {ExpertRidge: auto}, {ExpertLasso: auto}} {
					cfg.K, cfg.Intercepts = k, host.BothIntercepts
					m, err := host.Fit(ctx, line, train, cfg)
					if err != nil { // of a split without a level of a factor
						fmt.Printf("%s, split %d: %v\n", table.name, split, err)
						break
					}
					e, err := predict.EvaluateModel(ctx, m, line, test)
					if err != nil {
						fmt.Printf("%s, split %d: %v\n", table.name, split, err)
						break
					}
					if held[by] = append(held[by], e.LogLikelihood); by == 0 {
						lines = append(lines, *e.Baselines.Linear.LogLikelihood)
					}
					if m.Penalised != nil && m.Penalised.ExpertLambda > 0 {
						taken[by]++
					}
					if e.LogLikelihood < held[0][len(held[0])-1]-0.05 {
						worse[by]++
					}
				}
			})
			fmt.Printf("| %s, %d | %.1f | %.1f | %.1f | %d, %d | %.1f | %d, %d |\n", table.name, k,
				stat.Mean(lines, nil), stat.Mean(held[0], nil), stat.Mean(held[1], nil), taken[1], worse[1],
				stat.Mean(held[2], nil), taken[2], worse[2])
		}
	}
}
