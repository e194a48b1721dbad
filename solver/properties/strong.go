package properties

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/sdk"
)

// Answer is yes, no, or that a question was not judged.
type Answer string

// The answers.
const (
	Yes       Answer = "yes"
	No        Answer = "no"
	NotJudged Answer = "not judged"
)

// StrongIdentifiability says whether one expert too many can be told apart at second order by least squares:
// whether the functions of x
//
//	π_1π_2(g(z_1) − g(z_2))·x^ν,  π_j·g′(z_j)·x^ν,  π_j·g″(z_j)·x^ν,  |ν| ≤ 2, j = 1, 2,
//
// are linearly independent, where z_j = ⟨a_j, x⟩ + b_j and π_1 = 1 − π_2 = 1/(1 + exp(−c − ⟨w, x⟩)), at each of
// a few parameters in d = 2 (after Nguyen, Ho & Rinaldo, "On least square estimation in softmax gating mixture of
// experts", 2024).
type StrongIdentifiability struct {
	Answer Answer
	Reason string  // of "no" and "not judged"
	Least  float64 // least singular value of the functions at unit norm, over the parameters; 0 unless Answer is yes
}

// strongPoint is where the functions are looked at.
type strongPoint struct {
	a [2][2]float64
	b [2]float64
	c float64
	w [2]float64
}

// strongPoints have |a_j| from .8 to 1.3, in general position. The first has a gate without slope.
var strongPoints = []strongPoint{
	{a: [2][2]float64{{1, 0.3}, {-0.4, 0.9}}, b: [2]float64{0.2, -0.3}},
	{a: [2][2]float64{{1.2, -0.5}, {0.3, 0.8}}, b: [2]float64{0.5, 0.1}, c: 0.3, w: [2]float64{0.7, -0.4}},
	{a: [2][2]float64{{-0.7, 0.6}, {0.8, 0.2}}, b: [2]float64{-0.4, 0.7}, c: -0.2, w: [2]float64{0.5, 0.9}},
}

// strongSteps are the steps of the differences of g′ that give g″, of eighth order, of which the first is taken that
// does. Errors for an analytic g are near 1e−13 of g″, of rounding; at twice the step it is 256 times the remainder. A
// steep g asks for a short step.
var strongSteps = []float64{1.0 / 64, 1.0 / 512}

const (
	// strongAgree is by how much, relative to g″, the differences at the two steps may differ.
	strongAgree = 1e-9
	// strongZero is the singular value up to which functions count as dependent. Dependent ones come out below it,
	// as the error of g″, strongAgree/256, times the root of the number of functions is 2e−11. Independent ones are in
	// strongClear and above: the sigmoid, tanh and softplus at 1e−5 to 1e−3.
	strongZero = 1e-10
	// strongClear is that from which on they count as independent; nothing is said of what lies between.
	strongClear = 1e-8
)

// StrongIdentifiabilityOf judges act, whose g″ is found by differences of g′. It is not judged where g has kinks,
// declared or seen in these differences, or is not finite for |z| ≤ 11. Errors are those of act.
func StrongIdentifiabilityOf(ctx context.Context, act sdk.Activation) (StrongIdentifiability, error) {
	if len(act.Info().Kinks) > 0 {
		return StrongIdentifiability{Answer: NotJudged, Reason: "g has kinks, and no second derivative there"}, nil
	}
	s := StrongIdentifiability{Answer: Yes, Least: math.Inf(1)}
	for _, p := range strongPoints {
		least, reason, err := p.least(ctx, act)
		switch {
		case err != nil:
			return StrongIdentifiability{}, err
		case reason != "":
			return StrongIdentifiability{Answer: NotJudged, Reason: reason}, nil
		}
		s.Least = min(s.Least, least)
	}
	switch {
	case s.Least <= strongZero:
		return StrongIdentifiability{Answer: No,
			Reason: "g′, g″ and the gate's products are linearly dependent"}, nil
	case s.Least < strongClear:
		return StrongIdentifiability{Answer: NotJudged, Reason: fmt.Sprintf(
			"the least singular value, %.1e, is too near to the rounding of g″", s.Least)}, nil
	}
	return s, nil
}

