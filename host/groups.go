package host

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/penalty"
)

// groupable refuses what fits of rows in groups do not know.
func groupable(c Config) error {
	for _, asked := range []struct {
		is   bool
		what string
	}{
		{c.Hierarchy.Depth() > 1, "a tree of gates"},
		{c.Output != "", "means c + s·g"},
		{c.ZeroExpert, "an expert that is always 0"},
		{c.wants(Dependent), "standard errors of rows that follow each other"},
		{c.Arrangements, "the weighing of arrangements"},
		{c.GatePenalty.Asked(), "a ridge on the gate"},
		{c.ExpertRidge.Asked(), "a ridge on the experts"},
		{c.ExpertLasso.Asked(), "a lasso on the experts"},
	} {
		if asked.is {
			return refuse("%s is not for rows in groups", asked.what)
		}
	}
	return nil
}

// groupEntropy is that of the posteriors of the groups under m, −Σ_g w_g·Σ_i r_gi·log r_gi.
func groupEntropy(ctx context.Context, p *problem.Problem, m *fitted.Model) (float64, error) {
	at := p.Units.Into(m.Params())
	of, err := loss.NewLikelihood(p.Given, p.G, at, p.Shape.Estimated(), p.Threads).OfGroups(ctx, at)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i, r := range of.Posteriors {
		if r > 0 {
			sum -= of.Weight[i/at.K] * r * math.Log(r)
		}
	}
	return sum, nil
}

// groupParts assigns every row of a table with a column of groups to a fold, at random, and all rows of a group to the
// same; count is how many groups there are.
func groupParts(data *model.Data, folds int, seed uint64) (part []int, count int) {
	places := make(map[float64]int)
	of := make([]int, 0, data.N)
	for i := range data.Blocks {
		for _, id := range data.Blocks[i].Role[model.Groups] {
			g, known := places[id]
			if !known {
				g = len(places)
				places[id] = g
			}
			of = append(of, g)
		}
	}
	fold := penalty.Folds(len(places), folds, seed)
	for _, g := range of {
		part = append(part, fold[g])
	}
	return part, len(places)
}
