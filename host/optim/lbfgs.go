package optim

import (
	"context"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/gatedlearning/moe/internal/numeric"
)

// LBFGS minimises f from x0 by gonum's limited-memory BFGS. It has converged
// when the largest entry of the gradient is below Tolerance (default 1e−8), or
// when line searches can no longer lower the value and the gradient is below
// the square root of Tolerance.
func LBFGS(ctx context.Context, f Objective, x0 []float64, set Settings) (*Result, error) {
	set = set.or(1000, 1e-8)
	r := newResult(x0)
	var failed error // gonum's functions cannot fail: remember and answer NaN
	cache := make([]float64, len(x0))
	cached := make([]float64, len(x0))
	cachedValue, have := 0.0, false
	eval := func(x []float64) float64 {
		if have && equal(cached, x) {
			return cachedValue
		}
		v, err := f.Grad(ctx, cache, x)
		if err != nil {
			failed, v = err, math.NaN()
		}
		copy(cached, x)
		cachedValue, have = v, true
		return v
	}
	problem := optimize.Problem{
		Func: eval,
		Grad: func(dst, x []float64) { eval(x); copy(dst, cache) },
		Status: func() (optimize.Status, error) {
			if failed != nil {
				return optimize.Failure, failed
			}
			return optimize.NotTerminated, ctx.Err()
		},
	}
	rec := &recorder{set: set, r: r}
	res, _ := optimize.Minimize(problem, x0, &optimize.Settings{
		GradientThreshold: set.Tolerance,
		MajorIterations:   set.Iterations,
		Converger:         optimize.NeverTerminate{},
		Recorder:          rec,
	}, &optimize.LBFGS{})
	if failed != nil {
		return r.end(NotRun, failed)
	}
	if ctx.Err() != nil {
		return r.end(Canceled, ctx.Err())
	}
	if res == nil || !numeric.Finite(res.F) { // gonum refuses a first value that is not finite
		return r.end(Diverged, nil)
	}
	copy(r.X, res.X)
	r.Value, r.Iterations = res.F, res.MajorIterations
	if n := len(r.Trace); n < r.Iterations { // gonum does not record the iterate that ends a run
		r.Trace = append(r.Trace, r.Value)
	}
	switch {
	case rec.stopped:
		return r.end(Stopped, nil)
	case res.Status == optimize.GradientThreshold:
		return r.end(Converged, nil)
	case res.Status == optimize.IterationLimit:
		return r.end(IterationLimit, nil)
	}
	eval(r.X)
	for _, g := range cache {
		if !(math.Abs(g) < math.Sqrt(set.Tolerance)) {
			return r.end(Stalled, nil)
		}
	}
	return r.end(Converged, nil)
}

type recorder struct {
	set     Settings
	r       *Result
	stopped bool
}

type stopError struct{}

func (stopError) Error() string { return "stopped" }

func (rec *recorder) Init() error { return nil }

func (rec *recorder) Record(loc *optimize.Location, op optimize.Operation, stats *optimize.Stats) error {
	if op != optimize.MajorIteration {
		return nil
	}
	rec.r.Trace = append(rec.r.Trace, loc.F)
	if rec.set.stop(stats.MajorIterations, loc.F) {
		rec.stopped = true
		return stopError{}
	}
	return nil
}

func equal(a, b []float64) bool {
	for i, v := range a {
		if v != b[i] {
			return false
		}
	}
	return true
}
