package native

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/internal/kernel"
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
	centre, slope := (lo+hi)/2, 2/(hi-lo)
	var t, d [terms]float64
	for j := range t {
		t[j], d[j] = (z[j]-centre)*slope, f[j]
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
		p := piece(d.lo, d.hi, c)
		if e := b.worst(p, z, f); e < least {
			least, d.c = e, c
		}
	}
	return least <= aim
}

func (b *builder) worst(p kernel.Piece, z, f []float64) float64 {
	e := 0.0
	for i, v := range z {
		e = max(e, b.excess(p.At(v), f[i]))
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

// extend continues f beyond the panels where it goes on as a line. Nothing has
// asked for values that far out, so an activation that overflows there and fails
// is left alone.
func (b *builder) extend(ctx context.Context) error {
	first, last := b.done[0], b.done[len(b.done)-1]
	if left := b.continued(ctx, first, -1); left != nil {
		b.done = append([]draft{*left}, b.done...)
	}
	if right := b.continued(ctx, last, 1); right != nil {
		b.done = append(b.done, *right)
	}
	return ctx.Err()
}

// continued returns the longest line that continues f on the side of sign, or
// nil: that of the outermost panel, if it is one, or another. It is sought from
// the panels outwards and ends before the first kink.
func (b *builder) continued(ctx context.Context, outermost draft, sign float64) *draft {
	var best *draft
	for end := 16 * b.reach; !b.kinked(sign, end); end = min(16*end, furthest) {
		d := draft{lo: b.reach, hi: end}
		if sign < 0 {
			d = draft{lo: -end, hi: -b.reach}
		}
		z0, z1 := linePoints(d.lo, d.hi)
		z := append([]float64{z0, z1}, tailPoints(d, 8, 0)...)
		f, err := b.values(ctx, z)
		if err != nil {
			return best
		}
		d.c = outermost.c
		if (len(d.c) > 2 || b.worst(d.panel(), z, f) > aim) && !b.straight(&d, z, f, 0) {
			return best
		}
		best = &d
		if end == furthest {
			break
		}
	}
	return best
}

// kinked says whether there is a kink between the panels and end, on the side of
// sign.
func (b *builder) kinked(sign, end float64) bool {
	return slices.ContainsFunc(b.kinks, func(k float64) bool { return sign*k >= b.reach && sign*k <= end })
}

// tailPoints returns points of a tail, perOctave to each doubling of z, and its
// far end, where a change of slope on the way shows most.
func tailPoints(d draft, perOctave int, offset float64) []float64 {
	near, far := d.lo, d.hi
	if d.hi < 0 {
		near, far = d.hi, d.lo
	}
	n := int(math.Log2(far/near)) * perOctave
	z := make([]float64, n)
	for i := range z {
		z[i] = near * math.Pow(far/near, (float64(i)+0.5+offset)/float64(n+1))
	}
	return append(z, math.Nextafter(far, near))
}

// chooseSides gives every kink to the panel whose limit is f's value there, the
// right one if both are.
func (b *builder) chooseSides(ctx context.Context) error {
	var at []int
	var z []float64
	for i := range b.done[1:] {
		if lo := b.done[i+1].lo; slices.Contains(b.kinks, lo) && b.done[i].hi == lo {
			at, z = append(at, i), append(z, lo)
		}
	}
	if len(z) == 0 {
		return nil
	}
	f, err := b.values(ctx, z)
	if err != nil {
		return err
	}
	for j, i := range at {
		left, right := b.done[i].panel(), b.done[i+1].panel()
		switch {
		case b.excess(right.At(z[j]), f[j]) <= promise:
		case b.excess(left.At(z[j]), f[j]) <= promise:
			edge := math.Nextafter(z[j], math.Inf(1))
			b.done[i].hi, b.done[i+1].lo = edge, edge
		case !b.loose:
			return b.rough("its value at the kink z = %.6g is the limit of neither side", z[j])
		}
	}
	return nil
}
