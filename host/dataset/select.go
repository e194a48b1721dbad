package dataset

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/setting"
)

// Selection says which columns of a table are the target and the features. The
// zero value takes the last column as the target and all others, in the file's
// order, as the features.
type Selection struct {
	Target   string   // "" for the last column
	Features []string // in this order; empty for all but the target
	Drop     []string // columns that are neither
	Roles    Roles    // columns that are neither, and what they are
	Optional bool     // a table may lack the columns of target and trials, or a value of theirs, which then is NaN

	Absent  Absent           // what becomes of rows with missing cells
	Words   map[string]Words // columns of a CSV file that are read as words
	Decimal byte             // between a number's digits in a CSV file, ',' or '.'; 0 is '.'
}

// Words says how a column of words is read: a cell has the place of its text among
// Levels, counted from 0, as its number.
type Words struct {
	Levels []string
	Unseen int // the number of a cell that is none of them; below 0: it is an error
}

// dictionary is [Words] made ready.
type dictionary struct {
	levels map[string]float64
	unseen int
	names  string // of the levels, for errors
	ids    *IDs   // that stand in the place of levels; nil for levels
}

func (w Words) dictionary() *dictionary {
	d := &dictionary{levels: make(map[string]float64, len(w.Levels)), unseen: w.Unseen, names: quoteAll(w.Levels)}
	for i, level := range w.Levels {
		d.levels[level] = float64(i)
	}
	return d
}

func (s Selection) point() byte { return cmp.Or(s.Decimal, '.') }

// tally counts the rows that a pass left out.
type tally struct{ dropped int }

// Dropped returns how many rows with missing cells the last pass left out.
func (t *tally) Dropped() int { return t.dropped }

// Dropped returns how many rows with missing cells the last pass over src left out.
func Dropped(src Source) int {
	if t, ok := src.(interface{ Dropped() int }); ok {
		return t.Dropped()
	}
	return 0
}

// MaxColumns is the most columns that a table may have. It bounds the memory
// that a file's first bytes can ask for: a block of this many takes 128 MiB.
const MaxColumns = 1 << 16

// Check returns a *[SelectionError] if s contradicts itself, whatever the table.
func (s Selection) Check() error {
	feature := make(map[string]bool, len(s.Features))
	for _, name := range s.Features {
		switch {
		case name == s.Target:
			return &SelectionError{Msg: fmt.Sprintf("column %q is both a feature and the target", name)}
		case slices.Contains(s.Drop, name):
			return &SelectionError{Msg: fmt.Sprintf("column %q is both a feature and dropped", name)}
		case feature[name]:
			return &SelectionError{Msg: fmt.Sprintf("column %q is named twice among the features", name)}
		}
		feature[name] = true
	}
	if s.Target != "" && slices.Contains(s.Drop, s.Target) {
		return &SelectionError{Msg: fmt.Sprintf("column %q is both the target and dropped", s.Target)}
	}
	return s.Roles.check(s)
}

// layout maps the columns of a file to those of a table.
type layout struct {
	schema Schema
	names  []string // of all columns of the file
	place  []int    // of each column of the file in a row of the table; −1 for none

	words        []*dictionary // of each column of the table; nil for numbers
	absent       Absent
	optional     bool // a target may be missing
	comma, point byte // of a CSV file
}

// inOrder says whether the columns of the table are those of the file, in its order.
func (l *layout) inOrder() bool {
	for c, column := range l.place {
		if c != column {
			return false
		}
	}
	return true
}

// blocks gathers the rows of a table with this layout.
func (l *layout) blocks(fn func(*model.Block) error) *blocks {
	out := newBlocks(l.schema, fn)
	out.absent, out.targets = l.absent, l.optional
	return out
}

