// Package explore says what stands in a table before anything is fitted to it: the columns,
// what their cells are, which of them a fit may explain, and what would stand in its way.
package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// Table is what stands in a table.
type Table struct {
	Rows    int      `json:"rows"`
	Notes   []string `json:"notes"` // what was done that was not asked for
	Columns []Column `json:"columns"`
	Targets []string `json:"targets"` // numbers that a fit may explain, the likeliest first, at most three
}

// Kind is what the cells of a column are, missing ones apart.
type Kind string

// The kinds of columns.
const (
	Numbers Kind = "numbers"
	Words   Kind = "words"
	Mixed   Kind = "numbers and words"
	Dates   Kind = "dates"
	Spelled Kind = "numbers that are not plain decimals" // 1,460 or 12 %
	Empty   Kind = "nothing"
)

// Column is a column of a table.
type Column struct {
	Name     string   `json:"name"`
	Kind     Kind     `json:"kind"`
	Missing  int      `json:"missing"`  // cells without a value
	Distinct *int     `json:"distinct"` // different values; null for more than 4,096
	Numbers  *Summary `json:"numbers"`  // null unless all values are numbers
	Common   *Mass    `json:"common"`   // the commonest value; null where there is none
	Notes    []Note   `json:"notes"`
}

// Summary is of the numbers x of a column.
type Summary struct {
	Min  float64  `json:"min"`
	Max  float64  `json:"max"`
	Mean *float64 `json:"mean"` // null, as the two below, where a sum is beyond the largest float64
	SD   *float64 `json:"sd"`   // √(Σ(x−mean)²/n)
	Skew *float64 `json:"skew"` // Σ((x−mean)/sd)³/n; null for a constant
}

// Mass is a value and the rows that have it.
type Mass struct {
	Value string `json:"value"`
	Rows  int    `json:"rows"`
}

// Note is what is to be known of a column.
type Note string

// The notes.
const (
	Constant  Note = "one value"
	RowNumber Note = "row numbers"
	TwoValues Note = "two values"
	FewValues Note = "few values"
	Massed    Note = "many rows at one value"
	Counts    Note = "whole numbers from 0 on"
	Skewed    Note = "skewed to the right, all above 0"
	Marked    Note = "numbers, and one word"
	Levels    Note = "more levels than a factor of so many rows can have"
)

const (
	mostDistinct = 4096 // values of a column that are told apart
	few          = 10   // values, of which each has as many rows in the mean
	skewed       = 2.0
	mostLevels   = 30 // of words, with as many rows each in the mean
)

// massed are shares of the rows at one value that are a mass where they are so many times the mean
// share of a value.
var massed = map[float64]float64{0.05: 5, 0.005: 50}

// Opener opens a selection of a table.
type Opener func(dataset.Selection) (dataset.Source, error)

// Of reads a table once, or twice where it may hold words. Faults of the content are a
// *dataset.Error.
func Of(ctx context.Context, open Opener) (*Table, error) {
	src, err := open(dataset.Selection{Absent: dataset.Keep})
	if fault := (*dataset.Error)(nil); errors.As(err, &fault) {
		src, err = open(dataset.Selection{Optional: true, Absent: dataset.Keep}) // of one column
	}
	if err != nil {
		return nil, err
	}
	cells, err := dataset.Inspect(ctx, src, 0, nil)
	if err != nil {
		return nil, err
	}
	t := &Table{Notes: append([]string{}, src.Schema().Notes...)}
	if cells == nil { // a format that holds numbers only
		for _, name := range src.Schema().Columns() {
			cells = append(cells, dataset.Column{Name: name, Cells: [dataset.Word + 1]int{dataset.Number: 1}})
		}
	}
	var numbers []*Column
	for _, c := range cells {
		t.Columns = append(t.Columns, Column{Name: c.Name, Kind: kindOf(&c), Notes: []Note{}})
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Kind == Numbers {
			numbers = append(numbers, c)
			continue
		}
		c.words(&cells[i])
		t.Rows = 0
		for _, n := range cells[i].Cells {
			t.Rows += n
		}
	}
	if err := t.count(ctx, open, numbers); err != nil {
		return nil, err
	}
	if t.Rows == 0 {
		return nil, &dataset.Error{File: src.Schema().Name, Msg: "no rows"}
	}
	for i := range t.Columns {
		t.Columns[i].annotate(t.Rows)
	}
	t.Targets = t.targets()
	return t, nil
}

