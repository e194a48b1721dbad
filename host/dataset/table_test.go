package dataset

import (
	"context"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

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
