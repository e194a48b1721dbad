package conform

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

func checkMoments(ctx context.Context, act sdk.Activation) error {
	if _, ok := act.(sdk.MomentsProvider); !ok {
		return errAbsent
	}
	own, err := sdk.MomentsOf(ctx, act)
	if err != nil {
		return err
	}
	quadrature, err := sdk.Quadrature(ctx, act)
	if err != nil {
		return err
	}
	if reason, check := solver.CompareMoments(own, quadrature); !check.Holds {
		return errors.New(reason)
	}
	return nil
}

// checkSystem compares at three noise levels: a misplaced σ² shows where σ is
// not small.
func checkSystem(ctx context.Context, act sdk.Activation) error {
	own, ok := act.(sdk.SystemProvider)
	if !ok {
		return errAbsent
	}
	quadrature, err := sdk.Quadrature(ctx, act)
	if err != nil {
		return err
	}
	for _, sigma := range []float64{0, 0.05, 0.5} {
		system, err := own.System(ctx, sigma)
		if err != nil {
			return fmt.Errorf("at σ = %v: %w", sigma, err)
		}
		if system.Sigma != sigma {
			return fmt.Errorf("asked for the system at σ = %v, it answers for %v", sigma, system.Sigma)
		}
		if reason, check := solver.CompareSystem(system, quadrature); !check.Holds {
			return errors.New(reason)
		}
	}
	return nil
}
