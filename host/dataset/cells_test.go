package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
)

// Every fault of a cell or a row in full: the place, what it is, and what is to be done.
func TestFaultsInFull(t *testing.T) {
	words := Selection{Words: map[string]Words{"a": {Levels: []string{"10", "20"}, Unseen: -1}}}
	for _, test := range []struct {
		text string
		sel  Selection
		want string
	}{
		{"a,y\n1,2\n1,5,2,5\n", Selection{}, "data.csv:3: 4 fields, want 2; decimal commas? write 1.5, or part the fields by semicolons and give decimal: ,"},
		{"a,y\n1,2\n1,5,2\n", Selection{}, "data.csv:3: 3 fields, want 2"},
		{"a,y\n1,2\n\"3\",\n", Selection{}, `data.csv:3:2: an empty cell in column "y" is missing; 1 missing cell in 1 row and 1 column; missing: drop leaves such rows out`},
		{"a,y\n1,2\n3\"4,\"5\n", Selection{}, "data.csv:3:2: text after a closing quote; a quote inside quotes is written twice"},
		{"a,y\n1,2\n\",5\",4\n", Selection{}, `data.csv:3:1: ",5" in column "a" is not a finite decimal number; a decimal comma? write 1.5, or give decimal: ,; correct or remove them`},
		{"a,y\n1,2\n2,\"1,460\"\n", Selection{}, `data.csv:3:2: "1,460" in column "y" is not a finite decimal number; a comma between thousands? write 1460; a decimal comma? give decimal: ,; correct or remove them`},
		{"a,y\n1,2\n2,\"1460,25\"\n", Selection{}, `data.csv:3:2: "1460,25" in column "y" is not a finite decimal number; a decimal comma? write 1.5, or give decimal: ,; correct or remove them`},
		{"\n1\n", Selection{}, "data.csv:1:1: the column has no name"},
		{"a,\n1,2\n", Selection{}, "data.csv:1:2: the column has no name"},
		{"a,y\nF,1\nM,2\nNA,3\n", Selection{}, `data.csv:2:1: column "a" holds words, such as "F", and no number; leave it out with drop: a, or take each word as a level with categorical: a`},
		{"a,y\n1,F\n2,M\n", Selection{}, `data.csv:2:2: column "y" holds words, such as "F", and no number; it is the target, which must be a number; target names another`},
		{"a,y\nF,1\nM,2\nNAn,3\n", Selection{}, `data.csv:4:1: "NAn" is no word, and no number either; column "a" holds words, such as "F", in 2 of 3 rows; a missing value? write NA, or nothing; missing: drop then leaves its row out; correct what is no word, or take all that stands in the column as levels with categorical: a`},
		{"a,y\nNAn,1\nM,2\nF,3\n", Selection{}, `data.csv:2:1: "NAn" is no word, and no number either; column "a" holds words, such as "M", in 2 of 3 rows; a missing value? write NA, or nothing; missing: drop then leaves its row out; correct what is no word, or take all that stands in the column as levels with categorical: a`},
		{"a,y\nF,1\nM,2\n7,3\n", Selection{}, `data.csv:2:1: column "a" holds words, such as "F", in 2 of 3 rows, and numbers in 1; correct what is no word, or take all that stands in the column as levels with categorical: a`},
		{"a,y\n1,1\n2,2\nN/A,3\n", Selection{}, `data.csv:4:1: "N/A" in column "a" is not a finite decimal number; a missing value? write NA, or nothing; missing: drop then leaves its row out; correct or remove them, or take all that stands in the column as levels with categorical: a`},
		{"a,y\n1,1\n0x10,2\n", Selection{Optional: true}, `data.csv:3:1: "0x10" in column "a" is not a finite decimal number; the model has numbers there; write numbers, as 1 and 0 for yes and no`},
		{"a,y\nTrue,1\nFalse,2\n", Selection{Optional: true}, `data.csv:2:1: "True" in column "a" is not a finite decimal number; the model has numbers there; write numbers, as 1 and 0 for yes and no`},
		{"a,y\n,1\n2,2\n", Selection{Optional: true}, `data.csv:2:1: an empty cell in column "a" is missing; 1 missing cell in 1 row and 1 column; missing: drop goes on without such rows`},
		{"a,y\nF,1\n2,2\n", Selection{}, `data.csv:2:1: "F" in column "a" is not a finite decimal number; correct or remove them, or take all that stands in the column as levels with categorical: a`},
		{"a,b,y\nNA,1,1\nNA,x,2\n", Selection{}, `data.csv:2:1: "NA" in column "a" is not a finite decimal number; 3 such cells: 2:1 "NA", 3:1 "NA", 3:2 "x"; correct or remove them`},
		{"a,y\n12345678901234567x90,1\n3,4\n", Selection{}, `data.csv:2:1: "12345678901234567x90" in column "a" is not a finite decimal number; correct or remove them, or take all that stands in the column as levels with categorical: a`},
		{"a,y\n12345678901234567x901,1\n3,4\n", Selection{}, `data.csv:2:1: "12345678901234567x90"… in column "a" is not a finite decimal number; correct or remove them, or take all that stands in the column as levels with categorical: a`},
		{"a,y\nNA,1\nNA,2\n", Selection{Absent: Drop}, `data.csv: column "a" has no value in any row; leave it out with drop: a`},
		{"a,w,y\n1,-1.25,3\n", Selection{Roles: Roles{model.Weights: "w"}}, `data.csv:2:2: "-1.25" in column "w" is a weight below 0; correct or remove them`},
		{"a,y\n10,1\n30,2\n", words, `data.csv:3:1: "30" in column "a" is none of the levels that the model was fitted with, "10", "20"; correct it, or take it for the reference with unseen: reference`},
	} {
		for _, size := range readSizes {
			if _, err := parseCSV(test.text, test.sel, size); err == nil || err.Error() != test.want {
				t.Errorf("%q, reads of %d: error %v, want %s", test.text, size, err, test.want)
			}
		}
	}
	_, err := Load(t.Context(), WeightedMatrix(mat.NewDense(2, 1, []float64{1, 2}), []float64{3, 4}, []float64{1, -1.25}))
	if want := `matrix:2:3: -1.25 in column "weight" is a weight below 0; correct or remove them`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Words that look like numbers are words where they are said to be; tabs are blanks but
// where they part fields; the first row decides what parts them.
func TestCSVColumnsAsSaid(t *testing.T) {
	for _, test := range []struct {
		text string
		sel  Selection
		want *table
	}{
		{"g,y\n20,1\n10,2\n", Selection{Words: map[string]Words{"g": {Levels: []string{"10", "20"}, Unseen: -1}}}, &table{[]string{"g"}, "y", [][]float64{{1, 1}, {0, 2}}}},
		{"a,b,y\n\"1\"\t,\t\"2\" ,3\n", Selection{}, &table{[]string{"a", "b"}, "y", [][]float64{{1, 2, 3}}}},
		{"a\tb\ty\n\"1\"\t\"2\"\t3\n", Selection{}, &table{[]string{"a", "b"}, "y", [][]float64{{1, 2, 3}}}},
		{"alpha,beta;gamma,delta,epsilon\n1;2\n", Selection{}, &table{[]string{"alpha,beta"}, "gamma,delta,epsilon", [][]float64{{1, 2}}}},
		{"a,b;y\n1,5;3\n", Selection{Decimal: ','}, &table{[]string{"a,b"}, "y", [][]float64{{1.5, 3}}}},
		{",2019,2020\n0,1,2\n", Selection{}, &table{[]string{"2019"}, "2020", [][]float64{{1, 2}}}},
	} {
		for _, size := range readSizes {
			got, err := parseCSV(test.text, test.sel, size)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%q, reads of %d: error %v %s", test.text, size, err, diff)
			}
		}
	}
	if got := separator([]byte("a,b;c"), []byte("1"), '.'); got != ',' {
		t.Errorf("as many commas as semicolons: %q", got)
	}
	if got := separator([]byte("a"), nil, '.'); got != ',' {
		t.Errorf("one column: %q", got)
	}
	for text, want := range map[string]Kind{
		"2020-01-31T12:30:00.123456789+01:00":  Date,
		"2020-01-31T12:30:00.1234567890+01:00": Word,
	} {
		if got := KindOf([]byte(text), '.'); got != want {
			t.Errorf("%q is of kind %d, want %d", text, got, want)
		}
	}
	if got, want := headerLine([]string{"a", " b", "c ", "d,e", `f"g`, "h i"}), "a,\" b\",\"c \",\"d,e\",\"f\"\"g\",h i\n"; got != want {
		t.Errorf("header %q, want %q", got, want)
	}
}