// apply finds the selected columns among a file's. line is where their names
// stand, 0 for a file that has none.
func (s Selection) apply(file string, line int, names []string) (*layout, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if len(names) > MaxColumns {
		return nil, &Error{File: file, Line: line, Msg: fmt.Sprintf("%d columns, want at most %d", len(names),
			MaxColumns)}
	}
	if err := checkNames(file, line, names); err != nil {
		return nil, err
	}
	if last := names[len(names)-1]; s.Target == "" && len(s.Features) == 0 && slices.Contains(s.Drop, last) {
		return nil, &SelectionError{
			Msg:    fmt.Sprintf("column %q is dropped, the last, which would be the target", last),
			Advice: setting.Textf("name another with %s", setting.Key("target"))}
	}
	schema := Schema{Name: file, Target: s.target(names), Roles: s.Roles}
	if trials := s.Roles[model.Trials]; s.Optional && !slices.Contains(names, trials) {
		schema.Roles[model.Trials] = ""
		if trials != "" { // of which the target says nothing without
			schema.Target = ""
		}
	}
	schema.Features = s.features(names, schema.Target)
	wanted := append(schema.Columns(), s.Drop...)
	if missing := without(wanted, names); len(missing) > 0 {
		return nil, &Error{File: file, Line: line, Msg: fmt.Sprintf("no column %s; there are %s", quoteAll(missing),
			shorten(names))}
	}
	if len(schema.Features) == 0 {
		return nil, &Error{File: file, Line: line,
			Msg: fmt.Sprintf("no feature columns: want at least one beside the target %q%s", schema.Target,
				separatorHint(names))}
	}
	if s.Target == "" && schema.Target != "" && len(s.Features) == 0 && slices.Contains(schema.Features, "y") {
		schema.Notes = append(schema.Notes, fmt.Sprintf("the target is %s, the last column, and y is a feature: name "+
			"the target if that is not meant", schema.Target))
	}
	lay := &layout{schema: schema, names: names, place: make([]int, len(names)), absent: s.Absent, optional: s.Optional,
		comma: ',', point: s.point()}
	place := make(map[string]int, len(names))
	lay.words = make([]*dictionary, len(schema.Columns()))
	for j, name := range schema.Columns() {
		place[name] = j
		if w, ok := s.Words[name]; ok {
			lay.words[j] = w.dictionary()
		}
	}
	for i, name := range names {
		j, ok := place[name]
		if !ok {
			j = -1
		}
		lay.place[i] = j
	}
	return lay, nil
}

// target is the target's name, "" for a table without one.
func (s Selection) target(names []string) string {
	if s.Optional && !slices.Contains(names, s.Target) {
		return ""
	}
	if s.Target != "" {
		return s.Target
	}
	rest := without(names, slices.Concat(s.Drop, s.Features, s.Roles.Columns()))
	if len(rest) == 0 {
		return names[len(names)-1]
	}
	return rest[len(rest)-1]
}

func (s Selection) features(names []string, target string) []string {
	if len(s.Features) > 0 {
		return slices.Clone(s.Features)
	}
	return without(names, slices.Concat([]string{target}, s.Roles.Columns(), s.Drop))
}

func checkNames(file string, line int, names []string) error {
	seen := make(map[string]int, len(names))
	for i, name := range names {
		fault := &Error{File: file, Line: line, Col: i + 1}
		first, twice := seen[name]
		switch {
		case name == "":
			fault.Msg = "the column has no name"
		case notText([]byte(name)) != "":
			fault.Msg = fmt.Sprintf("the column name %q %s", name, notText([]byte(name)))
		case twice:
			fault.Msg = fmt.Sprintf("the column name %q is that of field %d already", name, first)
		}
		if fault.Msg != "" {
			return fault
		}
		seen[name] = i + 1
	}
	return nil
}

// notText says why no model's file can hold a name or a word; "" where it can.
func notText(text []byte) string {
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return "holds a NUL character; save the file as UTF-8 without it"
	case !utf8.Valid(text):
		return "is not UTF-8; save the file as UTF-8"
	}
	return ""
}

// separatorHint explains a file whose only column's name holds a separator
// that is not a comma.
func separatorHint(names []string) string {
	if len(names) == 1 && strings.ContainsAny(names[0], "|: ") {
		return "; fields are parted by commas, semicolons or tabs"
	}
	return ""
}

// without returns those of names that are not among others, in order.
func without(names, others []string) []string {
	drop := make(map[string]bool, len(others))
	for _, name := range others {
		drop[name] = true
	}
	var rest []string
	for _, name := range names {
		if !drop[name] {
			rest = append(rest, name)
		}
	}
	return rest
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return shorten(quoted)
}

// shorten joins names, leaving out the middle of a long list.
func shorten(names []string) string {
	const most = 12
	if len(names) > most {
		names = slices.Concat(names[:most-1], []string{"…"}, names[len(names)-1:])
	}
	return strings.Join(names, ", ")
}
