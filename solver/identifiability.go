package solver

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/sdk"
)

// StrongIdentifiability says whether experts g(⟨a,x⟩ + b) are strongly identifiable under a
// softmax gate (Nguyen, Ho and Rinaldo 2024, arXiv 2402.02952): whether the functions
//
//	z^p·g(z), z^p·g′(z), z^p·g″(z), z^p,  p = 0, 1, 2
//
// are linearly independent, which are all that the derivatives to second order of
// exp(⟨w,x⟩)·g(⟨a,x⟩ + b) in its parameters consist of; the last are what experts of two
// directions can have in common. Where g solves a linear equation p₀g + p₁g′ + p₂g″ = p₃ with
// polynomials of degree 2 at most, they are not.
type StrongIdentifiability struct {
	Verdict Answer
	// Least is the least singular value of the functions, each scaled to unit norm under
	// z ~ N(0,1): 0 where they are dependent. NaN where it was not computed.
	Least  float64
	Reason string // why it was not judged
}

// Answer is that to a question that not every activation has an answer to.
type Answer string

// The answers.
const (
	Yes       Answer = "yes"
	No        Answer = "no"
	NotJudged Answer = "not judged"
)

const (
	// leastIndependent is the least singular value from which functions are independent, and
	// mostDependent that up to which they are not. Those of dependent ones come out below
	// 1e−12, of the known independent ones above 1e−6.
	leastIndependent, mostDependent = 1e-8, 1e-11
	// secondError is the relative error of g″ from which nothing is judged.
	secondError = 1e-10
)

// identifiabilityScales are the standard deviations of z under which the functions are
// compared. Where g is analytic they are dependent under both or none, and the wider shows
// it better. None of the z looked at is beyond [gauss.Range].
var identifiabilityScales = []float64{1, 2}

// StrongIdentifiabilityOf judges g where it has no kinks and g″ can be told from its values. Errors are those of act.
func StrongIdentifiabilityOf(ctx context.Context, act sdk.Activation) (StrongIdentifiability, error) {
	out := StrongIdentifiability{Verdict: NotJudged, Least: math.NaN()}
	if n := len(act.Info().Kinks); n > 0 {
		out.Reason = "g has kinks, and no second derivative there"
		return out, nil
	}
	largest, told := 0.0, false
	for i, scale := range identifiabilityScales {
		least, err, fault := leastSingular(ctx, act, scale)
		if fault != nil {
			return out, fault
		}
		if i == 0 && err <= secondError {
			out.Least = least
		}
		if err <= secondError {
			largest, told = max(largest, least), true
		}
	}
	switch {
	case !told:
		out.Reason = "g″ cannot be told from its values"
	case largest >= leastIndependent:
		out.Verdict = Yes
	case largest <= mostDependent:
		out.Verdict, out.Least = No, 0
	default:
		out.Reason = fmt.Sprintf("the functions are next to dependent: a least singular value of %.2g", largest)
	}
	return out, nil
}

// leastSingular is the least singular value of the functions under z ~ N(0, scale²), with the relative error of g″,
// infinite where a value is not finite.
func leastSingular(ctx context.Context, act sdk.Activation, scale float64) (least, relative float64, err error) {
	const points, ends, degree = 1201, 9.0, 2
	u := floats.Span(make([]float64, points), -ends, ends)
	z, g, dg := make([]float64, points), make([]float64, points), make([]float64, points)
	floats.AddScaled(z, scale, u)
	if err := act.Eval(ctx, g, z); err != nil {
		return 0, 0, err
	}
	if err := act.Deriv(ctx, dg, z); err != nil {
		return 0, 0, err
	}
	second, relative, err := secondDerivative(ctx, act, z, u, dg)
	if err != nil || relative > secondError {
		return 0, relative, err
	}
	one := make([]float64, points)
	floats.AddConst(1, one)
	functions := mat.NewDense(points, 4*(degree+1), nil)
	for f, values := range [][]float64{g, dg, second, one} {
		for p := range degree + 1 {
			column, norm := make([]float64, points), 0.0
			for i, v := range values {
				if math.IsNaN(v - v) { // not finite
					return 0, math.Inf(1), nil
				}
				column[i] = math.Pow(u[i], float64(p)) * v * math.Exp(-u[i]*u[i]/4)
				norm = math.Hypot(norm, column[i])
			}
			if norm > 0 {
				floats.Scale(1/norm, column)
			}
			functions.SetCol(f*(degree+1)+p, column)
		}
	}
	var s mat.SVD
	if !s.Factorize(functions, mat.SVDNone) {
		return 0, math.Inf(1), nil
	}
	values := s.Values(nil)
	return values[len(values)-1], relative, nil
}

// secondSteps are those of the differences for g″, of which a steep g asks for a short one.
var secondSteps = []float64{1e-2, 3e-3, 1e-3}

// secondDerivative is g″ at z, with its error relative to g′ and g″ under u ~ N(0,1), by the change when the step is
// halved; infinite where a value is not finite.
func secondDerivative(ctx context.Context, act sdk.Activation, z, u, dg []float64) (second []float64, relative float64,
	err error) {
	for _, step := range secondSteps {
		coarse, err := differences(ctx, act, z, step)
		if err != nil {
			return nil, 0, err
		}
		if second, err = differences(ctx, act, z, step/2); err != nil {
			return nil, 0, err
		}
		apart, size := 0.0, 0.0
		for i := range second {
			w := math.Exp(-u[i] * u[i] / 4)
			apart = math.Hypot(apart, w*(second[i]-coarse[i]))
			size = math.Hypot(size, w*math.Abs(dg[i])+w*math.Abs(second[i]))
		}
		switch relative = apart / size; {
		case size == 0:
			return second, 0, nil
		case math.IsNaN(relative):
			return second, math.Inf(1), nil
		case relative <= secondError:
			return second, relative, nil
		}
	}
	return second, relative, nil
}

// differences is g″ by central differences of g′ of sixth order.
func differences(ctx context.Context, act sdk.Activation, z []float64, step float64) ([]float64, error) {
	out, at, dg := make([]float64, len(z)), make([]float64, len(z)), make([]float64, len(z))
	for i, c := range []float64{45, -9, 1} {
		for _, sign := range []float64{1, -1} {
			copy(at, z)
			floats.AddConst(sign*float64(i+1)*step, at)
			if err := act.Deriv(ctx, dg, at); err != nil {
				return nil, err
			}
			floats.AddScaled(out, sign*c/(60*step), dg)
		}
	}
	return out, nil
}
