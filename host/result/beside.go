package result

import (
	"cmp"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/shard/newton"
)

// nearGap is the difference of mean log-likelihoods over nearRows rows that says nothing of which is
// the larger on all rows; it falls with the root of the rows. host/search screens by the same.
const (
	nearGap  = 0.02
	nearRows = 2048
)

// beside adds to m the optima of a search on some of the rows that may be the best on all: of
// those within nearGap of the best, each with how many starts ended at it.
func beside(m *fitted.Model, p *problem.Problem, out *Outcome) {
	n := p.Count()
	gap := nearGap * math.Sqrt(nearRows/n)
	value := func(c *search.Candidate) float64 {
		if c.Whole != nil {
			return *c.Whole
		}
		return c.Run.Value
	}
	var others []newton.Optimum
	last := out.Best.Run.Value
	sorted := slices.SortedStableFunc(slices.Values(out.All),
		func(a, b *search.Candidate) int { return cmp.Compare(value(a), value(b)) })
	for _, c := range sorted {
		v := value(c)
		switch same := v <= last+search.SameOptimum(n); {
		case c.Degenerate || c.Failed() || c.Agrees || c.Groups != nil || c.Rows != p.N() && c.Whole == nil ||
			v > out.Best.Run.Value+gap:
		case same && len(others) > 0:
			others[len(others)-1].Agreeing++
		case !same:
			others = append(others, newton.Optimum{Params: p.Units.OutOf(c.Params), Agreeing: 1})
			last = v
		}
	}
	newton.SideBySide(m, others)
}
