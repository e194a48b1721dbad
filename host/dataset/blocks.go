package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// blocks gathers values, row by row, into blocks of model.BlockRows rows and
// hands them to fn. Once a bad cell has been noted no block is handed on: what
// remains is read only to count the bad cells.
type blocks struct {
	schema  Schema
	fn      func(*model.Block) error
	d       int
	columns int       // d, one for the target and one for the weights
	weights int       // column of the weights; −1 for none
	weight  float64   // sum of the weights
	values  []float64 // columns × BlockRows, column-major
	n       int       // rows gathered since the last block
	total   int       // rows read, those left out among them
	bad     badCells

	absent  Absent
	targets bool   // a missing target is NaN, whatever absent says
	leave   bool   // the current row is to be left out
	unseen  []cell // of the current row: faults only if it stays
	dropped int    // rows left out
	missing []int  // cells missing in them, by column
	partial bool   // it is not all rows of the table that are read
}

func newBlocks(schema Schema, fn func(*model.Block) error) *blocks {
	columns, weights := len(schema.Columns()), -1
	if schema.Weights != "" {
		weights = columns - 1
	}
	return &blocks{
		schema: schema, fn: fn, d: len(schema.Features), columns: columns, weights: weights,
		values: make([]float64, columns*model.BlockRows), missing: make([]int, columns),
	}
}

// accepts says whether v may stand in a column: any finite number, among the
// weights none below 0.
func (b *blocks) accepts(column int, v float64) bool {
	return numeric.Finite(v) && (column != b.weights || v >= 0)
}

// set writes the current row's value of a column.
func (b *blocks) set(column int, v float64) { b.values[column*model.BlockRows+b.n] = v }

// next ends the current row.
func (b *blocks) next(ctx context.Context) error {
	b.total++
	unseen := b.unseen
	b.unseen = b.unseen[:0]
	if b.leave {
		b.leave = false
		b.dropped++
		return nil
	}
	for _, c := range unseen {
		b.bad.add(b.total, c)
	}
	b.n++
	if b.n == model.BlockRows {
		return b.emit(ctx)
	}
	return nil
}

// whole takes a whole block from little-endian rows of all columns in order, to be emitted.
// It is false, and nothing has happened, where rows of another block wait, or a value may
// not stand where it does.
func (b *blocks) whole(from []byte) bool {
	if b.n > 0 {
		return false
	}
	kernel.Columns(b.values, from, model.BlockRows, b.columns)
	if !numeric.Finite(kernel.Sum(b.values)) { // so is each then
		return false
	}
	if b.weights >= 0 && slices.Min(b.values[b.weights*model.BlockRows:]) < 0 {
		return false
	}
	b.n, b.total = model.BlockRows, b.total+model.BlockRows
	return true
}

// add appends a whole row; line is its place in the source.
func (b *blocks) add(ctx context.Context, row []float64, line int) error {
	for j, v := range row {
		if b.accepts(j, v) {
			b.set(j, v)
		} else {
			b.refuse(line, j, j, v)
		}
	}
	return b.next(ctx)
}

// refuse notes a value that a column does not accept; field is the place of the
// column in the file, counted from 0.
func (b *blocks) refuse(line, field, column int, v float64) {
	if math.IsNaN(v) {
		b.none(line, field, column, "NaN")
		return
	}
	text, why := strconv.FormatFloat(v, 'g', -1, 64), ""
	if math.IsInf(v, 0) {
		text = "Inf"
	}
	if numeric.Finite(v) {
		why = negativeWeight
	}
	b.bad.add(b.total+1, cell{line, field + 1, b.name(column), text, Spelled, why, "", false})
}

const negativeWeight = "a weight below 0"

// none notes that a column has no value in the current row.
func (b *blocks) none(line, field, column int, text string) {
	switch {
	case b.absent == Keep || b.targets && column == b.d && b.schema.Target != "":
		b.set(column, math.NaN())
	case b.absent == Drop:
		b.leave = true
		b.missing[column]++
	default:
		b.bad.add(b.total+1, cell{line, field + 1, b.name(column), text, Missing, "", "", false})
	}
}

func (b *blocks) name(column int) string { return b.schema.Columns()[column] }

// flush hands on the last rows and returns the error that the bad cells make.
func (b *blocks) flush(ctx context.Context) error {
	if b.n > 0 {
		if err := b.emit(ctx); err != nil {
			return err
		}
	}
	if err := b.bad.err(b.schema.Name, b.total, b.schema.Target); err != nil {
		return err
	}
	if b.total == b.dropped {
		msg := "no rows"
		if b.dropped > 0 {
			msg = fmt.Sprintf("each of the %s has a missing cell: none is left", count(b.dropped, "row"))
		}
		if j := slices.Index(b.missing, b.total); j >= 0 && b.total > 0 {
			msg = fmt.Sprintf("column %q has no value in any row; leave it out with --drop %s", b.name(j), b.name(j))
		}
		return &Error{File: b.schema.Name, Msg: msg}
	}
	if b.weights >= 0 && !b.partial && !(b.weight >= leastWeight && b.weight <= mostWeight) {
		return &Error{File: b.schema.Name, Msg: fmt.Sprintf("the weights in column %q add up to %v, want a number between %g and %g; scale them", b.schema.Weights, b.weight, leastWeight, mostWeight)}
	}
	return nil
}

// leastWeight and mostWeight bound the sum of the weights: a sum of rows times
// their weights then has all its digits, and is finite.
const (
	leastWeight = 1e-300
	mostWeight  = 1e300
)

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
	at := b.d * n
	if b.schema.Target != "" {
		block.Y = b.values[at : at+n]
		at += n
	}
	if b.weights >= 0 {
		block.W = b.values[at : at+n]
		b.weight += floats.Sum(block.W)
	}
	return b.fn(&block)
}
