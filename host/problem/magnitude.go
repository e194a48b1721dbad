package problem

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// checkMagnitudes refuses columns whose fourth moments leave the range of a
// float64.
func checkMagnitudes(ctx context.Context, rows model.Rows, schema dataset.Schema, workers int) error {
	names := schema.Columns()[:len(schema.Features)+1] // weights have a check of their own
	// The largest sum of squares of a block says of nearly all columns that they are in range,
	// and costs less than looking at each value.
	squares, err := largestOf(ctx, rows, len(names), workers,
		func(values []float64) float64 { return kernel.Dot(values, values) })
	if err != nil || !slices.ContainsFunc(squares, func(s float64) bool {
		return !(s >= model.BlockRows*smallest*smallest && s <= largest*largest)
	}) {
		return err
	}
	most, err := largestOf(ctx, rows, len(names), workers, func(values []float64) (most float64) {
		for _, v := range values {
			most = max(most, math.Abs(v))
		}
		return most
	})
	if err != nil {
		return err
	}
	for j, name := range names {
		if err := checkMagnitude(schema, name, most[j]); err != nil {
			return err
		}
	}
	return nil
}

// largestOf returns the largest value that of has of a block of each of so many columns.
func largestOf(ctx context.Context, rows model.Rows, columns, workers int,
	of func(values []float64) float64) ([]float64, error) {
	chunks := make([][]float64, model.Chunks(rows))
	for c := range chunks {
		chunks[c] = make([]float64, columns)
	}
	err := model.Each(ctx, rows, model.Workers(workers), func(_, chunk, _ int, b *model.Block) error {
		for j, at := range chunks[chunk] {
			chunks[chunk][j] = max(at, of(column(b, columns-1, j)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, more := range chunks[1:] {
		for j, v := range more {
			chunks[0][j] = max(chunks[0][j], v)
		}
	}
	return chunks[0], nil
}

// checkMagnitude refuses a column whose largest value is of this size.
func checkMagnitude(schema dataset.Schema, name string, most float64) error {
	if most < smallest || most > largest {
		return &dataset.Error{File: schema.Name,
			Msg: fmt.Sprintf("column %q has values up to %.3g in size, want between %g and %g; change its unit", name,
				most, smallest, largest)}
	}
	return nil
}
