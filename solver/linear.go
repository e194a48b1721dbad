package solver

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// rankTol is the singular value below which a direction of the standardised
	// system counts as free. Moments come with relative errors of about 1e−14,
	// so the tuple keeps six digits at a condition number of 1e8.
	rankTol = 1e-8
	// zeroTol is what "= 0" and "≠ 0" mean for a standardised g. Exact zeros come
	// out at 1e−15 to 1e−12; coefficients that must not vanish are between 0.1
	// and 1e4 for the activations in use, 8e−7 for tanh(100z).
	zeroTol = 1e-9
	// resolved is the largest error of a standardised system that can still be
	// judged. Singular values below it would count as zero, and those of ReLU,
	// leaky ReLU and GELU go down to 0.05.
	resolved = 1e-3
)

// equations are a·x = b and the functional c0 + c·x, with the Frobenius norms
// of the errors in a and b and the errors of c.
type equations struct {
	a          [][]float64
	b, c       []float64
	aerr, berr float64
	c0, c0err  float64
	cerr       []float64
}

// solution is the set of least-squares solutions x + span(free).
type solution struct {
	x         []float64   // of minimum norm
	free      [][]float64 // orthonormal; empty at full rank
	rank      int
	cond      float64 // largest singular value over the smallest one that counts
	smallest  float64 // the smallest that counts; 0 at rank 0
	gain      float64 // ‖λ‖ with aᵀλ = c: what errors of the equations become in the coefficient
	residual  float64 // ‖a·x − b‖
	tolerance float64 // of the residual, for the system to be consistent
}

// solve finds the least-squares solutions by SVD. Singular values up to
// rankTol·max(1, largest), or up to the error of a, count as zero; the system
// is consistent where the residual is within zeroTol·max(1, ‖b‖) and the error
// that those of a and b bring.
func (e equations) solve() solution {
	n := len(e.b)
	a := mat.NewDense(n, n, nil)
	for i, row := range e.a {
		a.SetRow(i, row)
	}
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDFull) {
		return solution{x: make([]float64, n), cond: 1, residual: floats.Norm(e.b, 2)}
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	values := svd.Values(nil)
	zero := max(rankTol*max(1, values[0]), e.aerr)
	s := solution{x: make([]float64, n), cond: 1}
	for j, sv := range values {
		right := mat.Col(nil, j, &v)
		if sv <= zero {
			s.free = append(s.free, right)
			continue
		}
		s.rank++
		s.smallest, s.cond = sv, values[0]/sv
		s.gain = math.Hypot(s.gain, floats.Dot(right, e.c)/sv)
		floats.AddScaled(s.x, floats.Dot(mat.Col(nil, j, &u), e.b)/sv, right)
	}
	s.residual = e.distance(s.x)
	s.tolerance = zeroTol*max(1, floats.Norm(e.b, 2)) + 2*(e.berr+e.aerr*floats.Norm(s.x, 2))
	return s
}

// rows returns a·x − b.
func (e equations) rows(x []float64) []float64 {
	r := make([]float64, len(e.b))
	for i, row := range e.a {
		r[i] = floats.Dot(row, x) - e.b[i]
	}
	return r
}

func (e equations) distance(x []float64) float64 { return floats.Norm(e.rows(x), 2) }

// coefficient returns c0 + c·x.
func (e equations) coefficient(x []float64) float64 { return e.c0 + floats.Dot(e.c, x) }

// coefficientTol is what separates the coefficient from 0: zeroTol, or ten
// times the error that it inherits from the moments, directly and through x: of a·x = b it is λ·(δb − δa·x), where
// δb has the rounding of the solution too. Along free directions x is not held, and ‖c‖/smallest stands for ‖λ‖.
func (e equations) coefficientTol(s solution, x []float64) float64 {
	norm, gain := floats.Norm(x, 2), s.gain
	if len(s.free) > 0 && s.rank > 0 {
		gain = floats.Norm(e.c, 2) / s.smallest
	}
	err := e.c0err + gain*(e.berr+e.aerr*norm+8*epsilon*(floats.Norm(e.b, 2)+s.cond*s.smallest*norm))
	for j, c := range e.cerr {
		err += c * math.Abs(x[j])
	}
	return max(zeroTol, 10*err)
}

// away moves x one unit along the free direction that changes the coefficient
// most, so that a coefficient that only happens to vanish does not.
func (e equations) away(s solution, x []float64) []float64 {
	step := make([]float64, len(x))
	for _, f := range s.free {
		floats.AddScaled(step, floats.Dot(f, e.c), f)
	}
	norm := floats.Norm(step, 2)
	if norm <= zeroTol {
		return x
	}
	if e.coefficient(x) < 0 {
		norm = -norm
	}
	y := append([]float64(nil), x...)
	floats.AddScaled(y, 1/norm, step)
	return y
}
