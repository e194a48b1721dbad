package search

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
)

// heldBack is what the ridge of the screening may cost of the total log-likelihood for
// it to be dropped at once.
const heldBack = 1

// ridgeFactors are by how much the ridge falls from one climb to the next where it costs
// more. Which rows a gate ends up wrong on depends on the way, and no way is the best
// on all data.
var ridgeFactors = []float64{10, 100, 3}

// RemoveRidge takes a candidate to a maximum of the likelihood on all rows, without the
// ridge that has held its gate. Where the ridge costs much the gate has no
// maximum nearby, or none at all: a gate that becomes hard in one step is wrong by
// some rows and has no gradient left to mend that. So there the ridge falls step by
// step, with a climb after each.
func (t *Task) RemoveRidge(ctx context.Context, c *Candidate, free loss.Free) error {
	return (&removals{Task: t}).remove(ctx, c, free)
}

// hold takes a candidate to its maximum on all rows with the ridge, where that holds its gate, and without it where it
// does not.
func (t *Task) hold(ctx context.Context, c *Candidate, l Surface) (held bool, err error) {
	n := t.Problem.N()
	tau := max(c.Ridge, starts.ScreenRidge)
	l.PenaliseGate(tau)
	if !holds(l, l.Where(c)) {
		return false, c.maximise(ctx, l, n)
	}
	if c.Rows != n || c.Ridge == 0 {
		err = c.climbWith(ctx, l, tau, n)
	}
	return true, err
}

// lowerRidge takes the ridge off a candidate that it holds: by each of the factors and by EM alone, of which the best
// counts. Of many experts, of which each climb costs much, the first factor is enough where it ends at a maximum: other
// ways matter to gates that separate rows.
func (t *Task) lowerRidge(ctx context.Context, c *Candidate, l Surface, free loss.Free) error {
	n := t.Problem.N()
	from := *c
	var ways []*Candidate
	for _, by := range ridgeFactors {
		trial := from
		if err := trial.lowerRidgeBy(ctx, l, by, n); err != nil {
			return err
		}
		ways = append(ways, &trial)
		if t.Problem.Shape.ManyShare() && trial.Groups == nil && trial.Run.Status == optim.Converged {
			break
		}
	}
	*c = *slices.MinFunc(ways, Compare)
	if !climb.Hardenable(t.Size()) {
		return nil
	}
	trial := from
	if err := t.MaximiseByEM(ctx, &trial, free); err != nil {
		return err
	}
	if trial.Beats(c, t.Problem.Count()) {
		*c = trial
	}
	return nil
}

// removals take the ridges off candidates, one after the other. Those that the ridge holds at one maximum would all end
// at the same, so that only the first of them goes on.
type removals struct {
	*Task
	held []float64 // values of the maxima
	fell []*Candidate
}

// sameMaximum is the difference in mean log-likelihood below which two runs that have converged have ended at one
// maximum: more than Newton's method leaves, and less than the values of two maxima have in common by chance.
const sameMaximum = 1e-11

// remove is [Task.RemoveRidge] of one of them, which all have the same free parameters.
func (r *removals) remove(ctx context.Context, c *Candidate, free loss.Free) error {
	l := r.on(r.rows(), c, free, r.Problem.Threads)
	if err := r.pool(ctx, l); err != nil {
		return err
	}
	if held, err := r.hold(ctx, c, l); !held || err != nil {
		return err
	}
	if c.Run.Status == optim.Converged {
		value := c.Run.Value
		same := slices.IndexFunc(r.held, func(v float64) bool { return math.Abs(v-value) <= sameMaximum })
		if same >= 0 {
			c.followed(r.fell[same])
			return nil
		}
		r.held, r.fell = append(r.held, value), append(r.fell, c)
	}
	return r.lowerRidge(ctx, c, l, free)
}

