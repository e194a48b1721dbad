package atleast

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// tableWith is a table of one feature, 0, 1, 2, …, with columns of roles.
func tableWith(t *testing.T, n int, roles map[model.Role]func(row int) float64) dataset.Loaded {
	t.Helper()
	column := func(of func(row int) float64) []float64 {
		out := make([]float64, n)
		for row := range out {
			out[row] = of(row)
		}
		return out
	}
	feature := mat.NewDense(n, 1, column(func(row int) float64 { return float64(row) }))
	src := dataset.Matrix(feature, make([]float64, n))
	for role, of := range roles {
		src = src.With(role, "column", column(of))
	}
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	return dataset.InMemory(src.Schema(), data)
}

// TestHalves: no row is in both halves and none in neither, groups and clusters are whole, copies of a row are dealt one by
// one, and rows beyond those of a bound are left out.
func TestHalves(t *testing.T) {
	third := func(row int) float64 { return float64(row / 3) }
	weighty := func(row int) float64 { return float64((row%4 + 1) * 100) }
	for name, c := range map[string]struct {
		table dataset.Loaded
		whole int  // rows of a unit
		both  bool // a row may be in both
	}{
		"rows":     {tableWith(t, 100, nil), 1, false},
		"groups":   {tableWith(t, 99, map[model.Role]func(int) float64{model.Groups: third}), 3, false},
		"clusters": {tableWith(t, 99, map[model.Role]func(int) float64{model.Clusters: third, model.Weights: weighty}), 3, false},
		"weights":  {tableWith(t, 100, map[model.Role]func(int) float64{model.Weights: weighty}), 1, true},
	} {
		half, why, err := halves(t.Context(), c.table.Data, c.table.Schema(), 1, 0)
		if why != "" || err != nil {
			t.Fatalf("%s: %s, %v", name, why, err)
		}
		in, weights := [2]map[int]float64{{}, {}}, [2]float64{}
		for h := range half {
			for i := range half[h].Data.Blocks {
				b := &half[h].Data.Blocks[i]
				for r := range b.N {
					in[h][int(b.X[r])] = b.Weight(r)
					weights[h] += b.Weight(r)
				}
			}
		}
		for row := range c.table.Data.N {
			want, a, b := c.table.Data.Blocks[0].Weight(row), in[0][row], in[1][row]
			if want != a+b {
				t.Errorf("%s: of row %d of weight %g the halves have %g and %g", name, row, want, a, b)
			}
			if !c.both && a*b != 0 {
				t.Errorf("%s: row %d is in both halves", name, row)
			}
			if first := row / c.whole * c.whole; c.whole > 1 && weights[0] > 0 {
				_, x := in[0][row]
				if _, y := in[0][first]; x != y {
					t.Errorf("%s: rows %d and %d of one unit are in two halves", name, first, row)
				}
			}
		}
		if r := weights[0] / (weights[0] + weights[1]); math.Abs(r-0.5) > 0.12 {
			t.Errorf("%s: a half has %.2f of the weight", name, r)
		}
	}
	fractions := tableWith(t, 10, map[model.Role]func(int) float64{model.Weights: func(int) float64 { return 1.5 }})
	if _, why, _ := halves(t.Context(), fractions.Data, fractions.Schema(), 1, 0); why == "" {
		t.Error("halves of weights that are no counts")
	}
	for name, roles := range map[string]map[model.Role]func(int) float64{
		"rows": nil, "groups": {model.Groups: third}, "weights": {model.Weights: func(int) float64 { return 3 }}} {
		large := tableWith(t, 5*mostRows, roles)
		half, _, err := halves(t.Context(), large.Data, large.Schema(), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for h := range half {
			want, got := mostRows/2, 0.0 // rows, or copies of three each
			for i := range half[h].Data.Blocks {
				for r := range half[h].Data.Blocks[i].N {
					got += half[h].Data.Blocks[i].Weight(r)
				}
			}
			if name == "weights" {
				want *= 3
			}
			if math.Abs(got-float64(want)) > 0.1*float64(want) {
				t.Errorf("a half of many %s has %g, want about %d", name, got, want)
			}
		}
	}
}
