package dataset

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gatedlearning/moe/internal/setting"
)

// Column is what the cells of a column are.
type Column struct {
	Name  string
	Cells [Word + 1]int  // how many there are of each kind
	Words map[string]int // the rows of every text that is neither missing nor, but where all are asked for, a number
	Full  bool           // there are more texts than Words holds
	all   bool           // numbers are texts
}

// maxWords and maxWord bound what is kept of a column's texts.
const (
	maxWords = MaxColumns // texts
	maxWord  = 1 << 10    // bytes of one
)

// Levels returns the texts of the column in byte order.
func (c *Column) Levels() []string { return slices.Sorted(maps.Keys(c.Words)) }

// Commonest returns the text of the most rows, of several the first in byte order.
func (c *Column) Commonest() string {
	best := ""
	for _, level := range c.Levels() {
		if best == "" || c.Words[level] > c.Words[best] {
			best = level
		}
	}
	return best
}

// Inspect says what stands in the selected columns of a CSV table, in the order of
// Schema.Columns, in its first rows, or in all for rows = 0. Of rows with a missing
// cell nothing counts if the selection drops them. Of the columns named in all the
// numbers are texts too. A format that holds numbers only has no columns to inspect:
// the result is nil.
func Inspect(ctx context.Context, src Source, rows int, all []string) ([]Column, error) {
	if f, ok := src.(*first); ok {
		columns, err := Inspect(ctx, f.src, rows, all)
		if columns != nil {
			columns = slices.Delete(columns, f.d, len(f.src.Schema().Features))
		}
		return columns, err
	}
	s, ok := src.(*csvSource)
	if !ok {
		return nil, nil
	}
	c, closer, err := s.open()
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	columns := make([]Column, len(s.layout.schema.Columns()))
	for j, name := range s.layout.schema.Columns() {
		columns[j] = Column{Name: name, Words: make(map[string]int), all: slices.Contains(all, name)}
	}
	texts := make([][]byte, len(columns))
	for n := 0; rows == 0 || n < rows; n++ {
		rec, line, _, err := c.next()
		if err == io.EOF {
			break
		}
		if err == nil && n%1024 == 0 {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		fields, err := c.split(rec, line)
		if err != nil {
			return nil, err
		}
		if len(rec) == 0 {
			continue // at the end, or a fault that the reading names
		}
		if len(fields) != len(s.layout.place) {
			return nil, s.layout.ragged(len(fields), line)
		}
		for f, field := range fields {
			if j := s.layout.place[f]; j >= 0 {
				texts[j] = field.text
			}
		}
		if err := s.layout.count(columns, texts, line); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// count counts the cells of one row.
func (l *layout) count(columns []Column, texts [][]byte, line int) error {
	kinds := make([]Kind, len(texts))
	for j, text := range texts {
		if kinds[j] = KindOf(text, l.point); kinds[j] == Missing && l.absent == Drop {
			return nil
		}
	}
	for j, text := range texts {
		c := &columns[j]
		c.Cells[kinds[j]]++
		_, known := c.Words[string(text)]
		if msg := notText(text); !known && msg != "" {
			return &Error{File: l.schema.Name, Line: line, Col: slices.Index(l.place, j) + 1,
				Msg: fmt.Sprintf("the cell %s of column %q %s", quoteCell(text), c.Name, msg)}
		}
		switch {
		case kinds[j] == Missing, kinds[j] == Number && !c.all:
		case known || len(c.Words) < maxWords && len(text) <= maxWord:
			c.Words[string(text)]++
		case len(text) > maxWord:
			return &Error{File: l.schema.Name, Line: line,
				Msg: fmt.Sprintf("a cell of %d bytes in column %q: words of more than %d are no levels", len(text),
					c.Name, maxWord),
				Advice: setting.Textf("leave it out with %s", setting.Key("drop"))}
		default:
			c.Full = true
		}
	}
	return nil
}
