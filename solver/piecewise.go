package solver

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// terms is the number of coefficients of a polynomial of a [piecewise].
const terms = 8

// piecewise is a function of y in [knots[0], knots[last]], a polynomial of degree
// 7 between any two neighbouring knots, and constant outside.
type piecewise struct {
	knots []float64        // ascending
	coef  [][terms]float64 // one less: of t = 2(y−a)/(b−a) − 1, constant first
	first []int            // of equal parts of the range: a knot at or below any y of one
	reach int              // so many knots from there on, the last knot at or below y is among them
	inv   float64          // parts for a unit of y
	bound float64          // on the distance from what it stands for, within the range
}

// ends are those of the range.
func (p *piecewise) ends() (lo, hi float64) { return p.knots[0], p.knots[len(p.coef)] }

func (p *piecewise) errorBound() float64 { return p.bound }

// partsEach is how many parts of the range there are to a polynomial.
const partsEach = 4

// index cuts the range into equal parts. The knot looked for is between the last ones at or
// below both ends of a part, or one more on either side for what rounding does to the part.
func (p *piecewise) index() {
	n := len(p.coef)
	lo, hi := p.knots[0], p.knots[n]
	parts := partsEach * n
	p.inv = float64(parts) / (hi - lo)
	p.first, p.reach = make([]int, parts), 1
	before := func(i int) int { // the last knot at or below where part i begins
		y := lo + float64(i)/p.inv
		return max(0, sort.Search(n, func(j int) bool { return p.knots[j] > y })-1)
	}
	for i := range p.first {
		p.first[i] = max(0, before(i)-1)
		p.reach = max(p.reach, min(n-1, before(i+1)+1)-p.first[i]+1)
	}
	for i, first := range p.first {
		p.first[i] = min(first, n-p.reach)
	}
}

// at returns the value at y, at any y.
func (p *piecewise) at(y float64) float64 {
	n := len(p.coef)
	lo, hi := p.knots[0], p.knots[n]
	if !(y > lo) {
		y = lo
	}
	if y > hi {
		y = hi
	}
	a := p.first[min(int((y-lo)*p.inv), len(p.first)-1)]
	// Halving takes as many steps for every y, and a step no branch, which would be
	// mispredicted at half of them: the sign of the distance tells the side, and adding
	// 0 makes that of −0 to 0 positive.
	for left := p.reach; left > 1; {
		half := left / 2
		below := int(math.Float64bits(y-p.knots[a+half]+0) >> 63)
		a += half * (1 - below)
		left -= half
	}
	t := 2*(y-p.knots[a])/(p.knots[a+1]-p.knots[a]) - 1
	c := &p.coef[a]
	v := c[terms-1]
	for j := terms - 2; j >= 0; j-- {
		v = v*t + c[j]
	}
	return v
}

// add appends the polynomial through own at the nodes of the rule, up to hi; sub
// are the values at the nodes of the halves, by which its error is known.
func (p *piecewise) add(rule *panelRule, hi float64, own *[half]float64, sub *[2 * half]float64) {
	var c [terms]float64
	for j := range c {
		for i, v := range own {
			c[j] += rule.toCoef[j][i] * v
		}
	}
	for i, v := range sub {
		var at float64
		for j, o := range own {
			at += rule.toSub[i][j] * o
		}
		// Four times the distance seen, and the rounding of a sum of coefficients.
		p.bound = max(p.bound, 4*math.Abs(at-v)+64*epsilon*math.Abs(v))
	}
	p.knots = append(p.knots, hi)
	p.coef = append(p.coef, c)
}

// panelRule is the Gauss–Legendre rule of a panel of y on [−1, 1] and the same of
// its two halves.
type panelRule struct {
	x         [half]float64
	sub, subw [2 * half]float64
	toCoef    [terms][half]float64    // from values at x to coefficients of powers of t
	toSub     [2 * half][half]float64 // from values at x to those of their polynomial at sub
}

func newPanelRule() *panelRule {
	r := new(panelRule)
	x, w := gauss.Legendre(half)
	copy(r.x[:], x)
	for i := range x {
		r.sub[i], r.sub[half+i] = (x[i]-1)/2, (x[i]+1)/2
		r.subw[i], r.subw[half+i] = w[i]/2, w[i]/2
	}
	for i := range x {
		// Π_{j≠i} (t − x_j)/(x_i − x_j), expanded.
		l := polynomial{1}
		for j := range x {
			if j != i {
				l = l.times(polynomial{-x[j], 1}).scale(1 / (x[i] - x[j]))
			}
		}
		for j, c := range l {
			r.toCoef[j][i] = c
		}
		for j, t := range r.sub {
			r.toSub[j][i] = l.at(t)
		}
	}
	return r
}

// smoothed returns y ↦ E[p(y + tau·N)], on a range that is wider by 9tau.
func smoothed(p *piecewise, tau float64) *piecewise {
	n := len(p.coef)
	lo, hi := p.knots[0]-9*tau, p.knots[n]+9*tau
	out := &piecewise{knots: []float64{lo}, bound: p.bound}
	rule := newPanelRule()
	x, w := gauss.Legendre(half)
	value := func(y float64) float64 { return p.average(y, tau, x, w) }
	type pending struct{ lo, hi float64 }
	var todo []pending
	for i := startPanels - 1; i >= 0; i-- {
		step := (hi - lo) / startPanels
		todo = append(todo, pending{lo + float64(i)*step, lo + float64(i+1)*step})
	}
	todo[0].hi = hi
	for len(todo) > 0 {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var own [half]float64
		var sub [2 * half]float64
		mid, wide := (e.lo+e.hi)/2, (e.hi-e.lo)/2
		var size, worst float64
		for i, t := range rule.x {
			own[i] = value(mid + wide*t)
			size = max(size, math.Abs(own[i]))
		}
		for i, t := range rule.sub {
			sub[i] = value(mid + wide*t)
			worst = max(worst, math.Abs(sub[i]-floats.Dot(rule.toSub[i][:], own[:])))
		}
		full := len(out.coef)+len(todo) >= maxPanels
		if full || worst <= max(panelTol*size, p.bound/4) || e.hi-e.lo < 1e-4*tau {
			out.add(rule, e.hi, &own, &sub)
			continue
		}
		todo = append(todo, pending{mid, e.hi}, pending{e.lo, mid})
	}
	out.index()
	return out
}

// average returns E[p(y + tau·N)] by the rule with nodes x and weights w, on pieces
// between the knots no longer than tau.
func (p *piecewise) average(y, tau float64, x, w []float64) float64 {
	var sum, mass float64
	n := len(p.coef)
	at := sort.SearchFloat64s(p.knots, y-9*tau)
	for a, end := y-9*tau, y+9*tau; a < end; {
		b := min(a+tau, end)
		if at <= n && p.knots[at] < b {
			b = max(a, p.knots[at])
			at++
		}
		for i := range x {
			v := (a+b)/2 + (b-a)/2*x[i]
			d := (v - y) / tau
			f := w[i] * (b - a) / 2 * math.Exp(-d*d/2)
			mass += f
			sum += f * p.at(v)
		}
		a = b
	}
	return sum / mass
}
