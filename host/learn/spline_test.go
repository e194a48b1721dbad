package learn

import (
	"context"
	"math"
	"testing"

	"github.com/gatedlearning/moe/table"
)

// TestCurves: slopes and derivatives by the parameters are central differences, and the spline is that of
// a table through its points.
func TestCurves(t *testing.T) {
	knots, c := []float64{-2, -1, .3, 1, 2.5}, []float64{.2, -1, .4, 2, 1}
	through, err := table.New(knots, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	curves := []curve{newNatural(knots, c), newRising(knots, .3, []float64{.2, .1, 1, .4, 2})}
	for _, s := range shapes {
		curves = append(curves, &named{s, .3, -1.2, .4, .7, .2, true}, &named{s, .3, -1.2, .4, .7, 0, false})
	}
	const h = 1e-6
	for n, g := range curves {
		row, none := make([]float64, g.size()), make([]float64, g.size())
		for _, z := range []float64{-3, -1.7, -.4, .2, .9, 2.1, 4} {
			value, slope := g.at(z, row)
			up, _ := g.at(z+h, none)
			down, _ := g.at(z-h, none)
			if math.Abs((up-down)/(2*h)-slope) > 1e-8 {
				t.Errorf("curve %d at %v: slope %v, differences %v", n, z, slope, (up-down)/(2*h))
			}
			for j := range row {
				delta := make([]float64, g.size())
				delta[j] = h
				up, _ := g.moved(delta).at(z, none)
				delta[j] = -h
				down, _ := g.moved(delta).at(z, none)
				if math.Abs((up-down)/(2*h)-row[j]) > 1e-8 {
					t.Errorf("curve %d at %v: by parameter %d %v, differences %v", n, z, j, row[j], (up-down)/(2*h))
				}
			}
			if n > 0 {
				continue
			}
			want := []float64{z}
			if err := through.Eval(context.Background(), want, want); err != nil || math.Abs(want[0]-value) > 1e-13 {
				t.Errorf("spline at %v: %v, that of the table %v, error %v", z, value, want[0], err)
			}
		}
	}
}
