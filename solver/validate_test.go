package solver_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

var errBroken = errors.New("broken")

// broken is an activation of which one thing fails.
type broken struct {
	sdk.Func
	eval, deriv error
}

func (b broken) Eval(ctx context.Context, dst, z []float64) error {
	if b.eval != nil {
		return b.eval
	}
	return b.Func.Eval(ctx, dst, z)
}

func (b broken) Deriv(ctx context.Context, dst, z []float64) error {
	if b.deriv != nil {
		return b.deriv
	}
	return b.Func.Deriv(ctx, dst, z)
}

// ofMoments has moments of its own, or fails to have them.
type ofMoments struct {
	sdk.Func
	err error
}

func (o ofMoments) Moments(ctx context.Context) (sdk.Moments, error) {
	if o.err != nil {
		return sdk.Moments{}, o.err
	}
	return sdk.Quadrature(ctx, o.Func)
}

// withoutSystem fails where it is asked for its system.
type withoutSystem struct{ sdk.Func }

func (withoutSystem) System(context.Context, float64) (sdk.System, error) {
	return sdk.System{}, errBroken
}

// TestErrorsPassThrough: whatever of an activation fails is the error of who asked.
func TestErrorsPassThrough(t *testing.T) {
	for name, act := range map[string]sdk.Activation{
		"values": broken{Func: relu, eval: errBroken}, "derivative": broken{Func: relu, deriv: errBroken},
		"moments": ofMoments{relu, errBroken}, "system": withoutSystem{relu},
	} {
		if v, err := solver.Validate(t.Context(), act, .05); !errors.Is(err, errBroken) || v != nil {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	values := broken{Func: relu, eval: errBroken}
	if _, err := solver.NoiseOf(t.Context(), values, solver.Transform{C4: 1, C2: 1}); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), `noise of activation "relu"`) {
		t.Errorf("noise: %v", err)
	}
	if _, err := solver.NewOptimal(t.Context(), values, .05, 2); !errors.Is(err, errBroken) {
		t.Errorf("least variance: %v", err)
	}
}

// TestValidateSays: moments of its own that are right, none, and what is left out where
// there is nothing to say.
func TestValidateSays(t *testing.T) {
	own, err := solver.Validate(t.Context(), ofMoments{relu, nil}, .05)
	if err != nil || !own.OwnMoments || own.MomentsDifference > 1e-12 || !own.Verdict.Valid || len(own.Verdict.Checks) != 10 {
		t.Errorf("%+v, %v", own, err)
	}
	none, err := solver.Validate(t.Context(), relu, .05)
	if err != nil || none.OwnMoments || none.MomentsDifference != 0 || len(none.Verdict.Checks) != 9 || none.Noise == nil || none.OneHiddenLayer == nil {
		t.Errorf("%+v, %v", none, err)
	}
	names := []string{
		"g is not constant", "system agrees with the moments", "the moments are exact enough to tell",
		"S4 has no He1 part", "S4 has no He2 part", "S4 has no He3 part", "c4 is not zero", "S2 has no He1 part", "c2 is not zero",
	}
	for i, c := range none.Verdict.Checks {
		if c.Name != names[i] || !c.Holds {
			t.Errorf("check %d is %+v, want %q", i, c, names[i])
		}
	}
	invalid, err := solver.Validate(t.Context(), sign, .05)
	if err != nil || invalid.Verdict.Valid || invalid.Noise != nil || invalid.OneHiddenLayer == nil {
		t.Errorf("%+v, %v", invalid, err)
	}
	// φ′ grows as exp(z²/3), which ρ cannot take, and g does not.
	steep := fn("steep", math.Tanh, func(z float64) float64 { return math.Exp(z * z / 3) })
	if v, err := solver.Validate(t.Context(), steep, .05); err != nil || !v.Verdict.Valid || v.Noise == nil || v.OneHiddenLayer != nil {
		t.Errorf("%+v, %v", v, err)
	}
}
