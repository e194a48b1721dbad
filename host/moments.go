package host

import (
	"cmp"
	"context"

	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
)

// Moments is the paper alone: regressors from the moment tensors, gating by L_log.
type Moments struct {
	Mu float64 // weight μ of L4 (002 Eq. 7), see [moment.EstimateParams]; 0: rows held orthonormal
	// Radius bounds the gating vectors: |w_i| ≤ Radius (002 §3.2), for features as
	// the fit sees them, which is in units of their rms where they are not N(0, I).
	// 0: no bound.
	Radius float64
}

// Name returns "moments".
func (Moments) Name() string { return "moments" }

// Takes implements [Method].
func (Moments) Takes() []Option { return append([]Option{OptMu}, tensorOptions...) }

func (m Moments) check() error {
	return cmp.Or(checkPositive("mu", m.Mu), checkPositive("radius", m.Radius))
}

func (Moments) order() int { return 4 }

func (m Moments) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error) {
	c.show(StageMoments, 1, 2)
	estimate, obstacle, err := moment.EstimateParams(ctx, p, e, m.Mu)
	if err != nil {
		return nil, err
	}
	return fromTensors(ctx, p, e, estimate, obstacle, starts.KindMoments, m.Radius, m)
}

// fromTensors is the outcome of a method that estimates the regressors from moment tensors and fits the gate to them.
func fromTensors(ctx context.Context, p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate, obstacle,
	kind string, radius float64, m Method) (*result.Outcome, error) {
	if estimate == nil {
		return nil, problem.Refuse("there is no moment estimate: %s; method auto falls back to the likelihood",
			obstacle)
	}
	out := &result.Outcome{Estimate: estimate}
	out.Note(estimate.Notes...)
	out.Note(e.InputsNote(p))
	q := p.Shape.Adopt(estimate.Params)
	if e.Marginal != nil {
		q = moment.Begin(p, e, estimate)
	}
	candidate, held, err := withGate(ctx, p, q, kind, radius)
	if err != nil {
		return nil, err
	}
	out.Note(held, noCertificate(m))
	return out.Alone(candidate), nil
}

// withGate is the candidate of this kind that [gate] makes of q.
func withGate(ctx context.Context, p *problem.Problem, q *model.Params, kind string,
	radius float64) (c *search.Candidate, note string, err error) {
	c = &search.Candidate{Kind: kind, Rows: p.N(), Agrees: true}
	if c.Params, c.Run, note, err = gate(ctx, p, q, radius); err == nil && c.Failed() {
		err = search.NoneFinite(p)
	}
	return c, note, err
}

// gate fits the gate to the regressors of q on all rows, with σ as given where it
// is, and within the radius where there is one. The note says what the radius
// holds back.
func gate(ctx context.Context, p *problem.Problem, q *model.Params,
	radius float64) (_ *model.Params, _ *optim.Result, note string, err error) {
	if radius > 0 {
		return descent.Gate(ctx, p, q, radius)
	}
	q, run, err := starts.FitGate(ctx, p, p.Rows, q, 0, p.Threads)
	if err != nil || p.Shape.Sigma == 0 {
		return q, run, "", err
	}
	q = p.Shape.WithNoise(q, p.Shape.Sigma)
	l := loss.Log(p.Rows, p.G, q, p.Threads)
	if run, err = climb.Climb(ctx, l, l.Theta(q), nil); err != nil {
		return nil, nil, "", err
	}
	return l.Params(run.X), run, "", nil
}
