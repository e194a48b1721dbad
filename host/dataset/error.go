package dataset

import (
	"fmt"
	"strings"

	"github.com/gatedlearning/moe/internal/setting"
)

// Error is a fault of a data file. Line counts from 1 (in NPY files and
// matrices it is the row), Col is the field in the line, from 1; both are 0
// where the fault has no such place.
type Error struct {
	File string
	Line int
	Col  int
	Msg  string
	// what may be meant and what to do, with the settings of a fit or a prediction that do it; the zero value where Msg
	// has it
	Advice setting.Text
}

// Error returns "file:line:col: message; advice", without the parts that are 0.
func (e *Error) Error() string { return e.Worded(setting.InFile) }

// Worded is the error with its settings in other words.
func (e *Error) Worded(as setting.Words) string {
	file := e.File
	if file == "" {
		file = "matrix"
	}
	return place(file, e.Line, e.Col) + ": " + advised(e.Msg, e.Advice, as)
}

// advised is a message with the advice, where there is one.
func advised(msg string, advice setting.Text, as setting.Words) string {
	if advice.IsZero() {
		return msg
	}
	return msg + "; " + advice.Worded(as)
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
type SelectionError struct {
	Msg    string
	Advice setting.Text // as that of [Error]
}

func (e *SelectionError) Error() string { return e.Worded(setting.InFile) }

// Worded is the error with its settings in other words.
func (e *SelectionError) Worded(as setting.Words) string { return advised(e.Msg, e.Advice, as) }

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
type odd struct {
	missing, words int
	word, neither  cell // the first that is a word, and that is neither one nor missing; without a line where none is
}

type cell struct {
	line, col int
	column    string
	text      string
	kind      Kind
	why       string       // what is wrong with it; "" for its kind
	remedy    setting.Text // what is to be done about it; zero for correcting or removing it
	comma     bool         // it holds a comma where a point is the decimal sign
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
		if o.words++; o.words == 1 {
			o.word = c
		}
	case o.neither.line == 0:
		o.neither = c
	}
}

// err returns the error that names what was collected in so many rows, or nil. Of a table that a fitted model reads a
// column is a feature already, and stays what it was in the fit.
func (b *badCells) err(file string, rows int, target string, fitted bool) error {
	if b.total == 0 {
		return nil
	}
	c, remedy, hint := b.first[0], setting.Textf("correct or remove them"), setting.Text{}
	fault := &Error{File: file, Line: c.line, Col: c.col,
		Msg: fmt.Sprintf("%s in column %q is not a finite decimal number", c.text, c.column)}
	switch {
	case b.missing == b.total:
		columns := 0
		for _, o := range b.columns {
			columns += min(o.missing, 1)
		}
		fault.Msg = fmt.Sprintf("%s in column %q is missing; %s in %s and %s", c.text, c.column,
			count(b.missing, "missing cell"), count(b.rows, "row"), count(columns, "column"))
		if b.total > 1 {
			fault.Msg += ": " + b.places()
		}
		fault.Advice = setting.Textf("%s leaves such rows out", setting.To("missing", "drop"))
		if fitted {
			fault.Advice = setting.Textf("%s goes on without such rows", setting.To("missing", "drop"))
		}
		return fault
	case c.why != "":
		fault.Msg = fmt.Sprintf("%s in column %q is %s", c.text, c.column, c.why)
		if !c.remedy.IsZero() {
			remedy = c.remedy
		}
	case fitted && c.kind == Word && c.column != target && !c.absent():
		fault.Advice = setting.Textf("the model has numbers there; write numbers, as 1 and 0 for yes and no")
		return fault
	case b.columns[c.col].words > 0 && b.columns[c.col].words+b.columns[c.col].missing == rows:
		fault.Msg = fmt.Sprintf("column %q holds words, such as %s, and no number", c.column, c.text)
		fault.Advice = setting.Textf("leave it out with %s, or take each word as a level with %s",
			setting.To("drop", c.column), setting.To("categorical", c.column))
		if c.column == target {
			fault.Advice = setting.Textf("it is the target, which must be a number; %s names another",
				setting.Key("target"))
		}
		return fault
	case !fitted && c.kind != Missing && c.column != target && 2*b.columns[c.col].words > rows:
		return b.columns[c.col].amongWords(fault, rows)
	case !fitted && c.kind == Word && c.column != target:
		remedy = setting.Textf("correct or remove them, or take all that stands in the column as levels with %s",
			setting.To("categorical", c.column))
	case c.comma && isGrouped(strings.Trim(c.text, `"`)):
		hint = setting.Textf("a comma between thousands? write %s; a decimal comma? give %s",
			strings.ReplaceAll(strings.Trim(c.text, `"`), ",", ""), commas)
	case c.comma:
		hint = setting.Textf("a decimal comma? write 1.5, or give %s", commas)
	default:
		hint = c.kind.hint()
	}
	if c.absent() {
		hint = absentHint
	}
	if b.total > 1 {
		remedy = setting.Textf("%d such cells: %s; %s", b.total, b.places(), remedy)
	}
	if fault.Advice = remedy; !hint.IsZero() {
		fault.Advice = setting.Textf("%s; %s", hint, remedy)
	}
	return fault
}

// amongWords is the error of a column that holds words in most rows: what is odd is what is none.
func (o *odd) amongWords(fault *Error, rows int) *Error {
	words := fmt.Sprintf("column %q holds words, such as %s, in %d of %s", o.word.column, o.word.text, o.words,
		count(rows, "row"))
	fault.Advice = setting.Textf("correct what is no word, or take all that stands in the column as levels with %s",
		setting.To("categorical", o.word.column))
	if o.neither.line == 0 {
		fault.Msg = fmt.Sprintf("%s, and numbers in %d", words, rows-o.words-o.missing)
		return fault
	}
	fault.Line = o.neither.line
	fault.Msg = fmt.Sprintf("%s is no word, and no number either; %s", o.neither.text, words)
	if o.neither.absent() {
		fault.Advice = setting.Textf("%s; %s", absentHint, fault.Advice)
	}
	return fault
}

// absent says whether a cell may be meant for a missing one, and is none by the way it is written.
func (c cell) absent() bool {
	switch strings.ToLower(strings.Trim(c.text, `"`)) {
	case "na", "nan", "n/a", "#n/a", "none", "nil", "null", "nat", "missing", ".", "-", "?":
		return c.kind != Missing && c.why == ""
	}
	return false
}

// absentHint says how a missing cell is written.
var absentHint = setting.Textf("a missing value? write NA, or nothing; %s then leaves its row out",
	setting.To("missing", "drop"))

// Unseen is what to do about a level that a model was not fitted with.
var Unseen = setting.Textf("correct it, or take it for the reference with %s", setting.To("unseen", "reference"))

// commas has commas read between the digits of a number.
var commas = setting.To("decimal", ",")

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