// followed ends c where another candidate has ended that was at the same maximum.
func (c *Candidate) followed(other *Candidate) {
	run := *other.Run
	c.Run, c.Params, c.Vector, c.Rows = &run, other.Params, other.Vector, other.Rows
	c.Groups, c.Ridge, c.Degenerate = other.Groups, other.Ridge, other.Degenerate
}

// ClimbFrom is the candidate of a kind that begins at q, taken to a maximum on all rows of what is free, without a
// ridge from the first step on; nil where it fails.
func (t *Task) ClimbFrom(ctx context.Context, free loss.Free, kind string, q *model.Params) (*Candidate, error) {
	p := t.Problem
	l := loss.NewLikelihood(p.Rows, p.G, q, free, p.Threads)
	c := &Candidate{Kind: kind, Rows: p.N()}
	var err error
	if c.Run, err = climb.Approach(ctx, l, l.Theta(q), nil); err != nil || c.Failed() {
		return nil, err
	}
	c.Params = l.Params(c.Run.X)
	return c, t.carry(ctx, c, free)
}

// carry takes a candidate to a maximum on all rows, of what is free.
func (t *Task) carry(ctx context.Context, c *Candidate, free loss.Free) error {
	if climb.Hardenable(t.Size()) {
		return t.MaximiseByEM(ctx, c, free)
	}
	return t.RemoveRidge(ctx, c, free)
}

// hardWork bounds what it may cost to harden a gate by EM: steps times rows times parameters.
const hardWork = 1e9

// PursueByEM takes a candidate from its parameters to a maximum on all rows, whose likelihood is l, by EM all the way
// where its gate becomes hard. One that is then far behind the best value is stopped.
func (t *Task) PursueByEM(ctx context.Context, c *Candidate, l *loss.Likelihood, best float64) (err error) {
	p := t.Problem
	if c.Run, err = climb.EMUntilComparable(ctx, l, l.Theta(c.Params), climb.StepsFor(hardWork, p.Size())); err != nil {
		return err
	}
	c.Params, c.Rows = l.Params(c.Run.X), p.N()
	if c.Failed() {
		return nil
	}
	if c.Run.Value > best+2*climb.SoftGap/float64(c.Rows) {
		c.Run.Status = optim.Stopped
		return nil
	}
	return t.MaximiseByEM(ctx, c, p.Shape.Free())
}

// MaximiseByEM takes a candidate to a maximum of the likelihood on all rows, or
// to its supremum where the gate separates: there by EM alone, a way of its own.
func (t *Task) MaximiseByEM(ctx context.Context, c *Candidate, free loss.Free) error {
	n := t.Problem.N()
	l := t.on(t.rows(), c, free, t.Problem.Threads)
	if !Hardens(l, c) {
		return c.maximise(ctx, l, n)
	}
	l.PenaliseGate(0)
	l.ReuseCurvature()
	most := climb.StepsFor(hardWork, t.Size())
	run, err := climb.GoOn(c.Run, func([]float64) (*optim.Result, error) {
		return climb.EMToConvergence(ctx, l, l.Where(c), most)
	})
	if err != nil {
		return err
	}
	c.Run = run
	l.Put(c, run.X)
	if c.Groups, err = l.separated(ctx, c); err != nil {
		return err
	}
	if c.Groups == nil {
		return c.maximise(ctx, l, n)
	}
	return c.refit(ctx, l)
}

// ReapplyRidge makes the gate of a candidate soft again on all rows by a ridge, which then falls: by another factor
// from one way to the next.
func (t *Task) ReapplyRidge(ctx context.Context, c *Candidate, ridge float64, way int) error {
	n, l := t.Problem.N(), t.onAll(c)
	if err := c.climbWith(ctx, l, ridge, n); err != nil {
		return err
	}
	return c.lowerRidgeBy(ctx, l, ridgeFactors[way%len(ridgeFactors)], n)
}

// Refit takes the experts and the noise of a candidate whose gate separates to their maximum on all rows, with the gate
// as it is.
func (t *Task) Refit(ctx context.Context, c *Candidate) error { return c.refit(ctx, t.onAll(c)) }

