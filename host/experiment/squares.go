package experiment

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// marquardt minimises Σ_i (y_i − f_i(θ))² from θ by the method of Levenberg and Marquardt, with the Jacobian by
// central differences, until steps no longer help. It returns the minimum and the sum there.
func marquardt(f func(theta, out []float64), y, theta []float64) ([]float64, float64) {
	const h, iterations = 1e-5, 400
	m, p := len(y), len(theta)
	theta = append([]float64(nil), theta...)
	jacobian, residual := mat.NewDense(m, p, nil), make([]float64, m)
	lo, hi, next := make([]float64, m), make([]float64, m), make([]float64, p)
	squares := func(at, into []float64) float64 {
		f(at, into)
		floats.SubTo(into, y, into)
		return floats.Dot(into, into)
	}
	sum, damping, idle := squares(theta, residual), 1e-3, 0
	for range iterations {
		for j := range theta {
			copy(next, theta)
			next[j] = theta[j] + h
			f(next, hi)
			next[j] = theta[j] - h
			f(next, lo)
			for i := range hi {
				jacobian.Set(i, j, (hi[i]-lo[i])/(2*h))
			}
		}
		var normal, gradient mat.Dense
		normal.Mul(jacobian.T(), jacobian)
		gradient.Mul(jacobian.T(), mat.NewVecDense(m, residual))
		trace := mat.Trace(&normal) / float64(p)
		before := sum
		for damping < 1e12 {
			damped := mat.NewSymDense(p, nil)
			for i := range p {
				for j := i; j < p; j++ {
					damped.SetSym(i, j, normal.At(i, j))
				}
				damped.SetSym(i, i, normal.At(i, i)+damping*trace)
			}
			var cholesky mat.Cholesky
			step := mat.NewVecDense(p, nil)
			if cholesky.Factorize(damped) && cholesky.SolveVecTo(step, gradient.ColView(0)) == nil {
				floats.AddTo(next, theta, step.RawVector().Data)
				if to := squares(next, hi); to < sum {
					copy(theta, next)
					copy(residual, hi)
					sum, damping = to, math.Max(damping/9, 1e-15)
					break
				}
			}
			damping *= 4
		}
		if damping >= 1e12 {
			break
		}
		if before-sum > 1e-9*sum {
			idle = 0
		} else if idle++; idle > 5 {
			break
		}
	}
	return theta, sum
}
