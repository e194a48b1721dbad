package gain

import (
	"container/heap"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// box is a box of experts: t_j within half_j of mid_j, or, far out, where one of them is ±1/τ and the others
// v_j times that, of τ ≥ 0, which stands in its place, and the v_j. With t in [−1, 1]^c, and |v_j| ≤ 1 and τ ≤ 1 far
// out, there are boxes of all experts.
type box struct {
	mid, half [mostCoefficients]float64
	far       int     // the coefficient that is ±1/τ; −1 of a box that is not far out
	sign      float64 // its sign
	bound     float64 // of S, in units of e^shift
}

type boxHeap []*box

func (h boxHeap) Len() int           { return len(h) }
func (h boxHeap) Less(i, j int) bool { return h[i].bound > h[j].bound }
func (h boxHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *boxHeap) Push(v any)        { *h = append(*h, v.(*box)) }
func (h *boxHeap) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	*h = (*h)[:last]
	return v
}

// maximum is what is known of the maximum of S.
type maximum struct {
	logUpper, logBest float64 // it is between, but for rounding of the second
	best              []float64
	closed            bool
	boxes             int
}

// search is a branch and bound of S, with f that of those logarithms.
type search struct {
	*table
	logC      []float64 // log w_i − log f_i − shift, from above
	shift     float64
	intercept int // its column, −1 without

	negligible, logNegligible float64 // what a term counts as that is less: next to nothing beside Σ w/n
}

func newSearch(t *table, f []float64) *search {
	s := &search{table: t, intercept: slices.Index(t.ones(), true)}
	for i := range f {
		c := math.Log(t.w[i]) - f[i]
		s.logC = append(s.logC, c+1e-13*(1+math.Abs(c)))
	}
	s.shift = slices.Max(s.logC)
	for i := range s.logC {
		s.logC[i] -= s.shift
	}
	s.logNegligible = max(-700, math.Log(t.weight/float64(t.n))-s.shift-45)
	s.negligible = math.Exp(s.logNegligible) * (1 + roundings)
	return s
}

// roundings is more than the relative error of a sum of the terms of S: each is an exponential whose argument, below
// 1000 in size where the term counts, has a relative error of a few 1e−16.
const roundings = 1e-10

// besideTied is the share of Σ w that other rows than those of one x may have in a box that is left out for them.
const besideTied = 1e-9

// maximise bounds the maximum of S over all experts, where log f is at least the given one. It ends within a tolerance,
// with the budget, or, if it is hasty, where it has found an expert that a mixture should have.
func (t *table) maximise(ctx context.Context, f []float64, known []component, budget int,
	hasty bool) (*maximum, error) {
	s := newSearch(t, f)
	out := &maximum{logBest: math.Inf(-1)}
	rise := func(v []float64) {
		if logS, v := t.rise(f, v, lastSteps); logS > out.logBest {
			out.logBest, out.best = logS, v
		}
	}
	for _, e := range known {
		rise(e.t)
	}
	if _, v := t.highest(f, 0); v != nil {
		rise(v)
	}
	logW := math.Log(t.weight)
	target := func() float64 { // of log S
		g := t.weight * (max(out.logBest, logW) - logW)
		return logW + (g+max(tolerance, g/10))/t.weight
	}
	boxes := new(boxHeap)
	dropped := math.Inf(-1) // the largest log S that a box may have that was left out
	add := func(b box) {
		out.boxes++
		bound, mid := s.bound(&b)
		if mid > 0 && s.shift+math.Log(mid) > out.logBest+1e-3/t.weight {
			rise(s.middle(&b))
		}
		if s.shift+math.Log(bound) <= target() {
			return // target never falls
		}
		if slices.Max(b.half[:t.c]) < 0x1p-40 {
			dropped = max(dropped, s.shift+math.Log(bound))
			return
		}
		b.bound = bound
		heap.Push(boxes, &b)
	}
	for _, b := range t.all() {
		add(b)
	}
	for steps := 0; boxes.Len() > 0; steps++ {
		if steps%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		top := (*boxes)[0]
		if s.shift+math.Log(top.bound) <= target() || t.spent >= budget ||
			hasty && t.weight*(out.logBest-logW) > 4*tolerance {
			break
		}
		heap.Pop(boxes)
		for _, b := range top.halves(t.c) {
			add(b)
		}
	}
	out.logUpper = max(target(), dropped)
	if boxes.Len() > 0 {
		out.logUpper = max(out.logUpper, s.shift+math.Log((*boxes)[0].bound))
	}
	out.closed = out.logUpper <= target()
	out.logUpper += besideTied // log(S + δ·W) ≤ log S + δ where S ≥ W, which the target is
	return out, nil
}

// ones says which columns are 1 in every row.
func (t *table) ones() []bool {
	out := make([]bool, t.c)
	for j := range out {
		out[j] = true
		for i := range t.n {
			out[j] = out[j] && t.x[i*t.c+j] == t.unit[j]
		}
	}
	return out
}

// all are boxes of all experts.
func (t *table) all() (out []box) {
	near := box{far: -1}
	for j := range t.c {
		near.half[j] = 1
	}
	out = append(out, near)
	for j := range t.c {
		for _, sign := range []float64{-1, 1} {
			b := near
			b.far, b.sign = j, sign
			b.mid[j], b.half[j] = 0.5, 0.5
			out = append(out, b)
		}
	}
	return out
}

