package solver_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
)

func unit(z float64) float64 {
	if z > 0 {
		return 1
	}
	return 0
}

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

func sech2(z float64) float64 { return 1 - math.Pow(math.Tanh(z), 2) }

func leaky(slope float64) sdk.Func {
	return sdk.Func{
		Name:  fmt.Sprintf("leaky(%v)", slope),
		G:     func(z float64) float64 { return math.Max(z, slope*z) },
		DG:    func(z float64) float64 { return slope + (1-slope)*unit(z) },
		Kinks: []float64{0},
	}
}

func fn(name string, g, dg func(float64) float64, kinks ...float64) sdk.Func {
	return sdk.Func{Name: name, G: g, DG: dg, Kinks: kinks}
}

var (
	identity = fn("identity", func(z float64) float64 { return z }, func(float64) float64 { return 1 })
	relu     = fn("relu", func(z float64) float64 { return math.Max(z, 0) }, unit, 0)
	sigmoid  = fn("sigmoid", logistic, func(z float64) float64 { return logistic(z) * logistic(-z) })
	tanh     = fn("tanh", math.Tanh, sech2)
	softplus = fn("softplus", func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) }, logistic)
	gelu     = fn("gelu", func(z float64) float64 { return z * math.Erfc(-z/math.Sqrt2) / 2 },
		func(z float64) float64 {
			return math.Erfc(-z/math.Sqrt2)/2 + z*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
		})
	elu = fn("elu", func(z float64) float64 { return math.Max(z, 0) + math.Expm1(math.Min(z, 0)) },
		func(z float64) float64 { return math.Exp(math.Min(z, 0)) }, 0)
	erf = fn("erf", func(z float64) float64 { return math.Sqrt(math.Pi) / 2 * math.Erf(z) },
		func(z float64) float64 { return math.Exp(-z * z) })
	milli  = fn("z/1000", func(z float64) float64 { return z / 1000 }, func(float64) float64 { return 1e-3 })
	cube   = fn("z³", func(z float64) float64 { return z * z * z }, func(z float64) float64 { return 3 * z * z })
	offset = fn("tanh+50", func(z float64) float64 { return math.Tanh(z) + 50 }, sech2)

	absolute = fn("|z|", math.Abs, func(z float64) float64 { return 2*unit(z) - 1 }, 0)
	square   = fn("z²", func(z float64) float64 { return z * z }, func(z float64) float64 { return 2 * z })

	flat     = func(float64) float64 { return 0 }
	constant = fn("constant", func(float64) float64 { return math.Pi }, flat)
	zero     = fn("zero", flat, flat)
	step     = fn("step", unit, flat, 0)
	oblique  = fn("step at 0.3, undeclared", func(z float64) float64 { return unit(z - .3) }, flat)
	sign     = fn("sign", func(z float64) float64 { return 2*unit(z) - 1 }, flat, 0)
	window   = fn("window", func(z float64) float64 { return unit(math.Abs(z) - 1) }, flat, -1, 1)
)

var (
	valid   = []sdk.Func{identity, relu, leaky(.01), leaky(.1), leaky(.5), sigmoid, tanh, softplus, gelu, elu, erf, milli, cube, offset}
	even    = []sdk.Func{absolute, square}
	invalid = []sdk.Func{constant, zero, step, oblique, sign, window}
)

func quadrature(t testing.TB, act sdk.Activation) sdk.Moments {
	t.Helper()
	m, err := sdk.Quadrature(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
