package page

import (
	"slices"
	"testing"
)

// TestTrend: of few values the mean of each, of many ten groups of the same size.
func TestTrend(t *testing.T) {
	x, y := trend([]float64{1, 0, 1, 0, 0}, []float64{4, 1, 6, 2, 3})
	if !slices.Equal(x, []float64{0, 1}) || !slices.Equal(y, []float64{2, 5}) {
		t.Errorf("%v, %v", x, y)
	}
	var many, square []float64
	for i := range 40 {
		v := float64((i * 7) % 40) // 0 … 39 in another order
		many, square = append(many, v), append(square, v)
	}
	x, y = trend(many, square)
	if len(x) != 10 || x[0] != 1.5 || y[9] != 37.5 {
		t.Errorf("%v, %v", x, y)
	}
	if x, y := trend(nil, nil); len(x)+len(y) != 0 {
		t.Errorf("of nothing %v, %v", x, y)
	}
}
