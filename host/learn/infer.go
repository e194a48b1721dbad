package learn

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// information returns the information of all parameters of s together, their score and the sums behind both: regressors
// and intercepts by expert, then the curve's, the gate's by row, and log σ. It is Louis's (1982),
//
//	Σ_t E_r[−∂²log p(y, z)] − Var_r[∂log p(y, z)],
//
// without those terms of the first whose expectation is 0, so that it needs no second derivatives of g. The first is
// what the steps of [state.climb] take, the second [mixture.TakeMissing].
func (s *state) information(r *rows) (*mat.SymDense, []float64, *sums) {
	now := s.pass(r)
	gate, inv := len(now.grad), 1/(s.sigma*s.sigma)
	noise := gate + len(now.gg)
	h, score := mat.NewSymDense(noise+1, nil), slices.Concat(now.grad, now.gg, []float64{now.sse*inv - float64(r.n)})
	floats.Scale(inv, score[:gate])
	h.SetSym(noise, noise, 2*float64(r.n))
	for i := range noise {
		for j := i; j < noise; j++ {
			switch {
			case j < gate:
				h.SetSym(i, j, now.h.At(i, j)*inv)
			case i >= gate:
				h.SetSym(i, j, now.hg.At(i-gate, j-gate))
			}
		}
	}
	if s.k > 1 {
		s.takeMissing(h, r)
	}
	return h, score, now
}

// takeMissing takes off h what the unknown experts take off the information of the complete data.
func (s *state) takeMissing(h *mat.SymDense, r *rows) {
	k, d, per, m := s.k, r.d, s.per(r.d), s.g.size()
	p, gate, gd := h.SymmetricDim(), k*per+m, len(s.w[0])
	v, scores, mean := s.newView(), make([]*mat.VecDense, k), mat.NewVecDense(p, nil)
	for i := range scores {
		scores[i] = mat.NewVecDense(p, nil)
	}
	for t := range r.n {
		x, y := r.x[t*d:(t+1)*d], r.y[t]
		s.look(x, y, v)
		for i, of := range scores {
			own, e := of.RawVector().Data, (y-v.means[i])/s.sigma
			clear(own)
			for j := range per {
				own[i*per+j] = v.slopes[i] * feature(x, j) * e / s.sigma
			}
			floats.ScaleTo(own[k*per:gate], e/s.sigma, v.by[i])
			for l := range k - 1 {
				u := -v.prior[l]
				if l == i {
					u++
				}
				for j := range gd {
					own[gate+l*gd+j] = u * feature(x, j)
				}
			}
			own[p-1] = e*e - 1
		}
		mixture.TakeMissing(h, 1, v.post, scores, mean)
	}
}

// directions is the basis of [state.tangent] for all parameters.
func (s *state) directions(d int, shares []float64, p int) *mat.Dense {
	t := s.tangent(d, shares, nil)
	rows, columns := t.Dims()
	out := mat.NewDense(p, columns+p-rows, nil)
	out.Slice(0, rows, 0, columns).(*mat.Dense).Copy(t)
	for i := rows; i < p; i++ {
		out.Set(i, columns+i-rows, 1)
	}
	return out
}

// covariance returns that of all parameters, in the order of [state.information], within the directions that they may
// go. It does not depend on the basis of those. Parameters that the rows do not tell apart have none, and that is
// false.
func (s *state) covariance(r *rows) (*mat.SymDense, bool) {
	h, _, now := s.information(r)
	t := s.directions(r.d, now.expected, h.SymmetricDim())
	var inner, ht mat.Dense
	ht.Mul(h, t)
	inner.Mul(t.T(), &ht)
	root, ok := inverseRoot(&inner)
	if !ok {
		return nil, false
	}
	var to, out mat.Dense
	to.Mul(t, root)
	out.Mul(&to, to.T())
	c := mat.NewSymDense(h.SymmetricDim(), nil)
	for i := range c.SymmetricDim() {
		for j := i; j < c.SymmetricDim(); j++ {
			c.SetSym(i, j, out.At(i, j))
		}
	}
	return c, true
}

// inverseRoot returns R with RRᵀ = h⁻¹ on the directions in which h is positive but for rounding, and whether all are.
func inverseRoot(h *mat.Dense) (*mat.Dense, bool) {
	n, _ := h.Dims()
	scale := make([]float64, n)
	for i := range scale {
		scale[i] = 1
		if v := h.At(i, i); v > 0 {
			scale[i] = 1 / math.Sqrt(v)
		}
	}
	unit := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			unit.SetSym(i, j, (h.At(i, j)+h.At(j, i))/2*scale[i]*scale[j])
		}
	}
	var e mat.EigenSym
	if !e.Factorize(unit, true) {
		return mat.NewDense(n, n, nil), false
	}
	values := e.Values(nil)
	var out mat.Dense
	e.VectorsTo(&out)
	for i := range n {
		for j := range n {
			root := 0.0
			if values[j] > 1e-10*values[n-1] {
				root = out.At(i, j) * scale[i] / math.Sqrt(values[j])
			}
			out.Set(i, j, root)
		}
	}
	return &out, values[0] > 1e-10*values[n-1]
}

