package host

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/sdk"
)

// FitSums fits by method [Moments] or [Spectral] to a table that is known by the sums of
// all rounds over its shards, which the file of that name holds. The tensors, and so
// the regressors with their signs, are those that [Fit] with the transforms that the sums
// are made for, [Polynomial] or [Optimal], makes of all rows, to the byte; the gate, the noise level and the likelihood are those
// of the random subsample in the file. Errors: [*RequestError], *dataset.Error where
// the sums are made for something else, those of act and of ctx.
func FitSums(ctx context.Context, act sdk.Activation, sums *shard.Moments, file string, cfg Config) (*fitted.Model, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	switch cfg.Method.(type) {
	case Moments, Spectral:
	default:
		return nil, refuse("method %s has no use for sums; methods moments and spectral do", cfg.Method.Name())
	}
	p, e, err := sums.Evidence(ctx, file, act, cfg.request(), cfg.Transform)
	if err != nil {
		return nil, err
	}
	if all, taken := sums.Rows(); taken < all {
		p.Notes = append(p.Notes, fmt.Sprintf("the regressors are those of all %d rows; the gate, the noise level and the likelihood those of a random subsample of %d", all, taken))
	}
	return fit(ctx, p, e, run{Config: cfg})
}
