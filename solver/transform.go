// Package solver turns an activation's Gaussian moments into the output
// transforms of 002 Appendix B, and says whether the activation is one for which
// the guarantees hold. It is the one home of α, β, γ, δ.
//
// [Validate] answers for an activation as a whole: the verdict with its reasons, the
// transform, the noise of the moments and, by [Noise.Samples], how many rows a fit
// takes.
package solver

// Transform holds the coefficients of the output transforms at noise level
// Sigma,
//
//	Q4(y) = y⁴ + Alpha·y³ + Beta·y² + Gamma·y
//	Q2(y) = y² + Delta·y
//
// for which E[Q4(y)·He_q(Z)] = 0 at q = 1, 2, 3 and E[Q2(y)·Z] = 0 when
// y = g(Z) + Sigma·N(0,1). C4 = E[Q4(y)·He_4(Z)] and C2 = E[Q2(y)·He_2(Z)] are
// what they leave (002 Appendix B). Additive constants of Q4 and Q2 have no
// effect and are left out.
type Transform struct {
	Sigma                     float64
	Alpha, Beta, Gamma, Delta float64
	C4, C2                    float64
	Cubic                     Cubic
}

// Cubic holds the coefficients of the third-order transform
// P3(y) = y³ + Alpha·y² + Beta·y with C3 = E[P3(y)·He_3(Z)] (001, method 1).
// Valid says whether it exists and C3 ≠ 0.
type Cubic struct {
	Alpha, Beta, C3 float64
	Valid           bool
}

// Q4 returns y⁴ + Alpha·y³ + Beta·y² + Gamma·y.
func (t Transform) Q4(y float64) float64 { return (((y+t.Alpha)*y+t.Beta)*y + t.Gamma) * y }

// Q2 returns y² + Delta·y.
func (t Transform) Q2(y float64) float64 { return (y + t.Delta) * y }

// P3 returns y³ + Cubic.Alpha·y² + Cubic.Beta·y.
func (t Transform) P3(y float64) float64 { return ((y+t.Cubic.Alpha)*y + t.Cubic.Beta) * y }

// polynomial returns Q2, P3 or Q4 and the coefficient that it leaves.
func (t Transform) polynomial(r int) (q polynomial, scale float64) {
	switch r {
	case 2:
		return polynomial{0, t.Delta, 1}, t.C2
	case 3:
		return polynomial{0, t.Cubic.Beta, t.Cubic.Alpha, 1}, t.Cubic.C3
	}
	return polynomial{0, t.Gamma, t.Beta, t.Alpha, 1}, t.C4
}

// At returns the transform at another noise level. With s = σ² it enters only
// by
//
//	β = β₀ − 6s    γ = γ₀ − 3α·s    third order: β = β₀ − 3s
//
// because E[(g+σN)⁴] = g⁴ + 6s·g² + 3s² and E[(g+σN)³] = g³ + 3s·g: the shift
// leaves E[Q4(y)|Z] what it was, up to a constant.
func (t Transform) At(sigma float64) Transform {
	ds := sigma*sigma - t.Sigma*t.Sigma
	t.Sigma = sigma
	t.Beta -= 6 * ds
	t.Gamma -= 3 * t.Alpha * ds
	t.Cubic.Beta -= 3 * ds
	return t
}
