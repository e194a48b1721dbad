package gauss

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Output is the law of y where g made its mean m: p(y|z) = f(y; g(z)).
type Output interface {
	// LogDensity writes log f(y; m_j) to dst, all constants included; of a law on whole numbers the
	// log-probability. −Inf is where y cannot be.
	LogDensity(dst []float64, y float64, means []float64)
	// Median returns a median of y at mean m, NaN where m is no mean of this law.
	Median(m float64) float64
}

// A Compound is the joint law of Z ~ N(0,1) and y ~ f(·; g(Z)): a rule over |Z| ≤ [Reach] so fine that
// polynomials of degree 15 follow f(y; g(z)) in z, at the medians of y of each of its panels. It has room of its
// own: one goroutine at a time asks it.
type Compound struct {
	// Resolved is false where the panels did not suffice.
	Resolved bool

	out  Output
	g    []float64 // in ascending order of z
	f    []float64 // len(g)×conditions, as those of a [Noisy]
	logs []float64 // room for log f
	tops []float64 // and for the largest of each run of nodes
}

// crisp is what a panel may leave unresolved of f(y; g(z)), in units of its largest: the rule is exact to
// twice the degree, and so to nearly the square of it.
const crisp = 1e-7

// maxCompound is the number of panels of a Compound: every y asks all their nodes.
const maxCompound = 1 << 11

// Compound returns the law of y where out makes it of g(Z). It is an error if a value of g is no mean of out.
func (l *Law) Compound(out Output) (*Compound, error) {
	leg := theLegendre()
	c := &Compound{Resolved: l.Resolved, out: out}
	todo := make([]piece, len(l.pieces))
	for i, p := range l.pieces { // the first of them is done first
		todo[len(todo)-1-i] = p
	}
	total, done := 0.0, 0
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		follows, err := c.follows(&p, leg)
		if err != nil {
			return nil, err
		}
		if !follows && p.hi-p.lo > narrowest {
			if done+len(todo) >= maxCompound {
				c.Resolved = false
				return c, nil
			}
			parts := leg.divide(nil, p, 2)
			todo = append(todo, parts[1], parts[0])
			continue
		}
		done++
		for i, g := range p.g {
			z := leg.z(p, i)
			w := leg.w[i] * (p.hi - p.lo) * density(z) // up to a factor, see total
			total += w
			c.g = append(c.g, g)
			c.f = append(c.f, make([]float64, conditions)...)
			addFeatures(c.f[len(c.f)-conditions:], w, z)
		}
	}
	for i := range c.f {
		c.f[i] /= total
	}
	c.logs, c.tops = make([]float64, len(c.g)), make([]float64, (len(c.g)+run-1)/run)
	return c, nil
}

// follows says whether the panel's rule follows f(y; g(z)) at the medians of y at three of its nodes.
func (c *Compound) follows(p *piece, leg *legendre) (bool, error) {
	var f [order]float64
	for i, g := range p.g {
		y := c.out.Median(g)
		if math.IsNaN(y) {
			return false, &MeanError{Z: leg.z(*p, i), Mean: g}
		}
		if i%7 != 0 { // 0, 7 and 14
			continue
		}
		c.out.LogDensity(f[:], y, p.g[:])
		top := slices.Max(f[:])
		if math.IsInf(top, -1) {
			continue
		}
		for j, v := range f {
			f[j] = math.Exp(v - top)
		}
		if !(leg.tail(f) <= crisp) {
			return false, nil
		}
	}
	return true, nil
}

// MeanError says that g(Z) is no mean of a law.
type MeanError struct{ Z, Mean float64 }

func (e *MeanError) Error() string {
	return fmt.Sprintf("g(%.4g) = %.4g is no mean of this family", e.Z, e.Mean)
}

// Means returns g at the nodes of Z, in ascending order of z. It is not to be changed.
func (c *Compound) Means() []float64 { return c.g }

// run is so many nodes that are near y or far from it together.
const run = 64

// At returns the density at y of a coordinate u of y with dy/du = exp(logSlope), and the expectations
// given y. Where y cannot be, the density is 0 and the expectations are those without y.
func (c *Compound) At(y, logSlope float64) Conditional {
	c.out.LogDensity(c.logs, y, c.g)
	top := math.Inf(-1)
	for i := range c.tops {
		c.tops[i] = greatest(c.logs[run*i : min(run*(i+1), len(c.logs))])
		top = max(top, c.tops[i])
	}
	r := Conditional{Nodes: len(c.g)}
	r.M[0], r.E[0] = 1, 1
	if !(top > math.Inf(-1)) {
		copy(r.E[1:], []float64{1, 2, 6, 24})
		return r
	}
	var s [conditions]float64
	for b, most := range c.tops {
		if most-top <= -window/2 {
			continue
		}
		first := run * b
		e := c.logs[first:min(first+run, len(c.g))]
		for i := range e {
			e[i] -= top
		}
		kernel.Exp(e, e)
		addWeighted(&s, e, c.f[first*conditions:])
	}
	r.Density = s[0] * math.Exp(top+logSlope)
	for q := 1; q <= He4; q++ {
		r.M[q], r.E[q] = s[q]/s[0], s[He4+q]/s[0]
	}
	return r
}

// greatest is the largest of values that are numbers.
func greatest(values []float64) float64 {
	most := math.Inf(-1)
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	return most
}
