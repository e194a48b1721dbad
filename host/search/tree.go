package search

import (
	"cmp"
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/arrange"
	"github.com/gatedlearning/moe/host/search/climb"
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
			q = grown(q, s, flat.With(q.K+1).Shape)
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

// grown returns p with one expert more, the last, in that shape: a half of the one with the largest sum of squared
// residuals.
func grown(p *model.Params, s *loss.Structure, shape problem.Shape) *model.Params {
	m := move{split: floats.MaxIdx(s.RSS), drop: p.K}
	q := shape.Blank(p.SigmaOf(0))
	for i := range p.K {
		q.CopyExpert(i, p, i)
	}
	copy(q.Gating, p.Gating)
	copy(q.GatingIntercepts, p.GatingIntercepts)
	Halve(q, p.Clone(), s, m.split, m.drop)
	q.ShareGate(m.drop, m.split)
	return q
}

// proposalsOf returns those that suit the problem: under one gate the moves of split and merge,
// under a tree the arrangements after them. Where experts have activations of their own
// two of different ones may change places too.
func proposalsOf(t *Task, rng *rand.Rand) proposals[*model.Params] {
	p := t.Problem
	return func(ctx context.Context, q *model.Params, s *loss.Structure) iter.Seq2[*model.Params, error] {
		return func(yield func(*model.Params, error) bool) {
			tree := !OneGate(p)
			if tree {
				others, err := arrange.Others(ctx, p, t.Part, q, rng)
				if err != nil {
					yield(nil, err)
					return
				}
				for _, other := range others {
					if !yield(other, nil) {
						return
					}
				}
			}
			for _, c := range changes(p.Shape.Kinds, s) {
				from, err := c.make(ctx, p, t.Part, q, s, tree)
				if !yield(from, err) {
					return
				}
			}
		}
	}
}

// SplitMerge looks for a better tree than the best on all rows, by the proposals of the
// screening: two trees that are close on a part need not be so on all.
func SplitMerge() Step {
	applies := func(t *Task, c *Candidate) bool {
		return !OneGate(t.Problem) && !c.Degenerate && c.Run.Status == optim.Converged
	}
	return inPlace("split and merge", applies,
		func(ctx context.Context, t *Task, c *Candidate, _ Occasion) error { return rework(ctx, t, c) })
}

func rework(ctx context.Context, t *Task, c *Candidate) error {
	n := t.Problem.N()
	l := loss.NewLikelihood(t.Problem.Rows, t.Problem.G, c.Params, t.Problem.Shape.Free(), t.Problem.Threads)
	whole := *t
	whole.Part = t.Problem.Rows
	propose := proposalsOf(&whole, stream.New(t.Problem.Seed, stream.Rework, 0))
	for range mostReworked {
		better, err := improve(ctx, l, c.Run, propose)
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

// change is a move, or an exchange of the experts split and drop.
type change struct {
	move
	exchange bool
}

// mostExchanges bounds the exchanges of experts with different activations that are
// tried from one optimum.
const mostExchanges = 6

// changes returns the most promising moves, then exchanges of experts of different kinds,
// those with the largest residuals first.
func changes(kinds []int, s *loss.Structure) (out []change) {
	for _, m := range moves(s) {
		out = append(out, change{move: m})
	}
	var exchanges []change
	for i, kind := range kinds {
		for j := range i {
			if kinds[j] != kind {
				exchanges = append(exchanges, change{move{split: i, drop: j}, true})
			}
		}
	}
	residual := func(c change) float64 {
		return s.RSS[c.split]/max(s.Mass[c.split], 1) + s.RSS[c.drop]/max(s.Mass[c.drop], 1)
	}
	slices.SortStableFunc(exchanges, func(a, b change) int { return cmp.Compare(residual(b), residual(a)) })
	return append(out, exchanges[:min(len(exchanges), mostExchanges)]...)
}

// make returns q after the change; in a tree the experts are then arranged.
func (c change) make(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params, s *loss.Structure,
	tree bool) (*model.Params, error) {
	switch {
	case !tree && c.exchange:
		perm := make([]int, q.K)
		for i := range perm {
			perm[i] = i
		}
		perm[c.split], perm[c.drop] = c.drop, c.split
		return q.Relabel(perm), nil
	case !tree:
		return c.apply(q, s), nil
	}
	out := q.Clone()
	if c.exchange {
		c.swap(out)
	} else {
		Halve(out, q, s, c.split, c.drop)
	}
	return arrange.Settled(ctx, p, rows, out, c.rescore)
}

// swap exchanges the experts split and drop.
func (c change) swap(q *model.Params) {
	before := q.Clone()
	q.CopyExpert(c.split, before, c.drop)
	q.CopyExpert(c.drop, before, c.split)
}

// rescore gives the scores log P(z|x) of a block to the experts after the change: the
// rows of the dropped one go to the one that is kept, and those of the split one to its
// halves.
func (c change) rescore(r *mixture.Posterior) {
	n := r.N
	split, drop, keep := r.Scores[c.split*n:(c.split+1)*n], r.Scores[c.drop*n:(c.drop+1)*n],
		r.Scores[c.keep*n:(c.keep+1)*n]
	for t := range n {
		if c.exchange {
			split[t], drop[t] = drop[t], split[t]
			continue
		}
		top := max(keep[t], drop[t])
		keep[t] = top + math.Log(math.Exp(keep[t]-top)+math.Exp(drop[t]-top))
		split[t] -= math.Ln2
		drop[t] = split[t]
	}
}
