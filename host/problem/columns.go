package problem

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// CheckColumns returns a *dataset.Error that names a column without information: a
// feature or target that is constant, or a feature whose values equal another
// column's in every row. It takes one pass over the first block and goes on
// where that cannot tell.
func CheckColumns(data *model.Data, schema dataset.Schema) error {
	schema.Weights = "" // they may be constant, and equal to anything
	names := schema.Columns()
	for j, name := range names {
		if v, constant := constantColumn(data, j); constant {
			return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("column %q is %v in every row; %s", name, v, remedy(schema, name))}
		}
	}
	alike := make(map[uint64][]int, len(names)) // columns by the fingerprint of their first block
	for j := range names {
		f := fingerprint(column(&data.Blocks[0], data.D, j))
		for _, i := range alike[f] {
			if equalColumns(data, i, j) {
				return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("columns %q and %q are equal in every row; drop one of them", names[i], names[j])}
			}
		}
		alike[f] = append(alike[f], j)
	}
	return nil
}

// fingerprint is the same for equal columns, and hardly ever for others
// (FNV-1a over the values' bits).
func fingerprint(column []float64) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range column {
		h = (h ^ math.Float64bits(v+0)) * 1099511628211 // −0 + 0 is 0, as == has it
	}
	return h
}

func remedy(schema dataset.Schema, name string) string {
	if name == schema.Target {
		return "there is nothing to learn from it"
	}
	return "drop it"
}

// column returns column j of a block, the target behind the features.
func column(b *model.Block, d, j int) []float64 {
	if j == d {
		return b.Y
	}
	return b.Col(j)
}

func constantColumn(data *model.Data, j int) (value float64, constant bool) {
	value = column(&data.Blocks[0], data.D, j)[0]
	for i := range data.Blocks {
		if slices.ContainsFunc(column(&data.Blocks[i], data.D, j), func(v float64) bool { return v != value }) {
			return 0, false
		}
	}
	return value, true
}

func equalColumns(data *model.Data, i, j int) bool {
	for b := range data.Blocks {
		block := &data.Blocks[b]
		if !slices.Equal(column(block, data.D, i), column(block, data.D, j)) {
			return false
		}
	}
	return true
}
