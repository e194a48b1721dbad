package npz_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	_ "github.com/gatedlearning/moe/host/dataset/npz"
	"github.com/gatedlearning/moe/host/model"
)

// The files of testdata are by numpy 1.24, of 600 rows: x = [i/2, −i] of float64, y = 3i + 1 of float32, w = 1 + i mod 7 of
// int16. "columns" has x column by column, "records" has it as records, "unnamed" was given no names.

// TestRead reads the same table however numpy has written it, as often as it is asked.
func TestRead(t *testing.T) {
	for name, sel := range map[string]dataset.Selection{
		"rows.npz":       {Target: "y", Roles: dataset.Roles{model.Weights: "w"}},
		"columns.npz":    {Target: "y", Roles: dataset.Roles{model.Weights: "w"}},
		"compressed.npz": {Target: "y", Roles: dataset.Roles{model.Weights: "w"}},
		"records.npz":    {Target: "y", Roles: dataset.Roles{model.Weights: "w"}},
		"unnamed.npz": {Target: "arr_1", Features: []string{"arr_0_1", "arr_0_2"},
			Roles: dataset.Roles{model.Weights: "arr_2"}},
	} {
		src, err := dataset.Open(filepath.Join("testdata", name), sel)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 2 {
			row := 0
			err := src.Read(t.Context(), func(b *model.Block) error {
				for r := range b.N {
					i := float64(row + r)
					if b.Col(0)[r] != i/2 || b.Col(1)[r] != -i || b.Y[r] != 3*i+1 || b.Weight(r) != float64(1+(row+r)%7) {
						t.Fatalf("%s: row %d is %v, %v, %v, %v", name, row+r, b.Col(0)[r], b.Col(1)[r], b.Y[r], b.Weight(r))
					}
				}
				row += b.N
				return nil
			})
			if err != nil || row != 600 {
				t.Errorf("%s: %d rows, %v", name, row, err)
			}
		}
	}
}

// TestSome reads some columns alone: of arrays that nobody asks for nothing is read, be they columns of the table or not.
func TestSome(t *testing.T) {
	x1, x2 := func(i float64) float64 { return i / 2 }, func(i float64) float64 { return -i }
	y := func(i float64) float64 { return 3*i + 1 }
	for _, c := range []struct {
		name            string
		sel             dataset.Selection
		feature, target func(i float64) float64
	}{
		{"rows.npz", dataset.Selection{Target: "y", Features: []string{"x2"}}, x2, y},
		{"columns.npz", dataset.Selection{Target: "y", Features: []string{"x2"}}, x2, y},
		{"short.npz", dataset.Selection{Target: "x2", Features: []string{"x1"}}, x1, x2},
		{"words.npz", dataset.Selection{Target: "x2", Drop: []string{"y"}}, x1, x2},
	} {
		src, err := dataset.Open("testdata/"+c.name, c.sel)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		row := 0
		err = src.Read(t.Context(), func(b *model.Block) error {
			if i := float64(row); b.X[0] != c.feature(i) || b.Y[0] != c.target(i) {
				t.Errorf("%s: row %d is %v, %v", c.name, row, b.X[0], b.Y[0])
			}
			row += b.N
			return nil
		})
		if err != nil || row != 600 {
			t.Errorf("%s: %d rows, %v", c.name, row, err)
		}
	}
}

// TestRefuses says what is wrong with an archive, of whatever it is.
func TestRefuses(t *testing.T) {
	whole, err := os.ReadFile("testdata/rows.npz")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte("\x93NUMPY"))
	changed := bytes.Clone(whole)
	changed[at+1000] ^= 1 // a number of x, which the checksum knows
	for name, c := range map[string]struct {
		file []byte // nil: of testdata
		want string
	}{
		"short.npz":              {nil, "array y has 599 rows, where x has 600"},
		"cube.npz":               {nil, "array x: 3 dimensions, want 1, or 2 for rows × columns"},
		"words.npz":              {nil, "array y: "},
		"twice.npz":              {nil, `"x1"`},
		"compressed-columns.npz": {nil, "array x: it is compressed column by column"},
		"cut.npz":                {whole[:len(whole)/2], "the archive cannot be read"},
		"changed.npz":            {changed, "array x"},
		"table.xlsx":             {archiveOf(t, "[Content_Types].xml"), "is no array of numpy; convert the file"},
		"text.npz":               {[]byte("x1,y\n1,2\n"), "not a NPZ file"},
	} {
		path := filepath.Join("testdata", name)
		if c.file != nil {
			path = filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, c.file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		src, err := dataset.Open(path, dataset.Selection{})
		if err == nil {
			err = src.Read(t.Context(), func(*model.Block) error { return nil })
		}
		if bad := (*dataset.Error)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	_, err = dataset.NewReader("stdin", io.MultiReader(bytes.NewReader(whole)), dataset.Selection{})
	if err == nil || !strings.Contains(err.Error(), "cannot be read from a stream") {
		t.Errorf("a stream: %v", err)
	}
	err = dataset.Write(t.Context(), filepath.Join(t.TempDir(), "out.npz"), dataset.Matrix(mat.NewDense(1, 1, nil), []float64{1}))
	if err == nil {
		t.Error("an archive is written")
	}
}

// archiveOf is a zip archive of an empty file of this name.
func archiveOf(t *testing.T, name string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	if _, err := z.Create(name); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzOpen looks for archives on which reading panics.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"rows", "columns", "compressed", "records", "cube", "words"} {
		text, err := os.ReadFile("testdata/" + name + ".npz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		src, err := dataset.NewReader("fuzz.npz", bytes.NewReader(text), dataset.Selection{})
		if err != nil {
			return
		}
		rows := 0
		src.Read(t.Context(), func(b *model.Block) error {
			if rows += b.N; rows > 1<<16 {
				return io.EOF
			}
			return nil
		})
	})
}
