package optim

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/internal/numeric"
)

// EMStepper is an objective with an EM (or generalised EM) map. EMStep writes
// the iterate after x to dst and returns the value at x.
type EMStepper interface {
	Objective
	EMStep(ctx context.Context, dst, x []float64) (float64, error)
}

// maxHalvings bounds how often a generalised step that overshoots is halved.
const maxHalvings = 12

// EM iterates the map of s from x0 until the value falls by less than
// Tolerance (default 1e−8) in an iteration, or rises by no more than its rounding. Where a generalised step overshoots
// and the value rises, the step is halved, up to maxHalvings times.
func EM(ctx context.Context, s EMStepper, x0 []float64, set Settings) (*Result, error) {
	set = set.or(1000, 1e-8)
	return expectationMaximisation(ctx, s, x0, set, func(*iterates) (bool, error) { return false, nil })
}

// mostExtrapolated bounds how many steps of EM an extrapolation may stand for.
const mostExtrapolated = 64

// SQUAREM is [EM] with steps extrapolated: with r the last step and v its change from the
// one before, the next point is x + 2αr + α²v, α = ‖r‖/‖v‖ (Varadhan and Roland 2008, scheme
// S3; α at least 1 and at most mostExtrapolated), where that is no higher than the step of EM
// itself. Where EM creeps, as towards a gate without a finite optimum, it takes a tenth of
// the steps. Iterations are steps of EM, those of points given up among them.
func SQUAREM(ctx context.Context, s EMStepper, x0 []float64, set Settings) (*Result, error) {
	set = set.or(1000, 1e-8)
	y, image := make([]float64, len(x0)), make([]float64, len(x0))
	return expectationMaximisation(ctx, s, x0, set, func(e *iterates) (bool, error) {
		alpha := e.ratio()
		if !(alpha > 1) {
			return false, nil
		}
		for i, x := range e.before {
			r := e.x[i] - x
			y[i] = x + 2*alpha*r + alpha*alpha*(e.next[i]-e.x[i]-r)
		}
		v, err := s.EMStep(ctx, image, project(s, y))
		if err != nil || !(v <= e.value) {
			return true, err
		}
		copy(e.x, y)
		copy(e.next, image)
		e.value = v
		return true, nil
	})
}

// iterates are three successive points of EM, and the value at the second.
type iterates struct {
	before, x, next []float64
	value           float64
}

// ratio returns ‖r‖/‖v‖, r the step to x and v the change of the step after it, at most
// mostExtrapolated.
func (e *iterates) ratio() float64 {
	rr, vv := 0.0, 0.0
	for i, x := range e.x {
		r := x - e.before[i]
		v := e.next[i] - x - r
		rr += r * r
		vv += v * v
	}
	return min(math.Sqrt(rr/vv), mostExtrapolated)
}

// expectationMaximisation iterates the map of s. After every step extrapolate may put a
// better point in the place of x, with its image, and says whether it has taken a step.
func expectationMaximisation(ctx context.Context, s EMStepper, x0 []float64, set Settings,
	extrapolate func(*iterates) (bool, error)) (*Result, error) {
	r := newResult(x0)
	e := &iterates{make([]float64, len(x0)), append([]float64(nil), x0...), make([]float64, len(x0)), 0}
	var err error
	if e.value, err = s.EMStep(ctx, e.next, e.x); err != nil {
		return r.end(NotRun, err)
	}
	if !numeric.Finite(e.value) {
		return r.end(Diverged, nil)
	}
	r.step(e.x, e.value)
	for r.Iterations < set.Iterations {
		v, err := s.EMStep(ctx, e.before, e.next) // the place of the oldest point
		if err != nil {
			return r.end(NotRun, err)
		}
		if v > e.value && v-e.value <= min(set.Tolerance, lastRounding*max(1, math.Abs(e.value))) {
			r.Iterations++
			return r.end(Converged, nil) // a maximum, and a rise that is rounding
		}
		for h := 0; !(v <= e.value) && h < maxHalvings; h++ {
			for i := range e.next {
				e.next[i] = e.x[i] + (e.next[i]-e.x[i])/2
			}
			if v, err = s.EMStep(ctx, e.before, e.next); err != nil {
				return r.end(NotRun, err)
			}
		}
		r.Iterations++
		if !(v <= e.value) {
			return r.end(Stalled, nil)
		}
		gain := e.value - v
		e.before, e.x, e.next = e.x, e.next, e.before
		e.value = v
		r.step(e.x, v)
		if gain < set.Tolerance {
			return r.end(Converged, nil)
		}
		took, err := extrapolate(e)
		if err != nil {
			return r.end(NotRun, err)
		}
		if took {
			r.Iterations++
			r.step(e.x, e.value)
		}
		if set.stop(r.Iterations, e.value) {
			return r.end(Stopped, nil)
		}
	}
	return r.end(IterationLimit, nil)
}
