package search

import (
	"context"
	"slices"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
)

const (
	// arrangementGap is within how many units of log-likelihood of the best another optimum is kept.
	arrangementGap = 6
	// mostRefinedMore optima are refined where all are asked for, of those that end within so many units more: EM that
	// ends where a step gains little a row has not reached them.
	mostRefinedMore, unreached = 12, 6
	// apartMore is how far apart in log-likelihood those that are refined are.
	apartMore = 0.1
	// sameValue is a difference in log-likelihood below which two runs have ended at one maximum.
	sameValue = 1e-3
)

// Near returns the other optima of which the log-likelihood is within 6 units of the best's, best first:
// those that the search has refined and that converged on all rows, without a ridge and admissible. more
// refines what else it has seen there. There are none under a tree, where σ was given, of noise that is not normal, or
// of one expert.
func (f *Found) Near(ctx context.Context, p *problem.Problem, more bool) ([]*Candidate, error) {
	if f.Best.Failed() || f.Best.Degenerate || p.Shape.K == 1 || !p.OneGate() || p.Shape.Sigma > 0 || p.Link != nil {
		return nil, nil
	}
	var all []*Candidate
	for _, c := range f.All {
		if c.refined != nil {
			c = c.refined
		}
		all = append(all, c)
	}
	if more {
		refined, err := f.refineMore(ctx, p, all)
		if err != nil {
			return nil, err
		}
		all = append(all, refined...)
	}
	slices.SortStableFunc(all, Compare)
	n := p.Count()
	found := []*Candidate{f.Best}
	for _, c := range all {
		switch v := c.Run.Value; {
		case c.Failed() || c.Degenerate || c.Run.Status != optim.Converged || c.Rows != p.N() || c.Ridge > 0:
		case v > f.Best.Run.Value+arrangementGap/n:
		case slices.ContainsFunc(found, func(o *Candidate) bool {
			return v-o.Run.Value < sameValue/n &&
				o.Run.Value-v < sameValue/n
		}):
		default:
			found = append(found, c)
		}
	}
	return found[1:], nil
}

// refineMore takes what the search has seen near the best and has not refined to its maximum.
func (f *Found) refineMore(ctx context.Context, p *problem.Problem, all []*Candidate) ([]*Candidate, error) {
	var seen []*Candidate
	for _, c := range all {
		if c.Rows == p.N() && c.Ridge > 0 {
			seen = append(seen, c)
		}
	}
	if f.Survey != nil {
		seen = append(seen, f.Survey.Pool...)
	}
	limit := f.Best.Run.Value + (arrangementGap+unreached)/p.Count()
	seen = slices.DeleteFunc(seen, func(c *Candidate) bool { return c.Failed() || c.Degenerate || c.Run.Value > limit })
	slices.SortStableFunc(seen, Compare)
	var out []*Candidate
	for _, c := range Distinct(seen, mostRefinedMore, apartMore/p.Count()) {
		refined := *c
		refined.Ridge = 0
		out = append(out, &refined)
	}
	t := &Task{Problem: p, Part: p.Rows}
	return out, Each(ctx, p, out, func(ctx context.Context, c *Candidate) error {
		return t.MaximiseByEM(ctx, c, p.Shape.Free())
	})
}
