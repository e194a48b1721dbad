package host

import (
	"github.com/gatedlearning/moe/host/model"
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
