package check

import (
	"math"
	"testing"
)

// TestFaults: what is wrong with a member is said with its name and its place.
func TestFaults(t *testing.T) {
	for want, err := range map[string]error{
		"k = 0, d = 2, want at least 1":             Sizes(0, 2),
		"w has 1 rows, want 2":                      Matrix("w", [][]float64{{1}}, 2, 1),
		"w[1] has 0 values, want 1":                 Matrix("w", [][]float64{{1}, {}}, 2, 1),
		"w[0][1] = NaN is not finite":               Matrix("w", [][]float64{{1, math.NaN()}}, 1, 2),
		"b has 0 values, want 1":                    Optional("b", []float64{}, 1),
		"features has 1 names, want d = 2":          Names([]string{"x"}, "y", 2),
		"target is missing":                         Names([]string{"x"}, "", 1),
		`features[1] = "x" is empty or named twice`: Names([]string{"x", "x"}, "y", 2),
		`features[0] = "y" is empty or named twice`: Names([]string{"y"}, "y", 1),
		`the name "x\x00" holds a NUL character`:    Names([]string{"x\x00"}, "y", 1),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, err := range []error{Sizes(1, 1), Matrix("w", [][]float64{{1, 2}}, 1, 2), Optional("b", nil, 3), Names([]string{"x"}, "y", 1)} {
		if err != nil {
			t.Error(err)
		}
	}
}
