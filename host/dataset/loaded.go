package dataset

import (
	"context"

	"github.com/gatedlearning/moe/host/model"
)

// Loaded is a table whose rows are in memory in blocks, as [Load] returns them.
type Loaded struct {
	schema Schema
	Data   *model.Data
}

// InMemory is the table of these columns and rows.
func InMemory(schema Schema, data *model.Data) Loaded { return Loaded{schema, data} }

// Schema implements [Source].
func (t Loaded) Schema() Schema { return t.schema }

// Read implements [Source].
func (t Loaded) Read(ctx context.Context, fn func(*model.Block) error) error {
	for i := range t.Data.Blocks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := t.Data.Blocks[i]
		if err := fn(&b); err != nil {
			return err
		}
	}
	return nil
}

// Where returns the rows of which keep holds, by their places from 0.
func (t Loaded) Where(keep func(row int) bool) Loaded {
	data, err := model.Where(context.Background(), t.Data, keep)
	if err != nil { // rows in memory can be read
		panic(err)
	}
	return Loaded{t.schema, data}
}

// Only returns the table with the features at these places alone.
func (t Loaded) Only(features []int) Loaded {
	schema, data := t.schema, &model.Data{N: t.Data.N, D: len(features)}
	schema.Features = nil
	for _, j := range features {
		schema.Features = append(schema.Features, t.schema.Features[j])
	}
	for _, b := range t.Data.Blocks {
		of := b
		of.X = make([]float64, 0, len(features)*b.N)
		for _, j := range features {
			of.X = append(of.X, b.Col(j)...)
		}
		data.Blocks = append(data.Blocks, of)
	}
	return Loaded{schema, data}
}
