package crossvalidation

import (
	"context"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/penalty"
)

// choiceFolds are the parts of a choice by rows that are left out, where there are as many.
const choiceFolds = 10

// parts is a table with the part of every row; a group of rows is in one.
type parts struct {
	tables []dataset.Loaded // of every target
	part   []int
	folds  int
	// of every part the features that tell nothing in all others
	untold [][]int
}

// of is the table of the first target, which has the features of all.
func (t *parts) of() dataset.Loaded { return t.tables[0] }

// targets are the names of all.
func (t *parts) targets() (names []string) {
	for _, table := range t.tables {
		names = append(names, table.Schema().Target)
	}
	return names
}

// inParts reads the tables of every target, which are to be parted, for fits with an intercept or without. 0 folds are
// choiceFolds, or as many as there are rows, or groups.
func inParts(ctx context.Context, from []dataset.Source, intercept bool, folds int, seed uint64) (*parts, error) {
	t := &parts{}
	for _, src := range from {
		data, err := dataset.Load(ctx, src)
		if err != nil {
			return nil, err
		}
		t.tables = append(t.tables, dataset.InMemory(src.Schema(), data))
	}
	src, data, asked := from[0], t.of().Data, folds
	if asked == 0 {
		folds = min(choiceFolds, data.N)
	}
	if folds < 2 || folds > data.N {
		return nil, problem.Refuse("%d folds of %d rows, want 2 to %d", folds, data.N, data.N)
	}
	for _, table := range t.tables {
		if table.Schema().Target == "" {
			return nil, problem.Refuse("the data have no target column")
		}
		if err := problem.CheckColumns(ctx, table.Data, table.Schema()); err != nil {
			return nil, err
		}
	}
	part := penalty.Folds(data.N, folds, seed)
	if column := src.Schema().Roles[model.Groups]; column != "" {
		groups := 0
		if part, groups = groupParts(data, folds, seed); asked == 0 && groups > 1 && groups < folds {
			folds = groups
			part, groups = groupParts(data, folds, seed)
		}
		if groups == 1 {
			found, err := problem.FindGroups(ctx, src.Schema(), data, 0)
			if err != nil {
				return nil, err
			}
			return nil, problem.OneGroup(src.Schema().Name, column, found.Groups.IDs[0])
		}
		if folds > groups {
			return nil, problem.Refuse("%d folds of %d groups of column %q, want 2 to %d", folds, groups, column,
				groups)
		}
	}
	t.part, t.folds = part, folds
	t.findUntold(intercept)
	return t, nil
}

// without are the rows of all parts but one, left those of that, with the features that a fit without the part sees.
func (t *parts) without(fold int) []dataset.Loaded {
	return t.seen(fold, func(row int) bool { return t.part[row] != fold })
}

func (t *parts) left(fold int) []dataset.Loaded {
	return t.seen(fold, func(row int) bool { return t.part[row] == fold })
}

// seen are the rows of which keep holds, without the features that tell nothing in all other parts than this: see
// [parts.findUntold].
func (t *parts) seen(fold int, keep func(row int) bool) (out []dataset.Loaded) {
	var left []int
	for j := range t.of().Data.D {
		if !slices.Contains(t.untold[fold], j) {
			left = append(left, j)
		}
	}
	for _, table := range t.tables {
		schema := table.Schema()
		schema.Part = true
		rows := dataset.InMemory(schema, table.Where(keep).Data)
		if t.untold[fold] != nil {
			rows = rows.Only(left)
		}
		out = append(out, rows)
	}
	return out
}

// Of a feature that is scaled to unit length, what is left beside those before it, squared: nothing where that is
// rounding, much where a fit tells it from them.
const nothingLeft, muchLeft = 1e-12, 1e-8

// findUntold finds the features that follow from those before them, or from the intercept where there is one, without
// some part alone: as the column of a level that hardly any row has, which is 0 there. Fits to the other parts are
// without them, and judge the part's rows as if they followed there too. Where nothing would be left all stay, for the
// fit to refuse.
func (t *parts) findUntold(intercept bool) {
	t.untold = make([][]int, t.folds)
	all := t.products(func(int) bool { return true })
	told := remainders(all, intercept)
	for fold := range t.folds {
		rest := t.products(func(part int) bool { return part == fold })
		rest.ScaleSym(-1, rest)
		rest.AddSym(all, rest)
		var untold []int
		for j, left := range remainders(rest, intercept) {
			if left <= nothingLeft && (told[j] > muchLeft || becomesAnother(all, rest, j)) {
				untold = append(untold, j)
			}
		}
		if len(untold) < t.of().Data.D {
			t.untold[fold] = untold
		}
	}
}

// becomesAnother says whether a feature is one before it in the rest of the rows, and not in all, by their products.
func becomesAnother(all, rest *mat.SymDense, feature int) bool {
	same := func(of *mat.SymDense, i int) bool {
		both := of.At(i, i) + of.At(feature, feature)
		return both-2*of.At(i, feature) <= nothingLeft*both
	}
	for i := range feature {
		if same(rest, i) && !same(all, i) {
			return true
		}
	}
	return false
}

// products are those of all features, and of a last column of ones, over the rows of some parts.
func (t *parts) products(of func(part int) bool) *mat.SymDense {
	data := t.of().Data
	columns := make([]int, data.D+1)
	for j := range columns {
		columns[j] = j
	}
	x, sums := gram.NewDesign(len(columns)), gram.New(len(columns), 1)
	for i, b := range data.Blocks {
		x.Take(&model.Block{N: b.N, X: b.X}) // whatever the rows weigh
		in := sums.Begin(&x)
		for r := range in.Terms {
			if in.Terms[r] = 0; of(t.part[i*model.BlockRows+r]) {
				in.Terms[r] = 1
			}
		}
		in.Next()
	}
	out := mat.NewSymDense(len(columns), nil)
	sums.Put(out, 0, 0, 0, columns, columns, 1)
	return out
}

// remainders is what is left of every feature beside those before it that leave something, by their products, the last
// of which are of ones: squared, of a feature of unit length; 0 of one that is 0.
func remainders(products *mat.SymDense, intercept bool) []float64 {
	d := products.SymmetricDim() - 1
	out := make([]float64, d)
	var factor []*mat.VecDense // of those that leave something, by Cholesky: what each has of all features
	take := func(j int) float64 {
		column := mat.NewVecDense(d+1, nil)
		for i := range d + 1 {
			column.SetVec(i, products.At(i, j))
		}
		for _, f := range factor {
			column.AddScaledVec(column, -f.AtVec(j), f)
		}
		size, left := products.At(j, j), column.AtVec(j)
		if !(left > nothingLeft*size) {
			return 0
		}
		column.ScaleVec(1/math.Sqrt(left), column)
		factor = append(factor, column)
		return left / size
	}
	if intercept {
		take(d)
	}
	for j := range out {
		out[j] = take(j)
	}
	return out
}

// unseen names the features that fits without some part know nothing of.
func (t *parts) unseen() (names []string) {
	for j, name := range t.of().Schema().Features {
		if slices.ContainsFunc(t.untold, func(of []int) bool { return slices.Contains(of, j) }) {
			names = append(names, name)
		}
	}
	return names
}

// Unseen is the sentence on features that tell nothing without some part.
func Unseen(names []string) string {
	return "without some part these tell nothing that the others do not, and the fits are without them: " +
		strings.Join(names, ", ")
}

// notes says which features fits without some part know nothing of.
func (t *parts) notes() []string {
	if names := t.unseen(); names != nil {
		return []string{"crossvalidation: " + Unseen(names)}
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
