package dataset

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/model"
)

// table is a source's content in plain form.
type table struct {
	Features []string
	Target   string
	Rows     [][]float64 // features, then the target
}

// readAll reads a source and checks the shape of its blocks on the way.
func readAll(src Source) (*table, error) {
	schema := src.Schema()
	out := &table{Features: schema.Features, Target: schema.Target}
	short := false
	err := src.Read(context.Background(), func(b *model.Block) error {
		switch {
		case short:
			return errors.New("a block follows a short one")
		case b.N < 1 || b.N > model.BlockRows || len(b.X) != b.N*len(schema.Features):
			return fmt.Errorf("a block of %d rows and %d values", b.N, len(b.X))
		case (b.Y == nil) != (schema.Target == "") || (b.Y != nil && len(b.Y) != b.N):
			return fmt.Errorf("%d targets of %d rows", len(b.Y), b.N)
		}
		short = b.N < model.BlockRows
		for i := range b.N {
			var row []float64
			for j := range schema.Features {
				row = append(row, b.Col(j)[i])
			}
			if b.Y != nil {
				row = append(row, b.Y[i])
			}
			out.Rows = append(out.Rows, row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// parseCSV parses text with reads of the given size.
func parseCSV(text string, sel Selection, size int) (*table, error) {
	c := newRecords("data.csv", strings.NewReader(text), size)
	head, err := readHeader(c, sel.point())
	if err != nil {
		return nil, err
	}
	lay, err := sel.ofCSV("data.csv", head)
	if err != nil {
		return nil, err
	}
	return readAll(&csvSource{layout: lay, open: func() (*records, io.Closer, error) { return c, io.NopCloser(nil), nil }})
}

var readSizes = []int{16, 17, 64, 1000, readSize}

func TestCSVReads(t *testing.T) {
	want := &table{Features: []string{"a", "b"}, Target: "y", Rows: [][]float64{{1, 2, 3}, {-4.5, 5e-3, 6e10}}}
	for name, text := range map[string]string{
		"plain":              "a,b,y\n1,2,3\n-4.5,5e-3,6e10\n",
		"no last line end":   "a,b,y\n1,2,3\n-4.5,5e-3,6e10",
		"CRLF":               "a,b,y\r\n1,2,3\r\n-4.5,5e-3,6e10\r\n",
		"byte order mark":    "\xef\xbb\xbfa,b,y\n1,2,3\n-4.5,5e-3,6e10\n",
		"blanks":             "a, b ,\ty\n 1 ,2, 3\n-4.5,\t5e-3,6e10 \n",
		"quotes":             "\"a\",b,\"y\"\n\"1\",2,3\n-4.5,\" 5e-3 \",6e10\n",
		"blanks and quotes":  "a,b, \"y\" \n1, \"2\" ,3\n-4.5,5e-3,6e10\n",
		"empty last lines":   "a,b,y\n1,2,3\n-4.5,5e-3,6e10\n\n\r\n\n",
		"signs and zeros":    "a,b,y\n+1,002,3.\n-4.50,.005,+6E+10\n",
		"quoted line end":    "a,b,y\n\"\n1\",2,3\n-4.5,5e-3,6e10\n",
		"mark before quotes": "\xef\xbb\xbf\"a\",b,y\n1,2,3\n-4.5,5e-3,6e10\n",
	} {
		for _, size := range readSizes {
			got, err := parseCSV(text, Selection{}, size)
			if name == "quoted line end" {
				// A line end in a quoted number is blank space no number has.
				if err == nil || !strings.HasPrefix(err.Error(), "data.csv:2:1: ") {
					t.Errorf("%s, reads of %d: error %v", name, size, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, reads of %d: %v", name, size, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, reads of %d: %s", name, size, diff)
			}
		}
	}
}

// Unselected columns may hold anything, also line ends in quotes, and lines
// are still counted right.
func TestCSVLineNumbers(t *testing.T) {
	text := "id,a,y\r\n\"two\r\nlines\",1,2\r\n\"a \"\"quote\"\", and a comma\",3,4\r\nx,bad,6\r\n"
	sel := Selection{Drop: []string{"id"}}
	for _, size := range readSizes {
		_, err := parseCSV(text, sel, size)
		want := `data.csv:5:2: "bad" in column "a" is not a finite decimal number; correct or remove them, or take all that stands in the column as levels with categorical: a`
		if err == nil || err.Error() != want {
			t.Errorf("reads of %d: error %v, want %s", size, err, want)
		}
		got, err := parseCSV(strings.Replace(text, "bad", "5", 1), sel, size)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]float64{{1, 2}, {3, 4}, {5, 6}}, got.Rows); diff != "" {
			t.Errorf("reads of %d: %s", size, diff)
		}
	}
}

func TestCSVFaults(t *testing.T) {
	const two = "a,y\n1,2\n"
	for _, test := range []struct {
		text, want string
	}{
		{"", "data.csv: empty file"},
		{"a,y\n", "data.csv:1: no rows"},
		{"a,y", "data.csv:1: no rows"},
		{"a,y\n\n\n", "data.csv:1: no rows"},
		{"1,2\n3,4\n", "data.csv:1: the first line holds numbers"},
		{"a,a\n1,2\n", `data.csv:1:2: the column name "a" is that of field 1`},
		{"a,gr\xfc\xdfe,y\n1,2,3\n", `data.csv:1:2: the column name "gr\xfc\xdfe" is not UTF-8`},
		{"a,,y\n1,2,3\n", "data.csv:1:2: the column has no name"},
		{"y\n1\n", "data.csv:1: no feature columns"},
		{"a|y\n1|2\n", `data.csv:1: no feature columns: want at least one beside the target "a|y"; fields are parted by commas, semicolons or tabs`},
		{two + "3\n", "data.csv:3: 1 field, want 2"},
		{two + "3,4,5\n", "data.csv:3: 3 fields, want 2"},
		{two + "3,4,\n", "data.csv:3: 3 fields, want 2"},
		{two + "\"3\",4,5\n", "data.csv:3: 3 fields, want 2"},
		{two + "1,5,2,5\n", "data.csv:3: 4 fields, want 2"},
		{two + "\n3,4\n", "data.csv:3: an empty line between rows"},
		{two + "3,\n", "data.csv:3:2: an empty cell"},
		{two + ",4\n", "data.csv:3:1: an empty cell"},
		{two + "3,NaN\n", `data.csv:3:2: "NaN" in column "y" is missing; 1 missing cell in 1 row and 1 column; missing: drop leaves such rows out`},
		{two + "Inf,4\n", `data.csv:3:1: "Inf" in`},
		{two + "3,1e999\n", `data.csv:3:2: "1e999" in`},
		{two + "NA,4\n", `data.csv:3:1: "NA" in`},
		{two + "0x1p3,4\n", `data.csv:3:1: "0x1p3" in`},
		{two + "1_000,4\n", `data.csv:3:1: "1_000" in`},
		{two + "\"1,5\",4\n", `data.csv:3:1: "1,5" in column "a" is not a finite decimal number; a decimal comma?`},
		{two + "\"3\"x,4\n", "data.csv:3:1: text after a closing quote"},
		{two + "\"3,4\n", "data.csv:3: a quote is opened and not closed"},
		{two + "3\x00,4\n", `data.csv:3:1: "3\x00" in`},
		{"\xff\xfea\x00", "data.csv:1: the text is UTF-16"},
		{"a\x00,\x00y\x00\n\x001\x00,\x002\x00\n\x00", "data.csv:1: the text looks like UTF-16, every other byte being 0; save it as UTF-8"},
		{"\x00a\x00,\x00\xe4\x00\n\x001\x00,\x002\x00\n", "data.csv:1: the text looks like UTF-16"},
		{"a,b\x00c\n1,2\n", `data.csv:1:2: the column name "b\x00c" holds a NUL character`},
		{"a,y\r1,2\r3,4\r", "data.csv:1: the lines end in CR alone, as on old Macs; save it with line ends LF or CRLF"},
		{"a,y\r1,2", "data.csv:1: the lines end in CR alone"},
		{"a,y\r\n", "data.csv:1: no rows after the line of column names"},
		{"a,\"y\r1\"\n", "data.csv:1: no rows after the line of column names"},
		{two + "one cell that is much too long to show,4\n", `data.csv:3:1: "one cell that is muc"… in`},
	} {
		for _, size := range readSizes {
			_, err := parseCSV(test.text, Selection{}, size)
			var fault *Error
			if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%q, reads of %d: error %v, want %s…", test.text, size, err, test.want)
			} else if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q: error %q is not one line", test.text, err)
			}
		}
	}
}

// The first ten bad cells are named, all are counted, and no block follows the
// first of them.
func TestCSVBadCells(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,y\n")
	for i := range 1000 {
		if i%40 == 39 {
			text.WriteString("NA,1\n")
		} else {
			text.WriteString("1,2\n")
		}
	}
	src, err := NewReader("data.csv", strings.NewReader(text.String()), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	err = src.Read(context.Background(), func(*model.Block) error { blocks++; return nil })
	want := `data.csv:41:1: "NA" in column "a" is missing; 25 missing cells in 25 rows and 1 column: 41:1 "NA", 81:1 "NA", 121:1 "NA", ` +
		`161:1 "NA", 201:1 "NA", 241:1 "NA", 281:1 "NA", 321:1 "NA", 361:1 "NA", 401:1 "NA", …; missing: drop leaves such rows out`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if blocks != 0 {
		t.Errorf("%d blocks were handed on", blocks)
	}
}

// endless gives a byte again and again, up to a number.
type endless struct {
	c    byte
	left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = e.c
	}
	e.left -= n
	return n, nil
}

// A gigabyte without a line end, or within a quote, ends in an error before
// more than a few times the longest row is allocated.
func TestCSVWithoutLineEnds(t *testing.T) {
	for name, start := range map[string]string{"in the header": "", "in a row": "a,y\n", "in a quote": "a,y\n\""} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rest := &endless{'7', 1 << 30}
		src, err := NewReader("data.csv", io.MultiReader(strings.NewReader(start), rest), Selection{})
		if err == nil {
			_, err = Load(context.Background(), src)
		}
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "a row of more than 16 MiB") {
			t.Errorf("%s: error %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4*maxRecord {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

func TestStreamsAreReadOnce(t *testing.T) {
	src, err := NewReader("stdin", iotest.OneByteReader(strings.NewReader("a,y\n1,2\n")), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(src); err != nil || len(got.Rows) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if _, err := readAll(src); err == nil || !strings.Contains(err.Error(), "read only once") {
		t.Errorf("second pass: error %v", err)
	}
}

func TestReadErrorIsNotAFault(t *testing.T) {
	broken := errors.New("broken disk")
	src, err := NewReader("data.csv", io.MultiReader(strings.NewReader("a,y\n1,2\n"), iotest.ErrReader(broken)), Selection{})
	if err == nil {
		_, err = readAll(src)
	}
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
}

func TestReadStopsWhenCancelled(t *testing.T) {
	text := "a,y\n" + strings.Repeat("1,2\n", 3*model.BlockRows)
	src, err := NewReader("data.csv", strings.NewReader(text), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	blocks := 0
	err = src.Read(ctx, func(*model.Block) error { blocks++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || blocks != 1 {
		t.Errorf("error %v after %d blocks", err, blocks)
	}
}

func TestSelection(t *testing.T) {
	const text = "a,b,c,d\n1,2,3,4\n"
	for _, test := range []struct {
		name string
		sel  Selection
		want table
	}{
		{"last column", Selection{}, table{[]string{"a", "b", "c"}, "d", [][]float64{{1, 2, 3, 4}}}},
		{"target", Selection{Target: "b"}, table{[]string{"a", "c", "d"}, "b", [][]float64{{1, 3, 4, 2}}}},
		{"drop", Selection{Drop: []string{"d", "a"}, Target: "c"}, table{[]string{"b"}, "c", [][]float64{{2, 3}}}},
		{"features in order", Selection{Features: []string{"c", "a"}}, table{[]string{"c", "a"}, "d", [][]float64{{3, 1, 4}}}},
		{"last as feature", Selection{Features: []string{"d"}}, table{[]string{"d"}, "c", [][]float64{{4, 3}}}},
		{"no target", Selection{Target: "y", Features: []string{"a"}, Optional: true}, table{[]string{"a"}, "", [][]float64{{1}}}},
		{"optional target", Selection{Target: "c", Features: []string{"a"}, Optional: true}, table{[]string{"a"}, "c", [][]float64{{1, 3}}}},
	} {
		got, err := parseCSV(text, test.sel, readSize)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
	for _, test := range []struct {
		sel  Selection
		want string
	}{
		{Selection{Target: "y"}, `data.csv:1: no column "y"; there are a, b, c, d`},
		{Selection{Features: []string{"x", "a", "z"}}, `data.csv:1: no column "x", "z"; there are`},
		{Selection{Drop: []string{"q"}}, `data.csv:1: no column "q"`},
		{Selection{Drop: []string{"a", "b", "c"}}, `data.csv:1: no feature columns`},
		{Selection{Target: "a", Features: []string{"a"}}, `column "a" is both a feature and the target`},
		{Selection{Features: []string{"a", "a"}}, `column "a" is named twice`},
		{Selection{Features: []string{"a"}, Drop: []string{"a"}}, `column "a" is both a feature and dropped`},
		{Selection{Target: "a", Drop: []string{"a"}}, `column "a" is both the target and dropped`},
	} {
		_, err := parseCSV(text, test.sel, readSize)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: error %v, want %s…", test.sel, err, test.want)
		}
	}
}

// FuzzCSV holds the reader against encoding/csv and strconv: what they accept
// and agree to be finite decimal numbers in rows of equal length is read to
// the same bits, at any read size.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{
		"a,b\n1,2\n", "a,b\r\n1,2\r\n\r\n", "\"a\",b\n\"1\",2\n3,\"4\n\"", "a,b\n1\n", "a\n1\n\n2\n", "a,b\n\"1\"\"\",2",
		"\xef\xbb\xbfa,b\n 1 ,2e5\n", "a,b\nNaN,0x1p3\n", "a,b,c\n1,\"x\ny\",3\n4,5,6", "\"\n\",b\n1,2", "\x00,b\n1,2\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCSV(text, Selection{}, 16)
		again, errAgain := parseCSV(text, Selection{}, readSize)
		if fmt.Sprint(err) != fmt.Sprint(errAgain) || !cmp.Equal(got, again, cmp.Comparer(sameBits)) {
			t.Fatalf("reads of 16: %v, %v; of %d: %v, %v", got, err, readSize, again, errAgain)
		}
		want := referenceCSV(text)
		if want != nil && err != nil && !strings.Contains(err.Error(), "text after a closing quote") {
			t.Fatalf("error %v, want %v", err, want)
		}
		if want != nil && err == nil && !cmp.Equal(want, got.Rows, cmp.Comparer(sameBits)) {
			t.Fatalf("got %v, want %v", got.Rows, want)
		}
	})
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// referenceCSV reads text the slow way, nil where it is not a clear case.
func referenceCSV(text string) [][]float64 {
	if strings.Contains(text, "\r\r") {
		return nil // the second ends a line, the first is part of a cell
	}
	text = strings.TrimRight(strings.TrimPrefix(text, "\xef\xbb\xbf"), "\r\n")
	if strings.Contains(text, "\n\n") || strings.Contains(text, "\n\r\n") || strings.ContainsAny(text[:min(1, len(text))], "\r\n") || text == "" {
		return nil // empty lines are a fault here, and passed over there
	}
	records, err := csv.NewReader(bytes.NewReader([]byte(text))).ReadAll()
	if err != nil || len(records) < 2 || len(records[0]) < 2 {
		return nil
	}
	seen := map[string]bool{}
	allNumbers := true
	for _, name := range records[0] {
		name = strings.Trim(name, " \t")
		if name == "" || seen[name] || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			return nil // such names are refused
		}
		seen[name] = true
		allNumbers = allNumbers && decimal.MatchString(name)
	}
	if allNumbers || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") || strings.HasPrefix(text, "\xef\xbb\xbf") {
		return nil
	}
	var rows [][]float64
	for _, record := range records[1:] {
		var row []float64
		for _, cell := range record {
			cell = strings.Trim(cell, " \t")
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil || !decimal.MatchString(cell) {
				return nil
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	return rows
}
