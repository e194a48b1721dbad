package problem

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/plugins/identity"
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

// In a part of a table's rows a feature may be constant, but not 0, and not beside an intercept; the target may not.
func TestCheckColumnsOfPart(t *testing.T) {
	const n = 9
	for _, c := range []struct {
		name       string
		feature    float64
		intercepts Intercepts
		gate       Gate
		want       string // "" for none
	}{
		{"an intercept of its own", 2.5, NoIntercepts, Softmax{}, ""},
		{"beside a constant gate", 2.5, NoIntercepts, Constant{}, ""},
		{"zero", 0, NoIntercepts, Softmax{}, `column "x2" is 0 in every row; drop it`},
		{"beside an intercept", 2.5, ExpertIntercepts, Softmax{}, `column "x2" is 2.5 in every row; drop it`},
		{"beside the gate's", 2.5, GateIntercepts, Softmax{}, `column "x2" is 2.5 in every row; drop it`},
	} {
		x, y := mat.NewDense(n, 2, nil), make([]float64, n)
		for i := range n {
			x.SetRow(i, []float64{float64(i), c.feature})
			y[i] = float64(i * i)
		}
		data, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
		if err != nil {
			t.Fatal(err)
		}
		schema := dataset.Names(2, true)
		schema.Part = true
		p, err := Load(t.Context(), dataset.InMemory(schema, data), activation(t, identity.Family), Request{K: 1, Intercepts: c.intercepts, Gate: c.gate})
		if err == nil {
			p.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func setColumn(x *mat.Dense, j int, f func(i int) float64) {
	n, _ := x.Dims()
	for i := range n {
		x.Set(i, j, f(i))
	}
}
