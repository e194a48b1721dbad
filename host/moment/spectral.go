package moment

import (
	"context"

	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/stream"
)

// restarts is the number of random starts of the power iterations for each expert.
const restarts = 30

// EstimateSpectral is the estimate of 001, method 1: T̂3 in the subspace of T̂2,
// whitened by it, is near Σ_i v_i⊗v_i⊗v_i/√p_i with orthonormal v_i, which
// [tensor.Sym3.Orthogonal] finds with their signs; regressor i is the direction of
// UΛ^{1/2}v_i, and the squared norm of that estimates p_i. Where the moments cannot
// tell it says why, and the estimate is nil.
func EstimateSpectral(ctx context.Context, p *problem.Problem,
	e *Evidence) (est *Estimate, obstacle string, err error) {
	if obstacle = e.Obstacle(p, 3); obstacle != "" {
		return nil, obstacle, nil
	}
	s := e.Subspace
	if e.score != nil {
		t3, err := e.score.third(ctx, e.score.data(p.Rows), s, p.Threads)
		if err != nil {
			return nil, "", err
		}
		est = e.score.spectral(t3, s, p.Seed)
		return est, "", e.score.settle(ctx, p, e, est, true)
	}
	sums := e.sums3
	if sums == nil {
		if sums, err = e.sum(ctx, p, 3, s.Basis, s.Centre); err != nil {
			return nil, "", err
		}
	}
	t3 := sums.T3()
	t3.ScaleModes(s.whitening())
	found := t3.Orthogonal(stream.New(p.Seed, stream.Spectral, 0), restarts)
	return s.estimate(found.Vectors, found.Agreeing), "", nil
}
