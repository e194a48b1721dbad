package solver

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver/properties"
)

// Validation is all that can be said about an activation at noise level Sigma
// without data.
type Validation struct {
	Sigma     float64
	System    sdk.System // as the activation offers it
	Transform Transform
	Verdict   Verdict
	// MomentsDifference is the largest relative difference between the
	// activation's own moments and quadrature of its g (see [CompareMoments]); 0
	// where it offers none, and OwnMoments is false.
	MomentsDifference float64
	OwnMoments        bool
	Noise             *Noise                     // nil where the activation is invalid or V4 is infinite
	OneHiddenLayer    *properties.OneHiddenLayer // at σ = 1; nil where φ′ grows too fast for ρ
}

// Validate judges act by the quadrature of its values: what it says about
// itself, moments and system, is compared with that and counts against it where
// it is wrong. An activation without a fourth moment is invalid; errors are
// those of act.
func Validate(ctx context.Context, act sdk.Activation, sigma float64) (*Validation, error) {
	v := &Validation{Sigma: sigma}
	info := act.Info()
	grid, err := gauss.NewGrid(ctx, act.Eval, info.Kinks) // for all expectations of g
	if errors.Is(err, gauss.ErrGrowth) {
		v.Verdict.Cond = 1
		v.Verdict.Fail("g " + err.Error())
		return v, nil
	}
	if err != nil {
		return nil, fmt.Errorf("moments of activation %q: %w", info.Name, err)
	}
	m := sdk.MomentsOn(grid)
	own := m
	if _, v.OwnMoments = act.(sdk.MomentsProvider); v.OwnMoments {
		if own, err = sdk.MomentsOf(ctx, act); err != nil {
			return nil, err
		}
	}
	if v.System, err = sdk.SystemFrom(ctx, act, own, sigma); err != nil {
		return nil, err
	}
	v.Transform, v.Verdict = Solve(m, v.System, sigma)
	if !v.Verdict.SignsIdentifiable {
		if v.Verdict.Even, err = properties.Even(ctx, act, grid); err != nil {
			return nil, err
		}
	}
	if v.OwnMoments {
		v.compareMoments(own, m)
	}
	if v.Verdict.Valid {
		switch n, err := noiseOn(grid, info.Name, v.Transform); {
		case err == nil:
			v.Noise = &n
		case !errors.Is(err, gauss.ErrGrowth):
			return nil, err
		}
	}
	switch o, err := properties.OneHiddenLayerOf(ctx, act, 1); {
	case err == nil:
		v.OneHiddenLayer = &o
	case !errors.Is(err, gauss.ErrGrowth):
		return nil, err
	}
	return v, nil
}

func (v *Validation) compareMoments(own, quadrature sdk.Moments) {
	reason, check := CompareMoments(own, quadrature)
	v.MomentsDifference = check.Value
	v.Verdict.Checks = append(v.Verdict.Checks, check)
	if !check.Holds {
		v.Verdict.Fail(reason)
	}
}
