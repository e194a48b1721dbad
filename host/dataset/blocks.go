package dataset

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// blocks gathers values, row by row, into blocks of model.BlockRows rows and
// hands them to fn. Once a bad cell has been noted no block is handed on: what
// remains is read only to count the bad cells.
type blocks struct {
	schema  Schema
	fn      func(*model.Block) error
	d       int
	columns int       // d, and one for the target
	values  []float64 // columns × BlockRows, column-major
	n       int       // rows gathered since the last block
	total   int       // rows in all
	bad     badCells
}

func newBlocks(schema Schema, fn func(*model.Block) error) *blocks {
	columns := len(schema.Columns())
	return &blocks{
		schema: schema, fn: fn, d: len(schema.Features), columns: columns,
		values: make([]float64, columns*model.BlockRows),
	}
}

// set writes the current row's value of a column.
func (b *blocks) set(column int, v float64) { b.values[column*model.BlockRows+b.n] = v }

// next ends the current row.
func (b *blocks) next(ctx context.Context) error {
	b.n++
	b.total++
	if b.n == model.BlockRows {
		return b.emit(ctx)
	}
	return nil
}

// add appends a whole row; line is its place in the source.
func (b *blocks) add(ctx context.Context, row []float64, line int) error {
	for j, v := range row {
		if isFinite(v) {
			b.set(j, v)
		} else {
			b.notFinite(line, j, j, v)
		}
	}
	return b.next(ctx)
}

// notFinite notes a NaN or an infinity in a column that stands at a field of
// the file, counted from 0.
func (b *blocks) notFinite(line, field, column int, v float64) {
	text := "NaN"
	if math.IsInf(v, 0) {
		text = "Inf"
	}
	b.bad.add(cell{line, field + 1, b.name(column), text})
}

func (b *blocks) name(column int) string {
	if column < b.d {
		return b.schema.Features[column]
	}
	return b.schema.Target
}

// flush hands on the last rows and returns the error that the bad cells make.
func (b *blocks) flush(ctx context.Context) error {
	if b.n > 0 {
		if err := b.emit(ctx); err != nil {
			return err
		}
	}
	if err := b.bad.err(b.schema.Name); err != nil {
		return err
	}
	if b.total == 0 {
		return &Error{File: b.schema.Name, Msg: "no rows"}
	}
	return nil
}

func (b *blocks) emit(ctx context.Context) error {
	n := b.n
	b.n = 0
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if b.bad.total > 0 {
		return nil
	}
	if n < model.BlockRows { // close up the columns
		for j := range b.columns {
			copy(b.values[j*n:(j+1)*n], b.values[j*model.BlockRows:])
		}
	}
	block := model.Block{N: n, X: b.values[:b.d*n]}
	if b.columns > b.d {
		block.Y = b.values[b.d*n : b.columns*n]
	}
	return b.fn(&block)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
