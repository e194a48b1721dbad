package native

import (
	"context"
	"math"
	"slices"
)

// pieces returns the range cut at the kinks.
func (b *builder) pieces() []draft {
	var out []draft
	lo := -b.reach
	for _, k := range b.kinks {
		if k > lo && k < b.reach {
			out = append(out, draft{lo: lo, hi: k})
			lo = k
		}
	}
	return append(out, draft{lo: lo, hi: b.reach})
}

// chebyshev holds the nodes cos(π(2j+1)/16) of a panel, and the points at which
// it is checked: the extrema of T8, cos(πj/8), where the error of interpolation
// is largest, without the ends.
type chebyshev struct {
	nodes  [terms]float64
	checks [terms - 1]float64
}

func newChebyshev() *chebyshev {
	c := new(chebyshev)
	for j := range c.nodes {
		c.nodes[j] = math.Cos(math.Pi * (2*float64(j) + 1) / (2 * terms))
	}
	for j := range c.checks {
		c.checks[j] = math.Cos(math.Pi * float64(j+1) / terms)
	}
	return c
}

// interpolate returns the coefficients of the polynomial in t, as a panel from lo
// to hi has it, through (z_j, f_j): by divided differences at the z_j as rounding
// left them, which on a steep flank are not the nodes that were meant.
func interpolate(lo, hi float64, z, f []float64) []float64 {
	centre, scale := (lo+hi)/2, 2/(hi-lo)
	var t, d [terms]float64
	for j := range t {
		t[j], d[j] = (z[j]-centre)*scale, f[j]
	}
	for order := 1; order < terms; order++ {
		for j := terms - 1; j >= order; j-- {
			d[j] = (d[j] - d[j-1]) / (t[j] - t[j-order])
		}
	}
	c := make([]float64, terms)
	for j := terms - 1; j >= 0; j-- { // c ← c·(t − t_j) + d_j
		for i := terms - 1; i > 0; i-- {
			c[i] = c[i-1] - t[j]*c[i]
		}
		c[0] = d[j] - t[j]*c[0]
	}
	return c
}

// points of a panel: the nodes, two more that determine a line, the checks and
// the two ends.
const points = terms + 2 + (terms - 1) + 2

// points appends the points of a panel to z.
func (c *chebyshev) points(z []float64, d draft) []float64 {
	centre, half := (d.lo+d.hi)/2, (d.hi-d.lo)/2
	for _, x := range c.nodes {
		z = append(z, centre+half*x)
	}
	p0, p1 := linePoints(d.lo, d.hi)
	z = append(z, p0, p1)
	for _, x := range c.checks {
		z = append(z, centre+half*x)
	}
	return append(z, math.Nextafter(d.lo, d.hi), math.Nextafter(d.hi, d.lo))
}

// linePoints returns two points of a panel that determine a line: where they
// can, ±2^e and ±2^(e+1), at which s·z keeps every bit of s.
func linePoints(lo, hi float64) (p0, p1 float64) {
	far := hi
	if -lo > hi {
		far = lo
	}
	_, e := math.Frexp(math.Abs(far))
	p1 = math.Copysign(math.Ldexp(0.5, e-1), far)
	if p0 = p1 / 2; p0 > lo && p0 < hi && p1 > lo && p1 < hi {
		return p0, p1
	}
	return lo + (hi-lo)/4, hi - (hi-lo)/4
}

// line returns the line with the given slope through the point nearest to 0,
// where the intercept has most of its bits.
func line(z, f []float64, slope float64) []float64 {
	near := 0
	for j, v := range z {
		if math.Abs(v) < math.Abs(z[near]) {
			near = j
		}
	}
	if slope == 0 {
		return []float64{f[near]}
	}
	return []float64{f[near] - slope*z[near], slope}
}

// fit halves the pending panels until all of them hold.
func (b *builder) fit(ctx context.Context, pending []draft) error {
	cheb := newChebyshev()
	for len(pending) > 0 {
		if len(pending)+len(b.done) > maxPanels {
			return b.rough("%d panels on -%v <= z < %v do not suffice", maxPanels, b.reach, b.reach)
		}
		z := make([]float64, 0, points*len(pending))
		for _, d := range pending {
			z = cheb.points(z, d)
		}
		f, err := b.values(ctx, z)
		if err != nil {
			return err
		}
		var next []draft
		for i, d := range pending {
			z, f := z[i*points:(i+1)*points], f[i*points:(i+1)*points]
			if b.holds(&d, z, f) {
				b.done = append(b.done, d)
				continue
			}
			mid := (d.lo + d.hi) / 2
			if d.hi-d.lo > hairline*max(1, math.Abs(mid)) {
				next = append(next, draft{lo: d.lo, hi: mid}, draft{lo: mid, hi: d.hi})
				continue
			}
			if err := b.seekJump(ctx, d, f[points-2], f[points-1]); err != nil {
				return err
			}
		}
		pending = next
	}
	return nil
}

// holds sets the coefficients of d and reports whether they give f at all its
// points: a line if one does.
func (b *builder) holds(d *draft, z, f []float64) bool {
	if b.straight(d, z, f, terms) {
		return true
	}
	d.c = interpolate(d.lo, d.hi, z[:terms], f[:terms])
	return b.worst(d.panel(), z, f) <= aim
}

// straight reports whether a line gives f at all points and sets it: with the
// slope between points i and i+1, or that slope rounded to 45 bits, which undoes
// what the rounding of f has done to a slope such as 1, whichever is nearer.
func (b *builder) straight(d *draft, z, f []float64, i int) bool {
	slope := (f[i+1] - f[i]) / (z[i+1] - z[i])
	mantissa, exponent := math.Frexp(slope)
	least := math.Inf(1)
	for _, s := range []float64{slope, math.Ldexp(math.Round(math.Ldexp(mantissa, 45)), exponent-45)} {
		c := line(z, f, s)
		p := newPanel(d.lo, d.hi, c)
		if e := b.worst(p, z, f); e < least {
			least, d.c = e, c
		}
	}
	return least <= aim
}

func (b *builder) worst(p panel, z, f []float64) float64 {
	e := 0.0
	for i, v := range z {
		e = max(e, b.excess(p.at(v), f[i]))
	}
	return e
}

// seekJump finds the jump in a hairline panel, at whose ends f has the values
// left and right, by bisection down to neighbouring numbers. Next to a kink that
// is known already it is no jump but a singularity.
func (b *builder) seekJump(ctx context.Context, d draft, left, right float64) error {
	near := 2 * hairline * max(1, math.Abs(d.lo))
	if slices.ContainsFunc(b.kinks, func(k float64) bool { return math.Abs(k-d.lo) <= near }) {
		return b.rough("it is singular at z = %.6g", d.lo)
	}
	if len(b.jumps) == maxJumps {
		return b.rough("it has more than %d jumps, such as at z = %.6g", maxJumps, d.lo)
	}
	lo, hi := d.lo, d.hi
	for range 64 {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			break
		}
		f, err := b.values(ctx, []float64{mid})
		if err != nil {
			return err
		}
		if math.Abs(f[0]-left) <= math.Abs(f[0]-right) {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo < 0 && hi > 0 {
		hi = 0
	}
	b.jumps = append(b.jumps, hi)
	return nil
}
