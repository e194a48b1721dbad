package search

import (
	"context"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/splitmerge"
)

// surface is a likelihood that candidates stand on: of one target, or of several under one gate.
type surface interface {
	climb.Likelihood
	PenaliseGate(tau float64)
	// where is the θ of a candidate's parameters.
	where(c *Candidate) []float64
	// take puts a candidate where a run has ended, and marks it where an expert has shrunk there.
	take(ctx context.Context, c *Candidate, run *optim.Result) error
	exact() optim.Curved // with its exact Hessian
	// improve is [improve] by what suits the task.
	improve(ctx context.Context, t *Task, r *optim.Result, rng *rand.Rand) (*optim.Result, error)
}

// ofOne is the surface of one target.
type ofOne struct{ *loss.Likelihood }

func (l ofOne) where(c *Candidate) []float64 { return l.Theta(c.Params) }

func (l ofOne) take(ctx context.Context, c *Candidate, run *optim.Result) error {
	c.Run, c.Params = run, l.Params(run.X)
	return c.MarkDegenerate(ctx, l.Likelihood)
}

func (l ofOne) exact() optim.Curved { return l.Exact(nil) }

func (l ofOne) improve(ctx context.Context, t *Task, r *optim.Result, rng *rand.Rand) (*optim.Result, error) {
	return splitmerge.Improve(ctx, l.Likelihood, r, splitmerge.Of(t.Problem, t.Part, rng))
}

// ofSeveral is the surface of several targets.
type ofSeveral struct{ *loss.Vector }

func (l ofSeveral) where(c *Candidate) []float64 { return l.Theta(c.Vector) }

func (l ofSeveral) take(ctx context.Context, c *Candidate, run *optim.Result) (err error) {
	c.Run, c.Vector = run, l.Params(run.X)
	c.Degenerate, err = l.Degenerate(ctx, c.Vector)
	return err
}

func (l ofSeveral) exact() optim.Curved { return l.Exact(nil) }

func (l ofSeveral) improve(ctx context.Context, t *Task, r *optim.Result, _ *rand.Rand) (*optim.Result, error) {
	if !t.Problem.OneGate() { // where moves are not enough
		return nil, nil
	}
	return splitmerge.Improve(ctx, l.Vector, r, splitmerge.OfTargets)
}