// deviating is a named curve and a spline that is added to it.
type deviating struct {
	*named
	beside *spline
}

func (g *deviating) size() int { return g.named.size() + g.beside.size() }

func (g *deviating) moved(delta []float64) curve {
	own := g.named.size()
	return &deviating{g.named.moved(delta[:own]).(*named), g.beside.moved(delta[own:]).(*spline)}
}

func (g *deviating) at(z float64, row []float64) (value, slope float64) {
	own := g.named.size()
	more, rise := g.beside.at(z, row[own:])
	value, slope = g.named.at(z, row[:own])
	return value + more, slope + rise
}

// The test of a named curve.
const (
	testKnots = 8
	leastPart = 1e-3 // of a direction of the spline, that no parameter of the named fit can follow
)

// deviation tests whether the curve of s, which is a named one, deviates by a spline: s is its fit with all parameters,
// and the statistic is Wald's for the spline's parameters after one step from there, at the information there, which is
// the score test's. The spline's knots follow from the indices of s alone. What the spline can do as well by another
// offset, scale, regressor or any other parameter is no deviation, so that there are fewer degrees of freedom than
// knots. A spline fitted freely would be off from a curve with a kink in any case, and its knots are where it has
// deviated most; with the curve itself in the model nothing but deviations is left to it. With no degrees of freedom
// nothing is tested. With is the state that the step begins from.
func (s *state) deviation(r *rows) (statistic float64, df int, with *state) {
	knots, err := knotsAt(s.indices(r), testKnots)
	if err != nil {
		return 0, 0, nil
	}
	with = s.clone()
	with.g = &deviating{s.g.(*named), newNatural(knots, make([]float64, testKnots))}
	h, score, now := with.information(r)
	p := len(score)
	t := with.directions(r.d, now.expected, p)
	_, columns := t.Dims()
	gate := 0
	for _, w := range s.w {
		gate += len(w)
	}
	first := columns - 1 - gate - testKnots // of the spline's
	var inner, ht mat.Dense
	ht.Mul(h, t)
	inner.Mul(t.T(), &ht)
	var along mat.VecDense
	along.MulVec(t.T(), mat.NewVecDense(p, score))
	var own, beside []int
	for i := range columns {
		if i >= first && i < first+testKnots {
			beside = append(beside, i)
		} else {
			own = append(own, i)
		}
	}
	pick := func(a, b []int) *mat.Dense {
		out := mat.NewDense(len(a), len(b), nil)
		for i := range a {
			for j := range b {
				out.Set(i, j, inner.At(a[i], b[j]))
			}
		}
		return out
	}
	part := func(at []int) *mat.VecDense {
		out := mat.NewVecDense(len(at), nil)
		for i := range at {
			out.SetVec(i, along.AtVec(at[i]))
		}
		return out
	}
	nulls, _ := inverseRoot(pick(own, own))
	whole, _ := inverseRoot(pick(beside, beside))
	// In units in which each of the two has the identity for information.
	var cross, half, lost mat.Dense
	half.Mul(nulls.T(), pick(own, beside))
	cross.Mul(&half, whole)
	lost.Mul(cross.T(), &cross)
	var unit mat.Dense // but for directions that are none
	unit.Product(whole.T(), pick(beside, beside), whole)
	left := mat.NewSymDense(testKnots, nil)
	for i := range testKnots {
		for j := i; j < testKnots; j++ {
			left.SetSym(i, j, unit.At(i, j)-lost.At(i, j))
		}
	}
	var sOwn, sBeside, followed mat.VecDense
	sOwn.MulVec(nulls.T(), part(own))
	sBeside.MulVec(whole.T(), part(beside))
	followed.MulVec(cross.T(), &sOwn)
	sBeside.SubVec(&sBeside, &followed)
	var e mat.EigenSym
	if !e.Factorize(left, true) {
		return 0, 0, nil
	}
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	for j, v := range e.Values(nil) {
		if v > leastPart {
			u := mat.Dot(vectors.ColView(j), &sBeside)
			statistic += u * u / v
			df++
		}
	}
	return statistic, df, with
}

// tail is the probability of more than statistic under χ² with df degrees of freedom.
func tail(statistic float64, df int) float64 {
	return distuv.ChiSquared{K: float64(df)}.Survival(statistic)
}

// finer is the fit with a knot more in the middle of each interval, from s.
func (s *state) finer(ctx context.Context, r *rows) (*state, error) {
	g := s.g.(*spline)
	var knots, values, slopes []float64
	row := make([]float64, g.size())
	add := func(z float64) {
		v, slope := g.at(z, row)
		knots, values, slopes = append(knots, z), append(values, v), append(slopes, slope)
	}
	for i, z := range g.knots {
		if i > 0 {
			add((g.knots[i-1] + z) / 2)
		}
		add(z)
	}
	out := s.clone()
	if g.basis.rising {
		out.g = newRising(knots, values[0], slopes)
	} else {
		out.g = newNatural(knots, values)
	}
	return out.climb(ctx, r, 40, 1e-3)
}

