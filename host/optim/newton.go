package optim

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Curved is an objective with a Hessian, or a good approximation of one.
// Hessian writes it to h, the gradient to grad, and returns the value.
type Curved interface {
	Objective
	Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error)
}

// Newton minimises c from x0 by damped Newton steps (Levenberg–Marquardt): the
// step solves (H + damping·D)·δ = −∇ with D = |diag H|, the damping raised until
// the matrix is positive definite and the value falls, and lowered when the
// quadratic model was right.
//
// It has converged when the Newton decrement ∇ᵀH⁻¹∇/2, the fall that the
// quadratic model still promises, is below Tolerance (default 1e−12) with no
// damping left that matters; a test that does not depend on the scale of x. An
// objective with kinks can have its minimum at one, where the gradient is not
// 0: a step that promises less than Slack and does not lower the value ends the
// run as converged too.
func Newton(ctx context.Context, c Curved, x0 []float64, set Settings) (*Result, error) {
	set = set.or(100, 1e-12)
	r := newResult(x0)
	at, trial := newQuadratic(len(x0)), newQuadratic(len(x0))
	copy(at.x, x0)
	if err := at.fill(ctx, c); err != nil {
		return r.end(NotRun, err)
	}
	if !finite(at.value) {
		return r.end(Diverged, nil)
	}
	r.step(at.x, at.value)
	damping := 0.0
	for r.Iterations < set.Iterations {
		step, promised, used := at.newtonStep(damping)
		switch {
		case step == nil:
			return r.end(NoProgress, nil)
		case promised < set.Tolerance && used <= 1e-6:
			return r.lastStep(ctx, c, step)
		}
		r.Iterations++
		floats.AddTo(trial.x, at.x, step)
		// After a failure only the value is worth its cost.
		failing := damping > 0 && used == damping
		if failing {
			v, err := c.Value(ctx, trial.x)
			if err != nil {
				return r.end(NotRun, err)
			}
			trial.value = v
		}
		if !failing || trial.value < at.value {
			if err := trial.fill(ctx, c); err != nil {
				return r.end(NotRun, err)
			}
		}
		if !(trial.value < at.value) {
			if promised <= max(set.Slack, 1e-15*math.Abs(at.value)) {
				return r.end(Converged, nil)
			}
			if damping = max(used*10, 1e-3); damping > 1e6 {
				return r.end(NoProgress, nil)
			}
			continue
		}
		damping = used
		if at.value-trial.value > 0.5*promised {
			damping = used / 10
		}
		if damping < 1e-4 {
			damping = 0
		}
		at, trial = trial, at
		r.step(at.x, at.value)
		if set.stop(r.Iterations, at.value) {
			return r.end(Stopped, nil)
		}
	}
	return r.end(IterationLimit, nil)
}

// lastStep takes the step whose promise ended the run: its cost is one value,
// and runs that come from different sides then end at the same point to nearly
// all digits instead of to half of them.
func (r *Result) lastStep(ctx context.Context, c Curved, step []float64) (*Result, error) {
	x := floats.AddTo(make([]float64, len(r.X)), r.X, step)
	v, err := c.Value(ctx, x)
	if err != nil {
		return r.end(NotRun, err)
	}
	if v <= r.Value {
		r.step(x, v)
	}
	return r.end(Converged, nil)
}

// quadratic is the second-order model of an objective at a point.
type quadratic struct {
	x, grad []float64
	value   float64
	h       *mat.SymDense
}

func newQuadratic(n int) *quadratic {
	return &quadratic{x: make([]float64, n), grad: make([]float64, n), h: mat.NewSymDense(n, nil)}
}

func (q *quadratic) fill(ctx context.Context, c Curved) (err error) {
	q.value, err = c.Hessian(ctx, q.h, q.grad, q.x)
	return err
}

// newtonStep solves (H + damping·D)·δ = −∇, raising the damping until the
// matrix is positive definite, and returns the fall that the quadratic model
// promises and the damping used; nil if there is none. It works on variables
// scaled to a Hessian of unit diagonal, so that a noise level of 1e−8, whose
// regressors have a curvature of 1e16 beside the gate's of 1, does no harm.
func (q *quadratic) newtonStep(damping float64) (step []float64, promised, used float64) {
	n := len(q.x)
	damped := mat.NewSymDense(n, nil)
	out := mat.NewVecDense(n, nil)
	scale, scaled := q.scales(), mat.NewSymDense(n, nil)
	grad := mat.NewVecDense(n, nil)
	for i, s := range scale {
		grad.SetVec(i, s*q.grad[i])
		for j := i; j < n; j++ {
			scaled.SetSym(i, j, s*q.h.At(i, j)*scale[j])
		}
	}
	var chol mat.Cholesky
	for ; damping < 1e9; damping = max(10*damping, 1e-3) {
		damped.CopySym(scaled)
		for i := range n {
			damped.SetSym(i, i, scaled.At(i, i)+damping)
		}
		if !chol.Factorize(damped) || chol.Cond() > 1e14 {
			continue
		}
		if err := chol.SolveVecTo(out, grad); err != nil {
			continue
		}
		step = out.RawVector().Data
		floats.Mul(step, scale)
		promised = floats.Dot(step, q.grad) / 2
		floats.Scale(-1, step)
		return step, promised, damping
	}
	return nil, 0, 0
}

// scales returns 1/√|h_ii|, bounded where a diagonal entry is next to nothing.
func (q *quadratic) scales() []float64 {
	most := 0.0
	for i := range q.x {
		most = max(most, math.Abs(q.h.At(i, i)))
	}
	scale := make([]float64, len(q.x))
	for i := range scale {
		scale[i] = 1 / math.Sqrt(max(math.Abs(q.h.At(i, i)), 1e-24*most, math.SmallestNonzeroFloat64))
	}
	return scale
}