// The room for records grows with the longest of them only, and no further than to maxRecord.
func TestRecordsRoom(t *testing.T) {
	c := newRecords("data.csv", strings.NewReader(strings.Repeat("1,2,3,4\n", 1000)), 64)
	n := 0
	for ; ; n++ {
		rec, line, quoted, err := c.next()
		if err == io.EOF {
			break
		}
		if err != nil || string(rec) != "1,2,3,4" || line != n+1 || quoted {
			t.Fatalf("record %d: %q in line %d, quoted %v, error %v", n, rec, line, quoted, err)
		}
	}
	if n != 1000 || len(c.buf) != 64 {
		t.Errorf("%d records with room of %d bytes, want 1000 with 64", n, len(c.buf))
	}
	c = newRecords("data.csv", strings.NewReader("a;b\n\n"+strings.Repeat("1;2\n", 100)), 16)
	if _, _, _, err := c.next(); err != nil {
		t.Fatal(err)
	}
	if rec := c.peek(); rec == nil || len(rec) != 0 || len(c.buf) != 16 {
		t.Errorf("an empty record is %q, with room of %d bytes", rec, len(c.buf))
	}
	c = newRecords("data.csv", &endless{'7', 2 * maxRecord}, maxRecord-1000)
	if _, _, _, err := c.next(); err == nil || !strings.HasPrefix(err.Error(), "data.csv:1: a row of more than 16 MiB") || len(c.buf) != maxRecord {
		t.Errorf("error %v, with room of %d bytes", err, len(c.buf))
	}
}

