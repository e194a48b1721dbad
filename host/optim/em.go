package optim

import (
	"context"

	"github.com/gatedlearning/moe/internal/numeric"
)

// EMStepper is an objective with an EM (or generalised EM) map. EMStep writes
// the iterate after x to dst and returns the value at x.
type EMStepper interface {
	Objective
	EMStep(ctx context.Context, dst, x []float64) (float64, error)
}

// EM iterates the map of s from x0 until the value falls by less than
// Tolerance (default 1e−8) in an iteration. Where a generalised step overshoots
// and the value rises, the step is halved, up to maxHalvings times.
func EM(ctx context.Context, s EMStepper, x0 []float64, set Settings) (*Result, error) {
	const maxHalvings = 12
	set = set.or(1000, 1e-8)
	r := newResult(x0)
	x, next := append([]float64(nil), x0...), make([]float64, len(x0))
	value, err := s.EMStep(ctx, next, x)
	if err != nil {
		return r.end(NotRun, err)
	}
	if !numeric.Finite(value) {
		return r.end(Diverged, nil)
	}
	r.step(x, value)
	after := make([]float64, len(x0))
	for r.Iterations < set.Iterations {
		v, err := s.EMStep(ctx, after, next)
		if err != nil {
			return r.end(NotRun, err)
		}
		for h := 0; !(v <= value) && h < maxHalvings; h++ {
			for i := range next {
				next[i] = x[i] + (next[i]-x[i])/2
			}
			if v, err = s.EMStep(ctx, after, next); err != nil {
				return r.end(NotRun, err)
			}
		}
		r.Iterations++
		if !(v <= value) {
			return r.end(Stalled, nil)
		}
		gain := value - v
		x, next, after = next, after, x
		value = v
		r.step(x, value)
		if gain < set.Tolerance {
			return r.end(Converged, nil)
		}
		if set.stop(r.Iterations, value) {
			return r.end(Stopped, nil)
		}
	}
	return r.end(IterationLimit, nil)
}
