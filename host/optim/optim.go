// Package optim minimises objectives: EM, Newton with a trust region on its
// damping, truncated Newton, L-BFGS, and descent with fixed or scheduled steps. It knows an objective and an EM step
// and nothing of what they stand for.
package optim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Objective is a function to be minimised. Grad writes the gradient at x to dst
// and returns the value. An error means that the function could not be
// evaluated at all; a value that is not finite only that x is out of bounds.
type Objective interface {
	Dim() int
	Value(ctx context.Context, x []float64) (float64, error)
	Grad(ctx context.Context, dst, x []float64) (float64, error)
}

// Bounded is an objective that is the same at x and at what Project makes of it in place, where
// x is out of bounds that it knows: methods go on from there. EM steps see to themselves.
type Bounded interface{ Project(x []float64) }

// project brings x into the bounds of f, if it has any, and returns it.
func project(f Objective, x []float64) []float64 {
	if b, ok := f.(Bounded); ok {
		b.Project(x)
	}
	return x
}

// Status says why a run ended.
type Status int

const (
	NotRun         Status = iota
	Converged             // the convergence test of the method holds
	IterationLimit        // Settings.Iterations were made
	Stopped               // Settings.Stop said so
	Stalled               // no step lowers the value, yet the test does not hold
	Diverged              // the value is not finite
	Canceled              // the context ended
)

var statusNames = [...]string{"not run", "converged", "iteration limit", "stopped early", "no progress", "diverged",
	"canceled"}

func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("Status(%d)", int(s))
	}
	return statusNames[s]
}

// Settings bound a run. The zero value asks for the defaults of the method.
type Settings struct {
	Iterations int     // at most this many; 0: the method's default
	Tolerance  float64 // of the method's convergence test; 0: its default
	Slack      float64 // a promised fall too small to matter, see Newton
	Worth      float64 // a fall for which a damped iteration is worth its cost, see Newton
	// Stop, if set, is asked after every iteration whether to end the run.
	Stop func(iteration int, value float64) bool
}

func (s Settings) or(iterations int, tolerance float64) Settings {
	if s.Iterations == 0 {
		s.Iterations = iterations
	}
	if s.Tolerance == 0 {
		s.Tolerance = tolerance
	}
	return s
}

func (s Settings) stop(iteration int, value float64) bool {
	return s.Stop != nil && s.Stop(iteration, value)
}

// Result is where a run ended. X depends on the method:
//
//   - [EM], [Newton], [TruncatedNewton] and [LBFGS] go down: X is their best iterate, and Value its
//     value, the least of Trace up to rounding.
//   - [Projected] takes steps of a fixed size, which may overshoot: X is its last
//     iterate and Value its value, the last of Trace.
//   - [SGD] and [Adam] never see the objective: X is their last point, and Value,
//     the last of Trace, belongs to the last mini-batch and to the point before.
//     Who wants the best point of a run evaluates some; see
//     [StochasticSettings].Watch.
//
// X is finite where x0 is. A run that ended without a first value has X = x0 and
// Value = +Inf.
type Result struct {
	X          []float64
	Value      float64
	Status     Status
	Iterations int
	Trace      []float64 // the value at the start and after every iteration; of SGD and Adam, before every step
	// Settled says that [Newton] has looked where the next step would lead: it would move
	// no variable by more than 1e−12 times the larger of 1 and its size.
	Settled bool
}

// After counts and records what was done before it, from where it began.
func (r *Result) After(earlier *Result) {
	r.Iterations += earlier.Iterations
	r.Trace = slices.Concat(earlier.Trace, r.Trace)
}

// step records an iterate.
func (r *Result) step(x []float64, value float64) {
	copy(r.X, x)
	r.Value = value
	r.Trace = append(r.Trace, value)
}

func newResult(x0 []float64) *Result {
	return &Result{X: append([]float64(nil), x0...), Value: math.Inf(1)}
}

// end gives r its status, telling a cancelled context from other errors.
func (r *Result) end(status Status, err error) (*Result, error) {
	r.Status = status
	if err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		r.Status = Canceled
	}
	return r, err
}
