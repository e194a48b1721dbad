package learn

import (
	"cmp"
	"math"
	"slices"
)

// canonical is s in the form in which one of all that give the same means is known. The experts are in the order of
// their proportions, the largest first, and the first regressor has norm 1. The common sign is such that g rises on
// the average over the rows. Where g is even, or falls as much as it rises, the largest coefficient of the first
// regressor, in standard deviations of its feature, is above 0.
func canonical(s *state, r *rows) *state {
	out := s.clone()
	expected := s.pass(r).expected
	order := make([]int, s.k)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(expected[j], expected[i]) })
	last := order[s.k-1]
	for to, from := range order {
		out.a[to] = slices.Clone(s.a[from])
		if s.b != nil {
			out.b[to] = s.b[from]
		}
		for j := range len(gateOf(s, 0)) {
			if to < s.k-1 {
				out.w[to][j] = gateOf(s, from)[j] - gateOf(s, last)[j]
			}
		}
	}
	factor := 1.0
	if norm := out.norm(out.a[0]); !s.unit && norm > 0 {
		factor = 1 / norm
	}
	rising, moving := 0.0, 0.0
	row := make([]float64, s.g.size())
	for _, z := range s.indices(r) {
		_, slope := s.g.at(z, row)
		rising, moving = rising+slope, moving+math.Abs(slope)
	}
	_, even := evenAbout(s, r)
	if rising < 0 {
		factor = -factor
	}
	if even || math.Abs(rising) < evenPart*moving {
		largest := slices.MaxFunc(out.a[0], func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
		factor = math.Copysign(factor, largest)
	}
	if s.rising {
		factor = math.Abs(factor)
	}
	for i := range out.a {
		for j := range out.a[i] {
			out.a[i][j] *= factor
		}
		if out.b != nil {
			out.b[i] *= factor
		}
	}
	out.g = s.g.(*spline).stretched(factor)
	return out
}

// gateOf is the gating vector of an expert; the last's is 0.
func gateOf(s *state, i int) []float64 {
	if i < len(s.w) {
		return s.w[i]
	}
	if len(s.w) == 0 {
		return nil
	}
	return make([]float64, len(s.w[0]))
}

// stretched is the spline h(z) = s(z/factor). A rising one has no reflection.
func (s *spline) stretched(factor float64) *spline {
	knots, values, slopes := slices.Clone(s.knots), slices.Clone(s.values), slices.Clone(s.slopes)
	for i := range knots {
		knots[i] *= factor
		slopes[i] /= factor
	}
	if factor < 0 {
		slices.Reverse(knots)
		slices.Reverse(values)
		slices.Reverse(slopes)
	}
	if s.basis.rising {
		return newRising(knots, values[0], slopes)
	}
	return newNatural(knots, values)
}

const evenPart = .03

// evenAbout says whether every expert's sign is free, and about which c g is even then: k > 1, and g(c ± u)
// differ by less than evenPart of what g varies by, for all of the middle 95 % of indices that have a mirror there. C
// is 0, or any place where the experts have intercepts, and the mirrors are half of those indices or more.
func evenAbout(s *state, r *rows) (center float64, is bool) {
	if s.k == 1 {
		return 0, false
	}
	const points = 200
	at := s.indices(r)
	lo, hi := at[len(at)/40], at[len(at)-1-len(at)/40]
	row := make([]float64, s.g.size())
	g := func(z float64) float64 { v, _ := s.g.at(z, row); return v }
	least, most := math.Inf(1), math.Inf(-1)
	for i := range points + 1 {
		v := g(lo + (hi-lo)*float64(i)/points)
		least, most = min(least, v), max(most, v)
	}
	// off is how far g is from even about c.
	off := func(c float64) (worst float64) {
		reach := min(c-lo, hi-c)
		if reach < (hi-lo)/4 {
			return math.Inf(1)
		}
		for i := range points {
			u := reach * float64(i+1) / points
			worst = max(worst, math.Abs(g(c+u)-g(c-u)))
		}
		return worst
	}
	if s.b != nil {
		const cells = 40
		step := (hi - lo) / cells
		center = (lo + hi) / 2
		for range 3 { // on finer and finer grids about the best
			from := center
			for i := -cells / 2; i <= cells/2; i++ {
				if c := from + float64(i)*step; off(c) < off(center) {
					center = c
				}
			}
			step /= 10
		}
	}
	return center, off(center) < evenPart*(most-least)
}
