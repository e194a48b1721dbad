package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/stream"
)

// flatCase is a number of experts with the dimension that they stand in.
type flatCase struct{ k, d int }

func flatCases() []flatCase { return []flatCase{{2, 2}, {2, 5}, {3, 3}, {3, 6}} }

func (c flatCase) series() string { return fmt.Sprintf("k = %d, d = %d", c.k, c.d) }

// The constants of 001's L4, which the slides do not have.
const slidesMu, slidesLambda = 0.1, 10.0

// loss is 001's L4 of its population, T4 = 12·Σ a_i⊗a_i⊗a_i⊗a_i with a_i = e_i. The term in λ is that of
// [tensor.L4] with T2 = I.
func (c flatCase) loss() *tensor.L4 {
	one, t4 := mat.NewSymDense(c.d, nil), tensor.NewSym4(c.d)
	for i := range c.d {
		one.SetSym(i, i, 1)
		if i < c.k {
			axis := make([]float64, c.d)
			axis[i] = 1
			t4.AddRankOne(12, axis)
		}
	}
	return tensor.NewL4(c.k, one, t4, slidesMu, slidesLambda, 0)
}

// flat is the point with the rows t·a_1 … t·a_{k−1} and cos·u + sin·a_k, where t² = λ/(λ − 12μ) and u is a unit vector
// orthogonal to the regressors. It is stationary where sin = 0.
func (c flatCase) flat(sin float64) []float64 {
	x := make([]float64, c.k*c.d)
	for i := range c.k - 1 {
		x[i*c.d+i] = math.Sqrt(slidesLambda / (slidesLambda - 12*slidesMu))
	}
	last := x[(c.k-1)*c.d:]
	last[c.k], last[c.k-1] = math.Sqrt(1-sin*sin), sin
	return x
}

// slidesLandscape is the landscape of 001's own L4.
func slidesLandscape() *Figure {
	f := &Figure{
		ID: "001-L4", Title: "Saddles of the slides' own L4", Source: "001, Landscape of L4",
		Claim: "All saddle points of L4 have negative curvature.",
		Settings: fmt.Sprintf("L4 as the slides have it, with λ·Σ(‖â_j‖² − 1)², of the population "+
			"of identity experts with a_i = e_i, for k = 2 and 3 in d = k dimensions and in more; μ = %g and λ = "+
			"%g, which the slides leave out. With d > k the point is t·a_1, …, t·a_{k−1} and a unit vector u "+
			"⟂ a_1, …, a_k, t² = λ/(λ − 12μ). The way from it turns u towards a_k: the last row is √(1 "+
			"− s²)·u + s·a_k. With d = k it is the flattest saddle that Newton's method finds from 20 random "+
			"starts and from where their descents are slow, and the way is straight along the most negative "+
			"curvature. The Hessian is by differences that are exact for a polynomial of degree 4, up to rounding; "+
			"no curvature is one of more than −1e−6. Nothing but the starts is random.", slidesMu,
			slidesLambda),
		X: Axis{Label: "s, distance from the saddle", Log: true}, Y: Axis{Label: "fall of L4", Log: true},
		Columns: []string{"k", "d", "saddle", "‖∇L4‖", "least curvature", "L4 above its minimum", "fall of L4 goes as",
			"saddles met", "of them without negative curvature"},
		measure: "fall", judge: judgeSlidesLandscape,
	}
	for _, c := range flatCases() {
		f.units = append(f.units, unit{key: fmt.Sprintf("001's L4, %+v, μ %g, λ %g", c, slidesMu, slidesLambda),
			run: func(ctx context.Context, seed uint64) (*output, error) { return c.run(ctx, seed) }})
	}
	return f
}

// noCurvature is the least eigenvalue of a Hessian from which on it counts as none that is negative.
const noCurvature = -1e-6

