package problem

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

func TestCheckColumns(t *testing.T) {
	n := model.BlockRows + 3
	check := func(change func(x *mat.Dense, y []float64)) error {
		x, y := mat.NewDense(n, 3, nil), make([]float64, n)
		for i := range n {
			x.SetRow(i, []float64{float64(i), float64(i % 7), float64(-i)})
			y[i] = float64(i * i)
		}
		change(x, y)
		src := dataset.Matrix(x, y)
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		return CheckColumns(t.Context(), data, src.Schema())
	}
	for name, test := range map[string]struct {
		change func(x *mat.Dense, y []float64)
		want   string // "" for none
	}{
		"good":              {func(*mat.Dense, []float64) {}, ""},
		"constant":          {func(x *mat.Dense, _ []float64) { setColumn(x, 1, func(int) float64 { return 2.5 }) }, `matrix: column "x2" is 2.5 in every row; drop it`},
		"constant but last": {func(x *mat.Dense, _ []float64) { setColumn(x, 1, func(i int) float64 { return float64(i / (n - 1)) }) }, ""},
		"constant target": {func(_ *mat.Dense, y []float64) {
			for i := range y {
				y[i] = 1
			}
		}, `matrix: column "y" is 1 in every row; there is nothing to learn`},
		"duplicate": {func(x *mat.Dense, _ []float64) { setColumn(x, 2, func(i int) float64 { return float64(i) }) }, `matrix: columns "x1" and "x3" are equal`},
		"duplicate by zeros": {func(x *mat.Dense, _ []float64) {
			setColumn(x, 1, func(i int) float64 { return float64(i / (n - 1)) })
			setColumn(x, 2, func(i int) float64 { return math.Copysign(float64(i/(n-1)), -1) * float64(-(i / (n - 1))) })
		}, `matrix: columns "x2" and "x3" are equal`},
		"duplicate but last": {func(x *mat.Dense, _ []float64) { setColumn(x, 2, func(i int) float64 { return float64(i - i/(n-1)) }) }, ""},
		"target as feature":  {func(x *mat.Dense, y []float64) { setColumn(x, 0, func(i int) float64 { return y[i] }) }, `matrix: columns "x1" and "y" are equal`},
	} {
		err := check(test.change)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func setColumn(x *mat.Dense, j int, f func(i int) float64) {
	n, _ := x.Dims()
	for i := range n {
		x.Set(i, j, f(i))
	}
}
