// Package gauss integrates against the standard normal density: E[f(Z)] for
// Z ~ N(0,1), where f is made of an activation g that may have kinks, be steep,
// or sit behind a connection that makes every call expensive.
//
// The rule is composite Gauss–Legendre on panels split at the declared kinks.
// Gauss–Hermite rules are of no use here: they converge like 1/n at a kink
// (ReLU: 2e−3 with 200 points), panels split there like smooth functions.
package gauss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
)

const (
	// Range is the half-width of the integration range. The largest integrand
	// that the solver needs is g(z)⁸·He_4(z)²·φ(z). For |g| growing like |z|ᵐ
	// it peaks at √(8m+8); at ±20 it has fallen below its peak by more than
	// e^{−100} for m ≤ 4. For g = e^z it is a normal density around 8, and 20 is
	// twelve standard deviations away. A g that outgrows the range is found by
	// what its outermost panels contribute, and integrated over a wider one.
	Range = 20

	order     = 16      // nodes of a panel
	children  = 8       // parts that a panel is checked with, and split into
	panel     = 1.0     // widest panel to begin with
	maxRounds = 20      // 8^−20 is below the spacing of float64
	maxNodes  = 1 << 20 // of a grid; g is noise if these are not enough

	// agree is how far a panel and its parts may differ, relative to the
	// integral of the absolute value over the line. It leaves a factor of
	// about 50 above the rounding of sums over 10⁴ nodes.
	agree = 1e-14
)

// ErrGrowth says that moments do not exist. Other errors that are ErrGrowth say that they come from beyond the widest
// range, or that it cannot be told.
var ErrGrowth = errors.New("grows too fast for its moments under N(0,1)")

// A Func evaluates a function at a batch of points: dst_i = f(z_i), with dst
// and z of equal length.
type Func func(ctx context.Context, dst, z []float64) error

// A Grid holds the values of one function g at the nodes of two rules adapted
// to it, a coarse and a fine one. Every further expectation that is made of g
// and z comes from them without another call of g.
type Grid struct {
	coarse rule    // order nodes a panel
	fine   rule    // children·order nodes a panel
	reach  float64 // half-width of the range
}

// Reach is the half-width of the range that the grid is over.
func (g *Grid) Reach() float64 { return g.reach }

// rule is a list of nodes, their weights (density included) and values of g.
type rule struct{ z, w, g []float64 }

func (r *rule) add(o rule, from, to int) {
	r.z = append(r.z, o.z[from:to]...)
	r.w = append(r.w, o.w[from:to]...)
	r.g = append(r.g, o.g[from:to]...)
}

// NewGrid evaluates g on a grid fine enough for E[g^p·Z^q], p, q ≤ 4, and
// E[g⁸·Z⁸]: panels that differ from the sum of their parts are split, round by
// round, so that an undeclared kink or a steep flank costs one more batch a
// round (and at most a million nodes; what stays unresolved shows in the error
// estimates). Kinks are where g is not smooth, in any order.
//
// It is an error if g fails, has a value that is not finite, or has no fourth
// moment ([ErrGrowth]). A g with moments from beyond [Range] has a wider grid.
func NewGrid(ctx context.Context, g Func, kinks []float64) (*Grid, error) {
	grid, err := newGrid(ctx, g, kinks, Range)
	if err != errBeyond && err != errUnclear {
		return grid, err
	}
	wider, far := newGrid(ctx, g, kinks, wide)
	if none := (*ValueError)(nil); errors.As(far, &none) { // it overflows there
		return nil, err
	}
	return wider, far
}

func newGrid(ctx context.Context, g Func, kinks []float64, reach float64) (*Grid, error) {
	edges, err := panels(kinks, reach)
	if err != nil {
		return nil, err
	}
	grid := &Grid{reach: reach}
	doubt, err := evaluate(ctx, g, nodes(edges))
	if err != nil {
		return nil, err
	}
	var test *features
	for round := 1; len(doubt.z) > 0; round++ {
		parts, err := evaluate(ctx, g, nodes(split(edges)))
		if err != nil {
			return nil, err
		}
		if test == nil {
			if test, err = newFeatures(parts, reach); err != nil {
				return nil, err
			}
		}
		last := round == maxRounds || len(grid.fine.z)+children*len(parts.z) > maxNodes
		var next rule
		var nextEdges [][2]float64
		for i, e := range edges {
			c0, c1 := i*order, (i+1)*order
			f0, f1 := c0*children, c1*children
			if last || test.agree(doubt, c0, c1, parts, f0, f1) {
				grid.coarse.add(doubt, c0, c1)
				grid.fine.add(parts, f0, f1)
				continue
			}
			next.add(parts, f0, f1)
			nextEdges = append(nextEdges, split([][2]float64{e})...)
		}
		doubt, edges = next, nextEdges
	}
	return grid, nil
}

