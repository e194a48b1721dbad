package problem

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
)

// TestMagnitudes: a column is refused by its largest value alone, wherever that stands, and both bounds are in range.
func TestMagnitudes(t *testing.T) {
	const n = 600
	for _, c := range []struct {
		most, others float64
		refused      bool
	}{
		{1, 0, false}, {1e75, 0, false}, {1e75, 1e75, false}, {1.001e75, 0, true}, {-1.001e75, 1, true},
		{1e-75, 0, false}, {0.999e-75, 0.999e-75, true}, {0, 0, true}, {1e300, 1, true},
	} {
		for _, column := range []int{0, 1, 2} {
			for _, row := range []int{0, 300, n - 1} {
				x, y := mat.NewDense(n, 2, nil), make([]float64, n)
				for r := range n {
					v := []float64{1, 1, 1}
					if v[column] = c.others; r == row {
						v[column] = c.most
					}
					x.SetRow(r, v[:2])
					y[r] = v[2]
				}
				src := dataset.Matrix(x, y)
				rows, err := dataset.Load(t.Context(), src)
				if err != nil {
					t.Fatal(err)
				}
				err = checkMagnitudes(t.Context(), rows, src.Schema(), 2)
				if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), src.Schema().Columns()[column]) {
					t.Errorf("%g among %g in column %d: error %v", c.most, c.others, column, err)
				}
			}
		}
	}
}
