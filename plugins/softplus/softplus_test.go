package softplus

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestTails checks g and g′ where e^z under- and overflows: to 2 ulps of references that are exact to a rounding, e^(βz)/β and
// e^(βz) below −40/β, z and 1 above it.
func TestTails(t *testing.T) {
	for _, tc := range []struct{ beta, z, g, dg float64 }{
		{1, 0, math.Ln2, 0.5},
		{10, 0, math.Ln2 / 10, 0.5},
		{1, -1e308, 0, 0},
		{1, 1e308, 1e308, 1},
		{10, 1e308, 1e308, 1},
		{10, -1e308, 0, 0},
		{1, -50, math.Exp(-50), math.Exp(-50)},
		{2, -30, math.Exp(-60) / 2, math.Exp(-60)},
		{1, -740, math.Exp(-740), math.Exp(-740)}, // subnormal
		{1, 50, 50, 1},
		{0.1, -500, 10 * math.Exp(-50), math.Exp(-50)},
	} {
		var g, dg [1]float64
		if err := (softplus{tc.beta}).Eval(t.Context(), g[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if err := (softplus{tc.beta}).Deriv(t.Context(), dg[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		far := func(got, want float64) bool {
			return math.Abs(got-want) > 2*(math.Nextafter(want, math.Inf(1))-want)
		}
		if far(g[0], tc.g) || far(dg[0], tc.dg) {
			t.Errorf("beta = %v, z = %v: g = %v, g′ = %v, want %v, %v", tc.beta, tc.z, g[0], dg[0], tc.g, tc.dg)
		}
	}
}
