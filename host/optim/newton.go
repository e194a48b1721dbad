package optim

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/numeric"
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
// quadratic model was right. Where a step without damping shows that a few more
// with the same Hessian would do, the Hessian is kept, and what the gradients say of it
// since is added (BFGS): a gradient costs a small part of one.
//
// It has converged when the Newton decrement ∇ᵀH⁻¹∇/2, the fall that the
// quadratic model still promises, is below Tolerance (default 1e−12) with no
// damping left that matters, and the Hessian is that of the point, or steps with the
// one that was kept have converged to all digits; a test that does not depend on the
// scale of x. An objective with kinks can have its minimum
// at one, where the gradient is not 0: a step that promises less than Slack and
// does not lower the value ends the run as converged too.
//
// An iteration that had to be damped, or brought less than half of its promise,
// and lowered the value by less than Worth ends the run as without progress.
func Newton(ctx context.Context, c Curved, x0 []float64, set Settings) (*Result, error) {
	set = set.or(100, 1e-12)
	r := newResult(x0)
	at, trial := newQuadratic(len(x0)), newQuadratic(len(x0))
	copy(at.x, x0)
	project(c, at.x)
	if err := at.fill(ctx, c); err != nil {
		return r.end(NotRun, err)
	}
	if !numeric.Finite(at.value) {
		return r.end(Diverged, nil)
	}
	r.step(at.x, at.value)
	damping := 0.0
	for r.Iterations < set.Iterations {
		step, promised, used := at.newtonStep(damping)
		switch {
		case step == nil:
			return r.end(Stalled, nil)
		case promised < set.Tolerance && used <= 1e-6 && !at.kept:
			return r.lastStep(ctx, c, at, step)
		case promised < set.Tolerance && at.kept && promised*at.fell < exact*set.Tolerance:
			return r.lastStep(ctx, c, at, step)
		}
		least := 0.0 // that the value has to fall by
		if promised < set.Tolerance && at.kept {
			least = -rounding * math.Abs(at.value)
		}
		r.Iterations++
		project(c, floats.AddTo(trial.x, at.x, step))
		if err := trial.try(ctx, c, damping > 0 && used == damping); err != nil {
			return r.end(NotRun, err)
		}
		gain := at.value - trial.value
		if !(gain > least) {
			if at.kept {
				if err := at.fill(ctx, c); err != nil {
					return r.end(NotRun, err)
				}
				continue
			}
			if promised <= max(set.Slack, 1e-15*math.Abs(at.value)) {
				return r.end(Converged, nil)
			}
			if damping = raised(used); damping > mostDamping {
				return r.end(Stalled, nil)
			}
			continue
		}
		if next := at.promiseOf(trial, used); set.near(next, promised) {
			at.moveTo(trial, next/promised)
		} else {
			if err := trial.fill(ctx, c); err != nil {
				return r.end(NotRun, err)
			}
			at, trial = trial, at
		}
		r.step(at.x, at.value)
		right := gain > 0.5*promised || least < 0
		if gain < set.Worth && (used > 0 || !right) {
			return r.end(Stalled, nil)
		}
		damping = lowered(used, right)
		if set.stop(r.Iterations, at.value) {
			return r.end(Stopped, nil)
		}
	}
	return r.end(IterationLimit, nil)
}

// mostDamping ends a run: no step lowers the value.
const mostDamping = 1e6

// raised is the damping after a step that did not lower the value, or with which the matrix was not positive definite.
func raised(damping float64) float64 { return max(damping*10, 1e-3) }

// lowered is the damping after a step that did; right says whether the quadratic model was.
func lowered(damping float64, right bool) float64 {
	if right {
		damping /= 10
	}
	if damping < 1e-4 {
		return 0
	}
	return damping
}

// mostKept is the number of further steps with a Hessian that is kept: more of
// their gradients are not worth what they save.
const mostKept = 5

