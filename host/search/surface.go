package search

import (
	"context"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/kink"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/host/search/splitmerge"
)

// Surface is a likelihood that candidates stand on: of one target, or of several under one gate.
type Surface interface {
	climb.Likelihood
	PenaliseGate(tau float64)
	Penalty(grad, theta []float64) float64
	// Where is the θ of a candidate's parameters, and Put gives it those at θ.
	Where(c *Candidate) []float64
	Put(c *Candidate, theta []float64)
	// shrunk says whether an expert of a candidate has shrunk onto a few rows.
	shrunk(ctx context.Context, c *Candidate) (bool, error)
	// separated are the groups between which the gates of a candidate separate rows, see [separation.Separated].
	separated(ctx context.Context, c *Candidate) (*separation.Groups, error)
	// allApart are those of gates that are all hard, see [separation.AllApart], where the candidate then stands.
	allApart(ctx context.Context, c *Candidate) (*separation.Groups, error)
	fixed(c *Candidate) Surface // with the gate as a candidate has it
	exact() optim.Curved        // with its exact Hessian
	// kinked is it with the kinks that a g with these has it have at a candidate; nil where they are not seen.
	kinked(c *Candidate, kinks []float64) optim.Kinked
	// improve is [improve] by what suits the task.
	improve(ctx context.Context, t *Task, r *optim.Result, rng *rand.Rand) (*optim.Result, error)
}

// Take puts a candidate where a run has ended, and marks it where an expert has shrunk there.
func (c *Candidate) Take(ctx context.Context, l Surface, run *optim.Result) (err error) {
	c.Run = run
	l.Put(c, run.X)
	c.Degenerate, err = l.shrunk(ctx, c)
	return err
}

// ofOne is the surface of one target.
type ofOne struct{ *loss.Likelihood }

func (l ofOne) Where(c *Candidate) []float64 { return l.Theta(c.Params) }

func (l ofOne) Put(c *Candidate, theta []float64) { c.Params = l.Params(theta) }

func (l ofOne) shrunk(ctx context.Context, c *Candidate) (bool, error) {
	return l.Degenerate(ctx, c.Params)
}

func (l ofOne) separated(ctx context.Context, c *Candidate) (*separation.Groups, error) {
	return separation.Separated(ctx, l.Likelihood, c.Params)
}

func (l ofOne) allApart(ctx context.Context, c *Candidate) (g *separation.Groups, err error) {
	g, c.Params, err = separation.AllApart(ctx, l.Likelihood, c.Params)
	return g, err
}

func (l ofOne) fixed(c *Candidate) Surface { return ofOne{l.WithGate(c.Params)} }

func (l ofOne) exact() optim.Curved { return l.Exact(nil) }

func (l ofOne) kinked(c *Candidate, kinks []float64) optim.Kinked {
	if !kink.Seen(l.Likelihood, c.Params) {
		return nil
	}
	return kink.Surface(l.Likelihood, kinks)
}

func (l ofOne) improve(ctx context.Context, t *Task, r *optim.Result, rng *rand.Rand) (*optim.Result, error) {
	return splitmerge.Improve(ctx, l.Likelihood, r, splitmerge.Of(t.Problem, t.Part, rng), t.approach())
}

// ofSeveral is the surface of several targets.
type ofSeveral struct{ *loss.Vector }

func (l ofSeveral) Where(c *Candidate) []float64 { return l.Theta(c.Vector) }

func (l ofSeveral) Put(c *Candidate, theta []float64) { c.Vector = l.Params(theta) }

func (l ofSeveral) shrunk(ctx context.Context, c *Candidate) (bool, error) {
	return l.Degenerate(ctx, c.Vector)
}

func (l ofSeveral) separated(ctx context.Context, c *Candidate) (*separation.Groups, error) {
	return separation.Separated(ctx, l.Vector, c.Vector)
}

func (l ofSeveral) allApart(ctx context.Context, c *Candidate) (g *separation.Groups, err error) {
	g, c.Vector, err = separation.AllApart(ctx, l.Vector, c.Vector)
	return g, err
}

func (l ofSeveral) fixed(c *Candidate) Surface { return ofSeveral{l.WithGate(c.Vector)} }

func (l ofSeveral) exact() optim.Curved { return l.Exact(nil) }

func (l ofSeveral) kinked(*Candidate, []float64) optim.Kinked { return nil }

func (l ofSeveral) improve(ctx context.Context, t *Task, r *optim.Result, _ *rand.Rand) (*optim.Result, error) {
	if !t.Problem.OneGate() { // where moves are not enough
		return nil, nil
	}
	return splitmerge.Improve(ctx, l.Vector, r, splitmerge.OfTargets, climb.Approach)
}
