package gauss

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/gatedlearning/moe/internal/kernel"
)

const (
	// Reach is the half-width of the range of Z that a [Law] knows: beyond it
	// lies a probability of 1.2e−15, of which E[He_4(Z)·b(Z)] sees less than
	// 3e−12 for a bounded b.
	Reach = 8

	measureReach = 4         // of Z, for Mean and SD
	smooth       = 1e-12     // what a panel may leave unresolved of g, in units of SD
	narrowest    = 1e-11     // panel: a jump that was not declared
	perNoise     = 8         // how far g may go within a panel, in units of σ: then 16 nodes give the density to 1e−12
	far          = 128       // half-width of the range of y, in standard deviations
	outside      = 1e-13     // probability left on either side of the range of y
	window       = 150       // twice the exponent at which a node stops to count
	maxPieces    = 1 << 14   // of a Law and of a Noisy
	same         = 1e-10     // nodes whose g are closer than this, in units of σ, are one
	conditions   = 2*He4 + 1 // features of a node: He_0 … He_4, He_1² … He_4²
)

// He4 is the highest Hermite order of a [Conditional].
const He4 = 4

// A Law is the distribution of g(Z), Z ~ N(0,1), on panels of |Z| ≤ [Reach] that
// are split at the kinks and wherever a polynomial of degree 15 does not follow
// g. No further value of g is asked for once it stands.
type Law struct {
	// Mean and SD are those of g(Z) given |Z| ≤ 4, which are finite however fast
	// g grows. They only set scales. SD is 0 where it is only rounding, or overflows.
	Mean, SD float64
	// Resolved is false where g changes so fast that the panels did not suffice.
	Resolved bool

	pieces []piece
}

// piece is g on a panel: its values at the nodes of the Gauss–Legendre rule.
type piece struct {
	lo, hi float64
	g      [order]float64
}

// NewLaw evaluates g in batches, a round of splitting in each. It is an error if
// g fails or has a value that is not finite.
func NewLaw(ctx context.Context, g Func, kinks []float64) (*Law, error) {
	edges, err := within(kinks, Reach)
	if err != nil {
		return nil, err
	}
	l := &Law{Resolved: true}
	leg := theLegendre()
	for first := true; len(edges) > 0; first = false {
		r, err := evaluate(ctx, g, nodes(edges))
		if err != nil {
			return nil, err
		}
		round := make([]piece, len(edges))
		for i, e := range edges {
			round[i] = piece{lo: e[0], hi: e[1], g: [order]float64(r.g[i*order:])}
		}
		if first {
			l.measure(round, leg)
		}
		edges = edges[:0]
		for _, p := range round {
			good := p.hi-p.lo <= narrowest || leg.tail(p.g) <= smooth*l.SD+64*epsilon*largest(p.g[:])
			if full := len(l.pieces)+children*len(edges) >= maxPieces; good || full {
				l.Resolved = l.Resolved && good
				l.pieces = append(l.pieces, p)
				continue
			}
			edges = append(edges, split([][2]float64{{p.lo, p.hi}})...)
		}
	}
	slices.SortFunc(l.pieces, func(a, b piece) int { return cmp.Compare(a.lo, b.lo) })
	l.measure(l.pieces, leg)
	return l, nil
}

func largest(v []float64) float64 { return max(slices.Max(v), -slices.Min(v)) }

// within cuts the range [−reach, reach] as [panels] does its own, and at
// ±measureReach.
func within(kinks []float64, reach float64) ([][2]float64, error) {
	all, err := panels(append([]float64{-reach, -measureReach, measureReach, reach}, kinks...), Range)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e [2]float64) bool { return e[0] < -reach || e[1] > reach }), nil
}

