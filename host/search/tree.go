package search

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/arrange"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/splitmerge"
	"github.com/gatedlearning/moe/internal/stream"
)

// addTree adds the starts of a tree.
func addTree(t *Task, e *moment.Evidence, estimate *moment.Estimate) {
	p := t.Problem
	flat, splits := Flat(p, e), Splits(p, e, t.Part)
	t.First = append(t.First, flat)
	if estimate != nil {
		from := Moments(p.Flat(), e, KindMoments, estimate, t.Part)
		t.First = append(t.First, inTree(p, from))
	}
	t.Cycle = []Start{splits, flat, Random(p, e)}
}

// inTree is a start under one gate with its experts arranged in the tree of p, by more
// rows than starts are screened on.
func inTree(p *problem.Problem, flat Start) Start {
	return Start{Kind: flat.Kind, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		q, err := flat.Draw(ctx, rng)
		if err != nil {
			return nil, err
		}
		return arrange.Best(ctx, p, p.Rows, q, rng)
	}}
}

// flatStarts is the budget of starts of a search under one gate.
const flatStarts = 8

// Flat is the best of a search for the same experts under one gate, arranged: experts
// that lie apart are found under any gate that lets them have their rows.
func Flat(p *problem.Problem, e *moment.Evidence) Start {
	return inTree(p, Start{Kind: KindFlat, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		flat := p.Flat()
		flat.Seed, flat.Threads = rng.Uint64(), 1
		t, err := newTask(ctx, flat, e, nil, Settings{Starts: flatStarts})
		if err != nil {
			return nil, err
		}
		all, err := t.screen(ctx, nil, 0)
		if err != nil {
			return nil, err
		}
		return all[0].Params, nil
	}})
}

// Splits begins with one expert and splits, again and again, that which has the largest
// sum of squared residuals, along its axis ([loss.Structure]), with EM under one gate in
// between; then arranges them. Experts with activations of their own come in a random
// order.
func Splits(p *problem.Problem, e *moment.Evidence, part model.Rows) Start {
	return inTree(p, Start{Kind: KindSplits, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		flat := p.Flat()
		come := rng.Perm(p.Shape.K)
		one := Random(flat.With(1), e)
		q, err := one.Draw(ctx, rng)
		if err != nil {
			return nil, err
		}
		for {
			l := loss.NewLikelihood(part, someOf(p.G.Activation, come[:q.K]), q, p.Shape.Free(), 1)
			l.PenaliseGate(ScreenRidge)
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
	}})
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
func SplitMerge() Step {
	applies := func(t *Task, c *Candidate) bool {
		return !t.Problem.OneGate() && !c.Degenerate && c.Run.Status == optim.Converged
	}
	return inPlace("split and merge", applies,
		func(ctx context.Context, t *Task, c *Candidate, _ Occasion) error { return rework(ctx, t, c) })
}

func rework(ctx context.Context, t *Task, c *Candidate) error {
	n := t.Problem.N()
	l := loss.NewLikelihood(t.Problem.Rows, t.Problem.G, c.Params, t.Problem.Shape.Free(), t.Problem.Threads)
	propose := splitmerge.Of(t.Problem, t.Problem.Rows, stream.New(t.Problem.Seed, stream.Rework, 0))
	for range mostReworked {
		better, err := splitmerge.Improve(ctx, l, c.Run, propose)
		if better == nil || err != nil {
			return err
		}
		if better.Status != optim.Converged {
			if better, err = climb.Sharpen(ctx, l, better, nil); err != nil {
				return err
			}
		}
		better.Trace = slices.Concat(c.Run.Trace, better.Trace)
		c.Run, c.Params, c.Rows = better, l.Params(better.X), n
		if err = c.separate(ctx, l); err != nil {
			return err
		}
		if c.Groups != nil {
			err = c.finish(ctx, l)
		} else {
			err = c.MarkDegenerate(ctx, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const mostReworked = 6
