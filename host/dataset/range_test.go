package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// counting is the table of the rows from, from + 1 … of which row i is i, −i, i/2 and,
// with weights, i + 1, written to a file.
func counting(t *testing.T, name string, from, n int, weighted bool) Source {
	t.Helper()
	x, y, w := mat.NewDense(n, 2, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		v := float64(from + i)
		x.Set(i, 0, v)
		x.Set(i, 1, -v)
		y[i], w[i] = v/2, v+1
	}
	table, sel := Matrix(x, y), Selection{}
	if weighted {
		table, sel = WeightedMatrix(x, y, w), Selection{Target: "y", Roles: Roles{model.Weights: "weight"}}
	}
	path := t.TempDir() + "/" + name
	if err := Write(t.Context(), path, table); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".npy") && weighted { // columns are x1, x2, x3, y
		sel = Selection{Target: "x3", Roles: Roles{model.Weights: "y"}}
	}
	src, err := Open(path, sel)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// checkCounting looks at a block of a table of counting's, which begins with the row first.
func checkCounting(b *model.Block, first int) error {
	for r := range b.N {
		v := float64(first + r)
		if b.X[r] != v || b.X[b.N+r] != -v || b.Y[r] != v/2 || b.Role[model.Weights] != nil && b.Role[model.Weights][r] != v+1 {
			return fmt.Errorf("row %d of a block that begins with %d is %v, %v, %v", r, first, b.X[r], b.X[b.N+r], b.Y[r])
		}
	}
	return nil
}

// Any range of blocks is read, of files of every format and of several one behind the
// other, and rows are counted.
func TestReadRange(t *testing.T) {
	for name, test := range map[string]struct {
		src  func() Source
		rows int
	}{
		"csv": {func() Source { return counting(t, "data.csv", 0, 1000, false) }, 1000},
		"npy": {func() Source { return counting(t, "data.npy", 0, 1025, true) }, 1025},
		"parts": {func() Source {
			src, err := Concat(counting(t, "a.npy", 0, 300, false), counting(t, "b.npy", 300, 256, false), counting(t, "c.npy", 556, 200, false), counting(t, "d.npy", 756, 513, false))
			if err != nil {
				t.Fatal(err)
			}
			return src
		}, 1269},
		"whole parts": {func() Source {
			src, err := Concat(counting(t, "a.csv", 0, 512, true), counting(t, "b.csv", 512, 256, true), counting(t, "c.csv", 768, 257, true))
			if err != nil {
				t.Fatal(err)
			}
			return src
		}, 1025},
	} {
		blocks := (test.rows + 255) / 256
		for _, counted := range []bool{false, true} {
			src := test.src()
			if counted {
				for range 2 {
					if n, err := Count(t.Context(), src); err != nil || n != test.rows {
						t.Errorf("%s: %d rows, want %d, error %v", name, n, test.rows, err)
					}
				}
			}
			for from := range blocks + 1 {
				for to := from; to <= blocks+1; to++ {
					var seen, want []int
					err := ReadRange(t.Context(), src, from, to, func(i int, b *model.Block) error {
						seen = append(seen, i)
						if b.N != min(256, test.rows-256*i) {
							return fmt.Errorf("block %d of %d rows", i, b.N)
						}
						return checkCounting(b, 256*i)
					})
					for i := from; i < min(to, blocks); i++ {
						want = append(want, i)
					}
					if from == blocks { // beyond the end: nothing, or an error that says so
						continue
					}
					if err != nil || !slices.Equal(seen, want) {
						t.Errorf("%s, counted %v, blocks %d to %d: %v, want %v, error %v", name, counted, from, to, seen, want, err)
					}
				}
			}
		}
	}
	mine := errors.New("mine")
	src := counting(t, "data.csv", 0, 600, false)
	if err := ReadRange(t.Context(), src, 1, 2, func(int, *model.Block) error { return mine }); err != mine {
		t.Errorf("error %v", err)
	}
	if err := ReadRange(t.Context(), src, 1, 1, func(int, *model.Block) error { return mine }); err != nil {
		t.Errorf("no blocks: error %v", err)
	}
}