// measure sets Mean and SD from the panels within measureReach, about a first
// value so that a large constant in g costs no digits.
func (l *Law) measure(pieces []piece, leg *legendre) {
	var m0, m1, m2 float64
	about := 0.0
	for pass := range 2 {
		m0, m1, m2 = 0, 0, 0
		for _, p := range pieces {
			if p.lo < -measureReach || p.hi > measureReach { // [within] cuts there
				continue
			}
			for i, v := range p.g {
				w := leg.w[i] * (p.hi - p.lo) * density(leg.z(p, i))
				m0 += w
				m1 += w * (v - about)
				m2 += w * (v - about) * (v - about)
			}
		}
		if pass == 0 {
			about = m1 / m0
		}
	}
	l.Mean = about + m1/m0
	l.SD = math.Sqrt(max(0, m2/m0-(m1/m0)*(m1/m0)))
	if !(l.SD > 64*epsilon*math.Abs(l.Mean)) || math.IsInf(l.SD, 0) {
		l.Mean, l.SD = about, 0
	}
}

func density(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }

// legendre is the rule of a panel and what takes values there to coefficients of
// Legendre polynomials.
type legendre struct {
	x, w [order]float64
	to   [order][order]float64 // to[n][i] = (2n+1)/2·w_i·P_n(x_i)
}

// theLegendre is the rule, made once.
var theLegendre = sync.OnceValue(newLegendre)

func newLegendre() *legendre {
	l := new(legendre)
	quad.Legendre{}.FixedLocations(l.x[:], l.w[:], -1, 1)
	for i, x := range l.x {
		for n, p := range polynomials(x) {
			l.to[n][i] = (2*float64(n) + 1) / 2 * l.w[i] * p
		}
	}
	return l
}

// polynomials returns P_0(x) … P_15(x).
func polynomials(x float64) [order]float64 {
	p := [order]float64{1, x}
	for n := 2; n < order; n++ {
		p[n] = (float64(2*n-1)*x*p[n-1] - float64(n-1)*p[n-2]) / float64(n)
	}
	return p
}

func (l *legendre) z(p piece, i int) float64 { return (p.lo+p.hi)/2 + (p.hi-p.lo)/2*l.x[i] }

// tail is the largest of the last four coefficients: what the panel leaves
// unresolved is of that size.
func (l *legendre) tail(g [order]float64) float64 {
	var t float64
	for n := order - 4; n < order; n++ {
		var c float64
		for i, v := range g {
			c += l.to[n][i] * v
		}
		t = max(t, math.Abs(c))
	}
	return t
}

// divide appends the n parts of a panel, by its polynomial.
func (l *legendre) divide(to []piece, p piece, n int) []piece {
	var c [order]float64
	for j := range c {
		for i, v := range p.g {
			c[j] += l.to[j][i] * v
		}
	}
	mid, half := (p.lo+p.hi)/2, (p.hi-p.lo)/2
	for _, e := range divide(p.lo, p.hi, n) {
		part := piece{lo: e[0], hi: e[1]}
		var x [order]float64
		for j := range x {
			x[j] = (l.z(part, j) - mid) / half
		}
		part.g = series(&c, &x)
		to = append(to, part)
	}
	return to
}

// series returns Σ_n c_n·P_n(x_j). The recurrence of [polynomials] goes on for all j at
// a time: its divisions then do not wait for each other.
func series(c, x *[order]float64) (sum [order]float64) {
	var last, p [order]float64 // P_{n−1} and P_n
	for j, x := range x {
		last[j], p[j] = 1, x
		sum[j] = c[0] + c[1]*x
	}
	for n := 2; n < order; n++ {
		a, b, by := float64(2*n-1), float64(n-1), float64(n)
		for j, x := range x {
			next := (a*x*p[j] - b*last[j]) / by
			last[j], p[j] = p[j], next
			sum[j] += c[n] * next
		}
	}
	return sum
}

// Noisy is the joint law of Z and y = g(Z) + σN with N ~ N(0,1): a rule over Z
// so fine that g goes no further than 8σ within one of its panels, in ascending
// order of g.
type Noisy struct {
	Sigma float64
	// Lo and Hi bound the range of y: on either side lies a probability of 1e−13,
	// or what is further than 128 standard deviations from the mean.
	Lo, Hi float64
	// Resolved is false where the panels did not suffice.
	Resolved bool

	g []float64 // ascending
	f []float64 // len(g)×conditions: of every node, its weight times the features
}

