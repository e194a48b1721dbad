package parquet

import (
	"context"
	"errors"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// groupSize is the size of a row group in bytes, of which one is held in
// memory; at least one block of rows.
const groupSize = 16 << 20

// write writes required columns of doubles, PLAIN and uncompressed, in
// pages with checksums.
func write(ctx context.Context, out io.Writer, src dataset.Source) error {
	names := src.Schema().Columns()
	w := parquet.NewGenericWriter[any](out, schemaOf(names),
		parquet.CreatedBy("moe", "v1", ""), parquet.MaxRowsPerRowGroup(1<<40))
	blocks := max(1, groupSize/(8*model.BlockRows*len(names)))
	var values [model.BlockRows]parquet.Value
	held := 0
	err := src.Read(ctx, func(b *model.Block) error {
		columns := w.ColumnWriters()
		for j, c := range columns {
			for i, v := range blockColumn(b, j) {
				values[i] = parquet.DoubleValue(v).Level(0, 0, j)
			}
			if _, err := c.WriteRowValues(values[:b.N]); err != nil {
				return err
			}
		}
		if held++; held < blocks {
			return nil
		}
		held = 0
		return w.Flush()
	})
	if err == nil {
		err = w.Close()
	}
	// The library says which of its columns it was writing: of no use to the user.
	if full := (*atomicfile.WriteError)(nil); errors.As(err, &full) {
		return full
	}
	return err
}

// blockColumn returns column j of a block in the order of Schema.Columns.
func blockColumn(b *model.Block, j int) []float64 {
	for values := range b.Values() {
		if n := len(values) / b.N; j >= n {
			j -= n
			continue
		}
		return values[j*b.N : (j+1)*b.N]
	}
	panic("parquet: no such column")
}

func schemaOf(names []string) *parquet.Schema {
	r := root{}
	for _, name := range names {
		r.fields = append(r.fields, field{
			Node: parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.Plain), name: name,
		})
	}
	return parquet.NewSchema("table", r)
}

// root is a group that keeps its columns in order, which parquet.Group
// sorts by name.
type root struct {
	parquet.Group
	fields []parquet.Field
}

func (r root) Fields() []parquet.Field { return r.fields }

// field is a column. It is never asked for a value of a Go struct: values
// are written column by column.
type field struct {
	parquet.Node
	name string
}

func (f field) Name() string                      { return f.name }
func (f field) Value(reflect.Value) reflect.Value { return reflect.Value{} }
