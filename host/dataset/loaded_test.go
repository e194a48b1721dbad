package dataset

import (
	"errors"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// TestLoaded: a table in memory has the rows that were loaded, or those of them that are kept, and ends where a reader does.
func TestLoaded(t *testing.T) {
	const n = model.BlockRows + 5
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for i := range y {
		x.Set(i, 0, float64(i))
		y[i] = -float64(i)
	}
	src := Matrix(x, y)
	data, err := Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	all := InMemory(src.Schema(), data)
	for name, c := range map[string]struct {
		of   Loaded
		step int
	}{"all": {all, 1}, "every third": {all.Where(func(row int) bool { return row%3 == 0 }), 3}} {
		at := 0
		if err := c.of.Read(t.Context(), func(b *model.Block) error {
			for r := range b.N {
				if want := float64(at * c.step); b.Col(0)[r] != want || b.Y[r] != -want {
					t.Fatalf("%s: row %d is %v, %v, want %v", name, at, b.Col(0)[r], b.Y[r], want)
				}
				at++
			}
			return nil
		}); err != nil || at != (n+c.step-1)/c.step || c.of.Schema().Target != "y" {
			t.Errorf("%s: %d rows of %q, %v", name, at, c.of.Schema().Target, err)
		}
	}
	stop := errors.New("enough")
	if err := all.Read(t.Context(), func(*model.Block) error { return stop }); err != stop {
		t.Errorf("error %v of a reader that ends", err)
	}
}
