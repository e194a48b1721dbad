package optim

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Products is an objective whose Hessian can be multiplied with and need not be held.
// HessianTimes writes H(x)·v to dst, and Diagonal positive numbers near to H's diagonal.
type Products interface {
	Objective
	HessianTimes(ctx context.Context, dst, v, x []float64) error
	Diagonal(ctx context.Context, dst, x []float64) error
}

// TruncatedNewton minimises f from x0 by Newton steps of which the systems are solved no
// further than is worth it (Nocedal & Wright, Numerical Optimization, §7.1): H·δ = −∇ by
// conjugate gradients, scaled by the diagonal, until the residual is a part of the gradient
// that shrinks as Newton's method converges (Eisenstat & Walker 1996, choice 2), or to a
// direction of negative curvature; then halvings of the step until the value falls. It holds
// some vectors of the length of x and no matrix.
//
// It has converged as [Newton] has: when the fall that the quadratic model still promises is
// below Tolerance (default 1e−12), of a system that is solved to a tenth, or a step that
// promises less than Slack does not lower the value. Where steps have to be cut again and
// again, as at kinks, which the quadratic model does not see, it ends as without progress.
func TruncatedNewton(ctx context.Context, f Products, x0 []float64, set Settings) (*Result, error) {
	set = set.or(200, 1e-12)
	r := newResult(x0)
	c := newConjugate(f, len(x0))
	x, grad := project(f, append([]float64(nil), x0...)), make([]float64, len(x0))
	next, nextGrad := make([]float64, len(x0)), make([]float64, len(x0))
	value, err := f.Grad(ctx, grad, x)
	if err != nil {
		return r.end(NotRun, err)
	}
	if !numeric.Finite(value) {
		return r.end(Diverged, nil)
	}
	r.step(x, value)
	forcing, last, cut := 0.5, 0.0, 0
	for r.Iterations < set.Iterations {
		norm, err := c.begin(ctx, x, grad)
		if err != nil {
			return r.end(NotRun, err)
		}
		if last > 0 {
			forcing = force(forcing, norm/last)
		}
		last = norm
		promised, err := c.solve(ctx, x, grad, forcing)
		if err != nil {
			return r.end(NotRun, err)
		}
		slope := floats.Dot(c.step, grad)
		size, fell := 1.0, false
		for range 12 {
			project(f, floats.AddScaledTo(next, x, size, c.step))
			v, err := f.Grad(ctx, nextGrad, next)
			if err != nil {
				return r.end(NotRun, err)
			}
			if v <= value+1e-4*size*slope {
				fell, value = true, v
				break
			}
			if promised < set.Tolerance {
				break
			}
			size /= 4
			cut++
		}
		switch {
		case !fell && promised <= max(set.Tolerance, set.Slack, 1e-15*math.Abs(value)):
			return r.end(Converged, nil)
		case !fell:
			return r.end(Stalled, nil)
		}
		x, next = next, x
		grad, nextGrad = nextGrad, grad
		r.Iterations++
		r.step(x, value)
		again := cut > 10+2*r.Iterations
		switch {
		case promised < set.Tolerance && forcing <= 0.1, again && promised <= set.Slack:
			return r.end(Converged, nil)
		case again:
			return r.end(Stalled, nil)
		}
		if set.stop(r.Iterations, value) {
			return r.end(Stopped, nil)
		}
	}
	return r.end(IterationLimit, nil)
}

// force is how far the next system is solved, where the gradient has become this part of
// the last.
func force(last, part float64) float64 {
	const gamma, most, least = 0.9, 0.5, 1e-3
	next := gamma * part * part
	if safe := gamma * last * last; safe > 0.1 {
		next = max(next, safe)
	}
	return min(max(next, least), most)
}

// conjugate solves H·δ = −∇ by conjugate gradients.
type conjugate struct {
	f                                       Products
	step, residual, along, product, diag, z []float64
}

func newConjugate(f Products, n int) *conjugate {
	v := func() []float64 { return make([]float64, n) }
	return &conjugate{f: f, step: v(), residual: v(), along: v(), product: v(), diag: v(), z: v()}
}

// begin takes the diagonal at x and returns the norm of the gradient in its scale.
func (c *conjugate) begin(ctx context.Context, x, grad []float64) (float64, error) {
	if err := c.f.Diagonal(ctx, c.diag, x); err != nil {
		return 0, err
	}
	least := 1e-12 * floats.Max(c.diag)
	for i, v := range c.diag {
		c.diag[i] = max(v, least, math.SmallestNonzeroFloat64)
	}
	return math.Sqrt(c.scaled(grad)), nil
}

// scaled writes v in the scale of the diagonal to c.z and returns ⟨v, z⟩.
func (c *conjugate) scaled(v []float64) float64 {
	floats.DivTo(c.z, v, c.diag)
	return floats.Dot(v, c.z)
}

// mostProducts bounds the products of a system.
const mostProducts = 100

// solve sets c.step and returns the fall that the quadratic model promises of it.
func (c *conjugate) solve(ctx context.Context, x, grad []float64, forcing float64) (float64, error) {
	clear(c.step)
	copy(c.residual, grad) // H·step + ∇
	square := c.scaled(c.residual)
	until := forcing * forcing * square
	floats.ScaleTo(c.along, -1, c.z)
	for n := range mostProducts {
		if err := c.f.HessianTimes(ctx, c.product, c.along, x); err != nil {
			return 0, err
		}
		bend := floats.Dot(c.along, c.product)
		if !(bend > 0) {
			if n == 0 {
				copy(c.step, c.along)
			}
			break
		}
		size := square / bend
		floats.AddScaled(c.step, size, c.along)
		floats.AddScaled(c.residual, size, c.product)
		last := square
		square = c.scaled(c.residual)
		if square <= until {
			break
		}
		floats.Scale(square/last, c.along)
		floats.Sub(c.along, c.z)
	}
	// −(⟨∇, δ⟩ + ⟨δ, H·δ⟩/2), with H·δ = residual − ∇
	return -(floats.Dot(grad, c.step) + floats.Dot(c.residual, c.step)) / 2, nil
}
