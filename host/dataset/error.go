package dataset

import (
	"fmt"
	"strings"
)

// Error is a fault of a data file. Line counts from 1 (in NPY files and
// matrices it is the row), Col is the field in the line, from 1; both are 0
// where the fault has no such place.
type Error struct {
	File string
	Line int
	Col  int
	Msg  string
}

// Error returns "file:line:col: message", without the parts that are 0.
func (e *Error) Error() string {
	file := e.File
	if file == "" {
		file = "matrix"
	}
	return place(file, e.Line, e.Col) + ": " + e.Msg
}

func place(file string, line, col int) string {
	switch {
	case line == 0:
		return file
	case col == 0:
		return fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Sprintf("%s:%d:%d", file, line, col)
}

// SelectionError is a [Selection] that contradicts itself.
type SelectionError struct{ Msg string }

func (e *SelectionError) Error() string { return e.Msg }

// maxShown is the number of bad cells whose places an error lists.
const maxShown = 10

// badCells collects the cells of a table that cannot be read: the places of the
// first few and the number of all.
type badCells struct {
	first   []cell
	total   int
	missing int          // of them, those where no value is
	rows    int          // that have a missing cell
	row     int          // the last of them, counted from 1
	columns map[int]*odd // by the field in the line
}

// odd counts the bad cells of a column.
type odd struct{ missing, words int }

type cell struct {
	line, col int
	column    string
	text      string
	kind      Kind
	why       string // what is wrong with it; "" for its kind
	remedy    string // what is to be done about it; "" for correcting or removing it
	comma     bool   // it holds a comma where a point is the decimal sign
}

// add notes a bad cell of the given row, counted from 1.
func (b *badCells) add(row int, c cell) {
	if len(b.first) < maxShown {
		b.first = append(b.first, c)
	}
	b.total++
	if b.columns == nil {
		b.columns = make(map[int]*odd)
	}
	o := b.columns[c.col]
	if o == nil {
		o = new(odd)
		b.columns[c.col] = o
	}
	switch {
	case c.why != "":
	case c.kind == Missing:
		o.missing++
		b.missing++
		if row != b.row {
			b.rows, b.row = b.rows+1, row
		}
	case c.kind == Word:
		o.words++
	}
}

// err returns the error that names what was collected in so many rows, or nil.
func (b *badCells) err(file string, rows int, target string) error {
	if b.total == 0 {
		return nil
	}
	c, remedy := b.first[0], "correct or remove them"
	msg := fmt.Sprintf("%s in column %q is not a finite decimal number", c.text, c.column)
	switch {
	case b.missing == b.total:
		columns := 0
		for _, o := range b.columns {
			columns += min(o.missing, 1)
		}
		msg = fmt.Sprintf("%s in column %q is missing; %s in %s and %s", c.text, c.column,
			count(b.missing, "missing cell"), count(b.rows, "row"), count(columns, "column"))
		if b.total > 1 {
			msg += ": " + b.places()
		}
		return &Error{File: file, Line: c.line, Col: c.col, Msg: msg + "; --missing drop leaves such rows out"}
	case c.why != "":
		msg = fmt.Sprintf("%s in column %q is %s", c.text, c.column, c.why)
		if c.remedy != "" {
			remedy = c.remedy
		}
	case b.columns[c.col].words > 0 && b.columns[c.col].words+b.columns[c.col].missing == rows:
		msg = fmt.Sprintf("column %q holds words, such as %s, and no number", c.column, c.text)
		remedy = fmt.Sprintf("leave it out with --drop %s, or take each word as a level with --categorical %s",
			c.column, c.column)
		if c.column == target {
			remedy = "it is the target, which must be a number; --target names another"
		}
		return &Error{File: file, Line: c.line, Col: c.col, Msg: msg + "; " + remedy}
	case c.kind == Word && c.column != target:
		remedy = fmt.Sprintf("correct or remove them, or take all that stands in the column as levels with "+
			"--categorical %s", c.column)
	case c.comma && isGrouped(strings.Trim(c.text, `"`)):
		msg += "; a comma between thousands? write " + strings.ReplaceAll(strings.Trim(c.text, `"`), ",", "") +
			"; a decimal comma? give --decimal ,"
	case c.comma:
		msg += "; a decimal comma? write 1.5, or give --decimal ,"
	default:
		msg += c.kind.hint()
	}
	if b.total > 1 {
		msg += fmt.Sprintf("; %d such cells: %s", b.total, b.places())
	}
	return &Error{File: file, Line: c.line, Col: c.col, Msg: msg + "; " + remedy}
}

// count is so many of something in words: 1 row, 2 rows.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

func (b *badCells) places() string {
	shown := make([]string, len(b.first))
	for i, c := range b.first {
		shown[i] = fmt.Sprintf("%d:%d %s", c.line, c.col, c.text)
	}
	if b.total > len(b.first) {
		shown = append(shown, "…")
	}
	return strings.Join(shown, ", ")
}

// quoteCell shows a cell's text, shortened, on one line.
func quoteCell(text []byte) string {
	const most = 20
	if len(text) == 0 {
		return "an empty cell"
	}
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
