// Package dataset reads and writes tables of finite numbers: CSV and NPY files, Parquet files where the
// program has host/dataset/parquet, and matrices in memory, all of them in blocks of rows, so that a table need
// not fit in memory and the same numbers give the same blocks from any format.
//
// A [Source] is what a fit reads: [Matrix] makes one of a matrix and its targets,
// [Open] of a file, of which a [Selection] names the target and the features.
// [Write] writes one.
//
// Nothing is dropped or repaired in silence: a cell that is not a finite
// decimal number, a row of another length or a file that is cut short is an
// [*Error] that names the place.
package dataset

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/internal/memory"
)

// Schema names the columns of a table.
type Schema struct {
	Name     string             // of the file, as the user wrote it; "" in memory
	Features []string           // d names
	Target   string             // "" where the table has no target
	Roles    Roles              // the columns that are neither
	ids      model.ByRole[*IDs] // of CSV files
	Notes    []string           // for the user: what was done that was not asked for

	Scale scaling.Scale // of the targets, which are h(y), y the column Target; see [Scaled]

	Part bool // the rows are part of a table's: a feature that is constant in them need not be constant in all
}

// Columns returns the names of all columns: features, target, and those that have a role, in the order of the roles.
func (s Schema) Columns() []string {
	columns := append([]string(nil), s.Features...)
	if s.Target != "" {
		columns = append(columns, s.Target)
	}
	return append(columns, s.Roles.Columns()...)
}

// Names is the schema of a table that brings no names of its own: features
// x1 … xd and, with a target, y.
func Names(d int, target bool) Schema {
	s := Schema{Features: make([]string, d)}
	for j := range s.Features {
		s.Features[j] = fmt.Sprintf("x%d", j+1)
	}
	if target {
		s.Target = "y"
	}
	return s
}

// Source is a table that can be read from start to end: any number of times, but
// for a stream that cannot be rewound (see [NewReader]).
type Source interface {
	Schema() Schema
	// Read calls fn with every block in order. The block is valid until fn
	// returns. All blocks but the last have model.BlockRows rows. An error
	// of fn ends the pass and is returned as it is.
	Read(ctx context.Context, fn func(*model.Block) error) error
}

// loadStep is how many bytes are loaded before it is asked again whether there is
// room for as many.
const loadStep = 256 << 20

// Load reads a source into memory, one copy of 8·n·(d+1) bytes, 8·n more for
// every role. A table that does not fit is a *memory.Error, before it is
// read where its number of rows is known, else before the part that does not fit.
func Load(ctx context.Context, src Source) (*model.Data, error) {
	schema := src.Schema()
	data := &model.Data{D: len(schema.Features)}
	row := 8 * float64(len(schema.Columns()))
	if s, ok := src.(interface{ rows() int64 }); ok {
		if err := memory.Check(fmt.Sprintf("the %d rows of %s", s.rows(), schema.Name),
			row*float64(s.rows())); err != nil {
			return nil, err
		}
	}
	asked := float64(loadStep) // bytes, in steps that are worth asking for
	err := src.Read(ctx, func(b *model.Block) error {
		if row*float64(data.N+b.N) > asked {
			if err := memory.Check(fmt.Sprintf("the rows of %s from row %d on", schema.Name, data.N+1),
				loadStep); err != nil {
				return err
			}
			asked += loadStep
		}
		data.Blocks = append(data.Blocks, b.Clone())
		data.N += b.N
		return nil
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Table is a table in memory, as a source.
type Table struct {
	schema Schema
	x      *mat.Dense
	y      []float64
	roles  model.ByRole[[]float64]
}

// Matrix is the source of an n×d matrix, one row an observation, and its n
// targets, which may be nil. The columns are called x1 … xd and y unless they are
// [Table.Named]. It panics if x is nil or y has another length than x has rows.
func Matrix(x *mat.Dense, y []float64) *Table {
	if x == nil {
		panic("dataset: no matrix")
	}
	n, d := x.Dims()
	if y != nil && len(y) != n {
		panic(fmt.Sprintf("dataset: %d targets for %d rows", len(y), n))
	}
	return &Table{schema: Names(d, y != nil), x: x, y: y}
}

// WeightedMatrix is [Matrix] with a weight, at least 0, for every row; their
// column is called weight.
func WeightedMatrix(x *mat.Dense, y, w []float64) *Table {
	return Matrix(x, y).With(model.Weights, "weight", w)
}

// With returns the same table with a column of that role. It panics where the column has another number of rows, and a
// value that no such column has is an error when the table is read.
func (m *Table) With(role model.Role, name string, values []float64) *Table {
	if n, _ := m.x.Dims(); len(values) != n {
		panic(fmt.Sprintf("dataset: %d values in the column of the %s for %d rows", len(values), rules[role].plural, n))
	}
	out := *m
	out.schema.Roles[role], out.roles[role] = name, values
	return &out
}

// Named returns the same table with the given names of its d features, and of its
// target unless that is "". It panics if there are not d names, if one of them is
// empty or stands twice, or if a table without a target is given a name for it.
func (m *Table) Named(features []string, target string) *Table {
	if len(features) != len(m.schema.Features) {
		panic(fmt.Sprintf("dataset: %d names for %d features", len(features), len(m.schema.Features)))
	}
	if target != "" && m.y == nil {
		panic(fmt.Sprintf("dataset: the target's name is %q, and there is no target", target))
	}
	out := *m
	out.schema.Features = slices.Clone(features)
	if target != "" {
		out.schema.Target = target
	}
	seen := make(map[string]bool)
	for _, name := range out.schema.Columns() {
		if name == "" || seen[name] {
			panic(fmt.Sprintf("dataset: the column name %q is empty or stands twice", name))
		}
		seen[name] = true
	}
	return &out
}

// Schema implements [Source].
func (m *Table) Schema() Schema { return m.schema }

// Read implements [Source].
func (m *Table) Read(ctx context.Context, fn func(*model.Block) error) error {
	n, d := m.x.Dims()
	out := newBlocks(m.schema, fn)
	row := make([]float64, 0, d+1+len(m.roles))
	for i := range n {
		row = append(row[:0], m.x.RawRowView(i)...)
		if m.y != nil {
			row = append(row, m.y[i])
		}
		for _, values := range m.roles {
			if values != nil {
				row = append(row, values[i])
			}
		}
		if err := out.add(ctx, row, i+1); err != nil {
			return err
		}
	}
	return out.flush(ctx)
}
