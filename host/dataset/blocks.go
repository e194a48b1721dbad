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
	"github.com/gatedlearning/moe/internal/setting"
)

// blocks gathers values, row by row, into blocks of model.BlockRows rows and
// hands them to fn. Once a bad cell has been noted no block is handed on: what
// remains is read only to count the bad cells.
type blocks struct {
	schema  Schema
	fn      func(*model.Block) error
	d       int
	columns int                   // d, one for the target and one for every role
	plain   int                   // those before the first that has a role
	roles   []model.Role          // of the columns from there on
	sums    model.ByRole[float64] // of the columns that have a role
	values  []float64             // columns × BlockRows, column-major
	n       int                   // rows gathered since the last block
	total   int                   // rows read, those left out among them
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
	columns := len(schema.Columns())
	var roles []model.Role
	for r, name := range schema.Roles {
		if name != "" {
			roles = append(roles, model.Role(r))
		}
	}
	return &blocks{
		schema: schema, fn: fn, d: len(schema.Features), columns: columns, plain: columns - len(roles), roles: roles,
		values: make([]float64, columns*model.BlockRows), missing: make([]int, columns),
	}
}

// accepts says whether v may stand in a column: any finite number, where it has a role those of its rule.
func (b *blocks) accepts(column int, v float64) bool {
	return numeric.Finite(v) && (column < b.plain || b.rule(column).accepts(v))
}

// rule is that of a column that has a role.
func (b *blocks) rule(column int) *rule { return &rules[b.roles[column-b.plain]] }

// why says what is wrong with a finite number that a column does not accept.
func (b *blocks) why(column int) string { return b.rule(column).refused }

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
	for c := b.plain; c < b.columns; c++ {
		accepts := b.rule(c).accepts
		for _, v := range b.values[c*model.BlockRows : (c+1)*model.BlockRows] {
			if !accepts(v) {
				return false
			}
		}
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
		why = b.why(column)
	}
	b.bad.add(b.total+1, cell{line, field + 1, b.name(column), text, Spelled, why, setting.Text{}, false})
}

// none notes that a column has no value in the current row.
func (b *blocks) none(line, field, column int, text string) {
	switch {
	case b.absent == Keep || b.targets && column == b.d && b.schema.Target != "":
		b.set(column, math.NaN())
	case b.absent == Drop:
		b.leave = true
		b.missing[column]++
	default:
		b.bad.add(b.total+1, cell{line, field + 1, b.name(column), text, Missing, "", setting.Text{}, false})
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
	if err := b.bad.err(b.schema.Name, b.total, b.schema.Target, b.targets); err != nil {
		return err
	}
	if b.total == b.dropped {
		fault := &Error{File: b.schema.Name, Msg: "no rows"}
		if b.dropped > 0 {
			fault.Msg = fmt.Sprintf("each of the %s has a missing cell: none is left", count(b.dropped, "row"))
		}
		if j := slices.Index(b.missing, b.total); j >= 0 && b.total > 0 {
			fault.Msg = fmt.Sprintf("column %q has no value in any row", b.name(j))
			fault.Advice = setting.Textf("leave it out with %s", setting.To("drop", b.name(j)))
		}
		return fault
	}
	for _, role := range b.roles {
		sum, rule := b.sums[role], &rules[role]
		if rule.most != 0 && !b.partial && !(sum >= rule.least && sum <= rule.most) {
			return &Error{File: b.schema.Name,
				Msg: fmt.Sprintf("the %s in column %q add up to %v, want a number between %g and %g; scale them",
					rule.plural, b.schema.Roles[role], sum, rule.least, rule.most)}
		}
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
	at := b.d * n
	if b.schema.Target != "" {
		block.Y = b.values[at : at+n]
		at += n
	}
	for _, role := range b.roles {
		block.Role[role] = b.values[at : at+n]
		b.sums[role] += floats.Sum(block.Role[role])
		at += n
	}
	return b.fn(&block)
}
