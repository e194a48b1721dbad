package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Prefix begins what names a table's file where an activation is named.
const Prefix = "table:"

// MaxSize is the size in bytes of the largest file.
const MaxSize = 1 << 20

// Is says whether the name of an activation is that of a table's file.
func Is(name string) bool { return strings.HasPrefix(name, Prefix) }

// Error is a file that is no table.
type Error struct {
	File string
	Line int // from 1; 0 where the fault has none
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Open reads the table in the CSV file at path. A file that is none is an [*Error].
func Open(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads a table from CSV, which errors call name.
func Read(r io.Reader, name string) (*Table, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, err
	}
	return Parse(text, name)
}

// Parse returns the table in CSV text, which errors call name: a line with the names z, g and, where
// slopes are known, dg, in any order, then a line for each point, z ascending. Columns lower and upper, of
// intervals of g, are no part of the function.
func Parse(text []byte, name string) (*Table, error) {
	fail := func(line int, format string, args ...any) error {
		return &Error{name, line, fmt.Sprintf(format, args...)}
	}
	switch {
	case len(text) > MaxSize:
		return nil, fail(0, "more than %d bytes; a table has no more", MaxSize)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return nil, fail(0, "no text; want a CSV file with the columns z, g and, where it is known, dg")
	}
	lines := strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	columns, err := header(lines[0])
	if err != nil {
		return nil, fail(1, "%v", err)
	}
	var points [5][]float64
	var at []int // the lines of the points
	for i, line := range lines[1:] {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(at) == MaxPoints {
			return nil, fail(i+2, "more than %d points", MaxPoints)
		}
		fields := strings.Split(line, ",")
		if len(fields) != len(columns) {
			return nil, fail(i+2, "%d fields, want %d", len(fields), len(columns))
		}
		for j, field := range fields {
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
			if err != nil || v-v != 0 {
				return nil, fail(i+2, "%s is %s, want a finite decimal number", names[columns[j]], quoted(field))
			}
			points[columns[j]] = append(points[columns[j]], v)
		}
		at = append(at, i+2)
	}
	t, err := New(points[0], points[1], points[2])
	if bad := (*PointError)(nil); errors.As(err, &bad) {
		if bad.Point == 0 {
			return nil, fail(0, "%s", bad.Msg)
		}
		return nil, fail(at[bad.Point-1], "%s", bad.Msg)
	}
	return t, err
}

// names are those of the columns.
var names = [5]string{"z", "g", "dg", "lower", "upper"}

// header returns which of the names each column has.
func header(line string) ([]int, error) {
	var columns []int
	seen := [len(names)]bool{}
	for _, field := range strings.Split(strings.TrimSpace(line), ",") {
		name := strings.Trim(strings.TrimSpace(field), `"`)
		i := 0
		for i < len(names) && names[i] != name {
			i++
		}
		if name == "g'" || name == "g′" {
			i = 2
		}
		if i == len(names) {
			return nil, fmt.Errorf("a column %s; want the names z, g and, where it is known, dg in the first line",
				quoted(name))
		}
		if seen[i] {
			return nil, fmt.Errorf("column %s is named twice", names[i])
		}
		seen[i] = true
		columns = append(columns, i)
	}
	if !seen[0] || !seen[1] {
		return nil, errors.New("want the names z, g and, where it is known, dg in the first line")
	}
	return columns, nil
}

func quoted(text string) string {
	const most = 20
	if short := []rune(text); len(short) > most {
		return fmt.Sprintf("%q…", string(short[:most]))
	}
	return strconv.Quote(text)
}

// WriteCSV writes the points of t with their slopes, from which [Parse] makes the same function.
func (t *Table) WriteCSV(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("z,g,dg\n")
	for i, z := range t.data.Z {
		for j, v := range []float64{z, t.data.G[i], t.data.Slopes[i]} {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}