// The parts of a table have the same columns; rows that are left out and weights are
// those of all parts.
func TestConcat(t *testing.T) {
	text := func(name, text string, sel Selection) Source {
		src, err := NewReader(name, strings.NewReader(text), sel)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	if _, err := Concat(text("a.csv", "a,y\n1,2\n", Selection{}), text("b.csv", "y,a\n1,2\n", Selection{})); err == nil || err.Error() != `b.csv: columns "y", "a", want those of a.csv: "a", "y"` {
		t.Errorf("other columns: error %v", err)
	}
	drop := Selection{Absent: Drop}
	src, err := Concat(text("a.csv", "a,y\n1,2\nNA,3\n", drop), text("b.csv", "a,y\n,2\n3,4\n5,NA\n", drop))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(src)
	if err != nil || fmt.Sprint(got.Rows) != "[[1 2] [3 4]]" || Dropped(src) != 3 {
		t.Errorf("%v, %d left out, error %v", got, Dropped(src), err)
	}
	if n, err := Count(t.Context(), src); n != 2 || err != nil {
		t.Errorf("%d rows, error %v", n, err)
	}
	one := text("a.csv", "a,y\n1,2\n", Selection{})
	if src, err := Concat(one); src != one || err != nil {
		t.Errorf("one part: error %v", err)
	}
	weighted := Selection{Roles: Roles{model.Weights: "w"}}
	for w, good := range map[string]bool{"6e299": false, "4e299": true} {
		rows := "a,w,y\n" + strings.Repeat("1,0,2\n", 255) + "1," + w + ",2\n"
		src, err := Concat(text("a.csv", rows, weighted), text("b.csv", rows, weighted))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(src); (err == nil) != good {
			t.Errorf("weights of 2·%s: error %v", w, err)
		}
	}
}

// A stream has the rows that stand before others, and cannot be begun elsewhere; rows
// that are left out are not those that a header counts.
func TestCountOfArrays(t *testing.T) {
	content := npyFile("{'descr': '<f8', 'fortran_order': False, 'shape': (600, 2), }", 16*600)
	stream := func() Source {
		src, err := NewReader("stdin", bytes.NewBuffer(content), Selection{})
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	err := ReadRange(t.Context(), stream(), 1, 2, func(int, *model.Block) error { return nil })
	if err == nil || err.Error() != "stdin: a stream can be read only once; write it to a file" {
		t.Errorf("error %v", err)
	}
	seen := 0
	if err := ReadRange(t.Context(), stream(), 0, 2, func(_ int, b *model.Block) error { seen += b.N; return nil }); err != nil || seen != 512 {
		t.Errorf("%d rows, error %v", seen, err)
	}
	holes := append([]byte(nil), content...)
	for _, row := range []int{0, 300} {
		copy(holes[len(holes)-16*(600-row):], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
	}
	src, err := NewReader("data.npy", bytes.NewReader(holes), Selection{Absent: Drop})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Count(context.Background(), src); n != 598 || err != nil || Dropped(src) != 2 {
		t.Errorf("%d rows, %d left out, error %v", n, Dropped(src), err)
	}
	src, err = NewReader("data.npy", bytes.NewReader(holes), Selection{Absent: Keep})
	if err != nil {
		t.Fatal(err)
	}
	err = ReadRange(t.Context(), src, 1, 2, func(_ int, b *model.Block) error {
		if b.N != 256 || !math.IsNaN(b.X[44]) || b.X[43] != 0 {
			return fmt.Errorf("%d rows, %v", b.N, b.X[43:46])
		}
		return nil
	})
	if n, _ := Count(t.Context(), src); err != nil || n != 600 {
		t.Errorf("%d rows, error %v", n, err)
	}
}
