package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Density is the law of the target y where its mean is m = g(z), with all its other parameters known:
// p(y|z) = f(y; g(z)).
type Density interface {
	gauss.Output
	// Support is where y can be: whole numbers from least to most, or all numbers above least, or all numbers;
	// −Inf and +Inf are no bound.
	Support() (least, most float64, whole bool)
}

const (
	// what the density of the coordinate of y is at the ends of its range, and counts beyond the table have
	rare      = 1e-14
	steep     = 690     // the farthest that a coordinate of y goes: e^690 is a number
	mostCount = 1 << 15 // whole numbers in a table
	densely   = 1e-8    // what panels of y are held to, in units of their largest
	whole     = 1e-7    // how far the probabilities of all y may be from 1
)

// NewOptimalOf makes the transforms of minimum variance of y ~ f(·; g(Z)) for k experts from the values of
// g and log f. See [Law.OptimalOf].
func NewOptimalOf(ctx context.Context, act sdk.Activation, d Density, k int) (*Optimal, error) {
	law, err := NewLaw(ctx, act)
	if err != nil {
		return nil, err
	}
	return law.OptimalOf(d, k)
}

// OptimalOf makes the transforms of minimum variance of y ~ f(·; g(Z)) for k experts, as [Optimal] has them,
// with m_q(y) and e_q(y) of this law: on a table of all whole numbers with a probability, on panels of
// log(y − least) for numbers above a least one, on panels of u with y = c + s·sinh(u) for all numbers, so that tails
// of any power are within the range. Sigma and Level are 0. Moments of y need not exist.
// There is a T_1 of it too, with E[T_1(y)·x] = Σ_i p_i a_i, for the regressors' signs.
//
// It is an error if a value of g is no mean of f ([gauss.MeanError]), or if there is no grid for the support.
// Transforms that do not exist have a reason: of y with N values none of order N and above does.
func (l *Law) OptimalOf(d Density, k int) (*Optimal, error) {
	o, _, _, err := l.optimalOf(d, k)
	return o, err
}

// Under makes the transforms of [NewOptimalOf], and the expectations of the polynomials P_r of y of least degree with
// the same constraints, P_r = y^r + Σ α_a·y^a, 1 ≤ a < r. Of these there are none of an order where the moments of y
// that they take do not exist, or rest on values of y beyond the tables. Where a value of g is no mean of f no
// transform exists, for that reason.
func Under(ctx context.Context, act sdk.Activation, d Density, k int) (o *Optimal, polynomials Noise, err error) {
	law, err := NewLaw(ctx, act)
	if err != nil {
		return nil, polynomials, err
	}
	o, c, at, err := law.optimalOf(d, k)
	if bad := (*gauss.MeanError)(nil); errors.As(err, &bad) {
		return o.none(bad.Error()), Noise{}, nil
	}
	if c != nil && err == nil {
		polynomials = c.polynomials(at)
	}
	return o, polynomials, err
}

func (l *Law) optimalOf(d Density, k int) (*Optimal, *conditionals, coordinate, error) {
	o := &Optimal{K: k, w: orthonormal(k)}
	c, at, err := l.given(d, o)
	if c == nil {
		return o, nil, nil, err
	}
	signal := c.signal()
	var solved [5]*combination
	for r := 1; r <= 4; r++ {
		if solved[r] = c.solve(r, signal); solved[r] == nil {
			o.why[r] = fmt.Sprintf("y tells nothing of He%d(Z) that it does not tell by lower orders", r)
			if n := len(c.counts); n > 0 && n <= r {
				o.why[r] = fmt.Sprintf("y has %d values, and order %d takes %d", n, r, r+1)
			}
			continue
		}
		o.t[r] = c.curve(r, solved[r].lambda, at)
	}
	o.Noise = c.noise(solved)
	return o, c, at, nil
}

const (
	// outer is the part of the range of y at either end, and mostOuter the share of a moment that may come from there.
	outer     = 0.1
	mostOuter = 1e-2
)

