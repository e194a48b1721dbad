package native

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/internal/numeric"
)

// numScalePoints is how many points [scalePoints] returns.
const numScalePoints = 257

// scalePoints returns the points on ±4 at which [rms] takes values.
func scalePoints() []float64 {
	z := make([]float64, numScalePoints)
	for i := range z {
		z[i] = -4 + 8*float64(i)/(numScalePoints-1)
	}
	return z
}

// rms returns the root of E[f(Z)²] by trapezoids: a scale, not a moment.
func rms(z, f []float64) float64 {
	var sum, weights float64
	for i, v := range z {
		w := math.Exp(-v * v / 2)
		sum += w * f[i] * f[i]
		weights += w
	}
	return math.Sqrt(sum / weights)
}

// measureScale sets the rms of f(Z).
func (b *builder) measureScale(ctx context.Context) error {
	z := scalePoints()
	f, err := b.values(ctx, z)
	if err != nil {
		return err
	}
	if b.scale = rms(z, f); !numeric.Finite(b.scale) {
		return b.rough("it is not finite, or too large, somewhere in -4 <= z <= 4")
	}
	return nil
}

// excess returns |p − f| relative to max(|f|, scale), +Inf where p or f is not
// finite.
func excess(p, f, scale float64) float64 {
	switch {
	case !numeric.Finite(p) || !numeric.Finite(f):
		return math.Inf(1)
	case p == f:
		return 0
	}
	return math.Abs(p-f) / max(math.Abs(f), scale)
}

func (b *builder) excess(p, f float64) float64 { return excess(p, f, b.scale) }

// check compares the table with f at points that differ from attempt to
// attempt: 6144 between −8 and 8, 2048 on the whole range, three in every panel
// and eight to an octave beyond. If it finds nothing suspect it sets the table's
// error; else it takes the panels that are suspect from the drafts and returns
// their halves.
func (b *builder) check(ctx context.Context, attempt int) (passed bool, halves []draft, err error) {
	z := b.fresh(attempt)
	f, err := b.values(ctx, z)
	if err != nil {
		return false, nil, err
	}
	compiled := b.table.piecewise()
	bad := map[int]bool{}
	worst := 0.0
	for i, v := range z {
		e := b.excess(compiled.At(v), f[i])
		if e > suspect {
			bad[b.draftOf(v)] = true
		}
		worst = max(worst, e)
	}
	if len(bad) == 0 {
		b.table.Error = worst
		return true, nil, nil
	}
	var keep []draft
	for i, d := range b.done {
		switch {
		case !bad[i]:
			keep = append(keep, d)
		case !b.tail(&d):
			mid := (d.lo + d.hi) / 2
			halves = append(halves, draft{lo: d.lo, hi: mid}, draft{lo: mid, hi: d.hi})
		}
	}
	b.done = keep
	return false, halves, nil
}

// fresh returns the points of a check: Weyl sequences of the golden ratio,
// shifted from attempt to attempt.
func (b *builder) fresh(attempt int) []float64 {
	const golden = 0.6180339887498949
	shift := 0.37 * float64(attempt+1)
	weyl := func(i int) float64 { _, x := math.Modf(float64(i)*golden + shift); return x }
	var z []float64
	for i := range 6144 {
		z = append(z, narrow*(2*weyl(i)-1))
	}
	for i := range 2048 {
		z = append(z, b.reach*(2*weyl(i)-1))
	}
	for _, d := range b.done {
		if b.tail(&d) {
			z = append(z, tailPoints(d, 8, 0.4*weyl(attempt))...)
			continue
		}
		for i := range 3 {
			if v := d.lo + (d.hi-d.lo)*weyl(i); v > d.lo && v < d.hi {
				z = append(z, v)
			}
		}
	}
	return z
}

// draftOf returns the index of the draft that holds z.
func (b *builder) draftOf(z float64) int {
	i, _ := slices.BinarySearchFunc(b.done, z, func(d draft, z float64) int {
		if d.hi <= z {
			return -1
		}
		return 1
	})
	return i
}
