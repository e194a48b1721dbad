package sigmoid

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestTails checks g and g′ where e^−z over- or underflows. The references are
// exact to a rounding: g(z) = e^z below −40, where 1 + e^z rounds to 1.
func TestTails(t *testing.T) {
	for _, tc := range []struct{ z, g, dg float64 }{
		{0, 0.5, 0.25},
		{-math.MaxFloat64, 0, 0},
		{math.MaxFloat64, 1, 0},
		{-1e308, 0, 0},
		{1e308, 1, 0},
		{-700, math.Exp(-700), math.Exp(-700)},
		{700, 1, math.Exp(-700)},
		{-740, math.Exp(-740), math.Exp(-740)}, // subnormal
		{-50, math.Exp(-50), math.Exp(-50)},
		{50, 1, math.Exp(-50)},
	} {
		var g, dg [1]float64
		if err := (sigmoid{}).Eval(t.Context(), g[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if err := (sigmoid{}).Deriv(t.Context(), dg[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if g[0] != tc.g || dg[0] != tc.dg {
			t.Errorf("z = %v: g = %v, g′ = %v, want %v, %v", tc.z, g[0], dg[0], tc.g, tc.dg)
		}
	}
}