// A sum of weights is bounded, a weight of 0 is one.
func TestWeightBounds(t *testing.T) {
	for _, test := range []struct {
		w    float64
		good bool
	}{
		{1e-300, true}, {1e300, true}, {math.Nextafter(1e-300, 0), false}, {math.Nextafter(1e300, math.Inf(1)), false},
	} {
		_, err := Load(t.Context(), WeightedMatrix(mat.NewDense(2, 1, []float64{1, 2}), []float64{3, 4}, []float64{0, test.w}))
		if (err == nil) != test.good || err != nil && !strings.Contains(err.Error(), `the weights in column "weight" add up to`) {
			t.Errorf("a sum of %v: error %v", test.w, err)
		}
	}
}

// A CSV file whose names change between opening and reading is refused.
func TestCSVNamesChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.csv")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("a,b,y\n1,2,3\n")
	src, err := Open(path, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	write("b,a,y\n1,2,3\n")
	if _, err := readAll(src); err == nil || err.Error() != path+":1: the column names have changed since the file was opened" {
		t.Errorf("error %v", err)
	}
	write("a,b,y\n4,5,6\n")
	if got, err := readAll(src); err != nil || !cmp.Equal(got.Rows, [][]float64{{4, 5, 6}}) {
		t.Errorf("%v, error %v", got, err)
	}
}

// unsized can seek, and has no end, as the files of /proc.
type unsized struct{ io.Reader }

func (unsized) Seek(int64, int) (int64, error) { return 0, nil }