// lowerRidgeBy takes the ridge off a candidate, by a factor after each climb, until it costs
// less than anybody could see. What is left then is a maximum, or a gate that
// separates, whose likelihood has its supremum at infinity: see host/search/separation.
func (c *Candidate) lowerRidgeBy(ctx context.Context, l Surface, by float64, rows int) (err error) {
	for c.held(l) > climb.Slack {
		if err := c.climbWith(ctx, l, c.Ridge/by, rows); err != nil {
			return err
		}
	}
	if err = c.separate(ctx, l); err != nil {
		return err
	}
	if c.Groups == nil {
		return c.maximise(ctx, l, rows)
	}
	return c.refit(ctx, l)
}

// refit ends the run of a candidate whose gate separates: what is left to converge
// are the experts and their noise, with the gate as it is.
func (c *Candidate) refit(ctx context.Context, l Surface) (err error) {
	l.PenaliseGate(0)
	c.Ridge = 0
	fixed := l.fixed(c)
	run, err := climb.Climb(ctx, fixed, fixed.Where(c), nil)
	if err != nil {
		return err
	}
	fixed.Put(c, run.X)
	run.X = l.Where(c)
	run.After(c.Run)
	if !c.Groups.All() && c.Run.Status != optim.Converged { // what is left of the gates
		run.Status = c.Run.Status
	}
	c.Run = run
	c.Degenerate, err = l.shrunk(ctx, c)
	return err
}

// Stand puts a candidate where a run on all rows, of which l is the likelihood, has ended, and finishes it where its
// gate separates there.
func (c *Candidate) Stand(ctx context.Context, l *loss.Likelihood, run *optim.Result) error {
	c.Run, c.Params, c.Rows = run, l.Params(run.X), l.N()
	if err := c.separate(ctx, ofOne{l}); err != nil {
		return err
	}
	if c.Groups != nil {
		return c.refit(ctx, ofOne{l})
	}
	return c.MarkDegenerate(ctx, l)
}

// held is what the ridge costs the candidate.
func (c *Candidate) held(l Surface) float64 {
	l.PenaliseGate(c.Ridge)
	return l.Penalty(nil, c.Run.X)
}

// climbWith takes a candidate to a maximum with a ridge on the gate.
func (c *Candidate) climbWith(ctx context.Context, l Surface, tau float64, rows int) error {
	l.PenaliseGate(tau)
	c.Ridge = tau
	return c.climb(ctx, l, rows)
}

// maximise takes a candidate to a maximum of the likelihood alone, or as near to its
// supremum as matters.
func (c *Candidate) maximise(ctx context.Context, l Surface, rows int) (err error) {
	if err := c.climbWith(ctx, l, 0, rows); err != nil {
		return err
	}
	if err = c.separate(ctx, l); c.Groups == nil || err != nil {
		return err
	}
	return c.refit(ctx, l)
}

// separate sees between which branches the gates of a candidate separate rows; where it has not converged it may have
// stopped on the way to gates that are all hard.
func (c *Candidate) separate(ctx context.Context, l Surface) error {
	var err error
	if c.Groups, err = l.separated(ctx, c); err != nil {
		return err
	}
	if c.Run.Status == optim.Converged || c.Groups != nil && c.Groups.All() {
		return nil
	}
	g, err := l.allApart(ctx, c)
	if g != nil {
		c.Groups = g
	}
	return err
}

// Hardens says whether the gate of a candidate becomes hard: the ridge of the screening, which l
// has from here on, would hold it back.
func Hardens(l Surface, c *Candidate) bool {
	l.PenaliseGate(starts.ScreenRidge)
	return holds(l, l.Where(c))
}

// holds says whether the ridge of l holds the gate back at θ: whether it costs much.
func holds(l Surface, theta []float64) bool { return l.Penalty(nil, theta) > heldBack }
