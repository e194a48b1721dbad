package tanh

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/sdk/activationtest"
)

func TestConformance(t *testing.T) { activationtest.RunFamily(t, Family) }

// TestAgainstStandardLibrary: within 2 ulps of math.Tanh on both sides of every change of
// formula, each of the two being within 1 or so; and in place, as integrals ask for it.
func TestAgainstStandardLibrary(t *testing.T) {
	var z []float64
	for v := -24.0; v <= 24; v += 1.0 / 128 {
		z = append(z, v, v+1e-9, math.Nextafter(v, 30), math.Nextafter(v, -30))
	}
	g := append([]float64(nil), z...)
	if err := (tanh{}).Eval(t.Context(), g, g); err != nil {
		t.Fatal(err)
	}
	for i, v := range z {
		want := math.Tanh(v)
		ulp := math.Nextafter(math.Abs(want), 2) - math.Abs(want)
		if math.Abs(g[i]-want) > 2*ulp {
			t.Errorf("tanh(%v) = %v, want %v", v, g[i], want)
		}
	}
}

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

// BenchmarkValues is a block of rows of three experts.
func BenchmarkValues(b *testing.B) {
	const n = 768
	rng := rand.New(rand.NewPCG(1, 1))
	z, dst := make([]float64, n), make([]float64, n)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	for name, fn := range map[string]func(context.Context, []float64, []float64) error{"g": (tanh{}).Eval, "deriv": (tanh{}).Deriv} {
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