// Expect returns E[f(Z, g(Z))] and a bound on its numerical error: the sum over
// panels of how far the coarse and the fine rule differ, which as a rule
// overstates the fine rule's error; 1e−14·E|f − E f|, within which the two may
// agree by chance; and the rounding of the sum.
func (g *Grid) Expect(f func(z, g float64) float64) (value, bound float64) {
	values := make([]float64, len(g.fine.z))
	var size, variation float64
	for c := 0; c < len(g.coarse.z); c += order {
		var coarse, fine float64
		for i := c; i < c+order; i++ {
			coarse += g.coarse.w[i] * f(g.coarse.z[i], g.coarse.g[i])
		}
		for i := c * children; i < (c+order)*children; i++ {
			values[i] = f(g.fine.z[i], g.fine.g[i])
			fine += g.fine.w[i] * values[i]
			size += g.fine.w[i] * math.Abs(values[i])
		}
		value += fine
		bound += math.Abs(coarse - fine)
	}
	for i, v := range values {
		variation += g.fine.w[i] * math.Abs(v-value)
	}
	return value, bound + agree*variation + 4*epsilon*size
}

// Mean returns the value of Expect without its bound.
func (g *Grid) Mean(f func(z, g float64) float64) float64 {
	return g.Means(1, func(at []float64, z, g float64) { at[0] = f(z, g) })[0]
}

// Means returns n expectations E[f_j(Z, g(Z))], of functions that f evaluates together:
// each is the value of Expect, without its bound.
func (g *Grid) Means(n int, f func(at []float64, z, g float64)) []float64 {
	values, fine, at := make([]float64, n), make([]float64, n), make([]float64, n)
	for c := 0; c < len(g.fine.z); c += order * children {
		clear(fine)
		for i := c; i < c+order*children; i++ {
			f(at, g.fine.z[i], g.fine.g[i])
			for j, v := range at {
				fine[j] += g.fine.w[i] * v
			}
		}
		for j, v := range fine {
			values[j] += v
		}
	}
	return values
}

// Points returns the nodes in ascending order and the values of g there.
func (g *Grid) Points() (z, value []float64) {
	order := make([]int, len(g.fine.z))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(g.fine.z[i], g.fine.z[j]) })
	for _, i := range order {
		z = append(z, g.fine.z[i])
		value = append(value, g.fine.g[i])
	}
	return z, value
}

// epsilon is the relative rounding error of float64.
const epsilon = 1.0 / (1 << 53)

// panels cuts the range at the kinks and then into panels of width 1 at most.
func panels(kinks []float64, reach float64) ([][2]float64, error) {
	cuts := []float64{-reach, reach}
	for _, k := range kinks {
		if math.IsNaN(k) {
			return nil, errors.New("a kink is not a number")
		}
		if math.Abs(k) < reach {
			cuts = append(cuts, k)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var edges [][2]float64
	for i, a := range cuts[:len(cuts)-1] {
		b := cuts[i+1]
		edges = append(edges, divide(a, b, int(math.Ceil((b-a)/panel)))...)
	}
	return edges, nil
}

// split divides every panel into its parts.
func split(edges [][2]float64) [][2]float64 {
	parts := make([][2]float64, 0, children*len(edges))
	for _, e := range edges {
		parts = append(parts, divide(e[0], e[1], children)...)
	}
	return parts
}

func divide(a, b float64, n int) [][2]float64 {
	parts := make([][2]float64, n)
	left := a
	for i := range parts {
		right := b
		if i < n-1 {
			right = a + (b-a)*float64(i+1)/float64(n)
		}
		parts[i] = [2]float64{left, right}
		left = right
	}
	return parts
}

// nodes returns the Gauss–Legendre rule on every panel, times the density.
func nodes(edges [][2]float64) rule {
	var x, w [order]float64
	quad.Legendre{}.FixedLocations(x[:], w[:], -1, 1)
	n := order * len(edges)
	r := rule{make([]float64, 0, n), make([]float64, 0, n), make([]float64, n)}
	for _, e := range edges {
		mid, half := (e[0]+e[1])/2, (e[1]-e[0])/2
		for i := range x {
			z := mid + half*x[i]
			r.z = append(r.z, z)
			r.w = append(r.w, half*w[i]*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi))
		}
	}
	return r
}

// ValueError is a value of the integrand that is no finite number.
type ValueError struct{ Z, Value float64 }

func (e *ValueError) Error() string {
	return fmt.Sprintf("its value at z = %v is %v, not finite", e.Z, e.Value)
}

func evaluate(ctx context.Context, g Func, r rule) (rule, error) {
	if err := g(ctx, r.g, r.z); err != nil {
		return rule{}, err
	}
	for i, v := range r.g {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return rule{}, &ValueError{r.z[i], v}
		}
	}
	return r, nil
}

