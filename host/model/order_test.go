package model

import (
	"slices"
	"testing"
)

// TestOrder: branches come in the order of their proportions, as far as they may stand for
// each other.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		shape       string
		kinds       []int
		proportions []float64
		want        []int // the expert that stands at each place
	}{
		{"4", nil, []float64{0.1, 0.4, 0.3, 0.2}, []int{1, 2, 3, 0}},
		{"4", nil, []float64{0.2, 0.3, 0.2, 0.3}, []int{1, 3, 0, 2}}, // equals stay in their order
		{"3", []int{0, 1, 0}, []float64{0.1, 0.5, 0.4}, []int{2, 1, 0}},
		{"2x2", nil, []float64{0.1, 0.2, 0.3, 0.4}, []int{3, 2, 1, 0}},
		{"2x2", []int{0, 1, 0, 1}, []float64{0.1, 0.2, 0.3, 0.4}, []int{2, 3, 0, 1}},
		{"2x2", []int{0, 1, 1, 0}, []float64{0.1, 0.2, 0.3, 0.4}, []int{0, 1, 2, 3}},
		{"2x(1,2)", nil, []float64{0.1, 0.2, 0.7}, []int{0, 2, 1}},
		{"3x(2,1,2)", nil, []float64{0.1, 0.2, 0.1, 0.4, 0.2}, []int{3, 4, 2, 1, 0}},
	} {
		h, err := ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]int, len(c.want))
		for place, i := range c.want {
			want[i] = place
		}
		if got := h.Order(c.kinds, c.proportions); !slices.Equal(got, want) {
			t.Errorf("%s %v %v: %v, want %v", c.shape, c.kinds, c.proportions, got, want)
		}
	}
}