// least is the least singular value of the functions at p, or the reason why it cannot be told.
func (p strongPoint) least(ctx context.Context, act sdk.Activation) (least float64, reason string, err error) {
	// The trapezoidal rule at steps of ½ to ±6. What is dependent as functions is so on its nodes; a least singular
	// value there is that of a law near N(0, I).
	const side = 25
	n := side * side
	x, root := make([][2]float64, n), make([]float64, n)
	z := make([]float64, 2*n) // of expert 1, then of expert 2
	var total float64
	for i := range x {
		x[i] = [2]float64{float64(i/side)/2 - 6, float64(i%side)/2 - 6}
		root[i] = math.Exp(-(x[i][0]*x[i][0] + x[i][1]*x[i][1]) / 4)
		total += root[i] * root[i]
		for j := range 2 {
			z[j*n+i] = p.a[j][0]*x[i][0] + p.a[j][1]*x[i][1] + p.b[j]
		}
	}
	floats.Scale(1/math.Sqrt(total), root)
	g, d := make([]float64, 2*n), make([]float64, 2*n)
	if err := act.Eval(ctx, g, z); err != nil {
		return 0, "", err
	}
	if err := act.Deriv(ctx, d, z); err != nil {
		return 0, "", err
	}
	norm := func(v []float64) float64 {
		var sum float64
		for i, e := range v {
			sum += e * e * root[i%n] * root[i%n]
		}
		return math.Sqrt(sum)
	}
	var s []float64 // g″
	for _, step := range strongSteps {
		wide, err := slopes(ctx, act, z, 2*step)
		if err != nil {
			return 0, "", err
		}
		if s, err = slopes(ctx, act, z, step); err != nil {
			return 0, "", err
		}
		for i := range z {
			if v := g[i] + d[i] + wide[i] + s[i]; math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, "g, g′ or g″ is not finite for some |z| ≤ 11", nil
			}
		}
		size := norm(s)
		if size <= 1e-10*max(norm(d), norm(g)) {
			return 0, "", nil // g″ is nothing but rounding
		}
		floats.Sub(wide, s)
		if reason = ""; norm(wide) <= strongAgree*size {
			break
		}
		reason = "differences of g′ at two steps do not agree on g″"
	}
	if reason != "" {
		return 0, reason, nil
	}
	pi := make([][2]float64, n)
	for i := range pi {
		pi[i][0] = 1 / (1 + math.Exp(-p.c-p.w[0]*x[i][0]-p.w[1]*x[i][1]))
		pi[i][1] = 1 - pi[i][0]
	}
	functions := []func(i int) float64{func(i int) float64 { return pi[i][0] * pi[i][1] * (g[i] - g[n+i]) }}
	for j := range 2 {
		functions = append(functions,
			func(i int) float64 { return pi[i][j] * d[j*n+i] }, func(i int) float64 { return pi[i][j] * s[j*n+i] })
	}
	return leastSingular(x, root, functions), "", nil
}

// leastSingular is that of the functions times 1, x_1, x_2, x_1², x_1x_2 and x_2², each at unit norm under the
// weights root²; 0 where one of them is 0.
func leastSingular(x [][2]float64, root []float64, functions []func(i int) float64) float64 {
	powers := [][2]int{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {0, 2}}
	m := mat.NewDense(len(x), len(powers)*len(functions), nil)
	column := make([]float64, len(x))
	for f, of := range functions {
		for k, q := range powers {
			for i := range column {
				column[i] = root[i] * of(i)
				for axis := range 2 {
					for range q[axis] {
						column[i] *= x[i][axis]
					}
				}
			}
			size := floats.Norm(column, 2)
			if size == 0 {
				return 0
			}
			floats.Scale(1/size, column)
			m.SetCol(f*len(powers)+k, column)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDNone) {
		return 0
	}
	return floats.Min(svd.Values(nil))
}

// slopes are differences of g′ of eighth order with step h: g″ but for O(h⁸).
func slopes(ctx context.Context, act sdk.Activation, z []float64, h float64) ([]float64, error) {
	weights := [4]float64{4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280}
	sum, at, value := make([]float64, len(z)), make([]float64, len(z)), make([]float64, len(z))
	for k, w := range weights {
		for _, sign := range []float64{1, -1} {
			for i, v := range z {
				at[i] = v + sign*float64(k+1)*h
			}
			if err := act.Deriv(ctx, value, at); err != nil {
				return nil, err
			}
			floats.AddScaled(sum, sign*w/h, value)
		}
	}
	return sum, nil
}
