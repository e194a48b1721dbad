package problem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// CheckColumns returns a *dataset.Error that names a column without information: a
// feature or target that is constant, or a feature whose values equal another
// column's in every row. It looks at the first block, and goes on where that cannot tell. In a part of a table's rows a
// feature may be constant, but for 0.
func CheckColumns(ctx context.Context, rows model.Rows, schema dataset.Schema) error {
	schema.Roles = dataset.Roles{} // they may be constant, and equal to anything
	names := schema.Columns()
	first, err := rows.Block(0, new(model.Room))
	if err != nil {
		return err
	}
	d := len(schema.Features)
	for j, name := range names {
		v := column(first, d, j)[0]
		constant, err := throughout(ctx, rows, func(b *model.Block) bool {
			return !slices.ContainsFunc(column(b, d, j), func(w float64) bool { return w != v })
		})
		if err != nil {
			return err
		}
		if constant && !(schema.Part && j < d && v != 0) {
			return constantError(schema, name, v)
		}
	}
	alike := make(map[uint64][]int, len(names)) // columns by the fingerprint of their first block
	for j := range names {
		f := fingerprint(column(first, d, j))
		for _, i := range alike[f] {
			equal, err := throughout(ctx, rows, func(b *model.Block) bool {
				return slices.Equal(column(b, d, i), column(b, d, j))
			})
			if err != nil {
				return err
			}
			if equal {
				return equalError(schema, names[i], names[j])
			}
		}
		alike[f] = append(alike[f], j)
	}
	return nil
}

// throughout says whether holds is true of every block. It ends with the first of which
// it is not.
func throughout(ctx context.Context, rows model.Rows, holds func(*model.Block) bool) (bool, error) {
	not := errors.New("problem: not throughout")
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		if !holds(b) {
			return not
		}
		return nil
	})
	if errors.Is(err, not) {
		return false, nil
	}
	return err == nil, err
}

// fingerprint is the same for equal columns, and hardly ever for others
// (FNV-1a over the values' bits).
func fingerprint(column []float64) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range column {
		h = (h ^ math.Float64bits(v+0)) * 1099511628211 // −0 + 0 is 0, as == has it
	}
	return h
}

// Columns is what a pass finds of every column, the target behind the features, that
// tells those without information. It adds up over the parts of a table.
type Columns struct {
	Least  []float64 `json:"least"`
	Most   []float64 `json:"most"`
	Prints []uint64  `json:"prints"` // sums of fingerprints of the blocks and their places: equal for equal columns
}

// NewColumns returns what is known of the columns of no rows with d features.
func NewColumns(d int) Columns {
	return Columns{slices.Repeat([]float64{math.MaxFloat64}, d+1), slices.Repeat([]float64{-math.MaxFloat64}, d+1),
		make([]uint64, d+1)}
}

// Add adds block i of the table.
func (c *Columns) Add(i int, b *model.Block) {
	d := len(c.Least) - 1
	for j := range c.Least {
		col := column(b, d, j)
		c.Least[j], c.Most[j] = min(c.Least[j], slices.Min(col)), max(c.Most[j], slices.Max(col))
		c.Prints[j] += fingerprint(append([]float64{float64(i)}, col...))
	}
}

// Merge adds what is known of other blocks.
func (c *Columns) Merge(o Columns) {
	for j := range c.Least {
		c.Least[j], c.Most[j] = min(c.Least[j], o.Least[j]), max(c.Most[j], o.Most[j])
		c.Prints[j] += o.Prints[j]
	}
}

// check is [CheckColumns] and the check of magnitudes for what is known of the columns.
func (c *Columns) check(schema dataset.Schema) error {
	schema.Roles = dataset.Roles{}
	names := schema.Columns()
	seen := make(map[uint64]int, len(names))
	for j, name := range names {
		if c.Least[j] == c.Most[j] {
			return constantError(schema, name, c.Least[j])
		}
		if i, ok := seen[c.Prints[j]]; ok {
			return equalError(schema, names[i], name)
		}
		seen[c.Prints[j]] = j
		if err := checkMagnitude(schema, name, max(-c.Least[j], c.Most[j])); err != nil {
			return err
		}
	}
	return nil
}

func constantError(schema dataset.Schema, name string, v float64) error {
	return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("column %q is %v in every row; %s", name, v,
		remedy(schema, name))}
}

func equalError(schema dataset.Schema, a, b string) error {
	return &dataset.Error{File: schema.Name,
		Msg: fmt.Sprintf("columns %q and %q are equal in every row; drop one of them", a, b)}
}

func remedy(schema dataset.Schema, name string) string {
	if name == schema.Target {
		return "there is nothing to learn from it"
	}
	return "drop it"
}

// column returns column j of a block, the target behind the features.
func column(b *model.Block, d, j int) []float64 {
	if j == d {
		return b.Y
	}
	return b.Col(j)
}
