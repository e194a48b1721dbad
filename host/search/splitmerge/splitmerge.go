// Package splitmerge moves experts from where a fit is stuck: two are merged and one is split, or two of different
// activations change places. Under a tree the experts are then arranged.
package splitmerge

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
)

// A fit stuck in a local optimum has one expert where the truth has two, and
// two where it has one. A move mends that: it merges the experts keep and drop
// and splits expert in two, and lets the likelihood decide (split-and-merge EM,
// Ueda et al. 2000).
type move struct{ keep, drop, split int }

// movesPerRound is how many moves are tried from one optimum before giving up.
const movesPerRound = 4

// moves returns the most promising moves, best first: pairs with the largest
// share of common rows, experts with the largest residual per row.
func moves(s *loss.Structure) []move {
	k := len(s.Mass)
	type scored struct {
		m     move
		score float64
	}
	var pairs, splits []scored
	for i := range k {
		splits = append(splits, scored{move{split: i}, s.RSS[i] / max(s.Mass[i], 1)})
		for j := i + 1; j < k; j++ {
			keep, drop := i, j
			if s.Mass[j] > s.Mass[i] {
				keep, drop = j, i
			}
			pairs = append(pairs, scored{move{keep: keep, drop: drop}, s.Overlap[i*k+j] / max(s.Mass[drop], 1e-300)})
		}
	}
	byScore := func(a, b scored) int { return cmp.Compare(b.score, a.score) }
	slices.SortStableFunc(pairs, byScore)
	slices.SortStableFunc(splits, byScore)
	var all []scored
	for r, p := range pairs[:min(3, len(pairs))] {
		for q, e := range splits[:min(3, len(splits))] {
			if e.m.split != p.m.keep && e.m.split != p.m.drop {
				m := p.m
				m.split = e.m.split
				all = append(all, scored{m, -float64(r + q)})
			}
		}
	}
	slices.SortStableFunc(all, byScore)
	out := make([]move, 0, movesPerRound)
	for _, m := range all[:min(movesPerRound, len(all))] {
		out = append(out, m.m)
	}
	return out
}

// apply returns p after the move: the dropped expert becomes the second half
// of the split one, the two halves twice the residual's rms apart along its
// axis, with equal gates and noise.
func (m move) apply(p *model.Params, s *loss.Structure) *model.Params {
	q := p.Clone()
	Halve(q, p, s, m.split, m.drop)
	q.ShareGate(m.drop, m.split)
	return q
}

// Halve makes the dropped expert of q the second half of the split one of p, of which s is the structure.
func Halve(q, p *model.Params, s *loss.Structure, split, drop int) {
	half := append([]float64(nil), s.Axes[split]...)
	// Residuals of so many units of y are so many of g by the output's scale.
	apart := math.Sqrt(s.RSS[split] / max(s.Mass[split], 1))
	if _, scale := p.OutputOf(split); scale != 0 {
		apart /= math.Abs(scale)
	}
	floats.Scale(apart, half)
	q.CopyOutput(drop, split)
	floats.AddTo(q.Regressor(split), p.Regressor(split), half[:p.D])
	floats.SubTo(q.Regressor(drop), p.Regressor(split), half[:p.D])
	if p.RegressorIntercepts != nil {
		b := p.RegressorIntercepts[split]
		q.RegressorIntercepts[split], q.RegressorIntercepts[drop] = b+half[p.D], b-half[p.D]
	}
	q.CopyOwn(drop, split)
}

// ClearGain is a gain per row that needs no refining to be seen: runs that ended
// where EM crawls are below their optima by less.
var ClearGain = 100 * climb.Crawl

// Proposals are parameters P to go on from, instead of those where a run ended, the most
// promising first. An error is the last.
type Proposals[P any] func(ctx context.Context, p P, s *loss.Structure) iter.Seq2[P, error]

// OfTargets returns the moves of split and merge from parameters of several targets.
func OfTargets(_ context.Context, p *model.VectorParams, s *loss.Structure) iter.Seq2[*model.VectorParams, error] {
	return func(yield func(*model.VectorParams, error) bool) {
		for _, m := range moves(s) {
			if !yield(m.applyToAll(p, s), nil) {
				return
			}
		}
	}
}

// applyToAll is apply to every target.
func (m move) applyToAll(p *model.VectorParams, s *loss.Structure) *model.VectorParams {
	c, of := 0, *s
	q := p.Each(func(q *model.Params) *model.Params {
		of.Axes = make([][]float64, p.K)
		of.Axes[m.split] = s.Axes[m.split][c*(p.D+1) : (c+1)*(p.D+1)]
		c++
		return m.apply(q, &of)
	}, nil)
	if len(q.Noise) > 1 {
		copy(q.Noise[m.drop].Scale, q.Noise[m.split].Scale)
		copy(q.Noise[m.drop].Others(), q.Noise[m.split].Others())
	}
	return q
}

// structured is a likelihood of parameters P whose structure is known.
type structured[P any] interface {
	climb.Likelihood
	Params(theta []float64) P
	Theta(p P) []float64
	Structure(ctx context.Context, p P) (*loss.Structure, error)
}

// Improve tries moves from where r ended and returns the first run that gains,
// or nil if none does. The run is an approach, and ends where EM crawls if its gain is clear there.
// Where it is not the run is refined, if r is an optimum: if it is not, a small
// gain says nothing about the move.
func Improve[P any](ctx context.Context, l structured[P], r *optim.Result,
	propose Proposals[P], approach climb.Way) (*optim.Result, error) {
	p := l.Params(r.X)
	s, err := l.Structure(ctx, p)
	if err != nil {
		return nil, err
	}
	for from, err := range propose(ctx, p, s) {
		if err != nil {
			return nil, err
		}
		stop := climb.TooFarBehind(r.Value)
		tried, err := approach(ctx, l, l.Theta(from), stop)
		if err != nil {
			return nil, err
		}
		if tried.Status == optim.Stopped {
			continue
		}
		if !(tried.Value < r.Value-ClearGain) {
			if r.Status != optim.Converged {
				continue
			}
			if tried, err = climb.Sharpen(ctx, l, tried, stop); err != nil {
				return nil, err
			}
		}
		if climb.Superior(tried.Value, r.Value, l.Rows()) {
			tried.Iterations += r.Iterations
			return tried, nil
		}
	}
	return nil, nil
}