// A run with a kept Hessian has converged where the step after the next would promise
// less than exact times the tolerance: x then has half as many digits more as it has
// zeros. Values are the same within rounding.
const (
	exact    = 1e-12
	rounding = 1e-15
)

// near says whether mostKept more steps would end the run if each lowered the
// promise as much as the last.
func (set Settings) near(promised, was float64) bool {
	return promised*math.Pow(promised/was, mostKept) < set.Tolerance
}

// settled is how little the next step moves the variables where a run has settled.
const settled = 1e-12

// lastStep takes the step from at whose promise ended the run: its cost is one gradient,
// and runs that come from different sides then end at the same point to nearly
// all digits instead of to half of them. A rise within the rounding of the value,
// which the promise may be below, does not count. The gradient says whether the run has
// settled there.
func (r *Result) lastStep(ctx context.Context, c Curved, at *quadratic, step []float64) (*Result, error) {
	x := project(c, floats.AddTo(make([]float64, len(r.X)), r.X, step))
	v, err := c.Grad(ctx, at.grad, x)
	if err != nil {
		return r.end(NotRun, err)
	}
	if v <= r.Value+rounding*math.Abs(r.Value) {
		r.step(x, v)
		step = at.solve(at.grad)
	}
	r.Settled = step != nil && Largest(step, r.X) <= settled
	return r.end(Converged, nil)
}

// Polish takes the last steps of Newton's method from an x0 next to a minimum of a
// smooth c: without damping, until one would move no variable by more than Tolerance
// (default 1e−10) times the larger of 1 and its size. That is a stricter test than the
// decrement's of [Newton] where the Hessian is nearly singular, and values that differ by
// rounding alone do not end it. Where the Hessian is not positive definite, or a step
// raises the value by more than rounding, it has stalled.
func Polish(ctx context.Context, c Curved, x0 []float64, set Settings) (*Result, error) {
	set = set.or(8, 1e-10)
	r, at := newResult(x0), newQuadratic(len(x0))
	for next := x0; ; r.Iterations++ {
		copy(at.x, next)
		project(c, at.x)
		if err := at.fill(ctx, c); err != nil {
			return r.end(NotRun, err)
		}
		if !numeric.Finite(at.value) || at.value > r.Value+lastRounding*math.Abs(r.Value) {
			return r.end(Stalled, nil)
		}
		r.step(at.x, at.value)
		step, _, used := at.newtonStep(0)
		switch {
		case step == nil || used > 0:
			return r.end(Stalled, nil)
		case Largest(step, at.x) <= set.Tolerance:
			return r.end(Converged, nil)
		case r.Iterations == set.Iterations:
			return r.end(IterationLimit, nil)
		}
		next = floats.AddTo(step, step, at.x)
	}
}

// lastRounding is the relative rounding of a value that is the mean over many rows.
const lastRounding = 1e-13

// Largest is the most that a step moves a variable of x, relative to the larger of 1
// and its size.
func Largest(step, x []float64) (most float64) {
	for i, v := range step {
		most = max(most, math.Abs(v)/max(1, math.Abs(x[i])))
	}
	return most
}

// quadratic is the second-order model of an objective at a point.
type quadratic struct {
	x, grad []float64
	value   float64
	h       *mat.SymDense
	slope   bool    // grad is that at x
	kept    bool    // h is not that at x, but from a point before
	last    float64 // by what factor the promise fell in the last step; 1 where h is not kept
	fell    float64 // the larger of the last two

	chol  mat.Cholesky // of h scaled, and damped by the last newtonStep
	scale []float64
	moves []secant // since
}

// secant is what a step s showed of the Hessian: that H·s is near the change y of the gradient.
type secant struct {
	s, y []float64
	sy   float64 // s·y
}

func newQuadratic(n int) *quadratic {
	return &quadratic{x: make([]float64, n), grad: make([]float64, n), h: mat.NewSymDense(n, nil)}
}

