package solver

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// floor is the least noise level that a transform of minimum variance is made
// for, in standard deviations of g(Z). Towards σ = 0 the law of y given Z
// degenerates and with it the transform: where g is flat y has atoms, and near
// y = g(0) T_4 grows as 1/σ for K = 2. Below the floor T_r is that of the floor,
// averaged over the noise that is missing (see [Optimal]), which costs a
// variance of no more than that of the floor.
const floor = 0.01

const (
	// independent is what the least part of He_r that y sees beside the lower
	// orders must be for T_r to exist, relative to He_r and in terms that do not
	// depend on σ; the same as for the singular values of the polynomials' system.
	independent = rankTol
	// faint is the least sd(g)/sd(y) at which anything is made of y at all.
	faint = 1e-6
	// exact is the rounding of g, in units of σ, with which nothing is made of y.
	exact = 1e-5
	// resolvable is the least such part that float64 still shows.
	resolvable = 1e-12
)

// Optimal holds the transforms of minimum variance for mixtures of K experts with
// orthonormal regressors in equal proportions at noise level Sigma; those of
// [Law.OptimalFor] are for other designs, with weights w_r of their own. Among all functions of y with E[T_r(y)] = 0,
// E[T_r(y)·He_q(Z)] = 0 for q < r and E[T_r(y)·He_r(Z)] = 1, T_r has the least
// variance E[T_r(y)²·w_r(y)] of the contraction of one row that matters,
//
//	w_4 = (e_3 + 6e_1)/K + 6(1 − 2/K)    He3(z_i)He1(z_j): v_i turned towards v_j
//	w_3 = (e_2 + 2e_1)/K + 2(1 − 2/K)    He2(z_i)He1(z_j): the same for order 3
//	w_2 = e_1/K + 1 − 1/K                He1(z_i)He1(u): out of the span
//
// averaged over the expert that made the row. With m_q = E[He_q(Z)|y] and
// e_q = E[He_q(Z)²|y] it is
//
//	T_r = Σ_{q=0..r} λ_q·m_q(y)/w_r(y)    G·λ = (0, …, 0, 1)    G_ab = E[m_a·m_b/w_r]
//
// and its variance is λ_r. T_r exists where He_r's projection on the functions of
// y is not a combination of the lower ones', which does not depend on σ.
//
// T_r is kept as a piecewise polynomial and constant beyond the range of y
// ([gauss.Noisy]). Below the floor Level = .01·sd(g) it is
// T_r(y) = E[T°_r(y + √(Level² − Sigma²)·N)] with T°_r that of Level: as exact in
// its constraints, and of no more variance. K = 1 takes the weights of K = 2, since
// its own w_2 vanishes where y tells that Z = 0.
type Optimal struct {
	Sigma, Level float64
	K            int
	// Noise are the expectations of these transforms, from which
	// [Noise.Samples] predicts. Below the floor they are those of Level.
	Noise Noise

	w   weights
	t   [5]curve  // by order; nil where it does not exist
	why [5]string // it does not
}

// Orders lists the orders of transforms.
func Orders() []int { return []int{2, 3, 4} }

// NewOptimal makes the transforms of minimum variance of act at noise level
// sigma ≥ 0 for k experts from the values of g alone. Errors are those of act,
// and of values that are not finite.
func NewOptimal(ctx context.Context, act sdk.Activation, sigma float64, k int) (*Optimal, error) {
	law, err := NewLaw(ctx, act)
	if err != nil {
		return nil, err
	}
	return law.Optimal(sigma, k), nil
}

