package properties_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver/properties"
)

func fn(name string, g, dg func(float64) float64, kinks ...float64) sdk.Func {
	return sdk.Func{Name: name, G: g, DG: dg, Kinks: kinks}
}

func unit(z float64) float64 {
	if z > 0 {
		return 1
	}
	return 0
}

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

var (
	identity = fn("identity", func(z float64) float64 { return z }, func(float64) float64 { return 1 })
	relu     = fn("relu", func(z float64) float64 { return math.Max(z, 0) }, unit, 0)
	leaky    = fn("leaky", func(z float64) float64 { return math.Max(z, .01*z) }, func(z float64) float64 { return .01 + .99*unit(z) }, 0)
	tanh     = fn("tanh", math.Tanh, func(z float64) float64 { return 1 - math.Pow(math.Tanh(z), 2) })
	softplus = fn("softplus", func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) }, logistic)
	gelu     = fn("gelu", func(z float64) float64 { return z * math.Erfc(-z/math.Sqrt2) / 2 },
		func(z float64) float64 {
			return math.Erfc(-z/math.Sqrt2)/2 + z*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
		})
	elu = fn("elu", func(z float64) float64 { return math.Max(z, 0) + math.Expm1(math.Min(z, 0)) },
		func(z float64) float64 { return math.Exp(math.Min(z, 0)) }, 0)
	erf = fn("erf", func(z float64) float64 { return math.Sqrt(math.Pi) / 2 * math.Erf(z) },
		func(z float64) float64 { return math.Exp(-z * z) })
	square = fn("z²", func(z float64) float64 { return z * z }, func(z float64) float64 { return 2 * z })
)

// TestOneHiddenLayer: ρ at three scales, and the conditions for the
// activations that the slides of 003 name.
func TestOneHiddenLayer(t *testing.T) {
	quarter := 0.25 - 1/(2*math.Pi)
	shrunk := fn("z³/10 + z", func(z float64) float64 { return z + z*z*z/10 }, func(z float64) float64 { return 1 + .3*z*z })
	kinked := fn("z⁴+4z, z > 0", func(z float64) float64 { return unit(z) * (z*z*z*z + 4*z) }, func(z float64) float64 { return unit(z) * (4*z*z*z + 4) }, 0)
	negative := fn("max(−z,0)", func(z float64) float64 { return math.Max(-z, 0) }, func(z float64) float64 { return unit(z) - 1 }, 0)
	reluSquared := fn("max(z,0)²", func(z float64) float64 { return z * math.Max(z, 0) }, func(z float64) float64 { return 2 * math.Max(z, 0) }, 0)
	for _, c := range []struct {
		act        sdk.Func
		p1, p2, p3 bool
		scales     []float64
		rho        []float64
		tol        float64 // relative: digits given
	}{
		{relu, true, true, true, []float64{.1, 1, 10}, []float64{quarter, quarter, quarter}, 1e-12},
		{tanh, true, true, true, []float64{.1, 1, 10}, []float64{1.8503e-4, 4.9193e-2, 5.1263e-5}, 1e-4},
		{erf, true, true, true, []float64{.1, 1, 10}, []float64{1.8852e-4, 5.2406e-2, 2.4752e-5}, 1e-4},
		{leaky, true, true, true, []float64{1}, []float64{.99 * .99 * quarter}, 1e-12},
		{identity, true, false, true, []float64{1}, []float64{0}, 1e-12},
		{square, false, false, true, []float64{.5, 2}, []float64{-1, -16}, 1e-12}, // −4σ²
		{reluSquared, true, true, true, []float64{.1, 10}, []float64{.27323954473516 * .01, 27.323954473516}, 1e-9},
		{negative, false, true, true, nil, nil, 0},
		{kinked, true, true, false, nil, nil, 0},
		{shrunk, true, true, false, nil, nil, 0},
		{fn("exp", math.Exp, math.Exp), false, true, false, nil, nil, 0},
		{elu, true, true, true, nil, nil, 0},
		{gelu, false, true, true, nil, nil, 0},
	} {
		o, err := properties.OneHiddenLayerOf(t.Context(), c.act, 1)
		if err != nil {
			t.Fatal(err)
		}
		if o.P1 != c.p1 || o.P2 != c.p2 || o.P3 != c.p3 {
			t.Errorf("%s: %+v, want P1 %v, P2 %v, P3 %v", c.act.Name, o, c.p1, c.p2, c.p3)
		}
		for i, scale := range c.scales {
			o, err := properties.OneHiddenLayerOf(t.Context(), c.act, scale)
			if err != nil || math.Abs(o.Rho-c.rho[i]) > c.tol*math.Max(math.Abs(c.rho[i]), 1e-3) {
				t.Errorf("%s: ρ(%v) = %v (%v), want %v", c.act.Name, scale, o.Rho, err, c.rho[i])
			}
		}
	}
}

