// Package narrower has a search begin from the optima under a narrower density, of which that of the problem is a wider
// one.
package narrower

import (
	"context"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/host/search/survey"
	"github.com/gatedlearning/moe/host/search/tree"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	// mostNarrower optima under the narrower density begin.
	mostNarrower = 4
	// mostStarts look for them where there is no survey.
	mostStarts = 8
)

// Begin has the search begin from the optima under the density of which that of the problem is a wider one too,
// if there is one: on all rows, beside a survey's optima, or on the part, as starts.
func Begin(ctx context.Context, t *search.Task, e *moment.Evidence, whole bool) error {
	all, err := narrower(ctx, t, e)
	if err != nil {
		return err
	}
	if !whole {
		for _, q := range all {
			t.First = append(t.First, starts.Start{Kind: starts.KindNarrower,
				Draw: func(context.Context, *rand.Rand) (*model.Params, error) { return q, nil }})
		}
		return nil
	}
	for _, q := range all {
		c, err := t.ClimbFrom(ctx, t.Problem.Shape.Free(), starts.KindNarrower, q)
		if err != nil {
			return err
		}
		if c != nil {
			t.Others = append(t.Others, c)
		}
	}
	return nil
}

// narrower returns the distinct optima under the narrower density, best first, in the shape of the wider one. The best
// comes a second time, before them, where the two densities are next to each other: the likelihood under the wider one
// is then not below it.
func narrower(ctx context.Context, t *search.Task, e *moment.Evidence) (all []*model.Params, err error) {
	p := t.Problem
	n := p.Narrower()
	if n == nil {
		return nil, nil
	}
	n.Seed = stream.New(p.Seed, stream.Narrower, 0).Uint64()
	seen, err := survey.Small(ctx, n, e, t.Starts)
	if err != nil {
		return nil, err
	}
	var best []*search.Candidate
	if seen != nil {
		best = seen.Best
	} else {
		from := &search.Task{Problem: n, Part: t.Part, Starts: min(t.Starts, mostStarts),
			Cycle: []starts.Start{starts.KMeans(n, t.Part), starts.Random(n, e)}}
		if !n.OneGate() {
			from.First, from.Cycle = tree.Starts(n, e, nil, t.Part)
		}
		screened, err := from.Screen(ctx, nil, 0)
		if err != nil {
			return nil, err
		}
		rows, _ := t.Part.Dims()
		best = search.Distinct(screened, mostNarrower, search.SameOptimum(p.CountOf(rows)))
	}
	for _, c := range best[:min(len(best), mostNarrower)] {
		if c.Failed() || c.Degenerate {
			continue
		}
		q := p.Shape.Adopt(c.Params)
		if limit := p.Shape.Limit(q); len(all) == 0 && limit != nil {
			all = append(all, limit)
		}
		all = append(all, q)
	}
	return all, nil
}
