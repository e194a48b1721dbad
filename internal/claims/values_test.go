package claims_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

func rectifier(z float64) float64 { return max(z, 0) }

func function(g func(float64) float64) sdk.Func { return sdk.Func{Name: "f", G: g} }

// recorded returns the values of g as they come back from a file.
func recorded(t *testing.T, act sdk.Activation) *claims.Values {
	t.Helper()
	v, err := claims.ValuesOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	v = new(claims.Values)
	if err := errors.Join(json.Unmarshal(data, v), v.Validate()); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestValuesAgree: a function agrees with itself, with the same written another
// way, and with itself up to rounding.
func TestValuesAgree(t *testing.T) {
	own, err := relu.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ was, is sdk.Activation }{
		"the built-in":          {own, function(rectifier)},
		"softplus, rewritten":   {function(softplus), function(func(z float64) float64 { return -math.Log(logistic(-min(z, 30))) + max(z, 30) - 30 })},
		"tanh through exp":      {function(math.Tanh), function(func(z float64) float64 { e := math.Expm1(2 * min(z, 100)); return e / (e + 2) })},
		"rounding":              {function(math.Sin), function(func(z float64) float64 { return math.Sin(z) * (1 + 4e-16) })},
		"a constant":            {function(func(float64) float64 { return 2 }), function(func(float64) float64 { return 2 + 1e-15 })},
		"overflow at the nodes": {function(math.Exp), function(math.Exp)},
	} {
		if err := recorded(t, c.was).Compare(t.Context(), c.is); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValuesDiffer: other functions are seen, also those that are the same where
// N(0,1) lies, and the place is one where they differ.
func TestValuesDiffer(t *testing.T) {
	for name, is := range map[string]func(float64) float64{
		"tanh":                 math.Tanh,
		"min(ReLU, 4)":         func(z float64) float64 { return min(rectifier(z), 4) },
		"min(ReLU, 10)":        func(z float64) float64 { return min(rectifier(z), 10) },
		"capped at 500":        func(z float64) float64 { return min(rectifier(z), 500) },
		"scaled by 1 + 3e-9":   func(z float64) float64 { return rectifier(z) * (1 + 3e-9) },
		"a leak of 1e-9":       func(z float64) float64 { return max(z, 1e-9*z) },
		"NaN far out":          func(z float64) float64 { return rectifier(z) + 0*math.Sqrt(1000.5-math.Abs(z)*1.001) },
		"moved by 1e-8 at one": func(z float64) float64 { return rectifier(z) + 1e-8*math.Exp(-40*(z-1)*(z-1)) },
	} {
		err := recorded(t, function(rectifier)).Compare(t.Context(), function(is))
		differ := (*claims.DifferenceError)(nil)
		if !errors.As(err, &differ) {
			t.Errorf("%s: %v, want a DifferenceError", name, err)
			continue
		}
		if was, now := rectifier(differ.Z), is(differ.Z); differ.Was != was || math.Float64bits(differ.Is) != math.Float64bits(now) || was == now {
			t.Errorf("%s: %v, but g(%v) was %v and is %v", name, differ, differ.Z, was, now)
		}
	}
}

// faulty fails as a plugin does where its function is not finite.
type faulty struct{ sdk.Func }

func (f faulty) Eval(ctx context.Context, dst, z []float64) error {
	if err := f.Func.Eval(ctx, dst, slices.Clone(z)); err != nil {
		return err
	}
	for i, v := range dst {
		if !numeric.Finite(v) {
			return &numeric.NotFiniteError{Z: z[i], Value: v}
		}
	}
	return nil
}

// TestValuesOverflow: nodes at which g overflows are left out, whether it returns
// infinity or fails; within Reach that is an error.
func TestValuesOverflow(t *testing.T) {
	for name, act := range map[string]sdk.Activation{"returns": function(math.Exp), "fails": faulty{function(math.Exp)}} {
		v := recorded(t, act)
		if n := len(claims.Nodes()); len(v.Z) != n-1 || v.Z[len(v.Z)-1] != 100 {
			t.Errorf("%s: %d nodes of %d up to %v; exp overflows at 1000 alone", name, len(v.Z), n, v.Z[len(v.Z)-1])
		}
	}
	if _, err := claims.ValuesOf(t.Context(), function(math.Sqrt)); err == nil {
		t.Error("NaN in the middle is no error")
	}
	relu := recorded(t, function(rectifier))
	differ := (*claims.DifferenceError)(nil)
	if err := relu.Compare(t.Context(), faulty{function(math.Exp)}); !errors.As(err, &differ) || differ.Z != 1000 || differ.Was != 1000 || !math.IsInf(differ.Is, 1) {
		t.Errorf("a plugin that overflows at 1000, where it did not: %v", err)
	}
}

// TestValuesOfAnotherHand: values that are none are refused.
func TestValuesOfAnotherHand(t *testing.T) {
	for name, change := range map[string]func(v *claims.Values){
		"few":           func(v *claims.Values) { v.Z, v.G = v.Z[:60], v.G[:60] },
		"none":          func(v *claims.Values) { *v = claims.Values{} },
		"one too many":  func(v *claims.Values) { v.G = append(v.G, 1) },
		"NaN":           func(v *claims.Values) { v.G[3] = math.NaN() },
		"infinite node": func(v *claims.Values) { v.Z[0] = math.Inf(-1) },
		"twice":         func(v *claims.Values) { v.Z[4] = v.Z[3] },
	} {
		v := recorded(t, function(rectifier))
		change(v)
		if v.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