// halves splits the box in the coordinate in which it is widest. Middles are exact: as many binary digits behind the
// point as halvings.
func (b *box) halves(c int) [2]box {
	j := 0
	for l := range c {
		if b.half[l] > b.half[j] {
			j = l
		}
	}
	low, high := *b, *b
	low.half[j] /= 2
	high.half[j] = low.half[j]
	low.mid[j] -= low.half[j]
	high.mid[j] += low.half[j]
	return [2]box{low, high}
}

// middle is the expert in the middle of b.
func (t *table) middle(b *box) []float64 {
	v := slices.Clone(b.mid[:t.c])
	if b.far >= 0 {
		out := b.sign / v[b.far]
		v[b.far] = 1
		floats.Scale(out, v)
	}
	return v
}

// interval has the means of row i by the experts of b.
func (s *search) interval(b *box, i int) (low, high float64) {
	s.spent++
	mid, half, size := 0.0, 0.0, 0.0
	for j, x := range s.row(i) {
		if j == b.far {
			mid += x
			size += math.Abs(x)
			continue
		}
		a := math.Abs(x)
		mid += b.mid[j] * x
		half += b.half[j] * a
		size += (math.Abs(b.mid[j]) + b.half[j]) * a
	}
	low, high = mid-half-size*ulps, mid+half+size*ulps
	if b.far < 0 {
		return low, high
	}
	least, most := b.mid[b.far]-b.half[b.far], b.mid[b.far]+b.half[b.far] // of τ
	if low >= 0 {
		low /= most
	} else {
		low /= least
	}
	if high <= 0 {
		high /= most
	} else {
		high /= least
	}
	low, high = math.Nextafter(low, math.Inf(-1)), math.Nextafter(high, math.Inf(1))
	if b.sign < 0 {
		return -high, -low
	}
	return low, high
}

// bound returns what S is at most in b, in units of e^shift, and what it is in the middle, to rounding, 0 where that
// was not looked at. It is 0 of a far box in which no rows count but such as have one x, beside an intercept: an
// expert without slopes has the same mean there, or one of a y that is nearer to all of theirs, so that S is there
// what it is in this box, less the others' share, or more.
func (s *search) bound(b *box) (bound, middle float64) {
	sum, widest := 0.0, 0.0
	tied, others := -1, 0.0
	for i := range s.n {
		low, high := s.interval(b, i)
		widest = max(widest, high-low)
		d := max(0, s.y[i]-high, low-s.y[i]) / s.sigma
		term := s.negligible
		if v := s.logC[i] - d*d/2*(1-1e-14); v > s.logNegligible {
			term = math.Exp(v)
		}
		sum += term
		if b.far >= 0 && term > besideTied/float64(2*s.n)*s.one() {
			if tied < 0 {
				tied = i
			}
			if !slices.Equal(s.row(i), s.row(tied)) {
				others += term
			}
		} else {
			others += term
		}
	}
	sum *= 1 + roundings
	if b.far >= 0 {
		if s.intercept >= 0 && others*(1+roundings) <= besideTied*s.one() {
			return 0, 0
		}
		v := s.middle(b)
		for i := range s.n {
			e, _ := s.residual(i, v)
			middle += math.Exp(s.logC[i] - e*e/2)
		}
		return sum, middle
	}
	if widest > 4*s.sigma {
		return sum, 0
	}
	second, middle := s.second(b)
	return min(sum, second), middle
}

// one is Σ w in units of e^shift, from below.
func (s *search) one() float64 { return s.weight * math.Exp(-s.shift) * (1 - roundings) }

// second bounds S by its value and slope in the middle of b and the largest second derivative of every term:
// φ(e + u) ≤ φ(e) − e·φ(e)·u + ½·K·u², φ(e) = exp(−e²/2), K = max of (t²−1)·φ(t) between, or 0.
func (s *search) second(b *box) (bound, middle float64) {
	var slope [mostCoefficients]float64
	rest := 0.0
	for i := range s.n {
		e, within := s.residual(i, b.mid[:s.c])
		c := math.Exp(s.logC[i])
		v := c * math.Exp(-e*e/2)
		middle += v
		reach := 0.0
		for j, x := range s.row(i) {
			slope[j] += v * e * x
			reach += b.half[j] * math.Abs(x)
		}
		reach = reach/s.sigma*(1+ulps) + within
		rest += v*math.Abs(e)*(within+1e-12*reach) + c*curvature(math.Abs(e), reach)*reach*reach/2
	}
	bound = middle + rest
	for j := range s.c {
		bound += math.Abs(slope[j]) / s.sigma * b.half[j]
	}
	return bound * (1 + roundings), middle
}

// curvature is the largest second derivative of exp(−t²/2) where t is within reach of e, or 0 where it is negative.
func curvature(e, reach float64) float64 {
	low, high := e-reach, e+reach
	at := math.Sqrt(3) // the maximum, of either side; it rises to it from 0
	switch {
	case high < at:
		at = high
	case low > at:
		at = low
	}
	return max(0, (at*at-1)*math.Exp(-at*at/2))
}