func optimalOf(law *gauss.Law, sigma float64, k int, w weights) *Optimal {
	o := &Optimal{Sigma: sigma, Level: max(sigma, floor*law.SD), K: k, w: w}
	signal := law.SD / math.Hypot(law.SD, o.Level)
	rounding := 64 * epsilon * math.Abs(law.Mean) / o.Level
	switch {
	case law.SD == 0:
		return o.none("g is constant on |z| ≤ 4, or cannot be told from a constant")
	case !(signal > faint):
		return o.none(fmt.Sprintf("the noise is more than %.0e standard deviations of g", 1/faint))
	case rounding > exact:
		return o.none(fmt.Sprintf("the mean of g is %.3g standard deviations: take the constant off g",
			math.Abs(law.Mean)/law.SD))
	}
	var c *conditionals
	if noisy := law.Noisy(o.Level); noisy.Resolved {
		c = newConditionals(noisy, noisy.Lo, noisy.Hi, 1e-4*o.Level, w, max(panelTol, rounding))
	}
	if c == nil {
		return o.none("g changes too fast for its quadrature, or has many kinks that were not declared")
	}
	var solved [5]*combination
	for _, r := range Orders() {
		if solved[r] = c.solve(r, signal); solved[r] == nil {
			o.why[r] = fmt.Sprintf("y tells nothing of He%d(Z) that it does not tell by lower orders", r)
			if independent*math.Pow(signal, float64(r)) < resolvable {
				o.why[r] = fmt.Sprintf("the noise is %.3g standard deviations of g: what y tells of He%d(Z) is lost "+
					"in rounding", o.Level/law.SD, r)
			}
			continue
		}
		t := c.table(r, solved[r].lambda)
		if o.Level > sigma {
			t = smoothed(t, math.Sqrt(o.Level*o.Level-sigma*sigma))
		}
		o.t[r] = t
	}
	o.Noise = c.noise(solved)
	return o
}

// none is o without any transform.
func (o *Optimal) none(why string) *Optimal {
	for _, r := range Orders() {
		o.why[r] = why
	}
	o.Noise = Noise{V2: math.Inf(1), V4: math.Inf(1)}
	return o
}

// Reason says why T_r does not exist; "" where it does.
func (o *Optimal) Reason(r int) string { return o.why[r] }

// Has says whether T_r exists, r = 2, 3 or 4; r = 1 too of [Law.OptimalOf].
func (o *Optimal) Has(r int) bool { return r >= 1 && r <= 4 && o.t[r] != nil }

// Apply writes T_r(y_i) to dst_i.
func (o *Optimal) Apply(r int, dst, y []float64) {
	mustApply(o, r, dst, y)
	t := o.t[r]
	for i, v := range y {
		dst[i] = t.at(v)
	}
}

// At returns T_r(y), finite at any y. It panics if T_r does not exist.
func (o *Optimal) At(r int, y float64) float64 {
	mustHave(o, r)
	return o.t[r].at(y)
}

// Range returns the range of y beyond which the transforms are constant.
func (o *Optimal) Range(r int) (lo, hi float64) { return o.t[r].ends() }

// ErrorBound returns a bound on how far the table of T_r lies from T_r within its
// range: four times the largest distance at twice as many points as it was made
// from.
func (o *Optimal) ErrorBound(r int) float64 { return o.t[r].errorBound() }

// Variance returns E[T_r(y)²·w_r(y)], the variance of the contraction that T_r is
// best for; +Inf where T_r does not exist.
func (o *Optimal) Variance(r int) float64 { return o.Noise.variance(r, &o.w) }

// Variance returns the variance of one row in the contraction of order r that
// matters for k experts in equal proportions (see [Optimal]); +Inf where there is
// no transform of that order.
func (n Noise) Variance(r, k int) float64 {
	w := orthonormal(k)
	return n.variance(r, &w)
}

// variance is E[T_r²·w_r]; +Inf where there is no transform of that order.
func (n Noise) variance(r int, w *weights) float64 {
	var e [gauss.He4]float64
	switch r {
	case 2:
		copy(e[:], []float64{n.q22, n.q22z})
	case 3:
		copy(e[:], n.q33[:])
	case 4:
		copy(e[:], n.q44[:])
	}
	if e[0] == 0 {
		return math.Inf(1)
	}
	return floats.Dot(w[r][:], e[:])
}

// half is the number of nodes of a panel of y; with those of its two halves it
// is checked, and they are the quadrature over y.
const half = terms

// panelOfY is a panel with the expectations given y at the nodes of its own rule
// and of its halves' rules.
type panelOfY struct {
	lo, hi float64
	own    [half]gauss.Conditional
	sub    [2 * half]gauss.Conditional
}

// conditionals are the expectations given y on panels so fine that polynomials of
// degree 7 follow every m_q/w_r and the density.
type conditionals struct {
	w            weights
	tol          float64 // of m_q/w_r and of the density, relative to their largest in a panel
	rule         *panelRule
	panels       []panelOfY
	counts       []gauss.Conditional // of whole numbers from the least on, where y is one of them, in place of panels
	below, above gauss.Conditional   // of what lies beyond the range
	lo, hi       gauss.Conditional   // at its ends
}

