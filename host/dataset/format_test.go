package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestUnregistered: a program that was built without a format says so, and how it is to be had,
// in place of taking the file for another.
func TestUnregistered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.parquet")
	const how = "this program was built without Parquet: import the package host/dataset/parquet in it, or use CSV or NPY"
	err := Write(t.Context(), path, Matrix(mat.NewDense(2, 1, []float64{1, 2}), []float64{1, 2}))
	if want := "output " + path + ": " + how; !is[*SelectionError](err) || err.Error() != want {
		t.Errorf("writing: error %v, want %s", err, want)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was written")
	}
	for content, want := range map[string]string{"PAR1 and more": how, "a,b\n1,2\n": "not a Parquet file: it does not begin with PAR1"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Selection{}); !is[*Error](err) || err.Error() != path+": "+want {
			t.Errorf("reading: error %v, want %s", err, want)
		}
	}
}
