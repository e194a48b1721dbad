package native_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/sdk"
)

func logistic(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	if z >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}

// dlogistic is the logistic function's derivative, which does not cancel.
func dlogistic(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	return e / ((1 + e) * (1 + e))
}

func normal(z float64) float64      { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
func normalCDF(z float64) float64   { return math.Erfc(-z/math.Sqrt2) / 2 }
func unit(float64) float64          { return 1 }
func identity(z float64) float64    { return z }
func softplus(z float64) float64    { return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }
func heaviside(z float64) float64   { return choose(z >= 0, 1, 0) }
func sign(z float64) float64        { return choose(z > 0, 1, choose(z < 0, -1, 0)) }
func leaky(z float64) float64       { return max(z, 0.01*z) }
func hardSigmoid(z float64) float64 { return max(0, min(1, 0.2*z+0.5)) }

func choose(left bool, a, b float64) float64 {
	if left {
		return a
	}
	return b
}

// lines are piecewise linear with declared kinks: every bit is to be right.
var lines = []sdk.Func{
	{Name: "constant", G: unit, DG: func(float64) float64 { return 0 }},
	{Name: "identity", G: identity, DG: unit},
	{Name: "relu", G: func(z float64) float64 { return max(z, 0) }, DG: heaviside, Kinks: []float64{0}},
	{Name: "leakyrelu", G: leaky, DG: func(z float64) float64 { return choose(z >= 0, 1, 0.01) }, Kinks: []float64{0}},
	{Name: "relu-left", G: func(z float64) float64 { return max(z, 0) }, // g′(0) is the left limit
		DG: func(z float64) float64 { return choose(z > 0, 1, 0) }, Kinks: []float64{0}},
	{Name: "step-left", G: func(z float64) float64 { return choose(z > 0.5, 1, 0) }, DG: func(float64) float64 { return 0 }, Kinks: []float64{0.5}},
	{Name: "abs", G: math.Abs, DG: func(z float64) float64 { return choose(z >= 0, 1, -1) }, Kinks: []float64{0}},
	{Name: "staircase", G: func(z float64) float64 { return math.Floor(z + 0.2) }, DG: func(float64) float64 { return 0 }},
}

// curves are smooth between kinks, some of which they do not declare.
var curves = []sdk.Func{
	{Name: "sigmoid", G: logistic, DG: dlogistic},
	{Name: "sigmoid-50", G: func(z float64) float64 { return logistic(50 * z) }, DG: func(z float64) float64 { return 50 * dlogistic(50*z) }},
	{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { return 4 * dlogistic(2*z) }},
	{Name: "softplus", G: softplus, DG: logistic},
	{Name: "gelu", G: func(z float64) float64 { return z * normalCDF(z) }, DG: func(z float64) float64 { return normalCDF(z) + z*normal(z) }},
	{Name: "elu", G: func(z float64) float64 { return choose(z < 0, math.Expm1(z), z) }, DG: func(z float64) float64 { return choose(z < 0, math.Exp(z), 1) }},
	{Name: "elu-half", // with a kink at 0 that it does not declare
		G: func(z float64) float64 { return choose(z < 0, math.Expm1(z)/2, z) }, DG: func(z float64) float64 { return choose(z < 0, math.Exp(z)/2, 1) }},
	{Name: "swish", G: func(z float64) float64 { return z * logistic(z) }, DG: func(z float64) float64 { return logistic(z) + z*dlogistic(z) }},
	{Name: "softsign", G: func(z float64) float64 { return z / (1 + math.Abs(z)) },
		DG: func(z float64) float64 { return 1 / ((1 + math.Abs(z)) * (1 + math.Abs(z))) }, Kinks: []float64{0}},
	{Name: "erf", G: math.Erf, DG: func(z float64) float64 { return 2 / math.SqrtPi * math.Exp(-z*z) }},
	{Name: "sin-5", G: func(z float64) float64 { return math.Sin(5 * z) }, DG: func(z float64) float64 { return 5 * math.Cos(5*z) }},
	{Name: "sin-30", // too fast for ±32, not for ±8
		G: func(z float64) float64 { return math.Sin(30 * z) }, DG: func(z float64) float64 { return 30 * math.Cos(30*z) }},
	{Name: "exp", G: math.Exp, DG: math.Exp},
	{Name: "square", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }},
	{Name: "cube", G: func(z float64) float64 { return z * z * z }, DG: func(z float64) float64 { return 3 * z * z }},
	{Name: "hinge", // a shifted ReLU without its kink
		G: func(z float64) float64 { return max(z-0.3, 0) }, DG: func(z float64) float64 { return choose(z >= 0.3, 1, 0) }},
	{Name: "two-hinges", G: func(z float64) float64 { return max(z-math.Pi, 0) + max(z-math.Pi-1e-3, 0) },
		DG: func(z float64) float64 { return choose(z >= math.Pi, 1, 0) + choose(z >= math.Pi+1e-3, 1, 0) }},
	{Name: "huber", // g″ jumps, at places that it does not declare
		G:  func(z float64) float64 { return choose(math.Abs(z-0.1) < 1, (z-0.1)*(z-0.1)/2, math.Abs(z-0.1)-0.5) },
		DG: func(z float64) float64 { return max(-1, min(1, z-0.1)) }},
	{Name: "hard-sigmoid", G: hardSigmoid, DG: func(z float64) float64 { return choose(math.Abs(z) < 2.5, 0.2, 0) }, Kinks: []float64{-2.5, 2.5}},
	{Name: "bump", // which no node of the wide panels sees
		G:  func(z float64) float64 { return z + bump((z-3.15)/0.05) },
		DG: func(z float64) float64 { return 1 + dbump((z-3.15)/0.05)/0.05 }},
	{Name: "tanh-plus-50", G: func(z float64) float64 { return math.Tanh(z) + 50 }, DG: func(z float64) float64 { return 4 * dlogistic(2*z) }},
	{Name: "tiny", G: func(z float64) float64 { return 1e-200 * math.Tanh(z) }, DG: func(z float64) float64 { return 4e-200 * dlogistic(2*z) }},
	{Name: "wrong-derivative", G: math.Tanh, DG: math.Cos},
}

