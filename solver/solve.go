package solver

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver/properties"
	"gonum.org/v1/gonum/floats"
)

// A Check is one condition with the number it was judged by. Conditions "= 0"
// hold up to Tolerance in absolute value, conditions "≠ 0" beyond it.
type Check struct {
	Name      string
	Value     float64
	Tolerance float64
	Holds     bool
}

// Verdict says whether an activation is (α, β, γ, δ)-valid (002 Definition 1)
// and how that was found. All numbers are those of the standardised activation
// (g − E g)/sd(g), for which validity is the same: Rank and Cond of the system
// for (α, β, γ), with Cond the largest singular value over the smallest one
// that counts, and Residual = ‖Matrix·x − RHS‖ at the solution.
type Verdict struct {
	Valid    bool
	Reasons  []string // why not, one sentence each; empty where Valid
	Rank     int
	Cond     float64
	Residual float64
	Checks   []Check
	// SignsIdentifiable says that g has an odd part as its moments show, and Even that it has none: then a_i and −a_i
	// give the same data. Neither holds where that cannot be told from the moments.
	SignsIdentifiable, Even bool
}

// Fail adds a failed check from outside, such as that of a plugin's own
// moments, to the verdict.
func (v *Verdict) Fail(reason string) {
	v.Valid = false
	v.Reasons = append(v.Reasons, reason)
}

// Solve finds the output transforms of an activation at noise level sigma ≥ 0
// from its moments, and says whether they exist. The system s that the activation
// offers, at any noise level, is held against the moments entry by entry; one
// that contradicts them makes the verdict invalid, with its worst entry named,
// and has no part in the transform.
//
// Validity asks that a tuple (α, β, γ, δ) exists, so it is decided by rank and
// consistency after standardising g, not by inverting. Where coefficients are
// free the tuple of minimum norm is taken, moved along the free directions if
// c4 or c2 vanishes there. Even activations such as |z| and z² are of this
// kind: valid, with a system of rank 1.
//
// σ enters by [Transform.At] at any rank, so the equations are solved at σ = 0: at
// σ itself, where σ is far above the scale of g, they would lose their digits.
func Solve(m sdk.Moments, s sdk.System, sigma float64) (Transform, Verdict) {
	v := Verdict{Valid: true, Cond: 1}
	scale, varianceErr := standardise(m)
	variance := scale.sd * scale.sd
	if why := properties.OutOfRange(m, variance); why != "" {
		v.Fail(why)
		return Transform{Sigma: sigma}, v
	}
	if !v.check("g is not constant", variance, varianceErr, variance > varianceErr) {
		v.Fail("g is constant, or cannot be told from a constant at this precision")
		return Transform{Sigma: sigma}, v
	}
	reason, check := CompareSystem(s, m)
	v.Checks = append(v.Checks, check)
	if !check.Holds {
		v.Fail(reason)
	}
	std := scale.of(tableOf(m))
	v.SignsIdentifiable = std.odd()
	q4 := std.equations(4)
	if err := q4.aerr + q4.berr; !v.check("the moments are exact enough to tell", err, resolved, err <= resolved) {
		v.Fail("the moments are too inexact to tell" + q4.whyInexact(scale))
		return Transform{Sigma: sigma}, v
	}

	var t Transform
	sol := q4.solve()
	v.Rank, v.Cond, v.Residual = sol.rank, sol.cond, sol.residual
	x := q4.pick(sol, scale)
	v.condition1(q4, sol, x)
	abg := scale.raw(x)
	t.Alpha, t.Beta, t.Gamma = abg[0], abg[1], abg[2]
	t.C4 = q4.coefficient(x) * math.Pow(scale.sd, 4)

	q2 := std.equations(2)
	sol = q2.solve()
	x = q2.pick(sol, scale)
	v.condition2(q2, sol, x)
	t.Delta = scale.raw(x)[0]
	t.C2 = q2.coefficient(x) * variance

	t.Cubic = solveCubic(std.equations(3), scale)
	v.Even = !v.SignsIdentifiable
	return t.At(sigma), v
}