// Conditional are the density of y and expectations given y: M[q] = E[He_q(Z)|y]
// and E[q] = E[He_q(Z)²|y].
type Conditional struct {
	Density float64
	M, E    [He4 + 1]float64
	Nodes   int // of Z that it was made from
}

// Noisy returns the law of g(Z) + sigma·N, sigma > 0. It panics if sigma is not.
func (l *Law) Noisy(sigma float64) *Noisy {
	if !(sigma > 0) {
		panic("gauss: the noise level is not positive")
	}
	leg := theLegendre()
	n := &Noisy{Sigma: sigma}
	var pieces []piece
	reach := far * math.Hypot(l.SD, sigma)
	type node struct{ g, z, w float64 }
	total := 0.0
	pieces, n.Resolved = l.fine(sigma, reach+13*sigma, leg)
	all := make([]node, 0, order*len(pieces))
	for _, p := range pieces {
		for i, g := range p.g {
			z := leg.z(p, i)
			w := leg.w[i] * (p.hi - p.lo) * density(z) // up to a factor, see total
			total += w
			all = append(all, node{g, z, w})
		}
	}
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.g, b.g) })
	n.g, n.f = make([]float64, 0, len(all)), make([]float64, 0, conditions*len(all))
	for _, a := range all {
		if last := len(n.g) - 1; last < 0 || a.g-n.g[last] > same*sigma {
			n.g = append(n.g, a.g)
			n.f = n.f[:len(n.f)+conditions]
		}
		addFeatures(n.f[len(n.f)-conditions:], a.w/total, a.z)
	}
	n.bounds(l.Mean-reach, l.Mean+reach)
	return n
}

// addFeatures adds w times the features of z to f: 1, the Hermite polynomials, and their squares.
func addFeatures(f []float64, w, z float64) {
	f[0] += w
	for q := 1; q <= He4; q++ {
		h := Hermite(q, z)
		f[q] += w * h
		f[He4+q] += w * h * h
	}
}

// fine divides the panels within reach of the mean until g goes no further than
// perNoise·sigma in any.
func (l *Law) fine(sigma, reach float64, leg *legendre) (_ []piece, resolved bool) {
	resolved = l.Resolved
	todo, done := slices.Clone(l.pieces), make([]piece, 0, 4*len(l.pieces))
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		lo, hi := slices.Min(p.g[:]), slices.Max(p.g[:])
		parts := math.Ceil((hi - lo) / (perNoise * sigma))
		room := maxPieces - len(done) - len(todo)
		good := lo > l.Mean+reach || hi < l.Mean-reach || parts <= 1 || p.hi-p.lo <= narrowest
		if good || room < 2 {
			resolved = resolved && good
			done = append(done, p)
			continue
		}
		// Few parts at a time: of a g that grows fast most are out of reach.
		todo = leg.divide(todo, p, int(min(parts, 8, float64(room))))
	}
	return done, resolved
}

// bounds finds Lo and Hi within lo and hi.
func (n *Noisy) bounds(lo, hi float64) {
	first, last := n.g[0]-9*n.Sigma, n.g[len(n.g)-1]+9*n.Sigma
	n.Lo, n.Hi = max(first, lo), min(last, hi)
	mid := n.g[sort.Search(len(n.g)-1, func(i int) bool { return n.below(n.g[i])[0] >= 0.5 })]
	n.Lo = bisect(n.Lo, mid, n.Sigma/64, func(y float64) bool { return n.below(y)[0] <= outside })
	n.Hi = bisect(n.Hi, mid, n.Sigma/64, func(y float64) bool { return n.above(y)[0] <= outside })
}

// bisect returns, to within tol, how far from a towards b holds is true; a where
// it is false there.
func bisect(a, b, tol float64, holds func(float64) bool) float64 {
	if !holds(a) {
		return a
	}
	for math.Abs(b-a) > tol {
		if mid := (a + b) / 2; holds(mid) {
			a = mid
		} else {
			b = mid
		}
	}
	return a
}

