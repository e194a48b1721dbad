package probit

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestValues holds g and g′ to R's pnorm and dnorm, in the tails too, where 30 ulps are the rounding of z/√2 times z.
func TestValues(t *testing.T) {
	for _, tc := range []struct{ z, g, dg float64 }{
		{0, 0.5, 0.398942280401432678},
		{1, 0.841344746068542949, 0.241970724519143349},
		{-1.5, 0.0668072012688580661, 0.129517595665891744},
		{-8, 6.22096057427178413e-16, 5.05227108353689229e-15},
		{-20, 2.75362411860623333e-89, 5.52094836215976337e-88},
		{-1e308, 0, 0},
		{1e308, 1, 0},
		{9, 1, 1.02797735716689149e-18},
	} {
		var g, dg [1]float64
		if err := (probit{}).Eval(t.Context(), g[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		if err := (probit{}).Deriv(t.Context(), dg[:], []float64{tc.z}); err != nil {
			t.Fatal(err)
		}
		far := func(got, want float64) bool { return math.Abs(got-want) > 1e-13*want }
		if far(g[0], tc.g) || far(dg[0], tc.dg) {
			t.Errorf("z = %v: g = %.18g, g′ = %.18g, want %v, %v", tc.z, g[0], dg[0], tc.g, tc.dg)
		}
	}
}

// TestUniform: g(Z) is uniform, so that E[g(Z)^p] is 1/(p + 1).
func TestUniform(t *testing.T) {
	m, err := sdk.Quadrature(t.Context(), probit{})
	if err != nil {
		t.Fatal(err)
	}
	for p := range m.Value {
		if got, want := m.Value[p][0], 1/float64(p+1); math.Abs(got-want) > 1e-12 {
			t.Errorf("E[g(Z)^%d] = %v, want %v", p, got, want)
		}
	}
}
