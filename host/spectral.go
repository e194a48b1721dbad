package host

import (
	"context"
	"slices"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
)

// Spectral is 001, method 1: regressors, signs and proportions from the
// decomposition of the cubic tensor, then the gate by EM with the regressors held.
type Spectral struct {
	Radius float64 // bounds the gating vectors as that of [Moments] does; 0: no bound
}

// Name returns "spectral".
func (Spectral) Name() string { return "spectral" }

// Takes implements [Method].
func (Spectral) Takes() []Option { return slices.Clone(tensorOptions) }

func (m Spectral) check() error { return checkPositive("radius", m.Radius) }

func (Spectral) order() int { return 3 }

func (m Spectral) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*outcome, error) {
	c.show(StageMoments, 1, 2)
	estimate, obstacle, err := moment.EstimateSpectral(ctx, p, e)
	if err != nil {
		return nil, err
	}
	return fromTensors(ctx, p, e, estimate, obstacle, search.KindSpectral, m.Radius, m)
}