func TestSeekerWithoutEnd(t *testing.T) {
	src, err := NewReader("data.csv", unsized{strings.NewReader("a,y\n1,2\n")}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(src); err != nil || !cmp.Equal(got.Rows, [][]float64{{1, 2}}) {
		t.Errorf("%v, error %v", got, err)
	}
}

// A compressed file may grow to 64 MiB, and beyond to a hundred times its size; what is
// shorter than a magic number is a table like others.
func TestCompressedLimits(t *testing.T) {
	read := func(in, out int64) error {
		d := &decompressor{ReadCloser: io.NopCloser(strings.NewReader("7")), name: "data.csv", format: "gzip", in: &counter{n: in}, out: out - 1}
		_, err := d.Read(make([]byte, 1))
		return err
	}
	const n = freeGrowth / 100 * 101
	for _, test := range []struct {
		in, out int64
		good    bool
	}{
		{1, freeGrowth, true}, {1, freeGrowth + 1, false}, {n / 100, n, true}, {n/100 - 1, n, false},
	} {
		if err := read(test.in, test.out); (err == nil) != test.good {
			t.Errorf("%d bytes grown to %d: error %v", test.in, test.out, err)
		}
	}
	for text, want := range map[string]string{"": "data.csv.gz: empty file", "x,y": "data.csv.gz:1: no rows"} {
		src, err := NewReader("data.csv.gz", strings.NewReader(string(compressed(t, "gzip", text))), Selection{})
		if err == nil {
			_, err = readAll(src)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %s…", text, err, want)
		}
	}
}

// The most columns are 65536, the longest list of names that is shown whole has 12.
func TestSelectionLimits(t *testing.T) {
	names := Names(MaxColumns, false).Features
	if _, err := (Selection{}).apply("data.csv", 1, names); err != nil {
		t.Errorf("%d columns: error %v", len(names), err)
	}
	if _, err := (Selection{}).apply("data.csv", 1, append(names, "y")); err == nil || err.Error() != "data.csv:1: 65537 columns, want at most 65536" {
		t.Errorf("error %v", err)
	}
	if got, want := shorten(names[:12]), "x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12"; got != want {
		t.Errorf("12 names: %s", got)
	}
	if got, want := shorten(names[:14]), "x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, …, x14"; got != want {
		t.Errorf("14 names: %s", got)
	}
	four := []string{"a", "b", "c", "d"}
	if lay, err := (Selection{Features: []string{"a"}, Drop: []string{"d"}}).apply("data.csv", 1, four); err != nil || lay.schema.Target != "c" {
		t.Errorf("features named and the last dropped: error %v", err)
	}
	if _, err := (Selection{Drop: []string{"d"}}).apply("data.csv", 1, four); err == nil || !strings.HasPrefix(err.Error(), `column "d" is dropped, the last`) {
		t.Errorf("the last dropped: error %v", err)
	}
	for _, test := range []struct {
		rows, cols int64
		good       bool
	}{
		{1, MaxColumns, true}, {1, MaxColumns + 1, false}, {math.MaxInt64 / 8 / 1000, 1000, true}, {math.MaxInt64/8/1000 + 1, 1000, false},
		{0, 1, false}, {1, 0, false},
	} {
		if err := new(npyHeader).setShape([]int64{test.rows, test.cols}); (err == nil) != test.good {
			t.Errorf("%d×%d: error %v", test.rows, test.cols, err)
		}
	}
}

// huge is a table that says how large it is and has nothing.
type huge struct{ *Table }

func (huge) rows() int64 { return 1 << 60 }

func TestLoadAsksForAllRows(t *testing.T) {
	_, err := Load(t.Context(), huge{Matrix(mat.NewDense(1, 3, nil), []float64{1})})
	if short := (*memory.Error)(nil); !errors.As(err, &short) || short.Need != 32*(1<<60) {
		t.Errorf("error %v", err)
	}
}

// In a column-major array the row of a bad cell is named, wherever the pieces end.
func TestNPYColumnMajorPlaces(t *testing.T) {
	const rows = 600
	content := npyFile(fmt.Sprintf("{'descr': '<f8', 'fortran_order': True, 'shape': (%d, 3), }", rows), 24*rows)
	for _, row := range []int{1, 255, 256, 599} {
		damaged := append([]byte(nil), content...)
		copy(damaged[len(content)-24*rows+8*(rows+row):], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}) // NaN
		src, err := NewReader("data.npy", strings.NewReader(string(damaged)), Selection{})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`data.npy:%d:2: NaN in column "x2" is missing; 1 missing cell`, row+1)
		if err := src.Read(context.Background(), func(*model.Block) error { return nil }); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
}

// TestGzipPadded: a gzip file with zeros behind it, as tapes leave them, and one of several
// members, are read as gzip reads them; anything else behind it is damage.
func TestGzipPadded(t *testing.T) {
	head, tail := compressed(t, "gzip", "x,y\n1,2\n"), compressed(t, "gzip", "3,5\n4,1\n")
	zeros := make([]byte, 70_000)
	for name, c := range map[string]struct {
		data []byte
		rows int // −1: refused
	}{
		"plain":         {head, 1},
		"zeros":         {slices.Concat(head, zeros), 1},
		"one zero":      {slices.Concat(head, zeros[:1]), 1},
		"members":       {slices.Concat(head, tail), 3},
		"members apart": {slices.Concat(head, zeros, tail, zeros), 3},
		"garbage":       {slices.Concat(head, []byte("garbage")), -1},
		"cut":           {slices.Concat(head, tail[:len(tail)-3]), -1},
		"damaged":       {slices.Concat(head, tail[:len(tail)-8], zeros[:8]), -1},
	} {
		rows := 0
		src, err := NewReader("data.csv.gz", bytes.NewReader(c.data), Selection{})
		if err == nil {
			err = src.Read(t.Context(), func(b *model.Block) error { rows += b.N; return nil })
		}
		if bad := (*Error)(nil); c.rows >= 0 && (err != nil || rows != c.rows) || c.rows < 0 && !errors.As(err, &bad) {
			t.Errorf("%s: %d rows, %v; want %d", name, rows, err, c.rows)
		}
	}
}