// TestSmallRho: where φ is nearly linear ρ is 1e−14 of the terms whose difference it is. The
// oracle is the series of softplus: what 1 and Z leave of φ′(σZ) is −σ³/48·(1 − σ²)·He3(Z) and
// terms in σ⁵·He5, in all 6·(σ³/48)²·(1 − 2σ² + O(σ⁴)).
func TestSmallRho(t *testing.T) {
	for _, sigma := range []float64{.003, .01, .03} {
		want := 6 * math.Pow(math.Pow(sigma, 3)/48, 2) * (1 - 2*sigma*sigma)
		rho, _, err := properties.RhoOf(t.Context(), softplus, sigma)
		if tol := 30*math.Pow(sigma, 4) + 1e-7; err != nil || math.Abs(rho/want-1) > tol {
			t.Errorf("ρ(%v) = %v (%v), want %v within %v of it", sigma, rho, err, want, tol)
		}
	}
}

// TestRhoRange: what 003's P2 asks at every scale, at those from 0.1 to 10. The least
// ρ of tanh and erf is at 10.
func TestRhoRange(t *testing.T) {
	quarter := 0.25 - 1/(2*math.Pi)
	for _, c := range []struct {
		act sdk.Func
		p2  bool
		min float64
		max float64
		tol float64
	}{
		{relu, true, quarter, quarter, 1e-12}, {tanh, true, 5.1263e-5, math.NaN(), 1e-4}, {erf, true, 2.4752e-5, math.NaN(), 1e-4},
		{identity, false, 0, 0, 1e-12}, {square, false, -400, -.04, 1e-12}, // −4σ²
	} {
		r, err := properties.RhoRangeOf(t.Context(), c.act)
		if err != nil {
			t.Fatal(err)
		}
		if r.P2 != c.p2 || math.Abs(r.Min-c.min) > c.tol*math.Max(math.Abs(c.min), 1e-3) || r.Max < r.Min || math.Abs(r.Max-c.max) > c.tol {
			t.Errorf("%s: %+v, want P2 %v, from %v to %v", c.act.Name, r, c.p2, c.min, c.max)
		}
	}
	steep := fn("exp(z²/3)", nil, func(z float64) float64 { return math.Exp(z * z / 3) })
	if r, err := properties.RhoRangeOf(t.Context(), steep); r != nil || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	wild := fn("exp(z²/8)", nil, func(z float64) float64 { return z / 4 * math.Exp(z*z/8) })
	if r, err := properties.RhoRangeOf(t.Context(), wild); r != nil || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	far := fn("NaN beyond 50", nil, func(z float64) float64 { // 0·Inf
		if math.Abs(z) > 50 {
			return math.NaN()
		}
		return math.Exp(-z)
	})
	if r, err := properties.RhoRangeOf(t.Context(), far); r != nil || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

var errBroken = errors.New("broken")

// broken is an activation whose derivative fails.
type broken struct{ sdk.Func }

func (broken) Deriv(context.Context, []float64, []float64) error { return errBroken }

// TestErrorsPassThrough: what of an activation fails is the error of who asked.
func TestErrorsPassThrough(t *testing.T) {
	act := broken{tanh}
	for _, sigma := range []float64{1, 2} {
		if _, err := properties.OneHiddenLayerOf(t.Context(), act, sigma); !errors.Is(err, errBroken) {
			t.Errorf("one hidden layer: %v", err)
		}
	}
	if r, err := properties.RhoRangeOf(t.Context(), act); !errors.Is(err, errBroken) || r != nil {
		t.Errorf("range of ρ: %v, %v", r, err)
	}
	if _, _, err := properties.RhoOf(t.Context(), act, 1); !errors.Is(err, errBroken) {
		t.Errorf("ρ: %v", err)
	}
}
