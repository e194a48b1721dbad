package dataset

import (
	"context"

	"github.com/gatedlearning/moe/host/model"
)

// First is the table of src with its first d features alone. Where rows with missing cells are left out of src, those
// without a value of a feature that is not among them are left out too.
func First(src Source, d int) Source { return &first{src, d} }

type first struct {
	src Source
	d   int
}

// Schema implements [Source].
func (f *first) Schema() Schema {
	schema := f.src.Schema()
	schema.Features = schema.Features[:f.d:f.d]
	return schema
}

// Dropped returns how many rows with missing cells the last pass left out.
func (f *first) Dropped() int { return Dropped(f.src) }

// Read implements [Source].
func (f *first) Read(ctx context.Context, fn func(*model.Block) error) error {
	return f.src.Read(ctx, func(b *model.Block) error {
		out := *b
		out.X = b.X[:f.d*b.N]
		return fn(&out)
	})
}
