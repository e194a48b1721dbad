package crossvalidation

import (
	"context"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/penalty"
)

// choiceFolds are the parts of a choice by rows that are left out, where there are as many.
const choiceFolds = 10

// parts is a table with the part of every row; a group of rows is in one.
type parts struct {
	dataset.Loaded
	part  []int
	folds int
}

// inParts reads a table that is to be parted. 0 folds are choiceFolds, or as many as there are rows, or groups.
func inParts(ctx context.Context, src dataset.Source, folds int, seed uint64) (*parts, error) {
	data, err := dataset.Load(ctx, src)
	if err != nil {
		return nil, err
	}
	asked := folds
	if asked == 0 {
		folds = min(choiceFolds, data.N)
	}
	if folds < 2 || folds > data.N {
		return nil, problem.Refuse("%d folds of %d rows, want 2 to %d", folds, data.N, data.N)
	}
	if src.Schema().Target == "" {
		return nil, problem.Refuse("the data have no target column")
	}
	part := penalty.Folds(data.N, folds, seed)
	if column := src.Schema().Roles[model.Groups]; column != "" {
		groups := 0
		if part, groups = groupParts(data, folds, seed); asked == 0 && groups > 1 && groups < folds {
			folds = groups
			part, groups = groupParts(data, folds, seed)
		}
		if folds > groups {
			return nil, problem.Refuse("%d folds of %d groups of column %q, want 2 to %d", folds, groups, column,
				groups)
		}
	}
	return &parts{dataset.InMemory(src.Schema(), data), part, folds}, nil
}

// without are the rows of all parts but one, left those of that.
func (t *parts) without(fold int) dataset.Loaded {
	return t.Where(func(row int) bool { return t.part[row] != fold })
}

func (t *parts) left(fold int) dataset.Loaded {
	return t.Where(func(row int) bool { return t.part[row] == fold })
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
