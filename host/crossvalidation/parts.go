package crossvalidation

import (
	"context"
	"slices"
	"strings"

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
	same  [][]int // of every part the features that are the same in all others
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
	t := &parts{Loaded: dataset.InMemory(src.Schema(), data), part: part, folds: folds}
	t.findSame()
	return t, nil
}

// without are the rows of all parts but one, left those of that, with the features that a fit without the part sees.
func (t *parts) without(fold int) dataset.Loaded {
	return t.seen(fold, t.Where(func(row int) bool { return t.part[row] != fold }))
}

func (t *parts) left(fold int) dataset.Loaded {
	return t.seen(fold, t.Where(func(row int) bool { return t.part[row] == fold }))
}

// seen are rows without the features that are the same in all other parts, as the column of a level that hardly any row
// has: the fit without the part knows nothing of them, and judges as if they were the same in it too.
func (t *parts) seen(fold int, rows dataset.Loaded) dataset.Loaded {
	if t.same[fold] == nil {
		return rows
	}
	var left []int
	for j := range t.Data.D {
		if !slices.Contains(t.same[fold], j) {
			left = append(left, j)
		}
	}
	return rows.Only(left)
}

// findSame finds the features that vary, but not without some part.
func (t *parts) findSame() {
	t.same = make([][]int, t.folds)
	for j := range t.Data.D {
		if !t.varies(j, -1) {
			continue
		}
		for fold := range t.same {
			if !t.varies(j, fold) {
				t.same[fold] = append(t.same[fold], j)
			}
		}
	}
}

// varies says whether a feature has two values in the rows without a part.
func (t *parts) varies(feature, fold int) bool {
	first, found := 0.0, false
	for i := range t.Data.Blocks {
		for r, v := range t.Data.Blocks[i].Col(feature) {
			switch {
			case t.part[i*model.BlockRows+r] == fold:
			case !found:
				first, found = v, true
			case v != first:
				return true
			}
		}
	}
	return false
}

// constant names the features that are the same without some part.
func (t *parts) constant() (names []string) {
	for j, name := range t.Schema().Features {
		if slices.ContainsFunc(t.same, func(of []int) bool { return slices.Contains(of, j) }) {
			names = append(names, name)
		}
	}
	return names
}

// notes says which features are the same without some part.
func (t *parts) notes() []string {
	constant := t.constant()
	if constant == nil {
		return nil
	}
	return []string{"crossvalidation: the same in all rows without some part, so that the fits to these know nothing " +
		"of it: " + strings.Join(constant, ", ")}
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
