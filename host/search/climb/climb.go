// Package climb takes parameters up their likelihood: by EM until it crawls and then by Newton's method, or by EM alone
// where a gate becomes hard.
package climb

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/loss/shrinkage"
	"github.com/gatedlearning/moe/host/optim"
)

// Slack is a gain in the total log-likelihood that does not matter: where g has
// kinks so has the likelihood, and its maximum may lie at one.
const Slack = 0.01

// Superior says whether a mean negative log-likelihood of so many rows is below another by more than
// Slack in total.
func Superior(value, than, rows float64) bool { return value < than-Slack/rows }

// Crawl is the gain of an EM step, per row, below which Newton's method is tried for the first time.
const Crawl = 1e-4

// crawls are the gains below which it is tried, one after the other.
var crawls = []float64{Crawl, 1e-5, 1e-6, 1e-8}

// Likelihood is a likelihood that [Climb] goes up.
type Likelihood interface {
	optim.EMStepper
	optim.Curved
	Dense() bool // whether its Hessian is worth its cost
	ReuseCurvature()
	Rows() float64
	StepsPerHessian() float64
}

// multiplier is a likelihood whose Hessian can be multiplied with where it is not worth its
// cost, if Products says so.
type multiplier interface {
	optim.Products
	Products() bool
}

// stepped is a likelihood for which EM steps pay although its Hessian does not, if Stepped says so.
type stepped interface{ Stepped() bool }

// steps says whether climbs of l begin with EM.
func steps(l Likelihood) bool {
	s, ok := l.(stepped)
	return l.Dense() || ok && s.Stepped()
}

// sparse is a likelihood whose slopes a lasso brings to 0.
type sparse interface {
	Norms() []shrinkage.Norm
	PenaliseNorms(norms []shrinkage.Norm)
}

// climbSparse takes θ to a local maximum of the likelihood less a lasso, as near as left, what the total may yet gain
// by a step, 0 for rounding; handled says whether there is a lasso.
func climbSparse(ctx context.Context, l Likelihood, theta []float64, left float64,
	stop func(iteration int, value float64) bool) (r *optim.Result, handled bool, err error) {
	s, ok := l.(sparse)
	if !ok || s.Norms() == nil {
		return nil, false, nil
	}
	norms := s.Norms()
	s.PenaliseNorms(nil)
	defer s.PenaliseNorms(norms)
	var groups []optim.Group
	for _, n := range norms {
		groups = append(groups, optim.Group{At: n.At, Weight: n.Weight / l.Rows()})
	}
	r, err = optim.Proximal(ctx, l, groups, theta, optim.Settings{Iterations: 200, Tolerance: left / l.Rows(),
		Slack: Slack / l.Rows(), Stop: stop})
	return r, true, err
}

// Climb takes θ to a local maximum of the likelihood: EM until it crawls, then
// Newton, which ends the last mile in a few steps; again where Newton was called
// too early. Problems too large for a Hessian take truncated Newton, after EM where there are many experts, and L-BFGS
// where g has kinks or there are no products with a Hessian either. A stop that is not
// nil may end it after any iteration. A lasso takes steps of its own.
func Climb(ctx context.Context, l Likelihood, theta []float64,
	stop func(iteration int, value float64) bool) (*optim.Result, error) {
	if r, handled, err := climbSparse(ctx, l, theta, 0, stop); handled {
		return r, err
	}
	return climbBy(ctx, l, theta, stop, optim.EM)
}

// Extrapolated is [Climb] for a gate on its way to a hard one, on which plain steps of EM crawl at the last: they are
// extrapolated.
func Extrapolated(ctx context.Context, l Likelihood, theta []float64,
	stop func(iteration int, value float64) bool) (*optim.Result, error) {
	return climbBy(ctx, l, theta, stop, optim.SQUAREM)
}

// emIteration iterates the map of EM, as [optim.EM] and [optim.SQUAREM] do.
type emIteration func(context.Context, optim.EMStepper, []float64, optim.Settings) (*optim.Result, error)

// climbBy is [Climb] with the last of its runs of EM by another iteration of its map.
func climbBy(ctx context.Context, l Likelihood, theta []float64, stop func(int, float64) bool,
	last emIteration) (*optim.Result, error) {
	r, err := Approach(ctx, l, theta, stop)
	if err != nil || r.Status == optim.Stopped {
		return r, err
	}
	return sharpenBy(ctx, l, r, stop, last)
}

// NearRows is the number of rows for each parameter whose optimum is next to that of more
// rows: the mean log-likelihood of those is there some half of 1/NearRows below its maximum.
const NearRows = 20

// nearest is what a step of Near may yet gain under a lasso. A gate that separates rows has no maximum, and gains less
// and less for hundreds of steps, each as dear as the first.
const nearest = 1e-4

// Near is [Climb] from a θ next to the maximum, for who wants the value there and no digits of θ: it begins with
// Newton's method.
func Near(ctx context.Context, l Likelihood, theta []float64,
	stop func(iteration int, value float64) bool) (*optim.Result, error) {
	if r, handled, err := climbSparse(ctx, l, theta, nearest, stop); handled {
		return r, err
	}
	if !l.Dense() {
		return descend(ctx, l, theta, stop)
	}
	return Sharpen(ctx, l, &optim.Result{X: theta}, stop)
}

// Way is a way up a likelihood, which a stop that is not nil may end.
type Way func(ctx context.Context, l Likelihood, theta []float64,
	stop func(iteration int, value float64) bool) (*optim.Result, error)

