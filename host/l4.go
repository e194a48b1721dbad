package host

import (
	"cmp"
	"context"

	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search/starts"
)

// L4 is 002 Section 4 on a table: SGD on L4 in ℝ^d from random unit rows, the
// regressors as the rows of (A†)ᵀ, their signs by the first moment, then L_log by
// projected gradient descent.
type L4 struct {
	MiniBatches
	Penalty descent.Penalty // of the rows' size; "": that of 002 Eq. 7
	Mu      float64         // weight μ of L4 (002 Eq. 7); 0: 0.01, or 1 with penalty norm
	Lambda  float64         // weight λ of the penalty; 0: 10, or 5 with penalty norm
	Ridge   *float64        // weight of ½‖A‖² in L4 (δ in 002 Eq. 7), at least 0; nil: 2, or none with penalty norm
	Radius  float64         // bounds the gating vectors as that of [Moments] does; 0: 10
}

// defaultRadius is that of a gate that is descended.
const defaultRadius = 10

// Name returns "l4".
func (L4) Name() string { return "l4" }

func (m L4) settings() descent.L4 {
	return descent.L4{MiniBatches: m.MiniBatches, Penalty: m.Penalty, Mu: m.Mu, Lambda: m.Lambda, Ridge: m.Ridge}
}

// Takes implements [Method].
func (L4) Takes() []Option {
	return append([]Option{OptMu, OptTransform, OptRadius, OptLambda, OptPenalty, OptRidge}, batchOptions...)
}

func (m L4) check() error { return cmp.Or(checkPositive("radius", m.Radius), m.settings().Check()) }

func (L4) order() int { return 4 }

func (m L4) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error) {
	if why := e.Unidentified(p); why != "" {
		return nil, problem.Refuse("L4 does not determine the regressors: %s; method auto falls back to the likelihood",
			why)
	}
	out := &result.Outcome{Radius: cmp.Or(m.Radius, defaultRadius)}
	out.Note(p.Inputs.Note())
	d, err := m.settings().Fit(ctx, p, e, c.shows(StageDescent))
	if err != nil {
		return nil, err
	}
	out.Note(d.Notes...)
	out.Descended, out.Estimate = d.Record, d.Estimate
	out.Estimate.Sign(p, e)
	out.Note(out.Estimate.Notes...)
	c.show(StageRefining, 0, 1)
	candidate, held, err := withGate(ctx, p, p.Shape.Adopt(out.Estimate.Params), starts.KindRandom, out.Radius)
	if err != nil {
		return nil, err
	}
	out.Note(held)
	if d.Status != optim.Converged {
		candidate.Run.Status, candidate.Agrees = d.Status, false
	}
	out.Note(noCertificate(m))
	return out.Alone(candidate), nil
}
