package terms

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/setting"
)

// Selection names the raw columns, by which a file is opened for [Design.Source]:
// with its target, which the file may lack. unseen says whether a level that a
// factor does not have is taken for its reference; else it is an error.
func (d *Design) Selection(target string, unseen bool) dataset.Selection {
	sel := dataset.Selection{Features: d.Columns, Target: target, Optional: true, Words: make(map[string]dataset.Words)}
	for _, f := range d.Factors {
		if f.Numbers != nil {
			continue
		}
		w := dataset.Words{Levels: f.Levels, Unseen: -1}
		if unseen {
			w.Unseen = slices.Index(f.Levels, f.Reference)
		}
		sel.Words[f.Column] = w
	}
	return sel
}

// Source is the table of the features of src, whose features are the design's
// columns. Blocks correspond. A missing value in a raw column makes one of every
// feature that needs it; other values that are not finite are a *dataset.Error that
// names the row. unseen is that of [Design.Selection].
func (d *Design) Source(src dataset.Source, unseen bool) dataset.Source {
	return &source{design: d, src: src, unseen: unseen}
}

type source struct {
	design *Design
	src    dataset.Source
	unseen bool
	see    func(raw *model.Block) // nil for none
}

// Watched is the same table, which shows what it makes features of: see gets every block of raw columns, in which words
// are the places of their levels, before the block of features is read.
func (s *source) Watched(see func(raw *model.Block)) dataset.Source {
	out := *s
	out.see = see
	return &out
}

func (s *source) Schema() dataset.Schema {
	schema := s.src.Schema()
	schema.Features = s.design.Features()
	return schema
}

// Dropped returns how many rows with missing cells the last pass left out.
func (s *source) Dropped() int { return dataset.Dropped(s.src) }

func (s *source) Read(ctx context.Context, fn func(*model.Block) error) error {
	schema := s.src.Schema()
	if !slices.Equal(schema.Features, s.design.Columns) {
		return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("columns %s, want %s", shorten(schema.Features),
			shorten(s.design.Columns))}
	}
	terms, err := s.design.compile()
	if err != nil {
		return &dataset.Error{File: schema.Name, Msg: err.Error()}
	}
	r := &raw{table: schema.Name, columns: s.design.Columns, unseen: s.unseen}
	var x, scratch []float64
	return s.src.Read(ctx, func(b *model.Block) error {
		r.begin(b)
		x = slices.Grow(x[:0], b.N*len(terms))[:b.N*len(terms)]
		scratch = slices.Grow(scratch[:0], b.N)[:b.N]
		for j, t := range terms {
			t.compute(x[j*b.N:(j+1)*b.N], scratch, r)
		}
		for j, t := range terms {
			r.check(t.name, x[j*b.N:(j+1)*b.N])
		}
		if r.err != nil {
			return r.err
		}
		r.rows += b.N
		if s.see != nil {
			s.see(b)
		}
		return fn(&model.Block{N: b.N, X: x, Y: b.Y, Role: b.Role})
	})
}

// compute writes the product of a term's values to dst.
func (c *compiled) compute(dst, scratch []float64, r *raw) {
	c.values[0](dst, r)
	for _, value := range c.values[1:] {
		value(scratch, r)
		for i, v := range scratch {
			dst[i] *= v
		}
	}
}

// raw is a block of raw columns, and what is wrong with them.
type raw struct {
	table   string
	columns []string
	unseen  bool
	rows    int // before the block
	block   *model.Block
	coded   map[string][]float64 // codes of the block, by factor
	err     error
}

func (r *raw) begin(b *model.Block) { r.block, r.coded = b, make(map[string][]float64) }

// column returns the values of a column.
func (r *raw) column(name string) []float64 { return r.block.Col(slices.Index(r.columns, name)) }

// codes returns the places of the rows' levels, NaN where the value is missing.
func (r *raw) codes(f *Factor) []float64 {
	if f.Numbers == nil {
		return r.column(f.Column)
	}
	if codes, ok := r.coded[f.Name]; ok {
		return codes
	}
	codes := make([]float64, r.block.N)
	for i, x := range r.column(f.Column) {
		place := slices.Index(f.Numbers, x)
		switch {
		case math.IsNaN(x):
			codes[i] = x
			continue
		case place < 0 && r.unseen:
			place = slices.Index(f.Levels, f.Reference)
		case place < 0:
			r.fail(i, dataset.Unseen, "%v in column %q is none of the levels that the model was fitted with, %s", x,
				f.Column, shorten(f.Levels))
		}
		codes[i] = float64(place)
	}
	r.coded[f.Name] = codes
	return codes
}

// check refuses values that are not finite in rows that lack none.
func (r *raw) check(term string, values []float64) {
	for i, v := range values {
		if !numeric.Finite(v) && !r.missing(i) {
			r.fail(i, setting.Text{}, "%s is %v", term, v)
			return
		}
	}
}

// missing says whether a row lacks a value.
func (r *raw) missing(row int) bool {
	for j := range r.columns {
		if math.IsNaN(r.block.Col(j)[row]) {
			return true
		}
	}
	return false
}

func (r *raw) fail(row int, advice setting.Text, format string, args ...any) {
	if r.err == nil {
		r.err = &dataset.Error{File: r.table, Msg: "row " + strconv.Itoa(r.rows+row+1) + ": " +
			fmt.Sprintf(format, args...), Advice: advice}
	}
}