// Approach is the first part of Climb: EM until it crawls for the first time,
// or all of truncated Newton or L-BFGS where EM does not pay. It has converged only if nothing is left to Sharpen.
func Approach(ctx context.Context, l Likelihood, theta []float64, stop func(int, float64) bool) (*optim.Result, error) {
	return approachBy(ctx, l, theta, stop, optim.EM)
}

// Leap is [Approach] by extrapolated steps of EM. Each of many experts has few rows of its own and many coefficients,
// and plain steps creep from one plateau to the next.
func Leap(ctx context.Context, l Likelihood, theta []float64, stop func(int, float64) bool) (*optim.Result, error) {
	return approachBy(ctx, l, theta, everyStep(stop), optim.SQUAREM)
}

// everyStep has a stop see each step of a run that is looked at after several: as if they had gained the same.
func everyStep(stop func(int, float64) bool) func(int, float64) bool {
	if stop == nil {
		return nil
	}
	last, before := math.NaN(), 0
	return func(iteration int, value float64) (ends bool) {
		for i := before + 1; i < iteration && before > 0; i++ {
			ends = stop(i, last+(value-last)*float64(i-before)/float64(iteration-before)) || ends
		}
		last, before = value, iteration
		return stop(iteration, value) || ends
	}
}

// approachBy is [Approach] by an iteration of the map of EM.
func approachBy(ctx context.Context, l Likelihood, theta []float64, stop func(int, float64) bool,
	em emIteration) (*optim.Result, error) {
	if !steps(l) {
		return descend(ctx, l, theta, stop)
	}
	l.ReuseCurvature()
	r, err := em(ctx, l, theta, optim.Settings{Iterations: 300, Tolerance: Crawl, Stop: stop})
	if r.Status == optim.Converged {
		r.Status = optim.IterationLimit
	}
	return r, err
}

// descend takes θ to a local maximum by truncated Newton, or L-BFGS.
func descend(ctx context.Context, l Likelihood, theta []float64, stop func(int, float64) bool) (*optim.Result, error) {
	byGradients := func(x []float64) (*optim.Result, error) {
		return optim.LBFGS(ctx, l, x, optim.Settings{Iterations: 2000, Tolerance: 1e-7, Stop: stop})
	}
	if m, ok := l.(multiplier); ok && m.Products() {
		r, err := optim.TruncatedNewton(ctx, m, theta, optim.Settings{Iterations: 500, Slack: Slack / l.Rows(),
			Stop: stop})
		if err != nil || r.Status != optim.Stalled {
			return r, err
		}
		return GoOn(r, byGradients) // among kinks, where gradients of many points say more
	}
	return byGradients(theta)
}

// Sharpen is the rest of Climb, from where [Approach] ended.
func Sharpen(ctx context.Context, l Likelihood, r *optim.Result, stop func(int, float64) bool) (*optim.Result, error) {
	return sharpenBy(ctx, l, r, stop, optim.EM)
}

// sharpenBy is [Sharpen] for [climbBy].
func sharpenBy(ctx context.Context, l Likelihood, r *optim.Result, stop func(int, float64) bool,
	last emIteration) (*optim.Result, error) {
	if !l.Dense() {
		if !steps(l) {
			return r, nil
		}
		return GoOn(r, func(x []float64) (*optim.Result, error) { return descend(ctx, l, x, stop) })
	}
	l.ReuseCurvature()
	var err error
	for i, crawl := range crawls {
		if i > 0 {
			em := emIteration(optim.EM)
			if i == len(crawls)-1 {
				em = last
			}
			r, err = GoOn(r, func(x []float64) (*optim.Result, error) {
				return em(ctx, l, x, optim.Settings{Iterations: 300, Tolerance: crawl, Stop: stop})
			})
		}
		if err != nil || r.Status == optim.Stopped || r.Status == optim.Diverged {
			break
		}
		r, err = GoOn(r, func(x []float64) (*optim.Result, error) {
			return optim.Newton(ctx, l, x, optim.Settings{Iterations: 30, Slack: Slack / l.Rows(),
				Worth: crawl * l.StepsPerHessian(), Stop: stop})
		})
		if err != nil || r.Status == optim.Converged || r.Status == optim.Stopped {
			break
		}
	}
	return r, err
}

// GoOn runs from where r ended, and counts and records what r was with it.
func GoOn(r *optim.Result, run func(x []float64) (*optim.Result, error)) (*optim.Result, error) {
	next, err := run(r.X)
	next.Iterations += r.Iterations
	trace := r.Trace
	if len(trace) > 0 && len(next.Trace) > 0 { // begins where the last run ended
		trace = trace[:len(trace)-1]
	}
	next.Trace = append(trace[:len(trace):len(trace)], next.Trace...)
	return next, err
}

// TooFarBehind returns a test that ends a run which is not worth going on with:
// it is behind the best value by more than a hundred iterations as good as the
// last would gain.
func TooFarBehind(best float64) func(iteration int, value float64) bool {
	last := math.Inf(1)
	return func(iteration int, value float64) bool {
		gain := last - value
		last = value
		return iteration >= 5 && Behind(value, best, gain)
	}
}

// Behind says whether a hundred iterations as good as the last, which gained so
// much, would not reach the best value.
func Behind(value, best, gain float64) bool { return value-best > 100*gain }
