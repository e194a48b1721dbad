package metric_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/metric"
)

// TestAssignAnyCosts: an assignment ends whatever the costs are, and takes a pair whose cost is not
// finite only where it must.
func TestAssignAnyCosts(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		k    int
		cost []float64
		want []int // nil: any
	}{
		{2, []float64{inf, 1, 1, inf}, []int{1, 0}},
		{2, []float64{1, nan, nan, 1}, []int{0, 1}},
		{2, []float64{inf, inf, inf, inf}, nil},
		{3, []float64{nan, nan, nan, nan, nan, nan, nan, nan, nan}, nil},
		{2, []float64{1e308, 1e-308, 1e-308, 1e308}, []int{1, 0}},
		{3, []float64{1.7e308, 1.6e308, 1, 1.7e308, 1, 1.6e308, 1, 1.7e308, 1.6e308}, []int{2, 1, 0}},
		{3, []float64{inf, 1e308, inf, 1e308, inf, inf, inf, inf, 1e308}, []int{1, 0, 2}},
		{2, []float64{-inf, 0, 0, 0}, []int{0, 1}},
		{2, []float64{0, 5, 5, -inf}, []int{0, 1}},
	} {
		perm := metric.Assign(c.k, c.cost)
		sorted := slices.Sorted(slices.Values(perm))
		for i, j := range sorted {
			if i != j {
				t.Fatalf("%v: %v is no permutation", c.cost, perm)
			}
		}
		if c.want != nil && !slices.Equal(perm, c.want) {
			t.Errorf("%v: %v, want %v", c.cost, perm, c.want)
		}
	}
}
