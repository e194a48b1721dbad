package native

import (
	"context"
	"math"
	"slices"
)

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
		z := append([]float64{z0, z1}, b.spread(d, 8, 0)...)
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

// spread returns points of a tail, perOctave to each doubling of z, and its far
// end, where a change of slope on the way shows most.
func (b *builder) spread(d draft, perOctave int, offset float64) []float64 {
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
		case b.excess(right.at(z[j]), f[j]) <= promise:
		case b.excess(left.at(z[j]), f[j]) <= promise:
			edge := math.Nextafter(z[j], math.Inf(1))
			b.done[i].hi, b.done[i+1].lo = edge, edge
		case !b.loose:
			return b.rough("its value at the kink z = %.6g is the limit of neither side", z[j])
		}
	}
	return nil
}
