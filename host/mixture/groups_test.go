package mixture

import (
	"math"
	"slices"
	"testing"
)

// TestSharePosterior: the shares of finite logarithms by hand; where there are none, even ones and what the values are.
func TestSharePosterior(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		v, post []float64
		sum     float64
	}{
		{[]float64{math.Log(3) - 800, -800, -inf}, []float64{.75, .25, 0}, math.Log(4) - 800},
		{[]float64{-inf, -inf}, []float64{.5, .5}, -inf},
		{[]float64{inf, 0}, []float64{.5, .5}, inf},
		{[]float64{nan, 1}, []float64{.5, .5}, nan},
		{[]float64{-inf, nan}, []float64{.5, .5}, nan},
		{[]float64{nan, inf}, []float64{.5, .5}, nan},
		{[]float64{nan, nan}, []float64{.5, .5}, nan},
	} {
		got := slices.Clone(c.v)
		sum := SharePosterior(got)
		same := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-12 || math.IsNaN(a) && math.IsNaN(b) }
		if !same(sum, c.sum) || !slices.EqualFunc(got, c.post, same) {
			t.Errorf("%v: %v, sum %v, want %v and %v", c.v, got, sum, c.post, c.sum)
		}
	}
}
