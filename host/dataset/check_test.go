package dataset

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

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
		src := Matrix(x, y)
		data, err := Load(context.Background(), src)
		if err != nil {
			t.Fatal(err)
		}
		return CheckColumns(data, src.Schema())
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

func TestMatrixRefusesNaN(t *testing.T) {
	x := mat.NewDense(3, 2, []float64{1, 2, 3, math.NaN(), 5, 6})
	_, err := Load(context.Background(), Matrix(x, []float64{1, 2, math.Inf(1)}))
	want := `matrix:2:2: NaN in column "x2" is not a finite decimal number; 2 such cells: 2:2 NaN, 3:3 Inf; correct or remove them`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestNamed: names are the caller's, and the table that they are given to stays.
func TestNamed(t *testing.T) {
	x, y := mat.NewDense(1, 2, []float64{1, 2}), []float64{3}
	plain := Matrix(x, y)
	named := plain.Named([]string{"age", "dose"}, "response")
	if got := named.Schema().Columns(); !slices.Equal(got, []string{"age", "dose", "response"}) {
		t.Errorf("columns %v", got)
	}
	if got := plain.Schema().Columns(); !slices.Equal(got, []string{"x1", "x2", "y"}) {
		t.Errorf("columns %v of the table itself", got)
	}
	if got := WeightedMatrix(x, y, y).Named([]string{"age", "dose"}, "").Schema().Columns(); !slices.Equal(got, []string{"age", "dose", "y", "weight"}) {
		t.Errorf("columns %v with weights", got)
	}
	for want, fn := range map[string]func(){
		"dataset: 1 names for 2 features":                           func() { plain.Named([]string{"a"}, "") },
		`dataset: the column name "a" is empty or stands twice`:     func() { plain.Named([]string{"a", "a"}, "") },
		`dataset: the column name "b" is empty or stands twice`:     func() { plain.Named([]string{"a", "b"}, "b") },
		`dataset: the column name "" is empty or stands twice`:      func() { plain.Named([]string{"a", ""}, "") },
		`dataset: the target's name is "z", and there is no target`: func() { Matrix(x, nil).Named([]string{"a", "b"}, "z") },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %s", got, want)
				}
			}()
			fn()
		}()
	}
}
