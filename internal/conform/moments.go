package conform

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

func checkMoments(ctx context.Context, act sdk.Activation, c *claims.Claims) error {
	if _, ok := act.(sdk.MomentsProvider); !ok {
		return errAbsent
	}
	_, err := c.Moments(ctx)
	return reason(err)
}

func checkSystem(ctx context.Context, act sdk.Activation, c *claims.Claims) error {
	if _, ok := act.(sdk.SystemProvider); !ok {
		return errAbsent
	}
	for _, sigma := range claims.NoiseLevels() {
		_, err := c.System(ctx, sigma)
		if why := reason(err); why != err {
			return why
		}
		if err != nil {
			return fmt.Errorf("at σ = %v: %w", sigma, err)
		}
	}
	return nil
}
