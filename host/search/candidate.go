// Package search looks for the highest maximum of the joint likelihood:
// candidates from starts of several kinds are screened on part of the rows,
// mended by split-merge moves, and the best refined on all rows.
package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// sameOptimum is a difference in total log-likelihood below which two
// optima count as one: no test could tell them apart.
const sameOptimum = 0.5

// agreeing starts at the best optimum end the search.
const agreeing = 3

// Candidate is one start and where it got to.
type Candidate struct {
	Kind       string
	Run        *optim.Result
	Params     *model.Params
	Vector     *model.VectorParams // of several targets under one gate, in the place of Params
	Rows       int                 // on which it ran
	Agrees     bool                // with the best on its optimum
	Degenerate bool                // an expert shrank onto a few rows: never the best
	Loss       *float64            // of all rows, where a method minimises another than the likelihood
	// the mean negative log-likelihood of all rows at Params, where Run is on others or has a ridge
	Whole     *float64
	Groups    *separation.Groups // of branches, where a gate separates rows; see [separation.Separated]
	Ridge     float64            // on the gate, which Run.Value has; see [loss.Likelihood.PenaliseGate]
	Gains     []Gain             // what steps have gained on the way to it
	Contended bool               // it was refined before more starts were made, and will be again

	start   starts.Start
	refined *Candidate // what became of it on more rows
}

// Place puts c where a start begins; the zero value leaves it where it is.
func (c *Candidate) Place(ctx context.Context, s starts.Start, rng *rand.Rand) (err error) {
	switch {
	case s.Vector != nil:
		c.Vector, err = s.Vector(ctx, rng)
	case s.Draw != nil:
		c.Params, err = s.Draw(ctx, rng)
	}
	return err
}

// Refined is what became of c on more rows, nil where it was not refined.
func (c *Candidate) Refined() *Candidate { return c.refined }

// Failed says whether the start led nowhere: to no finite likelihood.
func (c *Candidate) Failed() bool { return math.IsNaN(c.Run.Value) || math.IsInf(c.Run.Value, 0) }

// Compare orders candidates by their value, degenerate ones behind the others
// and those that failed last.
func Compare(a, b *Candidate) int {
	rank := func(c *Candidate) int {
		switch {
		case c.Failed():
			return 2
		case c.Degenerate:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Run.Value, b.Run.Value))
}

// better is the one of two that comes first, a where neither does.
func better(a, b *Candidate) *Candidate { return slices.MinFunc([]*Candidate{a, b}, Compare) }

// Beats says whether c comes before another candidate on so many rows, and its value is superior.
func (c *Candidate) Beats(other *Candidate, rows float64) bool {
	return climb.Superior(c.Run.Value, other.Run.Value, rows) && Compare(c, other) < 0
}

// Agree sorts the candidates, best first, marks those that agree with the best,
// which are within tolerance of its mean log-likelihood, and says whether they
// are enough for k experts.
func Agree(all []*Candidate, k int, tolerance float64) bool {
	slices.SortStableFunc(all, Compare)
	need := agreeing
	if k == 1 {
		need = 2
	}
	n := 0
	for _, c := range all {
		c.Agrees = !c.Degenerate && c.Run.Status == optim.Converged && c.Run.Value <= all[0].Run.Value+tolerance
		if c.Agrees {
			n++
		}
	}
	return n >= need
}

// SameOptimum is the difference in mean log-likelihood over so many rows below
// which two optima count as one.
func SameOptimum(rows float64) float64 { return sameOptimum / rows }

// Distinct returns the best so many of a sorted pool that are so far apart in mean log-likelihood.
func Distinct(pool []*Candidate, most int, apart float64) (out []*Candidate) {
	for _, c := range pool {
		if len(out) == most {
			break
		}
		if len(out) == 0 || c.Run.Value > out[len(out)-1].Run.Value+apart {
			out = append(out, c)
		}
	}
	return out
}

// NoneFinite is the error where all starts on the data failed. It names the row with the largest
// target, whose density is the first to be below the smallest number.
func NoneFinite(p *problem.Problem) error {
	row, y, err := p.Largest()
	if err != nil {
		return err
	}
	return &dataset.Error{File: p.Schema.Name,
		Msg: fmt.Sprintf("no start reached a finite likelihood: the values are too large for it, the target of row "+
			"%d, %.4g, most of all; rescale target or features", row, y)}
}

// Count counts the candidates of which is holds.
func Count(all []*Candidate, is func(*Candidate) bool) (n int) {
	for _, c := range all {
		if is(c) {
			n++
		}
	}
	return n
}

// Draw runs fn for every candidate as [Each] does, each with random numbers of its own: those of a use's streams from
// the given index on.
func Draw(ctx context.Context, p *problem.Problem, all []*Candidate, use stream.Use, first int,
	fn func(context.Context, *Candidate, *rand.Rand) error) error {
	return each(ctx, p, all, func(ctx context.Context, i int, c *Candidate) error {
		return fn(ctx, c, stream.New(p.Seed, use, first+i))
	})
}

// Each runs fn for every candidate, side by side on the problem's threads.
func Each(ctx context.Context, p *problem.Problem, all []*Candidate, fn func(context.Context, *Candidate) error) error {
	return each(ctx, p, all, func(ctx context.Context, _ int, c *Candidate) error { return fn(ctx, c) })
}

func each(ctx context.Context, p *problem.Problem, all []*Candidate,
	fn func(ctx context.Context, i int, c *Candidate) error) error {
	return model.Parallel(ctx, p.Threads, len(all),
		func(ctx context.Context, i int) error { return fn(ctx, i, all[i]) })
}

// climb takes c to a local maximum of l from its parameters, and says whether it
// is degenerate there. A candidate that ran on the same rows before keeps its
// path; one that converged on fewer rows, but enough, is too near for EM.
func (c *Candidate) climb(ctx context.Context, l Surface, rows int) error {
	to := climb.Climb
	switch {
	case c.Run.Status == optim.Converged && c.Rows < rows && c.Rows >= climb.NearRows*l.Dim():
		to = climb.Near
	case 0 < c.Ridge && c.Ridge < starts.ScreenRidge:
		to = climb.Extrapolated
	}
	run, err := to(ctx, l, l.Where(c), nil)
	if err != nil {
		return err
	}
	run.Iterations += c.Run.Iterations
	if c.Rows == rows {
		run.Trace = slices.Concat(c.Run.Trace, run.Trace)
	}
	c.Rows = rows
	return c.Take(ctx, l, run)
}

// unproven says why the best of the starts is at no maximum, "" where it is.
func (c *Candidate) unproven() string {
	switch {
	case c.Degenerate:
		return "in every start an expert shrank onto a few rows, where the likelihood has no maximum"
	case c.Run.Status != optim.Converged:
		return "the best of the starts has not converged"
	}
	return ""
}

// MarkDegenerate marks a candidate with an expert that shrank onto a few rows.
func (c *Candidate) MarkDegenerate(ctx context.Context, l *loss.Likelihood) (err error) {
	c.Degenerate, err = l.Degenerate(ctx, c.Params)
	return err
}