const (
	panelTol  = 1e-10   // of what panels are held to, where the rounding of g allows
	panelMass = 1e-12   // probability that a panel's density may be off
	maxPanels = 1 << 12 // of y
	maxVisits = 1 << 28 // of nodes of Z, a few seconds: g is noise if these are not enough
	// startPanels is the number of panels to begin with.
	startPanels = 32
)

// jointly is the joint law of Z and y, or a coordinate of y.
type jointly interface {
	At(y float64) gauss.Conditional
	// Beyond returns E[He_q(Z)·1{y < lo}] and E[He_q(Z)²·1{y < lo}] at the lower end of the range, and the
	// same of what is above it.
	Beyond() (below, above gauss.Conditional)
}

// newConditionals returns nil where maxPanels or maxVisits do not suffice. Panels below least in width are as
// they are.
func newConditionals(law jointly, lo, hi, least float64, w weights, tol float64) *conditionals {
	c := &conditionals{w: w, tol: tol, rule: newPanelRule(), lo: law.At(lo), hi: law.At(hi)}
	c.below, c.above = law.Beyond()
	// The stack holds the panels to be looked at in descending order, so that they
	// are done in ascending order.
	type pending struct{ lo, hi float64 }
	var todo []pending
	c.panels = make([]panelOfY, 0, 2*startPanels)
	step := (hi - lo) / startPanels
	for i := startPanels - 1; i >= 0; i-- {
		todo = append(todo, pending{lo + float64(i)*step, lo + float64(i+1)*step})
	}
	todo[0].hi = hi
	visits := 0
	for len(todo) > 0 {
		p := panelOfY{lo: todo[len(todo)-1].lo, hi: todo[len(todo)-1].hi}
		todo = todo[:len(todo)-1]
		for i, x := range c.rule.x {
			p.own[i] = law.At(p.at(x))
		}
		for i, x := range c.rule.sub {
			p.sub[i] = law.At(p.at(x))
		}
		for i := range p.sub {
			visits += p.sub[i].Nodes
		}
		if visits > maxVisits || len(c.panels)+len(todo) >= maxPanels {
			return nil
		}
		if p.hi-p.lo < least || c.resolved(&p) {
			c.panels = append(c.panels, p)
			continue
		}
		mid := (p.lo + p.hi) / 2
		todo = append(todo, pending{mid, p.hi}, pending{p.lo, mid})
	}
	return c
}

// at takes t in [−1, 1] to the panel.
func (p *panelOfY) at(t float64) float64 { return (p.lo+p.hi)/2 + t*(p.hi-p.lo)/2 }

// resolved says whether the panel's polynomials hold at the nodes of its halves.
func (c *conditionals) resolved(p *panelOfY) bool {
	var own [half]float64
	off := func(f func(*gauss.Conditional) float64) (worst, size float64) {
		for i := range own {
			own[i] = f(&p.own[i])
			size = max(size, math.Abs(own[i]))
		}
		for i := range p.sub {
			worst = max(worst, math.Abs(f(&p.sub[i])-floats.Dot(c.rule.toSub[i][:], own[:])))
		}
		return worst, size
	}
	worst, size := off(func(v *gauss.Conditional) float64 { return v.Density })
	if worst > c.tol*size && worst*(p.hi-p.lo) > panelMass {
		return false
	}
	for _, r := range Orders() {
		var worst, size float64
		for q := range r + 1 {
			w, s := off(func(v *gauss.Conditional) float64 { return v.M[q] / c.w.at(r, &v.E) })
			worst, size = max(worst, w), max(size, s)
		}
		if worst > c.tol*size {
			return false
		}
	}
	return true
}

// each calls fn for every node of the quadrature over y with its weight times the
// density.
func (c *conditionals) each(fn func(w float64, v *gauss.Conditional)) {
	c.eachAt(func(w, _ float64, v *gauss.Conditional) { fn(w, v) })
}

// eachAt is each with y, or its coordinate; of counts their place from the least.
func (c *conditionals) eachAt(fn func(w, y float64, v *gauss.Conditional)) {
	for i := range c.counts {
		fn(c.counts[i].Density, float64(i), &c.counts[i])
	}
	for i := range c.panels {
		p := &c.panels[i]
		for j := range p.sub {
			fn((p.hi-p.lo)/2*c.rule.subw[j]*p.sub[j].Density, p.at(c.rule.sub[j]), &p.sub[j])
		}
	}
}

// combination is T_r by its λ; value is T_r at a y.
type combination struct {
	r      int
	w      *weights
	lambda []float64
}

func (s *combination) value(v *gauss.Conditional) float64 {
	return floats.Dot(s.lambda, v.M[:s.r+1]) / s.w.at(s.r, &v.E)
}

