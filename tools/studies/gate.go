package main

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/predict"
)

// gateTables are those of the study of penalised gates, with the number of experts.
var gateTables = []struct {
	table
	k int
}{
	{table{"pieces", ""}, 4}, {table{"airquality", "Ozone"}, 2}, {table{"mcycle", "accel"}, 4},
	{table{"servo", "Class"}, 4}, {table{"boston", "medv"}, 3},
}

// gate prints what rows that were not fitted say of a linear regression, of the maximum and of the penalised model, a
// line for each split:
//
//	go -C tools/studies run . gate -tables DIR
func gate(ctx context.Context) {
	on := splitFlags()
	parse()
	for _, table := range gateTables {
		if !on.admits(table.name) {
			continue
		}
		worse, loss := 0, 0.0
		on.each(ctx, table.table, func(split uint64, train, test dataset.Loaded) {
			m, err := host.Fit(ctx, line, train, host.Config{K: table.k, Intercepts: host.BothIntercepts, Seed: 1})
			if err != nil { // of a split without a level of a factor
				fmt.Printf("%s, split %d: %v\n", table.name, split, err)
				return
			}
			e := must(predict.EvaluateModel(ctx, m, line, test))
			lambda, coverage := math.NaN(), e.Calibration[2].Coverage
			if m.Penalised != nil {
				lambda = m.Penalised.Lambda
			}
			maximum := must(predict.EvaluateModel(ctx, must(m.Of(fitted.Maximum)), line, test)).LogLikelihood
			if e.LogLikelihood < maximum-1e-9 {
				worse, loss = worse+1, max(loss, maximum-e.LogLikelihood)
			}
			fmt.Printf("%s, k = %d, split %d: line %.1f, maximum %.1f, penalised %.1f "+
				"(lambda %.0e, 90 %% intervals hold %.2f)\n", table.name, table.k, split,
				*e.Baselines.Linear.LogLikelihood, maximum, e.LogLikelihood, lambda, coverage)
		})
		fmt.Printf("%s: worse than the maximum on %d of %d splits, by %.1f at most\n",
			table.name, worse, *on.number, loss)
	}
}
