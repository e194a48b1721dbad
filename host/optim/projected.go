package optim

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/numeric"
)

// RowBall returns the projection Π of a matrix with rows of d values onto
// {W : |w_i| ≤ radius}: rows that are longer are scaled back (002 §3.2).
func RowBall(d int, radius float64) func([]float64) {
	return func(w []float64) {
		for i := 0; i+d <= len(w); i += d {
			row := w[i : i+d]
			if norm := floats.Norm(row, 2); norm > radius {
				floats.Scale(radius/norm, row)
			}
		}
	}
}

// ProjectedSettings bound a run of [Projected].
type ProjectedSettings struct {
	Iterations int     // at most this many; 0: 1000
	StepSize   float64 // 0: 1
	Tolerance  float64 // largest |change of x_i| at which it has converged; 0: 1e−8
	Project    func([]float64)
	Watch      func(iteration int, x []float64) bool // as in [StochasticSettings], after every iteration
}

// Projected minimises f by gradient descent of a fixed step size with a
// projection, W ← Π(W − StepSize·∇f(W)) (002 §3.2). It has converged when a step
// changes no coordinate by more than Tolerance. The result is the last iterate,
// also where a step that is too long has raised the value.
func Projected(ctx context.Context, f Objective, x0 []float64, set ProjectedSettings) (*Result, error) {
	if set.Iterations == 0 {
		set.Iterations = 1000
	}
	if set.StepSize == 0 {
		set.StepSize = 1
	}
	if set.Tolerance == 0 {
		set.Tolerance = 1e-8
	}
	r := newResult(x0)
	x, grad := append([]float64(nil), x0...), make([]float64, len(x0))
	for {
		value, err := f.Grad(ctx, grad, x)
		if err != nil {
			return r.end(NotRun, err)
		}
		if !numeric.Finite(value) {
			return r.end(Diverged, nil)
		}
		if r.Iterations > 0 && floats.Distance(x, r.X, math.Inf(1)) <= set.Tolerance {
			r.step(x, value)
			return r.end(Converged, nil)
		}
		r.step(x, value)
		switch {
		case set.Watch != nil && set.Watch(r.Iterations, x):
			return r.end(Stopped, nil)
		case r.Iterations == set.Iterations:
			return r.end(IterationLimit, nil)
		}
		floats.AddScaled(x, -set.StepSize, grad)
		if set.Project != nil {
			set.Project(x)
		}
		r.Iterations++
	}
}
