package properties

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
)

// TestStrongIdentifiability: functions whose dependence is derived by hand. With z = ⟨a, x⟩ + b:
// a line has g″ = 0; z²: z·g″ = g′; z³: z·g″ = 2g′; any cubic: 1, z and z² times g′ and g″ are six polynomials of
// degree 4; exp: g″ = g′; sin: π_1π_2(g_1 − g_2) is a sum of π_j·g″_j where the gate has no slope; z·exp(z): g″ = (z + 2)e^z and g′ = (z + 1)e^z, so (z + 1)·g″ = (z + 2)·g′;
// exp(−z²/2): g″ = (z² − 1)g, g′ = −z·g, so z·g″ = −(z² − 1)·g′;
// Φ: g″ = −z·g′; asinh: g′ = (1 + z²)^(−1/2), so (1 + z²)·g″ = −z·g′.
// The sigmoid is 1/(1 + e^{−z}), whose powers are independent over polynomials.
func TestStrongIdentifiability(t *testing.T) {
	sigmoid := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	for _, c := range []struct {
		name  string
		g, dg func(z float64) float64
		kinks []float64
		want  Answer
	}{
		{"identity", func(z float64) float64 { return z }, func(float64) float64 { return 1 }, nil, No},
		{"constant", func(float64) float64 { return 3 }, func(float64) float64 { return 0 }, nil, No},
		{"square", func(z float64) float64 { return z * z }, func(z float64) float64 { return 2 * z }, nil, No},
		{"cubic", func(z float64) float64 { return z * z * z }, func(z float64) float64 { return 3 * z * z }, nil, No},
		{"cubic-and-line", func(z float64) float64 { return z*z*z - 3*z + 1 },
			func(z float64) float64 { return 3*z*z - 3 }, nil, No},
		{"exp", math.Exp, math.Exp, nil, No},
		{"line-exp", func(z float64) float64 { return z * math.Exp(z) },
			func(z float64) float64 { return (z + 1) * math.Exp(z) }, nil, No},
		{"sine", math.Sin, math.Cos, nil, No},
		{"bell", func(z float64) float64 { return math.Exp(-z * z / 2) },
			func(z float64) float64 { return -z * math.Exp(-z*z/2) }, nil, No},
		{"probit", func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 },
			func(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }, nil, No},
		{"asinh", math.Asinh, func(z float64) float64 { return 1 / math.Hypot(1, z) }, nil, No},
		{"sigmoid", sigmoid, func(z float64) float64 { return sigmoid(z) * sigmoid(-z) }, nil, Yes},
		{"tanh", math.Tanh, func(z float64) float64 { return 1 - math.Tanh(z)*math.Tanh(z) }, nil, Yes},
		{"steep-tanh", func(z float64) float64 { return math.Tanh(5 * z) },
			func(z float64) float64 { return 5 * (1 - math.Tanh(5*z)*math.Tanh(5*z)) }, nil, Yes},
		{"softplus", func(z float64) float64 { return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }, sigmoid, nil, Yes},
		{"relu", func(z float64) float64 { return math.Max(z, 0) }, step, []float64{0}, NotJudged},
		{"silent-relu", func(z float64) float64 { return math.Max(z, 0) }, step, nil, NotJudged},
		{"silent-spline", func(z float64) float64 { return z * z * math.Abs(z) / 3 },
			func(z float64) float64 { return z * math.Abs(z) }, nil, NotJudged},
		{"overflow", func(z float64) float64 { return math.Exp(z * z * z * z) },
			func(z float64) float64 { return 4 * z * z * z * math.Exp(z*z*z*z) }, nil, NotJudged},
	} {
		for _, scale := range []float64{1, 1e-3, 1e4} { // of y: no answer rests on its unit
			got, err := StrongIdentifiabilityOf(t.Context(), sdk.Func{Name: c.name, Kinks: c.kinks,
				G:  func(z float64) float64 { return scale * c.g(z) },
				DG: func(z float64) float64 { return scale * c.dg(z) }})
			if err != nil {
				t.Fatal(err)
			}
			if got.Answer != c.want || (got.Reason == "") != (c.want == Yes) || (got.Least > 0) != (c.want == Yes) {
				t.Errorf("%s times %g: %+v, want %s", c.name, scale, got, c.want)
			}
			t.Logf("%s times %g: %s %s %.2g", c.name, scale, got.Answer, got.Reason, got.Least)
		}
	}
}

func step(z float64) float64 {
	if z > 0 {
		return 1
	}
	return 0
}
