package optim

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Stochastic is an objective known by noisy gradients. NextGrad writes an
// estimate of the gradient at x from the next mini-batch to dst and returns the
// value on that batch.
type Stochastic interface {
	Dim() int
	NextGrad(ctx context.Context, dst, x []float64) (float64, error)
}

// Schedule is how the step size changes over a run: [Constant], [Inverse] or
// [Cosine].
type Schedule interface {
	// Name is what files and flags call it.
	Name() string
	// Factor is the part of the step size that is taken at step t = 0, 1, … of
	// so many.
	Factor(t, steps int) float64
}

// Constant is the factor 1.
type Constant struct{}

// Inverse is the factor 1/(1 + 9t/T): a tenth at the end.
type Inverse struct{}

// Cosine is the factor (1 + cos(πt/T))/2: 0 at the end.
type Cosine struct{}

// Schedules lists the schedules.
func Schedules() []Schedule { return []Schedule{Constant{}, Inverse{}, Cosine{}} }

// Name returns "constant".
func (Constant) Name() string { return "constant" }

// Name returns "inverse".
func (Inverse) Name() string { return "inverse" }

// Name returns "cosine".
func (Cosine) Name() string { return "cosine" }

// Factor returns 1.
func (Constant) Factor(int, int) float64 { return 1 }

// Factor returns 1/(1 + 9t/steps).
func (Inverse) Factor(t, steps int) float64 { return 1 / (1 + 9*(float64(t)/float64(steps))) }

// Factor returns (1 + cos(πt/steps))/2.
func (Cosine) Factor(t, steps int) float64 {
	return (1 + math.Cos(math.Pi*(float64(t)/float64(steps)))) / 2
}

// StochasticSettings bound a run of [SGD] or [Adam].
type StochasticSettings struct {
	Steps    int             // this many mini-batches
	StepSize float64         // of the first step
	Schedule Schedule        // nil is Constant
	Bound    float64         // a largest |x_i| above this is a divergence; 0: 1e3
	Project  func([]float64) // applied to x after every step, if set
	// Every and Watch, if set, show x before the first step and after every
	// Every steps; Watch returns true to end the run. It may not keep x.
	Every int
	Watch func(step int, x []float64) bool
}

// SGD takes plain gradient steps x ← Π(x − StepSize·schedule·∇), one for each
// mini-batch. It ends after Steps of them, with status Converged: there is no
// other test that noisy gradients could pass. A run whose x leaves the bound,
// or stops being finite, ends Diverged at its last point within. The result is
// the last point, not the best, which values on mini-batches cannot tell: Trace
// holds these, before every step.
func SGD(ctx context.Context, s Stochastic, x0 []float64, set StochasticSettings) (*Result, error) {
	return descend(ctx, s, x0, set, func(x, grad []float64, size float64) { floats.AddScaled(x, -size, grad) })
}

// Adam is [SGD] with steps scaled by running moments of the gradient (Kingma &
// Ba 2015; β₁ = 0.9, β₂ = 0.999, ε = 1e−8).
func Adam(ctx context.Context, s Stochastic, x0 []float64, set StochasticSettings) (*Result, error) {
	return descend(ctx, s, x0, set, newAdam(len(x0)).step)
}

func descend(ctx context.Context, s Stochastic, x0 []float64, set StochasticSettings,
	step func(x, grad []float64, size float64)) (*Result, error) {
	if set.Bound == 0 {
		set.Bound = 1e3
	}
	if set.Schedule == nil {
		set.Schedule = Constant{}
	}
	r := newResult(x0)
	x, grad := slices.Clone(x0), make([]float64, len(x0))
	if set.watch(0, x) {
		return r.end(Stopped, nil)
	}
	for r.Iterations < set.Steps {
		if err := ctx.Err(); err != nil {
			return r.end(NotRun, err)
		}
		value, err := s.NextGrad(ctx, grad, x)
		if err != nil {
			return r.end(NotRun, err)
		}
		if !numeric.Finite(value) {
			return r.end(Diverged, nil)
		}
		r.step(x, value)
		step(x, grad, set.StepSize*set.Schedule.Factor(r.Iterations, set.Steps))
		if set.Project != nil {
			set.Project(x)
		}
		r.Iterations++
		if !within(x, set.Bound) {
			return r.end(Diverged, nil)
		}
		if set.watch(r.Iterations, x) {
			copy(r.X, x)
			return r.end(Stopped, nil)
		}
	}
	copy(r.X, x)
	return r.end(Converged, nil)
}

func (s *StochasticSettings) watch(step int, x []float64) bool {
	return s.Watch != nil && s.Every > 0 && step%s.Every == 0 && s.Watch(step, x)
}

// within says whether every |x_i| is at most bound; NaN is not.
func within(x []float64, bound float64) bool {
	for _, v := range x {
		if !(math.Abs(v) <= bound) {
			return false
		}
	}
	return true
}