// At returns the density of y and the expectations given y. Far outside the
// range of g, where the density is 0 in float64, the expectations are those of
// the Z with the nearest g.
func (n *Noisy) At(y float64) Conditional {
	i := sort.SearchFloat64s(n.g, y)
	near := math.Inf(1)
	if i < len(n.g) {
		near = n.g[i] - y
	}
	if i > 0 {
		near = min(near, y-n.g[i-1])
	}
	inv := 1 / n.Sigma
	// Nodes count whose density is above e^−75 times the nearest's: by their
	// weights alone nodes differ by e^32.
	reach := math.Sqrt(near*near + window*n.Sigma*n.Sigma)
	shift := 0.5 * near * near * inv * inv
	first := sort.SearchFloat64s(n.g, y-reach)
	end := first
	for end < len(n.g) && n.g[end] <= y+reach {
		end++
	}
	s := n.weighted(first, end, y, shift)
	c := Conditional{Density: s[0] * math.Exp(-shift) * inv / math.Sqrt(2*math.Pi)}
	c.Nodes = end - first
	c.M[0], c.E[0] = 1, 1
	for q := 1; q <= He4; q++ {
		c.M[q], c.E[q] = s[q]/s[0], s[He4+q]/s[0]
	}
	return c
}

// weighted returns the sums of the features of the nodes from first to end−1 times
// exp(shift − ((y−g)/σ)²/2).
func (n *Noisy) weighted(first, end int, y, shift float64) (s [conditions]float64) {
	var room [64]float64
	for inv := 1 / n.Sigma; first < end; first += len(room) {
		e := room[:min(len(room), end-first)]
		for i := range e {
			d := (y - n.g[first+i]) * inv
			e[i] = shift - 0.5*d*d
		}
		kernel.Exp(e, e)
		addWeighted(&s, e, n.f[first*conditions:])
	}
	return s
}

// addWeighted adds e_i times the features of node i to s.
func addWeighted(s *[conditions]float64, e, features []float64) {
	s0, s1, s2, s3, s4, s5, s6, s7, s8 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8] // in registers
	for i, e := range e {
		f := (*[conditions]float64)(features[i*conditions:])
		s0 += e * f[0]
		s1 += e * f[1]
		s2 += e * f[2]
		s3 += e * f[3]
		s4 += e * f[4]
		s5 += e * f[5]
		s6 += e * f[6]
		s7 += e * f[7]
		s8 += e * f[8]
	}
	*s = [conditions]float64{s0, s1, s2, s3, s4, s5, s6, s7, s8}
}

// Beyond returns E[He_q(Z)·1{y < Lo}] and E[He_q(Z)²·1{y < Lo}] for q ≤ 4, and
// the same for y > Hi.
func (n *Noisy) Beyond() (below, above Conditional) {
	split := func(s [conditions]float64) Conditional {
		c := Conditional{Density: s[0]}
		c.M[0], c.E[0] = s[0], s[0]
		copy(c.M[1:], s[1:])
		copy(c.E[1:], s[He4+1:])
		return c
	}
	return split(n.below(n.Lo)), split(n.above(n.Hi))
}

// below returns the features times the indicator of y < at.
func (n *Noisy) below(at float64) (s [conditions]float64) {
	for i, g := range n.g {
		d := (at - g) / n.Sigma
		if d < -9 {
			break
		}
		n.addTo(&s, i, 0.5*math.Erfc(-d/math.Sqrt2))
	}
	return s
}

// above returns the features times the indicator of y > at.
func (n *Noisy) above(at float64) (s [conditions]float64) {
	for i := len(n.g) - 1; i >= 0; i-- {
		d := (at - n.g[i]) / n.Sigma
		if d > 9 {
			break
		}
		n.addTo(&s, i, 0.5*math.Erfc(d/math.Sqrt2))
	}
	return s
}

func (n *Noisy) addTo(s *[conditions]float64, i int, p float64) {
	for j, v := range n.f[i*conditions : (i+1)*conditions] {
		s[j] += p * v
	}
}

// Legendre returns the nodes and weights of the Gauss–Legendre rule with n points
// on [−1, 1].
func Legendre(n int) (x, w []float64) {
	x, w = make([]float64, n), make([]float64, n)
	quad.Legendre{}.FixedLocations(x, w, -1, 1)
	return x, w
}