func kindOf(c *dataset.Column) Kind {
	number, word := c.Cells[dataset.Number] > 0, c.Cells[dataset.Word] > 0
	switch {
	case number && word:
		return Mixed
	case word:
		return Words
	case c.Cells[dataset.Spelled] > 0:
		return Spelled
	case c.Cells[dataset.Date] > 0:
		return Dates
	case number:
		return Numbers
	}
	return Empty
}

// words takes what was counted of a column that is not of numbers alone.
func (c *Column) words(cells *dataset.Column) {
	c.Missing = cells.Cells[dataset.Missing]
	if n := len(cells.Words); !cells.Full && n <= mostDistinct && cells.Cells[dataset.Number] == 0 {
		c.Distinct = &n
	}
	if text := cells.Commonest(); text != "" {
		c.Common = &Mass{text, cells.Words[text]}
	}
	if c.Kind == Mixed && len(cells.Words) == 1 {
		c.Notes = append(c.Notes, Marked)
	}
}

// counting is a column of numbers that is being read.
type counting struct {
	of           *Column
	rows         map[float64]int // of the values that are told apart
	more         bool            // there are others
	n            int
	first, last  float64
	min, max     float64
	sum, squares float64 // of x − first
	cubes        float64
	whole        bool // all are whole numbers
	up           bool // each is the one before and 1
}

func newCounting(of *Column) counting {
	return counting{of: of, rows: make(map[float64]int), min: math.Inf(1), max: math.Inf(-1), whole: true, up: true}
}

// OfNumbers says what stands in a column of numbers, which read hands to add in the order of the rows, NaN for a
// missing one.
func OfNumbers(name string, read func(add func(v float64)) error) (*Column, error) {
	c := &Column{Name: name, Kind: Numbers, Notes: []Note{}}
	counted, rows := newCounting(c), 0
	err := read(func(v float64) {
		rows++
		counted.add(v)
	})
	if err != nil {
		return nil, err
	}
	counted.finish(rows)
	c.annotate(rows)
	return c, nil
}

// count reads the columns of numbers.
func (t *Table) count(ctx context.Context, open Opener, columns []*Column) error {
	if len(columns) == 0 {
		return nil
	}
	list := make([]counting, len(columns))
	sel := dataset.Selection{Absent: dataset.Keep}
	for i, c := range columns {
		if i > 0 && i == len(columns)-1 {
			sel.Target = c.Name
		} else {
			sel.Features = append(sel.Features, c.Name)
		}
		list[i] = newCounting(c)
	}
	sel.Optional = sel.Target == ""
	src, err := open(sel)
	if err != nil {
		return err
	}
	t.Rows = 0
	err = src.Read(ctx, func(b *model.Block) error {
		t.Rows += b.N
		for j := range list {
			values := b.Y
			if j < len(sel.Features) {
				values = b.Col(j)
			}
			for _, v := range values {
				list[j].add(v)
			}
		}
		return nil
	})
	for j := range list {
		list[j].finish(t.Rows)
	}
	return err
}

func (c *counting) add(v float64) {
	if math.IsNaN(v) {
		return
	}
	if c.n == 0 {
		c.first, c.last = v, v-1
	}
	c.n++
	d := v - c.first
	c.sum, c.squares, c.cubes = c.sum+d, c.squares+d*d, c.cubes+d*d*d
	c.min, c.max = min(c.min, v), max(c.max, v)
	c.whole = c.whole && v == math.Trunc(v)
	c.up = c.up && v == c.last+1
	c.last = v
	if _, known := c.rows[v]; known || len(c.rows) < mostDistinct {
		c.rows[v]++
	} else {
		c.more = true
	}
}

