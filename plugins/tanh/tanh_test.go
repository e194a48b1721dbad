package tanh

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestTails: g is ±1 and g′ is 4·e^−2|z| to a rounding where |z| > 20, and neither
// over- nor underflows before its value does.
func TestTails(t *testing.T) {
	for _, tc := range []struct{ z, g, dg float64 }{
		{0, 0, 1},
		{1e-300, 1e-300, 1},
		{25, 1, 4 * math.Exp(-50)},
		{-25, -1, 4 * math.Exp(-50)},
		{350, 1, 4 * math.Exp(-700)},
		{-math.MaxFloat64, -1, 0},
		{math.MaxFloat64, 1, 0},
	} {
		var g, dg [1]float64
		if err := (tanh{}).Eval(t.Context(), g[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if err := (tanh{}).Deriv(t.Context(), dg[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if g[0] != tc.g || math.Abs(dg[0]-tc.dg) > 1e-15*tc.dg {
			t.Errorf("z = %v: g = %v, g′ = %v, want %v, %v", tc.z, g[0], dg[0], tc.g, tc.dg)
		}
	}
}
