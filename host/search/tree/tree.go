// Package tree has what a search for a tree of gates has of its own: where it starts, and a step on all rows.
package tree

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/arrange"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/splitmerge"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// Starts are those of a search for a tree that is screened on part of the rows: those that are made once, and those
// that are made in turn.
func Starts(p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate,
	part model.Rows) (first, cycle []starts.Start) {
	flat, splits := flatBest(p, e), splitting(p, e, part)
	first = []starts.Start{flat}
	if estimate != nil {
		first = append(first, inTree(p, starts.Moments(p.Flat(), e, starts.KindMoments, estimate, part)))
	}
	return first, []starts.Start{splits, flat, starts.Random(p, e)}
}

// inTree is a start under one gate with its experts arranged in the tree of p, by more
// rows than starts are screened on.
func inTree(p *problem.Problem, flat starts.Start) starts.Start {
	return starts.Start{Kind: flat.Kind, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		q, err := flat.Draw(ctx, rng)
		if err != nil {
			return nil, err
		}
		return arrange.Best(ctx, p, p.Rows, q, rng)
	}}
}

// flatStarts is the budget of starts of a search under one gate.
const flatStarts = 8

// flatBest is the best of a search for the same experts under one gate, arranged: experts
// that lie apart are found under any gate that lets them have their rows.
func flatBest(p *problem.Problem, e *moment.Evidence) starts.Start {
	draw := func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		flat := p.Flat()
		flat.Seed, flat.Threads = rng.Uint64(), 1
		t, err := search.NewTask(ctx, flat, e, nil, search.Settings{Starts: flatStarts})
		if err != nil {
			return nil, err
		}
		all, err := t.Screen(ctx, nil, 0)
		if err != nil {
			return nil, err
		}
		return all[0].Params, nil
	}
	return inTree(p, starts.Start{Kind: starts.KindFlat, Draw: draw})
}

// splitting begins with one expert and splits, again and again, that which has the largest
// sum of squared residuals, along its axis ([loss.Structure]), with EM under one gate in
// between; then arranges them. Experts with activations of their own come in a random
// order.
func splitting(p *problem.Problem, e *moment.Evidence, part model.Rows) starts.Start {
	draw := func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		flat := p.Flat()
		come := rng.Perm(p.Shape.K)
		one := starts.Random(flat.With(1), e)
		q, err := one.Draw(ctx, rng)
		if err != nil {
			return nil, err
		}
		for {
			l := loss.NewLikelihood(part, someOf(p.G.Activation, come[:q.K]), q, p.Shape.Free(), 1)
			l.PenaliseGate(starts.ScreenRidge)
			r, err := climb.Approach(ctx, l, l.Theta(q), nil)
			if err != nil {
				return nil, err
			}
			if q = l.Params(r.X); q.K == p.Shape.K {
				return q.Relabel(come), nil
			}
			s, err := l.Structure(ctx, q)
			if err != nil {
				return nil, err
			}
			q = splitmerge.Grown(q, s, flat.With(q.K+1).Shape)
		}
	}
	return inTree(p, starts.Start{Kind: starts.KindSplits, Draw: draw})
}

// someOf are the activations of the experts named, in that order.
func someOf(act model.Activation, experts []int) model.Activation {
	leaves, own := act.(model.PerExpert)
	if !own {
		return act
	}
	out := make(model.PerExpert, len(experts))
	for i, at := range experts {
		out[i] = leaves[at]
	}
	return out
}

// SplitMerge looks for a better tree than the best on all rows, by the proposals of the
// screening: two trees that are close on a part need not be so on all.
func SplitMerge() search.Step {
	applies := func(t *search.Task, c *search.Candidate) bool {
		return !t.Problem.OneGate() && !c.Degenerate && c.Run.Status == optim.Converged
	}
	return search.Step{Name: "split and merge", Applies: applies,
		Try: func(ctx context.Context, t *search.Task, best *search.Candidate,
			_ search.Occasion) (*search.Candidate, error) {
			return best, rework(ctx, t, best)
		}}
}

func rework(ctx context.Context, t *search.Task, c *search.Candidate) error {
	l := loss.NewLikelihood(t.Problem.Rows, t.Problem.G, c.Params, t.Problem.Shape.Free(), t.Problem.Threads)
	propose := splitmerge.Of(t.Problem, t.Problem.Rows, stream.New(t.Problem.Seed, stream.Rework, 0))
	for range mostReworked {
		better, err := splitmerge.Improve(ctx, l, c.Run, propose, climb.Approach)
		if better == nil || err != nil {
			return err
		}
		if better.Status != optim.Converged {
			if better, err = climb.Sharpen(ctx, l, better, nil); err != nil {
				return err
			}
		}
		better.Trace = slices.Concat(c.Run.Trace, better.Trace)
		if err := c.Stand(ctx, l, better); err != nil {
			return err
		}
	}
	return nil
}

// mostReworked better trees are gone on from.
const mostReworked = 6
