package solver_test

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// TestStrongIdentifiability: functions that solve a linear equation with polynomials of degree 2, of which each case
// has one, are not strongly identifiable. Those that have infinitely many poles or branch points in the complex plane
// solve none; z·Φ(z) solves one with a polynomial of degree 3, and none of degree 2.
func TestStrongIdentifiability(t *testing.T) {
	phi := func(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
	normal := func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
	logistic := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	for _, c := range []struct {
		name  string
		g, dg func(z float64) float64
		kinks []float64
		want  solver.Answer
	}{
		{"g″ = 0", func(z float64) float64 { return z }, func(float64) float64 { return 1 }, nil, solver.No},
		{"zg″ = 2g′", func(z float64) float64 { return z * z * z }, func(z float64) float64 { return 3 * z * z }, nil, solver.No},
		{"g′ = g", math.Exp, math.Exp, nil, solver.No},
		{"g″ = −g", math.Sin, math.Cos, nil, solver.No},
		{"g″ = −zg′", normal, phi, nil, solver.No},
		{"(1 + z²)g′ = 1", math.Atan, func(z float64) float64 { return 1 / (1 + z*z) }, nil, solver.No},
		{"(1 + z²)g′ = 2z", func(z float64) float64 { return math.Log1p(z * z) },
			func(z float64) float64 { return 2 * z / (1 + z*z) }, nil, solver.No},
		{"sigmoid", logistic, func(z float64) float64 { return logistic(z) * logistic(-z) }, nil, solver.Yes},
		{"tanh", math.Tanh, func(z float64) float64 { return math.Pow(math.Cosh(z), -2) }, nil, solver.Yes},
		{"softplus", func(z float64) float64 { return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }, logistic, nil, solver.Yes},
		{"steep sigmoid", func(z float64) float64 { return logistic(5 * z) },
			func(z float64) float64 { return 5 * logistic(5*z) * logistic(-5*z) }, nil, solver.Yes},
		{"z·Φ(z)", func(z float64) float64 { return z * normal(z) },
			func(z float64) float64 { return normal(z) + z*phi(z) }, nil, solver.Yes},
		{"|z|", math.Abs, func(z float64) float64 { return math.Copysign(1, z) }, []float64{0}, solver.NotJudged},
		{"rounded", func(z float64) float64 { return math.Round(1e6*math.Tanh(z)) / 1e6 },
			func(z float64) float64 { return math.Round(1e6/math.Pow(math.Cosh(z), 2)) / 1e6 }, nil, solver.NotJudged},
	} {
		got, err := solver.StrongIdentifiabilityOf(t.Context(), &sdk.Func{Name: "g", G: c.g, DG: c.dg, Kinks: c.kinks})
		if err != nil || got.Verdict != c.want {
			t.Errorf("%s: %+v, %v, want %s", c.name, got, err, c.want)
		}
		t.Logf("%s: %+v", c.name, got)
	}
}
