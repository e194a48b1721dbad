package diagnosis

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
)

// rawColumn is a column of a table as its owner knows it: numbers, or a factor, whatever features were made of it.
type rawColumn struct {
	name    string
	levels  []string  // of a factor
	numbers []float64 // of the levels of a factor whose column has numbers
}

// code is the value of a block's cell: a number, or the place of a level.
func (c *rawColumn) code(v float64) float64 {
	if c.numbers != nil {
		return float64(slices.Index(c.numbers, v))
	}
	return v
}

// cell is the value in a table of what [rawColumn.code] makes of it.
func (c *rawColumn) cell(code float64) float64 {
	if c.numbers != nil {
		return c.numbers[int(code)]
	}
	return code
}

// watched is a table that shows the raw columns of its features, or nil in its place if there are none.
type watched interface {
	Watched(see func(raw *model.Block)) dataset.Source
}

// columnsOf are the columns of a table: the raw ones of a design where the table shows them, the features
// elsewhere. The table that is returned shows them to see, before every block of features.
func columnsOf(m *fitted.Model, src dataset.Source,
	see func(raw *model.Block)) (columns []rawColumn, raw bool, table dataset.Source) {
	if w, ok := src.(watched); ok && m.Design != nil {
		table = w.Watched(see)
	}
	if table == nil {
		for _, name := range m.Features {
			columns = append(columns, rawColumn{name: name})
		}
		return columns, false, src
	}
	for _, name := range m.Design.Columns {
		c := rawColumn{name: name}
		for _, f := range m.Design.Factors {
			if f.Column == name {
				c.levels, c.numbers = f.Levels, f.Numbers
			}
		}
		columns = append(columns, c)
	}
	return columns, true, table
}

// oneBlock is a table of one block.
type oneBlock struct {
	names []string
	block *model.Block
}

func (o *oneBlock) Schema() dataset.Schema { return dataset.Schema{Features: o.names} }

func (o *oneBlock) Read(_ context.Context, fn func(*model.Block) error) error { return fn(o.block) }

// keptValues bounds what is kept of the rows for medians and pictures, in numbers: 8 MB.
const keptValues = 1 << 20

// quantile is that of sorted values, one of them.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Round(share*float64(len(sorted)-1)))]
}
