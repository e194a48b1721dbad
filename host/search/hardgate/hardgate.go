// Package hardgate has the steps of a search that look for a better arrangement of the rows in the cells of a gate that
// has become hard: which rows ended on the wrong side of a boundary depends on the way there, and no climb mends it.
package hardgate

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	// mostExchanged is rows times parameters up to which gates are reheated and rows exchanged: of
	// more, those on the wrong side of a boundary are few of many.
	mostExchanged = 150_000
	// exchangeRounds are the most rounds of exchanges, after each of which the experts are refitted.
	exchangeRounds = 20
)

// reheats are the ridges with which a gate that separates is made soft again, one after
// the other until none of them has led any higher.
var reheats = []float64{1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7}

// Reheating looks for a better arrangement of the rows on the two sides of each boundary of
// a candidate whose gate separates: it puts a ridge back, climbs, and lets it fall.
func Reheating() search.Step {
	return search.Step{Name: "reheating", Applies: separatedSmall,
		Try: func(ctx context.Context, t *search.Task, c *search.Candidate,
			_ search.Occasion) (*search.Candidate, error) {
			return c, Reheat(ctx, t, c)
		}}
}

// separatedSmall says whether the gate of a candidate separates, on a table whose rows are looked at one by one.
func separatedSmall(t *search.Task, c *search.Candidate) bool {
	return c.Groups != nil && t.Size() <= mostExchanged
}

// Reheat is [Reheating], which leaves alone what it does not apply to.
func Reheat(ctx context.Context, t *search.Task, c *search.Candidate) error {
	if !separatedSmall(t, c) {
		return nil
	}
	for i, idle := 0, 0; idle < len(reheats); i++ {
		trial := *c
		if err := t.ReapplyRidge(ctx, &trial, reheats[i%len(reheats)], i); err != nil {
			return err
		}
		if idle++; trial.Beats(c, t.Problem.Count()) {
			*c, idle = trial, 0
		}
	}
	return nil
}

// RowExchange moves rows between the cells of the best, and of what was found otherwise, where their gates separate.
func RowExchange() search.Step {
	return search.Step{Name: "row exchange",
		Try: func(ctx context.Context, t *search.Task, best *search.Candidate,
			_ search.Occasion) (*search.Candidate, error) {
			return exchanged(ctx, t, best)
		}}
}

// exchanged returns the best of a candidate and what was found otherwise after exchanges.
func exchanged(ctx context.Context, t *search.Task, best *search.Candidate) (*search.Candidate, error) {
	all := []*search.Candidate{best}
	for _, c := range t.Others {
		if r := c.Refined(); r != best {
			all = append(all, r)
		}
	}
	err := search.Draw(ctx, t.Problem, all, stream.Exchange, 0,
		func(ctx context.Context, c *search.Candidate, rng *rand.Rand) error { return Exchange(ctx, t, c, rng) })
	return slices.MinFunc(all, search.Compare), err
}

// Exchange looks for a better arrangement of the rows in the cells of a candidate whose
// gate separates ([separation.Exchange]), after which the experts are refitted. Under a tree there are no such cells,
// and nothing is exchanged.
func Exchange(ctx context.Context, t *search.Task, c *search.Candidate, rng *rand.Rand) error {
	p := t.Problem
	// Rows that are not 0 have no place in the cell of an expert that is.
	if !c.Groups.OneGate() || p.Shape.ConstantGate || p.Shape.Zero || p.Size() > mostExchanged {
		return nil
	}
	for range exchangeRounds {
		moved, err := separation.Exchange(ctx, p, c.Params, c.Groups, rng)
		if moved == nil || err != nil {
			return err
		}
		trial := *c
		trial.Params = moved
		if err := t.Refit(ctx, &trial); err != nil {
			return err
		}
		if trial.Degenerate || !climb.Superior(trial.Run.Value, c.Run.Value, p.Count()) {
			return nil
		}
		*c = trial
	}
	return nil
}
