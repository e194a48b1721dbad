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

// badCells collects the cells of a table that are not finite numbers: the
// places of the first few and the number of all.
type badCells struct {
	first []cell
	total int
}

type cell struct {
	line, col int
	column    string
	text      string
	negative  bool // a weight below 0
}

func (b *badCells) add(c cell) {
	if len(b.first) < maxShown {
		b.first = append(b.first, c)
	}
	b.total++
}

// err returns the error that names what was collected, or nil.
func (b *badCells) err(file string) error {
	if b.total == 0 {
		return nil
	}
	c := b.first[0]
	msg := fmt.Sprintf("%s in column %q is not a finite decimal number", c.text, c.column)
	if c.negative {
		msg = fmt.Sprintf("%s in column %q is a weight below 0", c.text, c.column)
	}
	if strings.Contains(c.text, ",") {
		msg += "; a decimal comma? write 1.5"
	}
	if b.total > 1 {
		msg += fmt.Sprintf("; %d such cells: %s", b.total, b.places())
	}
	return &Error{File: file, Line: c.line, Col: c.col, Msg: msg + "; correct or remove them"}
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
