package host

import (
	"context"
	"slices"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/sdk"
)

// DefaultMaxLeaves is how many leaves a tree grows to that has no other bound.
const DefaultMaxLeaves = 8

// FitTree grows a tree of experts, reading the data once: from one expert, by making one
// leaf a gate of two, as long as that lowers
//
//	BIC = p·log n − 2ℓ
//
// with p and ℓ as in [FitRange]. Of all leaves that whose split has the least BIC is taken.
// Where no split lowers BIC subtrees are made leaves again, and where that does not either a gate
// is joined with the one above it, which then has the branches of both; after each it may grow
// elsewhere. It has at most so many leaves. Fit.Selection of the model has all trees on the way.
//
// Every tree is fitted as [Fit] fits it alone: by a search of its own, so that what is
// compared are the likelihoods of shapes, and not of the places where a split began. A
// tree contains the one that it was split from, of which an expert stands in both new
// leaves.
//
// Leaves have one activation. cfg.K and cfg.Hierarchy are not looked at. A start or a truth
// of another tree than the one being fitted stands aside; the order of branches does not
// matter.
func FitTree(ctx context.Context, act sdk.Activation, src dataset.Source, most int, cfg Config) (*fitted.Model, error) {
	switch {
	case most < 1:
		return nil, problem.Refuse("at most %d leaves, want 1 or more", most)
	case cfg.Tied != nil:
		return nil, cfg.untied("a tree that grows")
	case cfg.ZeroExpert:
		return nil, problem.Refuse("an expert that is always 0 is for one gate, not for a tree")
	case cfg.Leaves != nil:
		return nil, problem.Refuse("a tree that grows has one activation for all its leaves")
	}
	cfg.K, cfg.Hierarchy = most, largest(most)
	cfg.Start, cfg.Truth = inOrder(cfg.Start), inOrder(cfg.Truth)
	s, err := openSeries(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	defer s.p.Close()
	if err := s.begin(ctx, checkpoint.Series{From: 1, To: most, Grown: true}); err != nil {
		return nil, err
	}
	defer s.asked.leave(ctx)
	visit := func(h model.Hierarchy, as fitted.Candidate) error { return s.tree(ctx, h, as) }
	if err := grow(most, visit, s.standing); err != nil {
		return nil, err
	}
	best := s.best()
	warnOfMost(best, most)
	return finish(ctx, s.p.Under(best.Params().Hierarchy()), best, s.cfg)
}

// largest is a tree of so many leaves: what goes for it goes for all.
func largest(leaves int) model.Hierarchy {
	if leaves <= 2 {
		return model.FlatHierarchy(leaves)
	}
	return model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(leaves - 1)}}
}

// inOrder returns parameters with their branches in the order in which trees grow; nil for nil.
func inOrder(p *model.Params) *model.Params {
	if p == nil {
		return nil
	}
	_, perm := p.Hierarchy().Sorted()
	return p.Relabel(perm)
}

// growthMoves are the moves from one tree to others, in the order in which they are tried.
var growthMoves = []struct {
	name  string
	trees func(model.Hierarchy) []model.Hierarchy
}{
	{"split", model.Hierarchy.Splits},
	{"merge", model.Hierarchy.Merges},
	{"join", model.Hierarchy.Joins},
}

// grow has trees fitted, from a leaf on, until no move leads to a better one: visit fits
// one that came about as it says, and standing returns the best so far.
func grow(most int, visit func(h model.Hierarchy, as fitted.Candidate) error, standing func() model.Hierarchy) error {
	if err := visit(model.Hierarchy{}, fitted.Candidate{}); err != nil {
		return err
	}
	for moved := true; moved; {
		moved = false
		from := standing()
		for _, move := range growthMoves {
			for _, h := range move.trees(from) {
				if h.Leaves() > most {
					continue
				}
				if err := visit(h, fitted.Candidate{From: from.String(), Move: move.name}); err != nil {
					return err
				}
			}
			if moved = !standing().Equal(from); moved {
				break
			}
		}
	}
	return nil
}

// tree fits the tree h, which came about as it says, if it has not been fitted.
func (s *series) tree(ctx context.Context, h model.Hierarchy, as fitted.Candidate) error {
	as.Hierarchy = h.String()
	if slices.ContainsFunc(s.asked.chosen.Selection,
		func(c fitted.Candidate) bool { return c.Hierarchy == as.Hierarchy }) {
		return nil
	}
	return s.fit(ctx, s.p.Under(h), s.cfg.under(h), nil, as)
}

// standing returns the best tree so far, and says of it that it was kept.
func (s *series) standing() model.Hierarchy {
	h := s.asked.chosen.Model.Params().Hierarchy()
	all := slices.Clone(s.asked.chosen.Selection) // a checkpoint may have the others
	for i, c := range all {
		all[i].Kept = c.Kept || c.Hierarchy == h.String()
	}
	s.asked.chosen.Selection = all
	return h
}

// warnOfMost warns of a tree that could not grow any further.
func warnOfMost(m *fitted.Model, most int) {
	if m.K == most {
		m.Fit.Warn(fitted.WarnLargerK,
			"the tree has %d leaves, as many as it may have (--max-leaves): a larger one may have less BIC", most)
	}
}
