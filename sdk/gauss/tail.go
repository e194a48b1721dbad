package gauss

import (
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// wide is the half-width of the range for a g with moments that [Range] does not hold: the density is 1e−298
// there, and beyond 37.5 it has fewer digits than other numbers.
const wide = 37

// growth is an error of its own words that is [ErrGrowth].
type growth string

func (g growth) Error() string      { return string(g) }
func (growth) Is(target error) bool { return target == ErrGrowth }

const (
	errUnclear = growth("grows so fast that it cannot be told whether its moments under N(0,1) are finite")
	errBeyond  = growth("grows so fast that its moments under N(0,1) come from far out, and are not computed")
)

// The last stretch of the range is its outer half, in so many parts on either side. In each the largest value
// counts, so that zeros of an oscillating g do not.
const (
	parts = 10
	// level is what a coefficient of [tail] may be off by rounding: in α/2·z² it is one of 1e−6 in α at 20.
	level = 4e-4
	// rough is how far l may be from the terms, and be held to follow them. Where it is farther, as that of an
	// oscillating g, it converges where a parabola alone falls like that of exp(z²/8.9).
	rough = 0.1
)

// Tail says whether the expectation of a function of Z and g(Z) is finite, as far as its logarithm tells far out on the
// grid: an [ErrGrowth] where it is not, or where that cannot be told. The function does not change its sign there.
func (g *Grid) Tail(log func(z, g float64) float64) error {
	l := make([]float64, len(g.fine.z))
	for i, z := range g.fine.z {
		l[i] = log(z, g.fine.g[i]) - z*z/2
	}
	return tail(g.reach, g.fine.z, l)
}

// tail says whether the integral of exp(l) over the line converges, of which the logarithms at z are known for
// |z| ≤ reach, in any order. It is [ErrGrowth] where it does not, and another error that is ErrGrowth where it
// cannot be told.
//
// Where l falls at least half as fast over the last stretch as the density's logarithm it converges: a g that grew
// like exp(z²/8) would have to be divided by z²⁰ to do so. Else l is followed by
//
//	α·z²/2 + β·z + γ·log z + δ
//
// which is all that exp(a·z² + b·z)·z^c has. Where α is above 0 the integral does not converge, though l may fall as
// yet; where it is below 0 it does. Where α is 0 β is asked in the same way, and then whether γ is above −1. How far
// a coefficient is known is told by what is left of l and by a fit with 1/z.
func tail(reach float64, z, l []float64) error {
	var unclear error
	for _, sign := range []float64{-1, 1} {
		switch err := side(reach, sign, z, l); err {
		case ErrGrowth:
			return err
		case errUnclear:
			unclear = err
		}
	}
	return unclear
}

// side is [tail] on one side.
func side(reach, sign float64, z, l []float64) error {
	var at, top [parts]float64
	for i := range top {
		top[i] = math.Inf(-1)
	}
	for i, v := range z {
		p := int(math.Floor((sign*v/reach*2 - 1) * parts))
		if p >= 0 && p < parts && l[i] > top[p] {
			at[p], top[p] = sign*v/reach, l[i]
		}
	}
	first, last := 0, parts-1
	if top[1] > top[0] {
		first = 1
	}
	if top[last-1] > top[last] {
		last--
	}
	if fall := (at[last]*at[last] - at[first]*at[first]) * reach * reach / 4; !(top[last]-top[first] > -fall) {
		return nil
	}
	for drop := range 3 {
		value, known, left := leading(drop, at[:], top[:])
		if drop == 2 { // z^γ
			value++
		}
		switch {
		case value > known:
			return ErrGrowth
		case value < -known:
			return nil
		case known > level && !(drop == 0 && left > rough && parabola(at[:], top[:]) < -reach*reach/10):
			return errUnclear // it may be either
		case known > level:
			return nil
		}
	}
	return errUnclear
}

// leading returns the coefficient of the first of [tail]'s terms but so many, in u = z/reach, how far it is known, and
// what is left of l at most.
func leading(drop int, u, l []float64) (value, known, left float64) {
	var found [2]float64
	for more := range found {
		terms := 4 - drop + more
		x, y := mat.NewDense(len(u), terms, nil), mat.NewVecDense(len(u), l)
		for i, u := range u {
			x.SetRow(i, []float64{u * u / 2, u, math.Log(u), 1, 1 / u}[drop:4+more])
		}
		var c, rest mat.VecDense
		if c.SolveVec(x, y) != nil {
			return 0, math.Inf(1), 0
		}
		rest.MulVec(x, &c)
		rest.SubVec(y, &rest)
		found[more], left = c.AtVec(0), mat.Norm(&rest, math.Inf(1))
	}
	known = max(level, 2*math.Abs(found[1]-found[0]), 10*left)
	if math.IsNaN(known) || math.IsNaN(found[0]) { // l is −Inf somewhere
		return 0, math.Inf(1), 0
	}
	return found[0], known, left
}

// parabola returns the coefficient of u²/2 where there is no other term but a constant.
func parabola(u, l []float64) float64 {
	squares := make([]float64, len(u))
	for i, u := range u {
		squares[i] = u * u / 2
	}
	_, slope := stat.LinearRegression(squares, l, nil, false)
	return slope
}
