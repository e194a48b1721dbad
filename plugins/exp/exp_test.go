package exp

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestTails checks g and g′ where e^z under- and overflows, and on both sides of where the tangent begins.
func TestTails(t *testing.T) {
	last := math.Exp(600)
	for _, tc := range []struct{ z, g, dg float64 }{
		{0, 1, 1},
		{-1e308, 0, 0},
		{-740, math.Exp(-740), math.Exp(-740)}, // subnormal
		{1, math.E, math.E},
		{600, last, last},
		{601, 2 * last, last},
		{1e6, last * (1e6 - 599), last},
	} {
		var g, dg [1]float64
		if err := (exponential{}).Eval(t.Context(), g[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if err := (exponential{}).Deriv(t.Context(), dg[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		far := func(got, want float64) bool {
			return math.Abs(got-want) > 2*(math.Nextafter(want, math.Inf(1))-want)
		}
		if far(g[0], tc.g) || far(dg[0], tc.dg) {
			t.Errorf("z = %v: g = %v, g′ = %v, want %v, %v", tc.z, g[0], dg[0], tc.g, tc.dg)
		}
	}
}