// features are the integrands on which panels and their parts are compared:
// t^p·z^q for p ≤ 4, q ≤ 4 and t⁸·z⁸, where t is g with its mean taken off and
// divided by its standard deviation. Without that a large constant in g would
// hide everything else.
type features struct {
	mean, sd float64
	scale    [numFeatures]float64 // E|feature|
	tol      float64              // relative
}

const numFeatures = 5*4 + 1

func newFeatures(r rule, reach float64) (*features, error) {
	var m0, m1, m2 float64
	for i, w := range r.w {
		m0 += w
		m1 += w * r.g[i]
	}
	t := &features{mean: m1 / m0}
	for i, w := range r.w {
		m2 += w * (r.g[i] - t.mean) * (r.g[i] - t.mean)
	}
	t.sd = math.Sqrt(m2 / m0)
	// The values of g carry rounding of size epsilon·|mean|; t cannot agree
	// better than that.
	t.tol = agree
	if t.sd > 0 {
		t.tol = max(agree, 64*epsilon*math.Abs(t.mean)/t.sd)
	}
	if err := t.grows(r, reach); err != nil {
		return nil, err
	}
	_, t.scale = t.integrate(r, 0, len(r.z))
	_, left := t.integrate(r, 0, order*children)
	_, right := t.integrate(r, len(r.z)-order*children, len(r.z))
	for j, s := range t.scale[:numFeatures-1] {
		if math.IsInf(s, 0) || math.IsNaN(s) || max(left[j], right[j]) > 1e-6*s {
			return nil, errBeyond
		}
	}
	return t, nil
}

// grows is an error where E[g⁴·Z⁴] is not finite, cannot be told to be, or is not to be had on the range. That is so
// with the mean taken off and without, and a growth that has only begun may be hidden by either.
func (t *features) grows(r rule, reach float64) error {
	centred, plain := make([]float64, len(r.z)), make([]float64, len(r.z))
	most := 0.0
	for i, z := range r.z {
		centred[i] = 4*math.Log(math.Abs((r.g[i]-t.mean)*z)) - z*z/2
		plain[i] = 4*math.Log(math.Abs(r.g[i]*z)) - z*z/2
		most = max(most, math.Abs(r.g[i]*z))
	}
	err, other := tail(reach, r.z, centred), tail(reach, r.z, plain)
	switch {
	case err == ErrGrowth || other == ErrGrowth:
		return ErrGrowth
	case err != nil || other != nil:
		return errUnclear
	case reach > Range && !(max(t.sd, most*most*most*most) < math.Inf(1)):
		return errBeyond
	}
	return nil
}

// integrate returns the features' integrals, and those of their absolute
// values, over the nodes from … to−1.
func (t *features) integrate(r rule, from, to int) (sum, size [numFeatures]float64) {
	inv := 0.0
	if t.sd > 0 {
		inv = 1 / t.sd
	}
	for i := from; i < to; i++ {
		z, v := r.z[i], (r.g[i]-t.mean)*inv
		j, term := 0, r.w[i]
		for range 4 {
			term *= v
			f := term
			for range 5 {
				sum[j] += f
				size[j] += math.Abs(f)
				f *= z
				j++
			}
		}
		z4, v4 := z*z*z*z, v*v*v*v
		f := term * v4 * z4 * z4
		sum[j] += f
		size[j] += math.Abs(f)
	}
	return sum, size
}

// agree reports whether a panel and its parts agree on every feature. A feature
// without a finite integral (t⁸z⁸ of a g that grows very fast) has no say.
func (t *features) agree(coarse rule, c0, c1 int, fine rule, f0, f1 int) bool {
	a, _ := t.integrate(coarse, c0, c1)
	b, _ := t.integrate(fine, f0, f1)
	for j := range a {
		if math.Abs(a[j]-b[j]) > t.tol*t.scale[j] && !math.IsInf(t.scale[j], 0) {
			return false
		}
	}
	return true
}
