package dataset

import (
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// CheckColumns returns an *[Error] that names a column without information: a
// feature or target that is constant, or a feature whose values equal another
// column's in every row. It reads as many rows as it takes to tell, usually
// the first two.
func CheckColumns(data *model.Data, schema Schema) error {
	names := schema.Columns()
	for j, name := range names {
		if v, constant := constantColumn(data, j); constant {
			return &Error{File: schema.Name, Msg: fmt.Sprintf("column %q is %v in every row; %s", name, v, remedy(schema, name))}
		}
	}
	for j := range names {
		for i := range j {
			if equalColumns(data, i, j) {
				return &Error{File: schema.Name, Msg: fmt.Sprintf("columns %q and %q are equal in every row; drop one of them", names[i], names[j])}
			}
		}
	}
	return nil
}

func remedy(schema Schema, name string) string {
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
