package splitmerge

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
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/arrange"
)

// Of returns the proposals that suit a problem: under one gate the moves of split and merge,
// under a tree the arrangements after them, by part of the rows. Where experts have activations of their own
// two of different ones may change places too.
func Of(p *problem.Problem, part model.Rows, rng *rand.Rand) Proposals[*model.Params] {
	return func(ctx context.Context, q *model.Params, s *loss.Structure) iter.Seq2[*model.Params, error] {
		return func(yield func(*model.Params, error) bool) {
			tree := !p.OneGate()
			if tree {
				others, err := arrange.Others(ctx, p, part, q, rng)
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
				from, err := c.make(ctx, p, part, q, s, tree)
				if !yield(from, err) {
					return
				}
			}
		}
	}
}

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

// Grown returns p with one expert more, the last, in that shape: a half of the one with the largest sum of squared
// residuals.
func Grown(p *model.Params, s *loss.Structure, shape problem.Shape) *model.Params {
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