func (c flatCase) run(ctx context.Context, seed uint64) (*output, error) {
	l := c.loss()
	met, minimum, err := c.saddles(ctx, l, seed)
	if err != nil {
		return nil, err
	}
	name, at, way := "(a_1, u)", []float64(nil), c.flat
	if c.k == 3 {
		name = "(a_1, a_2, u)"
	}
	flat, flattest := 0, math.Inf(-1)
	for _, x := range met {
		least, _ := bottom(ctx, l, x)
		if least > noCurvature {
			flat++
		}
		if c.k == c.d && least > flattest {
			name, at, flattest = "the flattest met", x, least
		}
	}
	if c.k < c.d {
		at = way(0)
	}
	least, bend := bottom(ctx, l, at)
	if c.k == c.d {
		way = func(s float64) []float64 {
			x := slices.Clone(at)
			floats.AddScaled(x, s, bend)
			return x
		}
	}
	g := make([]float64, len(at))
	value, err := l.Grad(ctx, g, at)
	if err != nil {
		return nil, err
	}
	fall := new(trace)
	for s := 0.01; s < 0.2; s *= 1.5 {
		v, err := l.Value(ctx, way(s))
		if err != nil {
			return nil, err
		}
		fall.add(s, value-v)
	}
	out := new(output)
	out.add("fall", c.series(), 0, fall)
	out.point("curvature", c.series(), 0, 1, least)
	out.point("gradient", c.series(), 0, 1, floats.Norm(g, 2))
	out.Rows = [][]string{{strconv.Itoa(c.k), strconv.Itoa(c.d), name, g2(floats.Norm(g, 2)), g2(least),
		g2(value - minimum), fmt.Sprintf("s^%.2f", slope(fall.x, fall.y)), strconv.Itoa(len(met)), strconv.Itoa(flat)}}
	return out, nil
}

// saddles are the stationary points above the minimum that Newton's method finds from 20 random starts, and from where
// descents from them are slow, and the least value that L-BFGS finds from the same starts.
func (c flatCase) saddles(
	ctx context.Context, l *tensor.L4, seed uint64,
) (met [][]float64, minimum float64, err error) {
	rng := stream.New(seed, stream.Study, 2)
	var starts [][]float64
	minimum = math.Inf(1)
	for range 20 {
		x := make([]float64, l.Dim())
		for i := range x {
			x[i] = rng.NormFloat64() / math.Sqrt(float64(c.d))
		}
		starts = append(append(starts, x), plateaus(ctx, l, x)...)
		r, err := optim.LBFGS(ctx, l, x, optim.Settings{Iterations: 5000, Tolerance: 1e-12})
		if err != nil {
			return nil, 0, err
		}
		minimum = min(minimum, r.Value)
	}
	for _, x := range starts {
		at, ok := stationary(ctx, l, x)
		if !ok {
			continue
		}
		if v, _ := l.Value(ctx, at); v > minimum+lowestHeight {
			met = append(met, at)
		}
	}
	return met, minimum, nil
}

// bottom is the least eigenvalue of the Hessian with its unit vector.
func bottom(ctx context.Context, l *tensor.L4, x []float64) (float64, []float64) {
	values, vectors, ok := eigenpairs(hessian(ctx, l, x))
	if !ok {
		return math.NaN(), nil
	}
	return values[0], vectors[0]
}

func judgeSlidesLandscape(o *Outcome) Verdict {
	var measured, flat []string
	for _, c := range flatCases() {
		least := o.beside(c.series())
		fall := o.Of(c.series())[0]
		power := slope(fall.X, fall.Y)
		measured = append(measured, fmt.Sprintf("%s: ‖∇L4‖ %s, least curvature %s, L4 falls as s^%.2f", c.series(),
			g2(least[1]), g2(least[0]), power))
		if least[0] > noCurvature && least[1] < 1e-9 && slices.Min(fall.Y) > 0 {
			flat = append(flat, c.series())
		}
	}
	v := Verdict{Measured: strings.Join(measured, "; "), Agrees: len(flat) == 0}
	if !v.Agrees {
		v.Because = fmt.Sprintf("where d > k, with a row orthogonal to all regressors, a saddle has no negative "+
			"curvature (%s): its way down is of fourth order", strings.Join(flat, "; "))
	}
	return v
}
