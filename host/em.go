package host

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/host/search/vacancy"
	"github.com/gatedlearning/moe/internal/stream"
)

// EM is joint EM from random starts, the paper's baseline: with σ fixed where it is known, free otherwise.
type EM struct {
	Starts int // so many; 0: 8
}

// Name returns "em".
func (EM) Name() string { return "em" }

// Takes implements [Method].
func (EM) Takes() []Option { return slices.Clone(likelihoodOptions) }

func (m EM) check() error { return checkStarts(m.Starts) }

func (EM) order() int { return 0 }

func (m EM) starts() int { return cmp.Or(m.Starts, 8) }

func (m EM) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error) {
	all := randomStarts(c.Config, m.starts())
	random := starts.Random(p, e)
	ended := starting(c.Config, len(all))
	err := search.Draw(ctx, p, all, stream.Start, 0,
		func(ctx context.Context, candidate *search.Candidate, rng *rand.Rand) error {
			start := random
			if candidate.Kind == starts.KindOwn {
				start = starts.Own(p, c.Start)
			}
			q, err := start.Draw(ctx, rng)
			if err != nil {
				return err
			}
			if p.Shape.Sigma > 0 {
				q = p.Shape.WithNoise(q, p.Shape.Sigma)
			}
			l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Estimated(), 1)
			if candidate.Run, err = optim.EM(ctx, l, l.Theta(q),
				optim.Settings{Iterations: 2000, Tolerance: 1e-10}); err != nil {
				return err
			}
			candidate.Params, candidate.Rows = l.Params(candidate.Run.X), p.N()
			ended()
			return nil
		})
	if err != nil {
		return nil, err
	}
	search.Agree(all, p.Shape.Classes(), search.SameOptimum(p.Count()))
	if all[0].Failed() {
		return nil, search.NoneFinite(p)
	}
	found, err := search.Judge(ctx, p, all, vacancy.Places())
	if err != nil {
		return nil, err
	}
	return &result.Outcome{Best: found.Best, All: all, Certificate: found.Certificate, Doubts: found.Doubts,
		Joint: true, Notes: found.Notes}, nil
}

// starting shows that so many starts have begun, side by side, and returns what each is to call where it has ended.
func starting(c Config, n int) (ended func()) {
	var mu sync.Mutex
	done := 0
	c.show(StageScreening, done, n)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		c.show(StageScreening, done, n)
	}
}

// randomStarts are n candidates from random starts, the user's own first if there is one.
func randomStarts(c Config, n int) []*search.Candidate {
	all := make([]*search.Candidate, n)
	for i := range all {
		all[i] = &search.Candidate{Kind: starts.KindRandom}
	}
	if c.Start != nil {
		all[0].Kind = starts.KindOwn
	}
	return all
}
