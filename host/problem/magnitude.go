package problem

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// checkMagnitudes refuses columns whose fourth moments leave the range of a
// float64.
func checkMagnitudes(data *model.Data, schema dataset.Schema) error {
	for j, name := range schema.Columns()[:data.D+1] { // weights have a check of their own
		most := 0.0
		for i := range data.Blocks {
			b := &data.Blocks[i]
			col := b.Y
			if j < data.D {
				col = b.Col(j)
			}
			for _, v := range col {
				if v = math.Abs(v); v > most {
					most = v
				}
			}
		}
		if err := checkMagnitude(schema, name, most); err != nil {
			return err
		}
	}
	return nil
}

// checkMagnitude refuses a column whose largest value is of this size.
func checkMagnitude(schema dataset.Schema, name string, most float64) error {
	if most < smallest || most > largest {
		return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("column %q has values up to %.3g in size, want between %g and %g; change its unit", name, most, smallest, largest)}
	}
	return nil
}
