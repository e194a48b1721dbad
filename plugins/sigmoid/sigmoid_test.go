package sigmoid

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestTails checks g and g′ where e^−z over- or underflows: to 2 ulps of the references,
// which are exact to a rounding, as g is: g(z) = e^z below −40, where 1 + e^z rounds to 1.
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
		far := func(got, want float64) bool {
			return math.Abs(got-want) > 2*(math.Nextafter(want, math.Inf(1))-want)
		}
		if far(g[0], tc.g) || far(dg[0], tc.dg) {
			t.Errorf("z = %v: g = %v, g′ = %v, want %v, %v", tc.z, g[0], dg[0], tc.g, tc.dg)
		}
	}
}

// BenchmarkValues is a block of rows of three experts.
func BenchmarkValues(b *testing.B) {
	const n = 768
	rng := rand.New(rand.NewPCG(1, 1))
	z, dst := make([]float64, n), make([]float64, n)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	for name, fn := range map[string]func(context.Context, []float64, []float64) error{"g": (sigmoid{}).Eval, "deriv": (sigmoid{}).Deriv} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := fn(b.Context(), dst, z); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/value")
		})
	}
}
