package host

import (
	"cmp"
	"context"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/steps"
)

// Auto looks for the highest joint likelihood: candidates from the moment
// estimate and other starts are screened on part of the data, the best refined
// on all of it, and a certificate says whether to trust it.
type Auto struct {
	// weight μ of L4 (002 Eq. 7) in the moment estimate, see [moment.EstimateParams]; 0: rows held orthonormal
	Mu     float64
	Starts int // most starts; 0: 32
}

// Name returns "auto".
func (Auto) Name() string { return "auto" }

// Takes implements [Method].
func (Auto) Takes() []Option {
	return append([]Option{OptMu, OptTransform, OptInputs, OptArrangements, OptSharedGate, OptCheckpoints},
		likelihoodOptions...)
}

func (m Auto) check() error {
	return cmp.Or(checkPositive("mu", m.Mu), checkStarts(m.Starts))
}

func (Auto) order() int { return 4 }

func (m Auto) starts() int { return cmp.Or(m.Starts, search.DefaultStarts) }

func (m Auto) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error) {
	c.show(StageMoments, 1, 2)
	s := search.Settings{
		Mu: m.Mu, Starts: m.starts(), Own: c.Start, Resume: c.resume, From: c.from, Steps: steps.All(),
		Untested: c.unjudged,
		Follow:   search.Follow{Screening: c.shows(StageScreening), Refining: c.shows(StageRefining)},
	}
	if c.checkpoint != nil {
		s.Checkpoint = func(s search.State) { c.checkpoint(p, s) }
	}
	found, err := search.Auto(ctx, p, e, s)
	if err != nil {
		return nil, err
	}
	near, err := found.Near(ctx, p, c.Arrangements)
	if err != nil {
		return nil, err
	}
	return &result.Outcome{
		Near: near, Best: found.Best, All: found.All, Estimate: found.Estimate, Survey: found.Survey,
		Certificate: found.Certificate, Doubts: found.Doubts,
		Joint: true, Begun: found.Begun, Notes: found.Notes,
	}, nil
}
