package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// counted is a source that may know its number of rows, and can then be read from any
// of them on.
type counted interface {
	count() (rows int, known bool)
	readFrom(ctx context.Context, row int, fn func(*model.Block) error) error
}

// Count returns the number of rows of src: as an array's header says it, elsewhere by a
// pass over the rows.
func Count(ctx context.Context, src Source) (int, error) {
	if c, ok := src.(*concatenated); ok {
		return c.measure(ctx)
	}
	if c, ok := src.(counted); ok {
		if n, known := c.count(); known {
			return n, nil
		}
	}
	n := 0
	err := src.Read(ctx, func(b *model.Block) error {
		n += b.N
		return nil
	})
	return n, err
}

// Enters says whether [ReadRange] enters src at a block, without what stands before it.
func Enters(src Source) bool {
	if c, ok := src.(*concatenated); ok {
		return !slices.ContainsFunc(c.parts, func(p Source) bool { return !Enters(p) })
	}
	c, ok := src.(counted)
	if !ok {
		return false
	}
	_, known := c.count()
	return known
}

// ReadRange calls fn with the blocks from ≤ i < to of src and their numbers, in order.
// What stands before them is passed over where the format allows that, and read
// where it does not.
func ReadRange(ctx context.Context, src Source, from, to int, fn func(i int, b *model.Block) error) error {
	if from >= to {
		return nil
	}
	i, enough := 0, errors.New("dataset: enough rows") // ends this pass and no other
	visit := func(b *model.Block) error {
		if i >= from {
			if err := fn(i, b); err != nil {
				return err
			}
		}
		if i++; i >= to {
			return enough
		}
		return nil
	}
	read := src.Read
	if c, ok := src.(counted); ok && from > 0 {
		if _, known := c.count(); known {
			i = from
			read = func(ctx context.Context, fn func(*model.Block) error) error {
				return c.readFrom(ctx, from*model.BlockRows, fn)
			}
		}
	}
	if err := read(ctx, visit); err != nil && !errors.Is(err, enough) {
		return err
	}
	return nil
}

// Concat returns the rows of several tables, one behind the other. They must have the
// same columns: where they have not the error is a *[Error].
func Concat(parts ...Source) (Source, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	schema := parts[0].Schema()
	for _, p := range parts[1:] {
		s := p.Schema()
		if !slices.Equal(s.Columns(), schema.Columns()) {
			return nil, &Error{File: s.Name, Msg: fmt.Sprintf("columns %s, want those of %s: %s", quoteAll(s.Columns()),
				schema.Name, quoteAll(schema.Columns()))}
		}
		schema.Notes = append(schema.Notes, s.Notes...)
		if err := schema.shareIDs(p); err != nil {
			return nil, err
		}
	}
	return &concatenated{schema: schema, parts: parts, rows: make([]int, len(parts))}, nil
}

// concatenated is the tables of Concat. Blocks go across from one to the next.
type concatenated struct {
	schema Schema
	parts  []Source
	rows   []int // of the parts; 0 where they have not been counted
}

func (c *concatenated) Schema() Schema { return c.schema }

// Dropped is how many rows the last pass left out.
func (c *concatenated) Dropped() int {
	n := 0
	for _, p := range c.parts {
		n += Dropped(p)
	}
	return n
}

// measure counts the rows of all parts, and keeps the numbers.
func (c *concatenated) measure(ctx context.Context) (n int, err error) {
	for i, p := range c.parts {
		if c.rows[i], err = Count(ctx, p); err != nil {
			return 0, err
		}
		n += c.rows[i]
	}
	return n, nil
}

// count implements counted.
func (c *concatenated) count() (n int, known bool) {
	for _, rows := range c.rows {
		if rows == 0 {
			return 0, false
		}
		n += rows
	}
	return n, true
}

func (c *concatenated) Read(ctx context.Context, fn func(*model.Block) error) error {
	return c.readFrom(ctx, 0, fn)
}

// readFrom implements counted.
func (c *concatenated) readFrom(ctx context.Context, row int, fn func(*model.Block) error) error {
	out := newBlocks(c.schema, fn)
	out.total, out.partial = row, row > 0
	for i, p := range c.parts {
		if row > 0 && row >= c.rows[i] {
			row -= c.rows[i]
			continue
		}
		skip, whole, read := row%model.BlockRows, row == 0, 0
		err := ReadRange(ctx, p, row/model.BlockRows, maxBlocks, func(_ int, b *model.Block) error {
			read += b.N
			if out.n == 0 && skip == 0 && b.N == model.BlockRows {
				out.total += b.N
				for role, values := range b.Role {
					for _, v := range values {
						out.sums[role] += v
					}
				}
				return fn(b)
			}
			for r := skip; r < b.N; r++ {
				out.copyRow(b, r)
				if err := out.next(ctx); err != nil {
					return err
				}
			}
			skip = 0
			return nil
		})
		if err != nil {
			return err
		}
		if whole {
			c.rows[i] = read
		}
		row = 0
	}
	return out.flush(ctx)
}

// maxBlocks is more blocks than any table has.
const maxBlocks = int(^uint(0) >> 1)

// copyRow writes row r of a block of the same schema to the current row.
func (b *blocks) copyRow(from *model.Block, r int) {
	for j := range b.d {
		b.set(j, from.X[j*from.N+r])
	}
	at := b.d
	if from.Y != nil {
		b.set(at, from.Y[r])
		at++
	}
	for _, values := range from.Role {
		if values != nil {
			b.set(at, values[r])
			at++
		}
	}
}
