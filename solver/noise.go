package solver

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Noise says how noisy the transforms of an activation are: for
// y = g(Z) + σN and the centred, scaled transforms
//
//	q4 = (Q4(y) − E Q4(y))/c4    q2 = (Q2(y) − E Q2(y))/c2
//
// V4 = Var[q4·He_4(Z)] and V2 = Var[q2·He_2(Z)] are the variances of one row's
// share in T4(a,a,a,a)/c4 and T2(a,a)/c2, whose means are 1. An activation may be
// valid and yet need more rows than anybody has.
type Noise struct {
	V4, V2 float64

	// Expectations that [Noise.Samples] is made of.
	q22, q22z float64 // E[q2²], E[q2²·Z²]
	q33       [3]float64
	q44       [4]float64
	q24       [4]float64
	q23       float64 // E[q2·q3·Z·He2(Z)]
}

// NoiseOf computes the noise of transform t of act by quadrature. A simulation
// would underestimate V4, whose tails are heavy. It is an error if act fails, if
// c4 or c2 is 0, or if g grows so fast that V4 is infinite.
func NoiseOf(ctx context.Context, act sdk.Activation, t Transform) (Noise, error) {
	name := act.Info().Name
	grid, err := gauss.NewGrid(ctx, act.Eval, act.Info().Kinks)
	if err != nil {
		return Noise{}, fmt.Errorf("noise of activation %q: %w", name, err)
	}
	return noiseOn(grid, name, t)
}

// noiseOn is NoiseOf on a grid of the activation's values.
func noiseOn(grid *gauss.Grid, name string, t Transform) (Noise, error) {
	if t.C4 == 0 || t.C2 == 0 {
		return Noise{}, fmt.Errorf("noise of activation %q: c4 = %g and c2 = %g must not be 0", name, t.C4, t.C2)
	}
	mean, _ := grid.Expect(func(_, g float64) float64 { return g })
	s := t.Sigma * t.Sigma
	q4 := centred(grid, t, 4, mean)
	q2 := centred(grid, t, 2, mean)
	// e returns E[q·f(Z)] for a polynomial q in y − E g.
	e := func(q polynomial, f func(z float64) float64) float64 {
		q = q.smooth(s)
		v, _ := grid.Expect(func(z, g float64) float64 { return q.at(g-mean) * f(z) })
		return v
	}
	square := func(q int) func(float64) float64 {
		return func(z float64) float64 { return math.Pow(gauss.Hermite(q, z), 2) }
	}
	q44, q24, q22 := q4.times(q4), q2.times(q4), q2.times(q2)
	n := Noise{
		V4:   e(q44, square(4)) - 1,
		V2:   e(q22, square(2)) - 1,
		q22:  e(q22, square(0)),
		q22z: e(q22, square(1)),
	}
	for q := range n.q44 {
		n.q44[q] = e(q44, square(q))
	}
	if t.Has(3) {
		q3 := centred(grid, t, 3, mean)
		q33 := q3.times(q3)
		for q := range n.q33 {
			n.q33[q] = e(q33, square(q))
		}
		n.q23 = e(q2.times(q3), func(z float64) float64 { return z * gauss.Hermite(2, z) })
	}
	n.q24[2] = e(q24, func(z float64) float64 { return gauss.Hermite(2, z) })
	n.q24[3] = e(q24, func(z float64) float64 { return z * gauss.Hermite(3, z) })
	if math.IsInf(n.V4, 0) || math.IsNaN(n.V4) {
		return Noise{}, fmt.Errorf("noise of activation %q: V4 is infinite: g %w", name, gauss.ErrGrowth)
	}
	return n, nil
}

// centred returns the polynomial in u = y − mean that differs from T_r by a constant
// and has E[·] = 0 at y = g(Z) + σN.
func centred(grid *gauss.Grid, t Transform, r int, mean float64) polynomial {
	q, scale := t.polynomial(r)
	u := q.shift(mean)
	u[0] = 0
	smooth := u.smooth(t.Sigma * t.Sigma)
	m, _ := grid.Expect(func(_, g float64) float64 { return smooth.at(g - mean) })
	u[0] = -m
	return u.scale(1 / scale)
}

// polynomial holds coefficients, constant first.
type polynomial []float64

// at evaluates p by Horner's rule.
func (p polynomial) at(x float64) float64 {
	var r float64
	for i := len(p) - 1; i >= 0; i-- {
		r = r*x + p[i]
	}
	return r
}

func (p polynomial) times(q polynomial) polynomial {
	r := make(polynomial, len(p)+len(q)-1)
	for i, a := range p {
		for j, b := range q {
			r[i+j] += a * b
		}
	}
	return r
}

func (p polynomial) scale(by float64) polynomial { return p.times(polynomial{by}) }

// shift returns x ↦ p(x + by).
func (p polynomial) shift(by float64) polynomial {
	r := polynomial{0}
	for i := len(p) - 1; i >= 0; i-- {
		r = r.times(polynomial{by, 1})
		r[0] += p[i]
	}
	return r[:len(p)]
}

// smooth returns x ↦ E[p(x + σN)], s = σ²:
// E[(x+σN)^n] = Σ_j C(n,2j)·(2j−1)!!·s^j·x^{n−2j}.
func (p polynomial) smooth(s float64) polynomial {
	r := make(polynomial, len(p))
	for n, c := range p {
		term := c // c·C(n,2j)·(2j−1)!!·s^j
		for j := 0; 2*j <= n; j++ {
			r[n-2*j] += term
			term *= s * float64((n-2*j)*(n-2*j-1)) / float64(2*j+2)
		}
	}
	return r
}