// polynomials are the expectations of P_r, less their means and over E[P_r·He_r].
func (c *conditionals) polynomials(at coordinate) Noise {
	scale := 0.0
	c.eachAt(func(w, u float64, _ *gauss.Conditional) { scale += w * math.Abs(at.y(u)) })
	moment := func(power, q int) (sum float64) {
		c.eachAt(func(w, u float64, v *gauss.Conditional) {
			sum += w * math.Pow(at.y(u)/scale, float64(power)) * v.M[q]
		})
		return sum
	}
	var t [5]function
	for _, r := range Orders() {
		if !c.settled(at, scale, 2*r) {
			continue
		}
		a, b := mat.NewDense(r-1, r-1, nil), mat.NewVecDense(r-1, nil)
		for q := 1; q < r; q++ {
			for p := 1; p < r; p++ {
				a.Set(q-1, p-1, moment(p, q))
			}
			b.SetVec(q-1, -moment(r, q))
		}
		var alpha mat.VecDense
		if alpha.SolveVec(a, b) != nil {
			continue
		}
		mean, norm := moment(r, 0), moment(r, r)
		for p := 1; p < r; p++ {
			mean += alpha.AtVec(p-1) * moment(p, 0)
			norm += alpha.AtVec(p-1) * moment(p, r)
		}
		if math.Abs(norm) < independent*moment(2*r, 0) {
			continue
		}
		t[r] = func(u float64, _ *gauss.Conditional) float64 {
			y, v := at.y(u)/scale, 0.0
			for p := r; p > 0; p-- { // Horner's rule, without a constant
				coefficient := 1.0
				if p < r {
					coefficient = alpha.AtVec(p - 1)
				}
				v = (v + coefficient) * y
			}
			return (v - mean) / norm
		}
	}
	return c.noiseOf(t)
}

// settled says whether the moment of y of this power comes from within the range.
func (c *conditionals) settled(at coordinate, scale float64, power int) bool {
	var all, far float64
	lo, hi := math.Inf(1), math.Inf(-1)
	c.eachAt(func(_, u float64, _ *gauss.Conditional) { lo, hi = min(lo, u), max(hi, u) })
	_, counts := at.(counted)
	c.eachAt(func(w, u float64, v *gauss.Conditional) {
		part := w * math.Pow(math.Abs(at.y(u)/scale), float64(power)) * (1 + v.E[power/2-1])
		all += part
		if u > hi-outer*(hi-lo) || !counts && u < lo+outer*(hi-lo) {
			far += part
		}
	})
	few := counts && len(c.counts) <= 64 // all there are
	return few || far <= mostOuter*all
}

// given are the expectations given y, and the coordinate that y has in them; nil, and the reason in o, where
// there are none.
func (l *Law) given(d Density, o *Optimal) (*conditionals, coordinate, error) {
	if l.SD == 0 {
		o.none("g is constant on |z| ≤ 4, or cannot be told from a constant")
		return nil, nil, nil
	}
	law, err := l.law.Compound(d)
	if err != nil {
		return nil, nil, err
	}
	if !law.Resolved {
		o.none("the density of y given z changes too fast with z for its quadrature")
		return nil, nil, nil
	}
	var c *conditionals
	var at coordinate
	switch least, most, whole := d.Support(); {
	case whole:
		if math.IsInf(least, 0) || least != math.Trunc(least) {
			return nil, nil, fmt.Errorf("whole numbers need a least one, and the support has %v", least)
		}
		at = counted(least)
		if most-least >= mostCount {
			most = lastCount(law, d, least, most)
		}
		if most-least >= mostCount {
			o.none(fmt.Sprintf("y goes up to %.3g, and tables of whole numbers have at most %d", most, mostCount))
			return nil, nil, nil
		}
		c = countsOf(law, o.w, least, most)
	case math.IsInf(most, 1) && math.IsInf(least, -1):
		at = sinh{d.Median(l.Mean), l.SD}
	case math.IsInf(most, 1):
		at = logs{least}
	default:
		return nil, nil, fmt.Errorf("there is no grid for numbers from %v to %v", least, most)
	}
	if c == nil {
		j := alongCoordinate{law, at}
		lo, hi := j.ends(d)
		c = newConditionals(j, lo, hi, 1e-9*(hi-lo), o.w, densely)
	}
	if c == nil {
		o.none("the density of y changes too fast for its quadrature")
		return nil, nil, nil
	}
	if p := c.probability(); !(math.Abs(p-1) <= whole) {
		o.none(fmt.Sprintf("the density of y adds up to %.8g on its grid, not to 1", p))
		return nil, nil, nil
	}
	return c, at, nil
}

func (c *conditionals) probability() (p float64) {
	c.each(func(w float64, _ *gauss.Conditional) { p += w })
	return p
}

// signal is the share of Z's spread that y sees, as sd(g)/sd(y) is for y = z + noise: the larger of what E[Z|y] and
// E[He2(Z)|y] say, of which an even g leaves the second. What y sees of He_q falls as its q-th power.
func (c *conditionals) signal() float64 {
	var m1, m2 float64
	c.each(func(w float64, v *gauss.Conditional) {
		m1 += w * v.M[1] * v.M[1]
		m2 += w * v.M[2] * v.M[2]
	})
	return math.Sqrt(max(m1, math.Sqrt(m2/2)))
}

// curve is T_r as a function of any y.
type curve interface {
	at(y float64) float64
	ends() (lo, hi float64)
	errorBound() float64
}

func (c *conditionals) curve(r int, lambda []float64, at coordinate) curve {
	if c.counts == nil {
		return along{c.table(r, lambda), at}
	}
	s := combination{r: r, w: &c.w, lambda: lambda}
	t := &onCounts{least: at.y(0)}
	for i := range c.counts {
		t.value = append(t.value, s.value(&c.counts[i]))
	}
	return t
}

