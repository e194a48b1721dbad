package dataset

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// randomFile writes n rows of d features, a target and perhaps weights to a file of
// this name.
func randomFile(t testing.TB, name string, n, d int, weighted bool) (path string) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y, w := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i], w[i] = rng.NormFloat64(), rng.Float64()
	}
	src := Source(Matrix(x, y))
	if weighted {
		src = WeightedMatrix(x, y, w)
	}
	path = filepath.Join(t.TempDir(), name)
	if err := Write(t.Context(), path, src); err != nil {
		t.Fatal(err)
	}
	return path
}

// blocksOf returns copies of the blocks in this order.
func blocksOf(t *testing.T, rows model.Rows, order []int) (out []model.Block) {
	var room model.Room
	for _, i := range order {
		b, err := rows.Block(i, &room)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b.Clone())
	}
	return out
}

// Rows that stay in a file have the blocks of those in memory, in whatever order they
// are asked for, whatever the format, the columns' order and weights.
func TestRows(t *testing.T) {
	for _, test := range []struct {
		name     string
		n, d     int
		weighted bool
		sel      Selection
	}{
		{"plain.npy", 20000, 3, false, Selection{}},
		{"few.npy", 100, 3, false, Selection{}},
		{"columns.npy", 5000, 4, false, Selection{Target: "x2", Features: []string{"x4", "y"}}},
		{"weighted.npy", 5000, 2, true, Selection{Target: "x2", Roles: Roles{model.Weights: "y"}}},
		{"plain.csv", 3000, 3, false, Selection{}},
		{"weighted.csv", 3000, 2, true, Selection{Roles: Roles{model.Weights: "weight"}}},
	} {
		path := randomFile(t, test.name, test.n, test.d, test.weighted)
		open := func() Source {
			src, err := Open(path, test.sel)
			if err != nil {
				t.Fatal(err)
			}
			return src
		}
		want, err := Load(t.Context(), open())
		if err != nil {
			t.Fatal(err)
		}
		kept, err := Rows(t.Context(), open(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if model.Held(kept.Rows) {
			t.Errorf("%s: in memory", test.name)
		}
		n, d := kept.Rows.Dims()
		if n != want.N || d != want.D {
			t.Errorf("%s: %d×%d, want %d×%d", test.name, n, d, want.N, want.D)
		}
		var order []int
		for i := range want.Blocks {
			order = append(order, i)
		}
		for range 2 {
			for at, b := range blocksOf(t, kept.Rows, order) {
				if !reflect.DeepEqual(b, want.Blocks[order[at]]) {
					t.Fatalf("%s: block %d differs", test.name, order[at])
				}
			}
			rand.New(rand.NewPCG(3, 4)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		kept.Close()
		for _, workers := range []int{1, 3} {
			inMemory, err := Rows(t.Context(), open(), 1e9, workers)
			if err != nil || !reflect.DeepEqual(inMemory.Rows, want) {
				t.Errorf("%s: not the same in memory: %v", test.name, err)
			}
		}
	}
}

// What workers side by side cannot take is refused as by one in order.
func TestRowsSideBySide(t *testing.T) {
	path := randomFile(t, "table.npy", 5000, 3, false)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	infinite := []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}
	for _, at := range []int64{128 + 8*4*700, 128 + 8*4*4990} {
		if _, err := f.WriteAt(infinite, at); err != nil {
			t.Fatal(err)
		}
	}
	open := func() Source {
		src, err := Open(path, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	_, want := Load(t.Context(), open())
	if _, err := Rows(t.Context(), open(), 1e9, 3); want == nil || err == nil || err.Error() != want.Error() || !strings.Contains(err.Error(), "701") {
		t.Errorf("error %v, want %v", err, want)
	}
}

// A file that is changed between two passes, or cut short, is an error that says so.
func TestRowsChanged(t *testing.T) {
	for name, change := range map[string]func(f *os.File) error{
		"changed":   func(f *os.File) error { _, err := f.WriteAt([]byte{1}, 40000); return err },
		"cut short": func(f *os.File) error { return f.Truncate(40000) },
	} {
		_, err := passedAgain(t, change)
		if bad := (*Error)(nil); !errors.As(err, &bad) || !strings.Contains(bad.Msg, "are not what they were") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// passedAgain returns the path of a file of 2,000 rows and 3 features, and the error of a second pass over it,
// before which it was changed.
func passedAgain(t *testing.T, change func(f *os.File) error) (path string, err error) {
	t.Helper()
	path = randomFile(t, "table.npy", 2000, 3, false)
	src, err := Open(path, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Rows(t.Context(), src, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	pass := func() error {
		return model.InOrder(t.Context(), kept.Rows, func(*model.Block) error { return nil })
	}
	if err := pass(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path, pass()
}

// A cell that no table has is the error of a table in memory, whichever block it is in.
func TestRowsBad(t *testing.T) {
	path := randomFile(t, "table.npy", 2000, 3, false)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, 128+8*(4*1500+2)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	open := func() Source {
		src, err := Open(path, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	_, want := Load(t.Context(), open())
	kept, err := Rows(t.Context(), open(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := model.InOrder(t.Context(), kept.Rows, func(*model.Block) error { return nil }); err == nil || want == nil || err.Error() != want.Error() {
		t.Errorf("error %v, want %v", err, want)
	}
}

// Where there is no directory for what does not fit in memory that is said.
func TestRowsNowhere(t *testing.T) {
	path := randomFile(t, "table.csv", 2000, 3, false)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	t.Setenv("TMP", filepath.Join(t.TempDir(), "none"))
	src, err := Open(path, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Rows(t.Context(), src, 1, 1)
	if failed := (*SpoolError)(nil); !errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkStored is a pass over rows in a file that the system has in memory.
func BenchmarkStored(b *testing.B) {
	const n = 200_000
	path := randomFile(b, "table.npy", n, 10, false)
	src, err := Open(path, Selection{})
	if err != nil {
		b.Fatal(err)
	}
	kept, err := Rows(context.Background(), src, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	for b.Loop() {
		if err := model.InOrder(context.Background(), kept.Rows, func(*model.Block) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
}