// bump is (1 − x²)⁸ on −1 < x < 1 and 0 elsewhere.
func bump(x float64) float64  { return math.Pow(max(0, 1-x*x), 8) }
func dbump(x float64) float64 { return -16 * x * math.Pow(max(0, 1-x*x), 7) }

// rough cannot be followed.
var rough = []sdk.Func{
	{Name: "root", G: func(z float64) float64 { return math.Sqrt(math.Abs(z)) }, DG: unit},
	{Name: "root-with-kink", G: func(z float64) float64 { return math.Sqrt(math.Abs(z)) }, DG: unit, Kinks: []float64{0}},
	{Name: "single-precision", G: func(z float64) float64 { return float64(float32(math.Tanh(z))) }, DG: unit},
	{Name: "rough-derivative", G: identity, DG: func(z float64) float64 { return float64(float32(math.Cos(z))) }},
	{Name: "fast", G: func(z float64) float64 { return math.Sin(500 * z) }, DG: unit},
	{Name: "comb", G: func(z float64) float64 { return math.Floor(10 * z) }, DG: unit},
	{Name: "sign", G: sign, DG: func(float64) float64 { return 0 }, Kinks: []float64{0}}, // its value at 0 is neither side's
	{Name: "nan", G: func(z float64) float64 { return choose(z > 2, math.NaN(), z) }, DG: unit},
	{Name: "pole", G: func(z float64) float64 { return 1 / z }, DG: unit},
	{Name: "infinite", G: func(z float64) float64 { return math.Inf(1) }, DG: unit},
}

// spy is an activation that counts its calls and may fail.
type spy struct {
	sdk.Activation
	calls  atomic.Int64
	values atomic.Int64
	fail   func(call int64, z []float64) error // nil: never
}

func (s *spy) note(z []float64) error {
	call := s.calls.Add(1)
	s.values.Add(int64(len(z)))
	if s.fail != nil {
		return s.fail(call, z)
	}
	return nil
}

func (s *spy) Eval(ctx context.Context, dst, z []float64) error {
	if err := s.note(z); err != nil {
		return err
	}
	return s.Activation.Eval(ctx, dst, z)
}

func (s *spy) Deriv(ctx context.Context, dst, z []float64) error {
	if err := s.note(z); err != nil {
		return err
	}
	return s.Activation.Deriv(ctx, dst, z)
}

func build(t testing.TB, act sdk.Activation) *native.Function {
	t.Helper()
	f, err := native.Build(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// eval and deriv return the values of act at z.
func eval(t testing.TB, act model.Activation, z []float64) []float64 {
	t.Helper()
	dst := make([]float64, len(z))
	if err := act.Eval(t.Context(), dst, z); err != nil {
		t.Fatal(err)
	}
	return dst
}

func deriv(t testing.TB, act model.Activation, z []float64) []float64 {
	t.Helper()
	dst := make([]float64, len(z))
	if err := act.Deriv(t.Context(), dst, z); err != nil {
		t.Fatal(err)
	}
	return dst
}
