package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/npy"
)

// The files in testdata were written by numpy 2 (numpy.lib.format.write_array).
func TestNPYFromNumpy(t *testing.T) {
	real := [][]float64{{1.5, -2, 3}, {4, 5.25, -6}}
	signed := [][]float64{{1, -2, 3}, {4, 5, -6}}
	unsigned := [][]float64{{1, 2, 3}, {4, 5, 6}}
	for name, want := range map[string][][]float64{
		"v1": real, "v2": real, "v3": real, "fortran": real, "big-endian": real, "float32": real, "float32-big-fortran": real,
		"int-i1": signed, "int-i2": signed, "int-i4": signed, "int-i8": signed,
		"int-big-i2": signed, "int-big-i4": signed, "int-big-i8": signed,
		"uint-u1": unsigned, "uint-u2": unsigned, "uint-u4": unsigned, "uint-u8": unsigned,
		"bool": {{1, 0, 1}, {0, 1, 0}},
	} {
		src, err := Open(filepath.Join("testdata", name+".npy"), Selection{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for pass := range 2 {
			got, err := readAll(src)
			if err != nil {
				t.Errorf("%s, pass %d: %v", name, pass, err)
			} else if diff := cmp.Diff(&table{[]string{"x1", "x2"}, "y", want}, got); diff != "" {
				t.Errorf("%s, pass %d: %s", name, pass, diff)
			}
		}
	}
	for name, want := range map[string]string{
		"object":    `values of type "|O"`,
		"complex":   `values of type "<c16"`,
		"string":    `values of type "<U1"`,
		"half":      `values of type "<f2"`,
		"records":   "an array of records",
		"one-dim":   "an array of 1 dimensions",
		"three-dim": "an array of 3 dimensions",
		"zero-dim":  "an array of 0 dimensions",
		"no-rows":   "an array of 0 rows and 3 columns",
	} {
		path := filepath.Join("testdata", name+".npy")
		if _, err := Open(path, Selection{}); err == nil || !strings.HasPrefix(err.Error(), path+": "+want) {
			t.Errorf("%s: error %v, want %s…", name, err, want)
		}
	}
}

// Records of numbers of one type are a table whose columns have names, whatever stands in them.
func TestNPYNames(t *testing.T) {
	names := []string{"age", "it's, 'shape': (9, 9)"}
	for _, file := range []string{"named", "named-float32"} {
		src, err := Open(filepath.Join("testdata", file+".npy"), Selection{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(src)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&table{names, "dose (mg)", [][]float64{{1.5, -2, 3}, {4, 5.25, -6}}}, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	for header, want := range map[string]string{
		"{'descr': [('a', '<f8'), ('b', '<f4')], 'fortran_order': False, 'shape': (2,), }":          `an array of records, want one number type for all columns, not "<f8" and "<f4"`,
		"{'descr': [('a', '<f8'), ('b', '<f8', (2,))], 'fortran_order': False, 'shape': (2,), }":    "an array of records",
		"{'descr': [('a', '<f8'), ('a', '<f8')], 'fortran_order': False, 'shape': (2,), }":          `the column name "a" is that of field 1 already`,
		"{'descr': [('a', '<f8'), ('b', '<f8')], 'fortran_order': False, 'shape': (2, 1), }":        "an array of 3 dimensions",
		"{'descr': [('a', '<f8'), ('b', [('c', '<f8')])], 'fortran_order': False, 'shape': (2,), }": "an array of records",
		"{'descr': [('a', '<c8'), ('b', '<c8')], 'fortran_order': False, 'shape': (2,), }":          `values of type "<c8"`,
	} {
		_, err := NewReader("t.npy", bytes.NewReader(npyFile(header, 32)), Selection{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", header, err, want)
		}
	}
}

// TestNPYLetters: numpy writes names in ISO 8859-1 where that has their letters, in version 1, and in UTF-8 else, in version 3.
func TestNPYLetters(t *testing.T) {
	const header = "{'descr': [('%s', '<f8'), ('y', '<f8')], 'fortran_order': False, 'shape': (2,), }"
	latin := npyFile(fmt.Sprintf(header, "gr\xf6\xdfe"), 32)
	utf8 := npyFile(fmt.Sprintf(header, "\u5e45\u00f6"), 32)
	utf8 = slices.Concat(utf8[:6], []byte{3, 0}, utf8[8:10], []byte{0, 0}, utf8[10:])
	for want, file := range map[string][]byte{"gr\u00f6\u00dfe": latin, "\u5e45\u00f6": utf8} {
		src, err := NewReader("t.npy", bytes.NewReader(file), Selection{})
		if err != nil {
			t.Fatal(err)
		}
		if got := src.Schema().Features[0]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// npyFile is a file of the given header and so many bytes of 0.
func npyFile(header string, zeros int) []byte {
	head := []byte(npy.Magic + "\x01\x00\x00\x00" + header + "\n")
	binary.LittleEndian.PutUint16(head[8:], uint16(len(header)+1))
	return append(head, make([]byte, zeros)...)
}

func TestNPYFaults(t *testing.T) {
	const good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
	shape := func(s string) string { return strings.Replace(good, "(2, 3)", s, 1) }
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"cut short":        {npyFile(good, 47), "117 bytes, want 118 for 2 rows and 3 columns: the file is cut short"},
		"something behind": {npyFile(good, 49), "119 bytes, want 118"},
		"no array":         {npyFile(good, 0), "70 bytes, want 118"},
		"32 GiB":           {npyFile(shape("(4294967296, 1)"), 0), "79 bytes, want 34359738447"},
		"columns":          {npyFile(shape("(1, 4294967296)"), 0), "an array of 1 rows and 4294967296 columns is too large"},
		"overflow":         {npyFile(shape("(9223372036854775807, 3)"), 0), "an array of 9223372036854775807 rows and 3 columns is too large"},
		"beyond int64":     {npyFile(shape("(99999999999999999999, 3)"), 0), "shape (99999999999999999999, 3) is out of range"},
		"negative":         {npyFile(shape("(-2, 3)"), 48), "the header lacks"},
		"no dictionary":    {npyFile("nothing", 48), "the header lacks"},
		"magic alone":      {[]byte(npy.Magic), "the header is cut short"},
		"half a header":    {npyFile(good, 0)[:40], "the header is cut short"},
		"version 4":        {append([]byte(npy.Magic), 4, 0, 0, 0), "NPY version 4"},
		"header of 4 GiB":  {append([]byte(npy.Magic), 2, 0, 255, 255, 255, 255), "a header of 4294967295 bytes"},
		"one column":       {npyFile(shape("(2, 1)"), 16), "no feature columns"},
		"no magic":         {[]byte("a,y\n1,2\n"), "not an NPY file"},
		"empty":            {nil, "not an NPY file"},
	} {
		path := filepath.Join(t.TempDir(), "data.npy")
		if err := os.WriteFile(path, test.content, 0o666); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(path, Selection{})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.HasPrefix(err.Error(), path+": "+test.want) {
			t.Errorf("%s: error %v, want %s…", name, err, test.want)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

func TestNPYBadCells(t *testing.T) {
	content := npyFile("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 48)
	binary.LittleEndian.PutUint64(content[len(content)-24:], math.Float64bits(math.NaN()))
	binary.LittleEndian.PutUint64(content[len(content)-8:], math.Float64bits(math.Inf(-1)))
	path := filepath.Join(t.TempDir(), "data.npy")
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	src, err := Open(path, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	want := path + `:2:1: NaN in column "x1" is not a finite decimal number; 2 such cells: 2:1 NaN, 2:3 Inf; correct or remove them`
	if _, err := readAll(src); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	// A column that is not selected may hold anything.
	src, err = Open(path, Selection{Features: []string{"x2"}, Target: "x1", Drop: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(src); err == nil || !strings.Contains(err.Error(), ":2:1: NaN") || strings.Contains(err.Error(), "Inf") {
		t.Errorf("error %v", err)
	}
}

// TestNPYBadCellsOfBlocks: rows that come by whole blocks are looked at as any others,
// values and weights, and the blocks that come after a bad one as well.
func TestNPYBadCellsOfBlocks(t *testing.T) {
	const rows = 3*model.BlockRows + 5
	for _, c := range []struct {
		row, column int
		v           float64
		weights     string
		want        string
	}{
		{300, 1, math.NaN(), "", `:301:2: NaN in column "x2" is missing`},
		{300, 2, math.Inf(1), "", `:301:3: Inf in column "y" is not a finite decimal number`},
		{rows - 1, 0, math.NaN(), "", fmt.Sprintf(`:%d:1: NaN in column "x1"`, rows)},
		{300, 2, -1, "y", `:301:3: -1 in column "y" is a weight below 0`},
		{300, 1, 1e300, "", ""},
	} {
		content := npyFile(fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 3), }", rows), 24*rows)
		table := content[len(content)-24*rows:]
		for i := range 3 * rows {
			binary.LittleEndian.PutUint64(table[8*i:], math.Float64bits(1))
		}
		binary.LittleEndian.PutUint64(table[8*(3*c.row+c.column):], math.Float64bits(c.v))
		path := filepath.Join(t.TempDir(), "data.npy")
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		sel := Selection{}
		if c.weights != "" {
			sel = Selection{Target: "x2", Roles: Roles{model.Weights: c.weights}}
		}
		src, err := Open(path, sel)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(src); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), path+c.want)) {
			t.Errorf("row %d, %v: error %v, want %s", c.row, c.v, err, c.want)
		}
	}
}

// A stream has no size to compare with: what is missing is found when it ends.
func TestNPYStream(t *testing.T) {
	content, err := os.ReadFile("testdata/v1.npy")
	if err != nil {
		t.Fatal(err)
	}
	src, err := NewReader("stdin", bytes.NewBuffer(content), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(src); err != nil || len(got.Rows) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	src, err = NewReader("stdin", bytes.NewBuffer(content[:len(content)-9]), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(src); err == nil || err.Error() != "stdin:2: the file ends in row 2 of 2" {
		t.Errorf("cut short: error %v", err)
	}
	content, err = os.ReadFile("testdata/fortran.npy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader("stdin", bytes.NewBuffer(content), Selection{}); err == nil || !strings.Contains(err.Error(), "column-major") {
		t.Errorf("column-major: error %v", err)
	}
}

// An array with just the features is a table without a target where that is
// allowed.
func TestNPYWithoutTarget(t *testing.T) {
	sel := Selection{Features: []string{"x1", "x2", "x3"}, Target: "y", Optional: true}
	src, err := Open("testdata/v1.npy", sel)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(src)
	if err != nil {
		t.Fatal(err)
	}
	if got.Target != "" || got.Rows[0][2] != 3 {
		t.Errorf("%+v", got)
	}
}

// numbers is a matrix of every kind of float64, ends of blocks included.
func numbers(n, d int) (*mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(5, 6))
	special := []float64{0, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-310, 1e21, 1e-7, 123456789, 0.1}
	x := mat.NewDense(n, d, nil)
	y := make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
			if rng.IntN(10) == 0 {
				x.Set(i, j, special[rng.IntN(len(special))])
			}
		}
		y[i] = rng.NormFloat64()
	}
	return x, y
}

// What is written as CSV and as NPY is read back to the bit, by reads of any
// size, row-major and column-major.
func TestFormatsHoldTheSameBits(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{1, model.BlockRows - 1, model.BlockRows, model.BlockRows + 1, 3*model.BlockRows + 17} {
		x, y := numbers(n, 3)
		src := Matrix(x, y)
		want, err := Load(ctx, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"data.csv", "data.npy"} {
			path := filepath.Join(t.TempDir(), name)
			if err := Write(ctx, path, src); err != nil {
				t.Fatal(err)
			}
			file, err := Open(path, Selection{})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // passes
				got, err := Load(ctx, file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmp.Comparer(sameBits)); diff != "" {
					t.Errorf("%s, n = %d: %s", name, n, diff)
				}
			}
		}
		for _, size := range []int64{1, 100, 1000, readSize} {
			for _, fortran := range []bool{false, true} {
				got := &model.Data{D: 3}
				if err := npyInPieces(x, y, size, fortran, got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmp.Comparer(sameBits)); diff != "" {
					t.Errorf("n = %d, reads of %d, column-major %v: %s", n, size, fortran, diff)
				}
			}
		}
	}
}

// npyInPieces reads the array of x and y with reads of the given size.
func npyInPieces(x *mat.Dense, y []float64, size int64, fortran bool, into *model.Data) error {
	n, d := x.Dims()
	var array []byte
	at := func(i, j int) float64 {
		if j == d {
			return y[i]
		}
		return x.At(i, j)
	}
	for k := range n * (d + 1) {
		v := at(k/(d+1), k%(d+1))
		if fortran {
			v = at(k%n, k/n)
		}
		array = binary.LittleEndian.AppendUint64(array, math.Float64bits(v))
	}
	decode := func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
	lay, err := Selection{}.apply("", 0, Names(d, true).Columns())
	if err != nil {
		return err
	}
	h := &npyHeader{rows: int64(n), cols: int64(d + 1), fortran: fortran, size: 8, decode: decode}
	pass := &npyPass{h: h, layout: lay, chunk: size, out: newBlocks(lay.schema, func(b *model.Block) error {
		into.N += b.N
		into.Blocks = append(into.Blocks, model.Block{N: b.N, X: slices.Clone(b.X), Y: slices.Clone(b.Y)})
		return nil
	})}
	r := bytes.NewReader(array)
	return pass.read(context.Background(), r, r)
}

func FuzzNPY(f *testing.F) {
	files, err := filepath.Glob("testdata/*.npy")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "data.npy")
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := Open(path, Selection{})
		if err != nil {
			return
		}
		got, err := readAll(src)
		if err != nil {
			return
		}
		// What a stream makes of the same bytes is the same.
		stream, err := NewReader("data.npy", bytes.NewReader(content), Selection{})
		if err != nil {
			if strings.Contains(err.Error(), "column-major") {
				return
			}
			t.Fatal(err)
		}
		again, err := readAll(stream)
		if err != nil || !cmp.Equal(got, again, cmp.Comparer(sameBits)) {
			t.Fatalf("file: %v, stream: %v, %v", got, again, err)
		}
		if len(got.Rows) > len(content) {
			t.Fatalf("%d rows from %d bytes", len(got.Rows), len(content))
		}
	})
}

func TestOpenTellsFormatsApart(t *testing.T) {
	npy, err := os.ReadFile("testdata/v1.npy")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "array.csv")
	if err := os.WriteFile(path, npy, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Selection{}); err != nil {
		t.Errorf("an array under another name: %v", err)
	}
	for magic, format := range map[string]string{"BZh9": "bzip2", "PK\x03\x04": "zip"} {
		_, err := NewReader("data", bytes.NewBufferString(magic+"…"), Selection{})
		if want := fmt.Sprintf("data: a %s", format); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v", format, err)
		}
	}
}