// whyInexact says of a system whose errors are too large where they come from, and what to do about it if something
// can be done. Standardising loses as many digits as (mean/sd)⁴ has.
func (e equations) whyInexact(a affine) string {
	size := floats.Norm(e.b, 2)
	switch {
	case math.Abs(a.mean) > 100*a.sd:
		return fmt.Sprintf(" (the mean of g is %.3g standard deviations): take the constant off g", a.mean/a.sd)
	case e.aerr+e.berr <= zeroTol*size:
		return fmt.Sprintf(": those of g standardised go up to %.2g, most of which comes from rare Z", size)
	}
	return ": g changes too fast for their quadrature; where that is at a kink, declare it"
}

// pick returns the solution: of minimum raw norm, moved off if the coefficient
// vanishes there.
func (e equations) pick(s solution, a affine) []float64 {
	x := a.least(s.x, s.free)
	if math.Abs(e.coefficient(x)) <= e.coefficientTol(s, x) {
		x = e.away(s, x)
	}
	return x
}

func (v *Verdict) check(name string, value, tolerance float64, holds bool) bool {
	v.Checks = append(v.Checks, Check{name, value, tolerance, holds})
	return holds
}

// condition1 checks S4_1 = S4_2 = S4_3 = 0 and c4 ≠ 0 for the standardised
// coefficients x.
func (v *Verdict) condition1(e equations, s solution, x []float64) {
	for i, r := range e.rows(x) {
		name := fmt.Sprintf("S4 has no He%d part", i+1)
		if !v.check(name, r, s.tolerance, math.Abs(r) <= s.tolerance) {
			v.Fail(fmt.Sprintf("no (α, β, γ) removes the He%d part of S4: the system has rank %d and is inconsistent",
				i+1, s.rank))
		}
	}
	v.seen("c4", e.coefficient(x), e.coefficientTol(s, x), "S4 has no He4 part to learn the regressors from")
}

// seen checks that a coefficient is not 0. It is called 0 where it is so to rounding.
func (v *Verdict) seen(name string, c, tol float64, without string) {
	switch {
	case v.check(name+" is not zero", c, tol, math.Abs(c) > tol):
	case math.Abs(c) <= 1e-3*zeroTol && tol <= 1e3*zeroTol:
		v.Fail(name + " = 0: " + without)
	default:
		v.Fail(fmt.Sprintf("%s cannot be told from 0 (%s = %.2g, tolerance %.2g): %s", name, name, c, tol, without))
	}
}

// condition2 checks S2_1 = 0 and c2 ≠ 0.
func (v *Verdict) condition2(e equations, s solution, x []float64) {
	r := e.rows(x)[0]
	if !v.check("S2 has no He1 part", r, s.tolerance, math.Abs(r) <= s.tolerance) {
		v.Fail("no δ removes the He1 part of S2")
	}
	v.seen("c2", e.coefficient(x), e.coefficientTol(s, x), "S2 has no He2 part to find the regressors' span from")
}

// solveCubic solves the third-order system (001, method 1). It is invalid for
// every even g: there c3 = 0.
func solveCubic(e equations, a affine) Cubic {
	sol := e.solve()
	x := e.pick(sol, a)
	ab := a.raw(x)
	c := e.coefficient(x)
	return Cubic{
		Alpha: ab[0], Beta: ab[1], C3: c * math.Pow(a.sd, 3),
		Valid: sol.residual <= sol.tolerance && math.Abs(c) > e.coefficientTol(sol, x),
	}
}

// odd reports whether some power of g correlates with an odd polynomial.
func (t table) odd() bool {
	for p := 1; p <= sdk.MaxOrder; p++ {
		scale := max(1, floats.Norm(t.h[p][1:], 2))
		for q := 1; q <= 3; q += 2 {
			if math.Abs(t.h[p][q]) > zeroTol*scale+10*t.err[p][q] {
				return true
			}
		}
	}
	return false
}