// variance is that of g(z).
func (s *state) variance(c *mat.SymDense, d int, z float64, row []float64) float64 {
	s.g.at(z, row)
	first := s.k * s.per(d)
	sum := 0.0
	for i, u := range row {
		for j, w := range row {
			sum += u * w * c.At(first+i, first+j)
		}
	}
	return sum
}

// frame is how the data's units follow from those of the fit: a feature is mean + scale·x, and an index z + move.
type frame struct {
	mean, scale []float64
	move        float64
}

const (
	curvePoints = 60
	quantile975 = 1.959963984540054
)

// judge gives l the points of the curve and, where the parameters are told apart, standard errors and the spline's
// bias.
func (s *state) judge(ctx context.Context, r *rows, f *frame, l *Learned) error {
	g := s.g.(*spline)
	row := make([]float64, g.size())
	c, ok := s.covariance(r)
	ok = ok && l.Unjudged == ""
	point := func(z float64) Point {
		v, _ := g.at(z, row)
		p := Point{Z: z + f.move, G: v}
		if ok {
			se := math.Sqrt(s.variance(c, r.d, z, row))
			lower, upper := v-quantile975*se, v+quantile975*se
			p.SE, p.Lower, p.Upper = &se, &lower, &upper
		}
		return p
	}
	first, last := g.knots[0], g.knots[len(g.knots)-1]
	for i := range curvePoints + 1 {
		l.Curve = append(l.Curve, point(first+(last-first)*float64(i)/curvePoints))
	}
	for _, z := range g.knots {
		l.Points = append(l.Points, point(z))
	}
	if !ok {
		l.Unjudged = cmp.Or(l.Unjudged, "the rows do not tell all parameters apart: features that follow from each "+
			"other, or experts that are alike")
		return nil
	}
	l.StandardErrors = s.errors(c, r, f)
	fine, err := s.finer(ctx, r)
	if err != nil {
		return err
	}
	over, ok := fine.covariance(r)
	if !ok {
		return nil
	}
	b := Bias{Knots: 2*len(g.knots) - 1}
	wide := make([]float64, fine.g.size())
	for i := range curvePoints + 1 {
		z := l.Middle[0] + (l.Middle[1]-l.Middle[0])*float64(i)/curvePoints - f.move
		here, _ := g.at(z, row)
		there, _ := fine.g.at(z, wide)
		if d := there - here; i == 0 || math.Abs(d) > math.Abs(b.Difference) {
			b.Z, b.Difference = z+f.move, d
			b.SE = nil
			if v := fine.variance(over, r.d, z, wide) - s.variance(c, r.d, z, row); v > 0 {
				se := math.Sqrt(v)
				b.SE = &se
			}
		}
	}
	l.Bias = &b
	return nil
}

// errors are the standard errors of the parameters in the data's units, from the covariance of those of the fit.
func (s *state) errors(c *mat.SymDense, r *rows, f *frame) *model.Params {
	k, d, per := s.k, r.d, s.per(r.d)
	size := c.SymmetricDim()
	// se is that of a sum of parameters, with weights by place.
	se := func(weights map[int]float64) float64 {
		sum := 0.0
		places := slices.Sorted(maps.Keys(weights))
		for _, i := range places {
			for _, j := range places {
				sum += weights[i] * weights[j] * c.At(i, j)
			}
		}
		return math.Sqrt(max(0, sum))
	}
	p := model.NewParams(k, d)
	for i := range k {
		for j := range d {
			p.Regressors[i*d+j] = se(map[int]float64{i*per + j: 1 / f.scale[j]})
		}
	}
	if s.b != nil {
		expected := s.pass(r).expected
		p.RegressorIntercepts = make([]float64, k)
		for i := range k {
			weights := map[int]float64{}
			for l, v := range expected { // intercept i less the mean of all, features not centred
				v = -v / float64(r.n)
				if l == i {
					v++
				}
				weights[l*per+d] += v
				for j := range d {
					weights[l*per+j] -= v * f.mean[j] / f.scale[j]
				}
			}
			p.RegressorIntercepts[i] = se(weights)
		}
	}
	gate := k*per + s.g.size()
	if s.intercept {
		p.GatingIntercepts = make([]float64, k-1)
	}
	for i := range k - 1 {
		at := gate + i*len(s.w[i])
		weights := map[int]float64{at + d: 1}
		for j := range d {
			p.Gating[i*d+j] = se(map[int]float64{at + j: 1 / f.scale[j]})
			weights[at+j] = -f.mean[j] / f.scale[j]
		}
		if s.intercept {
			p.GatingIntercepts[i] = se(weights)
		}
	}
	p.Sigma = []float64{s.sigma * math.Sqrt(c.At(size-1, size-1))}
	return p
}
