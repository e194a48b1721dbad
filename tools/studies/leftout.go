package main

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// leftOutTables are those of the study of leaving out rows. On the first six it was decided which rows are left out by
// fits.
var leftOutTables = []table{
	{"boston", "medv"}, {"mcycle", "accel"}, {"faithful", "waiting"}, {"servo", "Class"}, {"birthwt", "bwt"},
	{"chickweight", "weight"}, {"airquality", "Ozone"}, {"caschools", "read"}, {"cps1985", "wage"},
	{"houseprices", "price"}, {"iris", "Petal.Width"}, {"mpg", "hwy"}, {"ozone", "V4"}, {"swiss", "Fertility"},
	{"quakes", "stations"}, {"trees", "Volume"}, {"attitude", "rating"}, {"warpbreaks", "breaks"}, {"cars", "dist"},
	{"stackloss", "stack.loss"}, {"whiteside", "Gas"}, {"cats", "Hwt"}, {"uscereal", "calories"},
	{"toothgrowth", "len"},
}

// eachOf does one with every split of each of leftOutTables that was asked for.
func (s splits) eachOf(ctx context.Context, one func(name string, split uint64, train, test dataset.Loaded)) {
	for _, t := range leftOutTables {
		if s.admits(t.name) {
			s.each(ctx, t, func(split uint64, train, test dataset.Loaded) { one(t.name, split, train, test) })
		}
	}
}

// leaveOneOut prints what leaving out each row costs, as fits say it and by fits without each:
//
//	go -C tools/studies run . leave-one-out -tables DIR
func leaveOneOut(ctx context.Context) {
	on := tableFlags()
	parse()
	for _, t := range leftOutTables {
		if !on.admits(t.name) {
			continue
		}
		rows := on.open(ctx, t)
		for _, k := range []int{1, 2, 3} {
			m, err := host.Fit(ctx, line, rows, host.Config{K: k, Intercepts: host.BothIntercepts, Seed: 1})
			if err != nil { // of too few rows
				fmt.Printf("%s, k = %d: %v\n", t.name, k, err)
				continue
			}
			left := m.LeftOut()
			if left == nil {
				fmt.Printf("%s, k = %d: not given\n", t.name, k)
				continue
			}
			p := must(problem.Load(ctx, rows, line, problem.Request{K: k, Intercepts: host.BothIntercepts, Seed: 1}))
			lambda := 0.0
			if m.Penalised != nil {
				lambda = m.Penalised.Lambda
			}
			exact, lost, err := searchtest.ExactGap(ctx, p, m.ForNewRows().Params(), lambda)
			check(err)
			p.Close()
			fmt.Printf("%-12s k = %d: %d rows, %d parameters, gap %.3f (%d rows by fits), exactly %.3f "+
				"(%d fits without an end), ratio %.3f\n",
				t.name, k, m.Fit.N, left.Parameters, left.Gap, left.Refitted, exact, lost, left.Gap/exact)
		}
	}
}

// choice prints, of splits of the same tables, what a quarter of the rows says of a line, of k from 1 to 3 as BIC
// chooses it and as crossvalidation does:
//
//	go -C tools/studies run . choice -tables DIR -splits 3
func choice(ctx context.Context) {
	on := splitFlags()
	parse()
	on.eachOf(ctx, func(name string, split uint64, train, test dataset.Loaded) {
		text := fmt.Sprintf("%-12s split %d, %d rows:", name, split, test.Data.N)
		for _, by := range []host.Choice{host.ByBIC, host.ByHeldOut} {
			cfg := host.Config{Intercepts: host.BothIntercepts, Seed: 1, Choose: by}
			m, err := host.FitRange(ctx, line, train, 1, 3, cfg)
			if err != nil { // of a split without a level of a factor, or of too few rows
				text += fmt.Sprintf(" %v", err)
				break
			}
			e := must(predict.EvaluateModel(ctx, m, line, test))
			if by == host.ByBIC {
				text += fmt.Sprintf(" line %.1f,", *e.Baselines.Linear.LogLikelihood)
			}
			text += fmt.Sprintf(" %s k = %d %.1f", by, m.K, e.LogLikelihood)
		}
		fmt.Println(text)
	})
}
