package solver

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Noise says how noisy the transforms of an activation are: for y = g(Z) + σN and the centred, scaled transforms
//
//	q4 = (Q4(y) − E Q4(y))/c4    q2 = (Q2(y) − E Q2(y))/c2
//
// V4 = Var[q4·He_4(Z)] and V2 = Var[q2·He_2(Z)] are the variances of one row's share in T4(a,a,a,a)/c4 and T2(a,a)/c2,
// whose means are 1. An activation may be valid and yet need more rows than anybody has.
type Noise struct {
	V4, V2 float64

	// Expectations that [Noise.Samples] is made of.
	q22, q22z float64 // E[q2²], E[q2²·Z²]
	q33       [3]float64
	q44       [4]float64
	q24       [4]float64
	q23, q23z float64 // E[q2·q3·Z·He2(Z)], E[q2·q3·Z]
}

// NoiseOf computes the noise of transform t of act by quadrature. A simulation would underestimate V4, whose tails are
// heavy. It is an error if act fails, if c4 or c2 is 0, or if g grows so fast that V4 is infinite.
func NoiseOf(ctx context.Context, act sdk.Activation, t Transform) (Noise, error) {
	grid, err := gauss.NewGrid(ctx, act.Eval, act.Info().Kinks)
	if err != nil {
		return Noise{}, fmt.Errorf("noise of activation %q: %w", act.Info().Name, err)
	}
	return noiseOn(grid, act.Info().Name, t)
}

// noiseOn is NoiseOf on a grid of the activation's values.
func noiseOn(grid *gauss.Grid, name string, t Transform) (Noise, error) {
	if t.C4 == 0 || t.C2 == 0 {
		return Noise{}, fmt.Errorf("noise of activation %q: c4 = %g and c2 = %g must not be 0", name, t.C4, t.C2)
	}
	mean, s := grid.Mean(func(_, g float64) float64 { return g }), t.Sigma*t.Sigma
	q4 := centred(grid, t, 4, mean)
	q2 := centred(grid, t, 2, mean)
	q44, q24, q22 := q4.times(q4).smooth(s), q2.times(q4).smooth(s), q2.times(q2).smooth(s)
	var q33, q23 polynomial
	if t.Has(3) {
		q3 := centred(grid, t, 3, mean)
		q33, q23 = q3.times(q3).smooth(s), q2.times(q3).smooth(s)
	}
	const at44, at33, at22, atMixed = 0, 5, 8, 11 // squares of He_q, q from 0
	e := grid.Means(atMixed+4, func(e []float64, z, g float64) {
		var h, square [5]float64
		for q := range h {
			h[q] = gauss.Hermite(q, z)
			square[q] = h[q] * h[q]
		}
		u := g - mean
		times(e[at44:at33], q44.at(u), square[:])
		times(e[at33:at22], q33.at(u), square[:])
		times(e[at22:atMixed], q22.at(u), square[:])
		v24 := q24.at(u)
		v23 := q23.at(u)
		e[atMixed], e[atMixed+1], e[atMixed+2], e[atMixed+3] = v24*h[2], v24*(z*h[3]), v23*(z*h[2]), v23*z
	})
	n := Noise{
		V4: e[at44+4] - 1, V2: e[at22+2] - 1,
		q22: e[at22], q22z: e[at22+1],
		q33: [3]float64(e[at33:]), q44: [4]float64(e[at44:]),
		q24: [4]float64{2: e[atMixed], 3: e[atMixed+1]},
		q23: e[atMixed+2], q23z: e[atMixed+3],
	}
	size := func(z, g float64) float64 { return math.Abs(q44.at(g-mean)) * math.Pow(gauss.Hermite(4, z), 2) }
	beyond := func(from float64) float64 {
		return grid.Mean(func(z, g float64) float64 { return max(0, math.Copysign(size(z, g), math.Abs(z)-from)) })
	}
	tail := grid.Tail(func(z, g float64) float64 { return math.Log(size(z, g)) })
	last := beyond(grid.Reach() - 1) // where that is more than the panel before has, the grid does not hold V4
	if tail != nil || !(math.Abs(n.V4) < math.Inf(1)) || last > 1e-6*e[at44+4] && 2*last > beyond(grid.Reach()-2) {
		return Noise{}, fmt.Errorf("noise of activation %q: V4 is infinite: g %w", name, gauss.ErrGrowth)
	}
	return n, nil
}

// times writes by·v to dst.
func times(dst []float64, by float64, v []float64) {
	for i := range dst {
		dst[i] = by * v[i]
	}
}

// centred returns the polynomial in u = y − mean that differs from T_r by a constant and has mean 0 at y = g(Z) + σN.
func centred(grid *gauss.Grid, t Transform, r int, mean float64) polynomial {
	q, scale := t.polynomial(r)
	u := q.shift(mean)
	u[0] = 0
	smooth := u.smooth(t.Sigma * t.Sigma)
	u[0] = -grid.Mean(func(_, g float64) float64 { return smooth.at(g - mean) })
	return u.scale(1 / scale)
}

// polynomial holds coefficients, constant first.
type polynomial []float64

// at evaluates p by Horner's rule.
func (p polynomial) at(x float64) float64 {
	var r float64
	for _, c := range slices.Backward(p) {
		r = r*x + c
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

// smooth returns x ↦ E[p(x + σN)], s = σ²: E[(x+σN)^n] = Σ_j C(n,2j)·(2j−1)!!·s^j·x^{n−2j}.
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
