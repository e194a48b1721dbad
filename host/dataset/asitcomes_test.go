package dataset

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// TestSeparators: fields are parted by what parts them in the header and the first
// row, and decimals may have commas.
func TestSeparators(t *testing.T) {
	want := &table{Features: []string{"a", "b"}, Target: "y", Rows: [][]float64{{1.5, 2, -3e-2}, {4, 12345678901234567890.5, 6}}}
	for name, c := range map[string]struct {
		text    string
		decimal byte
	}{
		"semicolons":            {"a;b;y\n1.5;2;-3e-2\n4;12345678901234567890.5;6\n", 0},
		"tabs":                  {"a\tb\ty\n1.5\t2\t-3e-2\n4\t12345678901234567890.5\t6\n", 0},
		"decimal commas":        {"a;b;y\n1,5;2;-3e-2\n4,0;12345678901234567890,5;6\n", ','},
		"tabs, decimal commas":  {"a\tb\ty\n1,5\t2,\t-3,0e-2\n4\t12345678901234567890,5\t6,0\n", ','},
		"quoted decimal commas": {"a,b,y\n\"1,5\",2,-3e-2\n4,\"12345678901234567890,5\",6\n", ','},
		"quotes":                {"\"a\";\"b\";\"y\"\r\n\"1.5\"; \"2\" ;-3e-2\r\n4;12345678901234567890.5;6", 0},
	} {
		for _, size := range readSizes {
			got, err := parseCSV(c.text, Selection{Decimal: c.decimal}, size)
			if err != nil {
				t.Errorf("%s, reads of %d: %v", name, size, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, reads of %d: %s", name, size, diff)
			}
		}
	}
	// A comma or a semicolon in a name parts nothing where the rows have none.
	for _, text := range []string{"size, cm;a;b;y\n1;2;3;4\n", "a;b,c;d,y\n1,2,3\n"} {
		if _, err := parseCSV(text, Selection{}, readSize); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestIndexColumn: the column without a name that pandas and R write is called row,
// left out and said; who wants it can have it.
func TestIndexColumn(t *testing.T) {
	const text = ",x,y\n0,1,2\n1,3,5\n"
	src, err := NewReader("data.csv", strings.NewReader(text), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if s := src.Schema(); !cmp.Equal(s.Features, []string{"x"}) || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "called row, and left out") {
		t.Errorf("schema %+v", s)
	}
	src, err = NewReader("data.csv", strings.NewReader(text), Selection{Features: []string{"row", "x"}})
	if err != nil || len(src.Schema().Notes) != 0 {
		t.Fatalf("error %v, notes %q", err, src.Schema().Notes)
	}
	if got, err := readAll(src); err != nil || got.Rows[1][0] != 1 {
		t.Errorf("rows %v, error %v", got, err)
	}
}

// TestMissing: rows with missing cells are refused with their number, left out or
// kept, alike in a text and an array.
func TestMissing(t *testing.T) {
	const text = "a,b,y\n1,2,3\nNA,,4\n5,6,null\n7,8,9\n"
	read := func(sel Selection) (*table, Source, error) {
		src, err := NewReader("data.csv", strings.NewReader(text), sel)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(src)
		return got, src, err
	}
	want := `data.csv:3:1: "NA" in column "a" is missing; 3 missing cells in 2 rows and 3 columns: 3:1 "NA", 3:2 an empty cell, 4:3 "null"; missing: drop leaves such rows out`
	if _, _, err := read(Selection{}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	got, src, err := read(Selection{Absent: Drop})
	if err != nil || !cmp.Equal(got.Rows, [][]float64{{1, 2, 3}, {7, 8, 9}}) || Dropped(src) != 2 {
		t.Errorf("dropping: %v, error %v, %d dropped", got, err, Dropped(src))
	}
	if got, _, err = read(Selection{Absent: Keep}); err != nil || !math.IsNaN(got.Rows[1][1]) || !math.IsNaN(got.Rows[2][2]) || got.Rows[3][0] != 7 {
		t.Errorf("keeping: %v, error %v", got, err)
	}
	// A target may be missing where the table may lack one; a feature may not.
	if _, _, err = read(Selection{Optional: true, Target: "y"}); err == nil || !strings.Contains(err.Error(), "2 missing cells in 1 row and 2 columns") {
		t.Errorf("an optional target: error %v", err)
	}
	if got, _, err = read(Selection{Optional: true, Target: "y", Absent: Drop}); err != nil || len(got.Rows) != 3 || !math.IsNaN(got.Rows[1][2]) {
		t.Errorf("an optional target, dropping: %v, error %v", got, err)
	}
	for text, want := range map[string]string{
		"a,y\nNA,1\n2,\n":        "data.csv: each of the 2 rows has a missing cell: none is left",
		"a,b,y\n1,NA,1\n2,,NA\n": `data.csv: column "b" has no value in any row; leave it out with drop: b`,
	} {
		src, err = NewReader("data.csv", strings.NewReader(text), Selection{Absent: Drop})
		if err == nil {
			_, err = readAll(src)
		}
		if err == nil || err.Error() != want {
			t.Errorf("all rows dropped: %v, want %s", err, want)
		}
	}
}

// TestKinds: numbers in another spelling are no words, and dates are dates.
func TestKinds(t *testing.T) {
	for kind, texts := range map[Kind][]string{
		Number:  {"1", "-2.5e3", "+.5", "007"},
		Missing: {"", "NA", "NaN", "null"},
		Spelled: {"1,5", "1_000", "0x1p3", "1e999", "Inf", "-inf", "1.234,5", "1 000", "5%", "$5", "1,234.50", "+Infinity"},
		Date:    {"2020-01-31", "31.01.2020", "1/31/2020", "2020-01-31 12:30:00", "2020-01-31T12:30:00Z", "12:30", "3 Jan 2020"},
		Word:    {"F", "male", "1a", "1-5", "north west", "-", "?", "12b", "<5", "Na", "e5", "10-12", "1;5"},
	} {
		for _, text := range texts {
			if got := KindOf([]byte(text), '.'); got != kind {
				t.Errorf("%q is of kind %d, want %d", text, got, kind)
			}
		}
	}
	if KindOf([]byte("1,5"), ',') != Number || KindOf([]byte("1.5"), ',') != Spelled {
		t.Error("decimal commas")
	}
}

func compressed(t testing.TB, format, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if format == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&out); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCompressed: a compressed CSV file is the table that it holds, from a file and
// from a stream; cut short or damaged it is an error.
func TestCompressed(t *testing.T) {
	text := "x,y\n" + strings.Repeat("1.25,2\n3,4.5\n", 2000)
	want, err := parseCSV(text, Selection{}, readSize)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"gzip", "zstd"} {
		data := compressed(t, format, text)
		for _, r := range []io.Reader{bytes.NewReader(data), bytes.NewBuffer(data)} {
			src, err := NewReader("data.csv.gz", r, Selection{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(src); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s: error %v", format, err)
			}
			if _, seeks := r.(io.Seeker); seeks {
				if got, err := readAll(src); err != nil || !cmp.Equal(got, want) {
					t.Errorf("%s, again: error %v", format, err)
				}
			}
		}
		fails := func(data []byte, want string) {
			t.Helper()
			src, err := NewReader("data.csv.gz", bytes.NewReader(data), Selection{})
			if err == nil {
				_, err = readAll(src)
			}
			if f := (*Error)(nil); !errors.As(err, &f) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: error %v, want %s…", format, err, want)
			}
		}
		fails(data[:len(data)-9], "data.csv.gz: "+format+": the file is cut short")
		fails(data[:5], "data.csv.gz: "+format+": the file is cut short")
		fails(compressed(t, format, "PAR1 and more"), "data.csv.gz: "+format+": it holds no CSV file")
		damaged := bytes.Clone(data)
		damaged[len(damaged)/2] ^= 0xff
		fails(damaged, "data.csv.gz: ")
	}
}

// TestBomb: a file of some hundred thousand bytes does not grow to a gigabyte.
func TestBomb(t *testing.T) {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "x,y\n")
	rows := bytes.Repeat([]byte("1,2\n"), 1<<18)
	for range 200 { // 200 MiB
		w.Write(rows)
	}
	w.Close()
	d, err := decompress("data.csv.zst", "\x28\xb5\x2f\xfd", bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, d)
	if f := (*Error)(nil); !errors.As(err, &f) || !strings.Contains(err.Error(), "more than 100 times as many") || n > freeGrowth+1<<20 {
		t.Errorf("%d of %d bytes, error %v", n, out.Len(), err)
	}
}