// solve finds λ of T_r; nil where there is none. signal is sd(g)/sd(y): the part of
// He_q that y sees falls as its q-th power.
func (c *conditionals) solve(r int, signal float64) *combination {
	basis := make([][]float64, r+1)
	c.each(func(w float64, v *gauss.Conditional) {
		root := math.Sqrt(w / c.w.at(r, &v.E))
		for q := range basis {
			basis[q] = append(basis[q], root*v.M[q])
		}
	})
	f := orthogonalise(basis, func(q int) float64 {
		return max(resolvable, independent*math.Pow(signal, float64(q)))
	})
	if f.norm[r] == 0 {
		return nil
	}
	target := make([]float64, r+1)
	target[r] = 1
	s := &combination{r: r, w: &c.w, lambda: f.solve(target)}
	// G as it is to be inverted leaves out what lies beyond the range; two steps of
	// refinement put it in.
	for range 2 {
		got := c.constraints(s)
		floats.Sub(got, target)
		floats.Sub(s.lambda, f.solve(got))
	}
	return s
}

// constraints returns E[T_r(y)·He_q(Z)], q = 0 … r, with T_r constant beyond the
// range.
func (c *conditionals) constraints(s *combination) []float64 {
	e := make([]float64, s.r+1)
	c.each(func(w float64, v *gauss.Conditional) { floats.AddScaled(e, w*s.value(v), v.M[:s.r+1]) })
	floats.AddScaled(e, s.value(&c.lo), c.below.M[:s.r+1])
	floats.AddScaled(e, s.value(&c.hi), c.above.M[:s.r+1])
	return e
}

// noise returns the expectations that predictions are made of.
func (c *conditionals) noise(t [5]*combination) Noise {
	var of [5]function
	for r, s := range t {
		if s != nil {
			of[r] = func(_ float64, at *gauss.Conditional) float64 { return s.value(at) }
		}
	}
	return c.noiseOf(of)
}

// function is a function of y, or of its coordinate, and of the expectations given y.
type function func(u float64, at *gauss.Conditional) float64

// noiseOf is noise of any functions, by order.
func (c *conditionals) noiseOf(t [5]function) Noise {
	n := Noise{V2: math.Inf(1), V4: math.Inf(1)}
	var v22, v44 float64
	add := func(w, u float64, at, v *gauss.Conditional) {
		var q2, q3, q4 float64
		if t[2] != nil {
			q2 = t[2](u, at)
		}
		if t[3] != nil {
			q3 = t[3](u, at)
		}
		if t[4] != nil {
			q4 = t[4](u, at)
		}
		n.q22 += w * q2 * q2 * v.E[0]
		n.q22z += w * q2 * q2 * v.E[1]
		v22 += w * q2 * q2 * v.E[2]
		v44 += w * q4 * q4 * v.E[4]
		for q := range n.q33 {
			n.q33[q] += w * q3 * q3 * v.E[q]
		}
		for q := range n.q44 {
			n.q44[q] += w * q4 * q4 * v.E[q]
		}
		n.q23z += w * q2 * q3 * v.M[1]
		n.q23 += w * q2 * q3 * (v.M[3] + 2*v.M[1]) // z·He2 = He3 + 2He1
		n.q24[2] += w * q2 * q4 * v.M[2]
		n.q24[3] += w * q2 * q4 * (v.M[4] + 3*v.M[2]) // z·He3 = He4 + 3He2
	}
	c.eachAt(func(w, u float64, v *gauss.Conditional) { add(w, u, v, v) })
	add(1, 0, &c.lo, &c.below)
	add(1, 0, &c.hi, &c.above)
	if t[2] != nil {
		n.V2 = v22 - 1
	}
	if t[4] != nil {
		n.V4 = v44 - 1
	}
	return n
}

// table returns T_r on the panels.
func (c *conditionals) table(r int, lambda []float64) *piecewise {
	s := combination{r: r, w: &c.w, lambda: lambda}
	p := &piecewise{knots: []float64{c.panels[0].lo}}
	for i := range c.panels {
		panel := &c.panels[i]
		var own [half]float64
		for j := range own {
			own[j] = s.value(&panel.own[j])
		}
		var sub [2 * half]float64
		for j := range sub {
			sub[j] = s.value(&panel.sub[j])
		}
		p.add(c.rule, panel.hi, &own, &sub)
	}
	p.index()
	return p
}