func (q *quadratic) fill(ctx context.Context, c Curved) (err error) {
	q.value, err = c.Hessian(ctx, q.h, q.grad, q.x)
	q.slope, q.kept, q.last = true, false, 1
	return err
}

// try computes the value, and the gradient unless only the value is worth its
// cost, as after a failure.
func (q *quadratic) try(ctx context.Context, c Curved, failing bool) (err error) {
	if q.slope = !failing; failing {
		q.value, err = c.Value(ctx, q.x)
		return err
	}
	q.value, err = c.Grad(ctx, q.grad, q.x)
	return err
}

// moveTo moves the model to where o is, where the promise is less by a factor, and
// keeps its Hessian.
func (q *quadratic) moveTo(o *quadratic, fell float64) {
	q.x, o.x = o.x, q.x
	q.grad, o.grad = o.grad, q.grad
	q.value, q.kept = o.value, true
	q.fell, q.last = max(fell, q.last), fell
}

// promiseOf returns the Newton decrement where o is, with the Hessian factorised last and
// what the step to there shows of it; infinite where that was damped, or o has no gradient.
func (q *quadratic) promiseOf(o *quadratic, damping float64) float64 {
	if damping > 0 || !o.slope {
		return math.Inf(1)
	}
	s, y := make([]float64, len(q.x)), make([]float64, len(q.x))
	floats.SubTo(s, o.x, q.x)
	floats.SubTo(y, o.grad, q.grad)
	if sy := floats.Dot(s, y); sy > 0 {
		q.moves = append(q.moves, secant{s, y, sy})
	}
	return floats.Dot(q.solve(o.grad), o.grad) / 2
}

// solve returns H⁻¹·grad with the Hessian factorised last, brought up to date by the moves since: the two loops of
// L-BFGS about it (Nocedal and Wright 2006, Algorithm 7.4).
func (q *quadratic) solve(grad []float64) []float64 {
	rest := slices.Clone(grad)
	along := make([]float64, len(q.moves))
	for i, m := range slices.Backward(q.moves) {
		along[i] = floats.Dot(m.s, rest) / m.sy
		floats.AddScaled(rest, -along[i], m.y)
	}
	floats.Mul(rest, q.scale)
	step := numeric.SolveCholesky(q.chol.RawU().(*mat.TriDense).RawTriangular(), rest)
	floats.Mul(step, q.scale)
	for i, m := range q.moves {
		floats.AddScaled(step, along[i]-floats.Dot(m.y, step)/m.sy, m.s)
	}
	return step
}

// newtonStep solves (H + damping·D)·δ = −∇, raising the damping until the
// matrix is positive definite, and returns the fall that the quadratic model
// promises and the damping used; nil if there is none. It works on variables
// scaled to a Hessian of unit diagonal, so that a noise level of 1e−8, whose
// regressors have a curvature of 1e16 beside the gate's of 1, does no harm.
func (q *quadratic) newtonStep(damping float64) (step []float64, promised, used float64) {
	if q.kept {
		return q.stepWith(0)
	}
	n := len(q.x)
	q.scale, q.moves = q.scales(), nil
	damped, scaled := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	for i, s := range q.scale {
		for j := i; j < n; j++ {
			scaled.SetSym(i, j, s*q.h.At(i, j)*q.scale[j])
		}
	}
	for ; damping < 1e9; damping = raised(damping) {
		damped.CopySym(scaled)
		for i := range n {
			damped.SetSym(i, i, scaled.At(i, i)+damping)
		}
		if !q.chol.Factorize(damped) || q.chol.Cond() > 1e14 {
			continue
		}
		return q.stepWith(damping)
	}
	return nil, 0, 0
}

// stepWith is newtonStep with the Hessian factorised last, which has that
// damping.
func (q *quadratic) stepWith(damping float64) (step []float64, promised, used float64) {
	step = q.solve(q.grad)
	promised = floats.Dot(step, q.grad) / 2
	floats.Scale(-1, step)
	return step, promised, damping
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