func (c *counting) finish(rows int) {
	c.of.Missing = rows - c.n
	if c.n == 0 {
		c.of.Kind = Empty
		return
	}
	n := float64(c.n)
	mean := c.sum / n
	variance := max(0, c.squares/n-mean*mean)
	c.of.Numbers = &Summary{Min: c.min, Max: c.max, Mean: finite(c.first + mean), SD: finite(math.Sqrt(variance))}
	if c.min < c.max {
		third := c.cubes/n - 3*mean*c.squares/n + 2*mean*mean*mean
		c.of.Numbers.Skew = finite(third / (variance * math.Sqrt(variance)))
	}
	if distinct := len(c.rows); !c.more {
		c.of.Distinct = &distinct
	}
	common, most := 0.0, 0
	for v, k := range c.rows {
		if k > most || k == most && v < common {
			common, most = v, k
		}
	}
	c.of.Common = &Mass{fmt.Sprintf("%.6g", common), most}
	switch {
	case c.whole && c.up && c.n == rows && c.n > 2:
		c.of.Notes = append(c.of.Notes, RowNumber)
	case c.whole && c.min >= 0 && (c.more || len(c.rows) > 2):
		c.of.Notes = append(c.of.Notes, Counts)
	}
}

// finite returns nil for what is no number.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// annotate adds the notes that follow from what was counted.
func (c *Column) annotate(rows int) {
	note := func(n Note, is bool) {
		if is {
			c.Notes = append(c.Notes, n)
		}
	}
	there := rows - c.Missing
	switch c.Kind {
	case Numbers:
		distinct := mostDistinct + 1
		if c.Distinct != nil {
			distinct = *c.Distinct
		}
		note(Constant, distinct == 1)
		note(TwoValues, distinct == 2)
		fewValues := distinct > 2 && distinct <= few && there >= few*distinct
		note(FewValues, fewValues)
		mass := false
		for share, times := range massed {
			at, n := float64(c.Common.Rows), float64(there)
			mass = mass || at >= share*n && at >= times*n/float64(distinct)
		}
		note(Massed, mass && distinct > 2 && !fewValues)
		note(Skewed, c.Numbers.Min > 0 && c.Numbers.Skew != nil && *c.Numbers.Skew > skewed)
	case Words, Mixed: // of the latter only what words there are is counted
		note(Constant, c.Distinct != nil && *c.Distinct == 1)
		note(Levels, c.Distinct == nil && c.Kind == Words || c.Distinct != nil && *c.Distinct > 1 &&
			(*c.Distinct > mostLevels || 2**c.Distinct > there))
	}
}

// Has says whether a column has a note.
func (c *Column) Has(n Note) bool { return slices.Contains(c.Notes, n) }

// targets are columns of numbers that vary: the last of the table first, where it is one of many
// values, then those of the most.
func (t *Table) targets() []string {
	type candidate struct {
		name string
		rank int
	}
	list := []candidate{}
	for i, c := range t.Columns {
		if c.Kind != Numbers || c.Has(Constant) || c.Has(RowNumber) || c.Has(TwoValues) {
			continue
		}
		rank := mostDistinct + 1
		if c.Distinct != nil {
			rank = *c.Distinct
		}
		switch {
		case c.Has(FewValues):
			rank -= mostDistinct
		case i == len(t.Columns)-1:
			rank = math.MaxInt
		}
		list = append(list, candidate{c.Name, rank})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.rank, a.rank) })
	names := []string{}
	for _, c := range list[:min(3, len(list))] {
		names = append(names, c.name)
	}
	return names
}

// Fit says what a first fit of a target needs: which columns to leave out, which to take as
// factors though they hold numbers, and whether rows with missing cells are in the way.
func (t *Table) Fit(target string) (drop, categorical []string, missing bool) {
	for _, c := range t.Columns {
		switch {
		case c.Name == target:
			missing = missing || c.Missing > 0
			continue
		case c.Kind == Empty, c.Kind == Dates, c.Kind == Spelled, c.Has(Constant), c.Has(RowNumber), c.Has(Levels),
			c.Has(Marked):
			drop = append(drop, c.Name)
			continue
		case c.Kind == Mixed:
			categorical = append(categorical, c.Name)
		}
		missing = missing || c.Missing > 0
	}
	return drop, categorical, missing
}