// onCounts is a function of whole numbers, constant beyond them; between them it is that of the nearest.
type onCounts struct {
	least float64
	value []float64
}

func (t *onCounts) at(y float64) float64 {
	last := float64(len(t.value) - 1)
	i := math.Round(y - t.least)
	if !(i > 0) {
		return t.value[0]
	}
	return t.value[int(min(i, last))]
}

func (t *onCounts) ends() (lo, hi float64) { return t.least, t.least + float64(len(t.value)-1) }

// errorBound is that of the sums behind a value: nothing is interpolated.
func (t *onCounts) errorBound() float64 {
	return 64 * epsilon * max(slices.Max(t.value), -slices.Min(t.value))
}

// coordinate is a scale of y on which its density has bounded features.
type coordinate interface {
	u(y float64) float64
	y(u float64) float64
	logSlope(u float64) float64 // log dy/du
}

// counted is the place among whole numbers from a least one.
type counted float64

func (c counted) u(y float64) float64      { return y - float64(c) }
func (c counted) y(u float64) float64      { return u + float64(c) }
func (c counted) logSlope(float64) float64 { return 0 }

// logs is u = log(y − least).
type logs struct{ least float64 }

func (l logs) u(y float64) float64        { return math.Log(max(y-l.least, 0)) }
func (l logs) y(u float64) float64        { return l.least + math.Exp(u) }
func (l logs) logSlope(u float64) float64 { return u }

// sinh is y = centre + scale·sinh(u).
type sinh struct{ centre, scale float64 }

func (s sinh) u(y float64) float64        { return math.Asinh((y - s.centre) / s.scale) }
func (s sinh) y(u float64) float64        { return s.centre + s.scale*math.Sinh(u) }
func (s sinh) logSlope(u float64) float64 { return math.Log(s.scale) + math.Log(math.Cosh(u)) }

// along is a table of a coordinate, as a function of y.
type along struct {
	*piecewise
	of coordinate
}

func (a along) at(y float64) float64 { return a.piecewise.at(a.of.u(y)) }

func (a along) ends() (lo, hi float64) {
	lo, hi = a.piecewise.ends()
	return a.of.y(lo), a.of.y(hi)
}

// alongCoordinate is the joint law of Z and a coordinate of y.
type alongCoordinate struct {
	law *gauss.Compound
	of  coordinate
}

func (j alongCoordinate) At(u float64) gauss.Conditional {
	return j.law.At(j.of.y(u), j.of.logSlope(u))
}

// Beyond is nothing: what lies there has a probability of some 1e−14.
func (j alongCoordinate) Beyond() (below, above gauss.Conditional) { return below, above }

// ends finds the range of u from where its density is above rare: by whole steps and the medians of y, then by
// halving.
func (j alongCoordinate) ends(d Density) (lo, hi float64) {
	var at []float64
	for u := -float64(steep); u <= steep; u++ {
		at = append(at, u)
	}
	for i, m := range j.law.Means() {
		if i%4 == 0 {
			if u := j.of.u(d.Median(m)); math.Abs(u) <= steep {
				at = append(at, u)
			}
		}
	}
	slices.Sort(at)
	there := func(u float64) bool { return j.At(u).Density > rare }
	first := max(1, slices.IndexFunc(at, there))
	last := len(at) - 2
	for last > first && !there(at[last]) {
		last--
	}
	edge := func(out, in float64) float64 {
		for range 12 {
			if mid := (out + in) / 2; there(mid) {
				in = mid
			} else {
				out = mid
			}
		}
		return out
	}
	return edge(at[first-1], at[first]), edge(at[last+1], at[last])
}

// lastCount is the last whole number of the table: most, or one beyond which lies a probability of some 1e−14.
func lastCount(law *gauss.Compound, d Density, least, most float64) float64 {
	there := func(n float64) bool { return law.At(least+n, 0).Density*(n+1) > rare }
	last := 1.0
	for _, m := range law.Means() {
		if n := math.Round(d.Median(m) - least); n > last && there(n) {
			last = n
		}
	}
	for last < math.MaxInt32 && there(2*last) {
		last *= 2
	}
	for step := last; step >= 1; {
		if there(last + step) {
			last += step
		} else {
			step = math.Floor(step / 2)
		}
	}
	return min(least+last, most)
}

// countsOf are the expectations given every whole number from least to most.
func countsOf(law *gauss.Compound, w weights, least, most float64) *conditionals {
	c := &conditionals{w: w}
	for y := least; y <= most; y++ {
		c.counts = append(c.counts, law.At(y, 0))
	}
	c.lo, c.hi = c.counts[0], c.counts[len(c.counts)-1]
	return c
}
