package problem

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// checkMagnitudes refuses columns whose fourth moments leave the range of a
// float64.
func checkMagnitudes(ctx context.Context, rows model.Rows, schema dataset.Schema, workers int) error {
	names := schema.Columns()[:len(schema.Features)+1] // weights have a check of their own
	chunks := make([][]float64, model.Chunks(rows))    // the largest size of each column
	for c := range chunks {
		chunks[c] = make([]float64, len(names))
	}
	err := model.Each(ctx, rows, model.Workers(workers), func(_, chunk, _ int, b *model.Block) error {
		for j, at := range chunks[chunk] {
			for _, v := range column(b, len(schema.Features), j) {
				if v = math.Abs(v); v > at {
					at = v
				}
			}
			chunks[chunk][j] = at
		}
		return nil
	})
	if err != nil {
		return err
	}
	for j, name := range names {
		most := 0.0
		for _, of := range chunks {
			most = max(most, of[j])
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
