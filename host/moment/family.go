package moment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// Marginal is what the values of y alone tell of a mixture whose density is not normal. Under a gate that is
// orthogonal to the regressors, all of one norm, they are draws of f(·; g(Intercept + Norm·Z), Own), Z ~ N(0,1).
type Marginal struct {
	Norm      float64   // of the regressors, of features of covariance I
	Intercept float64   // of the predictors' mean
	Own       []float64 // ψ
}

// moved is g(by + times·z).
type moved struct {
	sdk.Activation
	by, times float64
}

func (m moved) Info() sdk.Info {
	info := m.Activation.Info()
	kinks := slices.Clone(info.Kinks)
	for i := range kinks {
		kinks[i] = (kinks[i] - m.by) / m.times
	}
	info.Kinks = kinks
	return info
}

func (m moved) Eval(ctx context.Context, dst, z []float64) error {
	return m.Activation.Eval(ctx, dst, m.of(z))
}

func (m moved) Deriv(ctx context.Context, dst, z []float64) error {
	err := m.Activation.Deriv(ctx, dst, m.of(z))
	floats.Scale(m.times, dst)
	return err
}

func (m moved) of(z []float64) []float64 {
	out := make([]float64, len(z))
	for i, v := range z {
		out[i] = m.by + m.times*v
	}
	return out
}

// chooseUnder makes the transforms of a density that is not normal, of what the values of y tell of it. Where there
// are none none says why.
func chooseUnder(ctx context.Context, p *problem.Problem, e *Evidence) error {
	e.Optimal, e.outputs, e.t2 = nil, nil, nil
	switch k, d := p.Shape.K, p.Shape.D; {
	case e.want.Transform == Polynomial:
		e.none = "the polynomials are of normal noise, not of the density " + p.Shape.Family
		return nil
	case p.Shape.Zero:
		e.none = "the law of y given the features has an expert that is always 0"
		return nil
	case k == 1:
		e.none = "one expert needs none"
		return nil
	case d <= 2*k-1:
		e.none = fewDimensions(k, d)
		return nil
	}
	if e.laws == nil {
		laws, why, err := lawsOf(ctx, p)
		if err != nil || why != "" {
			e.none = why
			return err
		}
		e.laws = laws
	}
	if e.Marginal == nil {
		if err := takeMarginal(ctx, p, e); err != nil {
			return err
		}
	}
	outputs, err := e.laws.outputs(ctx, p, e.Marginal)
	if err != nil {
		e.none = err.Error()
		return ctx.Err()
	}
	e.outputs, e.Optimal, e.none = outputs, outputs.richest(), ""
	if !e.Optimal.Has(2) {
		return nil
	}
	if known := e.want.Known; known != nil {
		if known.T2 != nil {
			e.t2 = known.T2.T2()
		}
		return nil
	}
	sums, err := e.sum(ctx, p, 2, nil, p.Inputs.Centre)
	if err != nil {
		return err
	}
	e.t2 = sums.T2()
	return nil
}

// takeMarginal takes what the values of y tell.
func takeMarginal(ctx context.Context, p *problem.Problem, e *Evidence) (err error) {
	e.Marginal, err = marginalOf(ctx, p, e.laws)
	if err != nil {
		return err
	}
	m := e.Marginal
	said := []string{fmt.Sprintf("regressors of norm %.3g", m.Norm)}
	if m.Intercept != 0 {
		said = append(said, fmt.Sprintf("an intercept of %.3g", m.Intercept))
	}
	for q, own := range p.Shape.Density().Own() {
		said = append(said, fmt.Sprintf("%s %.3g", own.Name, m.Own[q]))
	}
	laws := ""
	if n := len(e.laws.each); n > 1 {
		laws = fmt.Sprintf(", of a law for each of %d %s", n, e.laws.words())
	}
	e.Notes = append(e.Notes, fmt.Sprintf("the moment tensors are of the density %s with %s, which the values of the "+
		"target alone suggest%s, and give starts only", p.Shape.Family, strings.Join(said, ", "), laws))
	return nil
}

const (
	marginalNodes = 256 // of Z, evenly spaced
	marginalEnd   = 5.0 // between −5 and 5
	// leastSpread is the least scale of a density, in standard deviations of g: nodes are not seen one by one, and
	// transforms made for a scale that is too small cost more than those for one too large.
	leastSpread = 0.02
	// unitDoubt is how far the log-likelihood may be above that of regressors of unit norm, which are taken then: of
	// these it is farther in 5 of 100.
	unitDoubt = 1.92
	// marginalSteps bounds the evaluations of the likelihood.
	marginalSteps = 200
)

// valued are the values of y under one law.
type valued struct {
	rowLaw
	y, many []float64 // distinct quantiles, and how many of [Marginal]'s each stands for
}

// likeness is the log-likelihood of values as draws of a [Marginal].
type likeness struct {
	density mixture.Density
	act     sdk.Activation
	ctx     context.Context
	given   float64 // the first own parameter, where it is known; 0: estimated
	moves   bool    // the intercept is free
	values  []valued
	z, w    []float64 // nodes and weights
	g, logs []float64 // room
	least   float64   // of a scale
	centre  float64   // where the intercept begins
	unit    bool      // the norm is 1
	failed  error     // of act
}

// at is the marginal of log Norm, the intercept and log ψ, as far as they are free.
func (l *likeness) at(x []float64) *Marginal {
	m := &Marginal{Norm: 1}
	if !l.unit {
		m.Norm, x = math.Exp(min(x[0], 20)), x[1:]
	}
	if l.moves {
		m.Intercept, x = x[0], x[1:]
	}
	for q, own := range l.density.Own() {
		if q == 0 && l.given > 0 {
			m.Own = append(m.Own, l.given)
			continue
		}
		least := own.Least
		if q == 0 && l.density.Domain().Scale {
			least = max(least, l.least)
		}
		m.Own, x = append(m.Own, min(max(math.Exp(min(x[0], 300)), least), own.Most)), x[1:]
	}
	return m
}

// value is the mean of −log f over the values, +Inf where g is no mean.
func (l *likeness) value(x []float64) float64 {
	m := l.at(x)
	sum, total := 0.0, 0.0
	for _, v := range l.values {
		s, n := l.under(v, m)
		sum, total = sum+s, total+n
	}
	return sum / total
}

// under is the sum of −log f over the values of one law, and how many they are.
func (l *likeness) under(v valued, m *Marginal) (sum, total float64) {
	for i, z := range l.z {
		l.logs[i] = m.Intercept + v.offset + m.Norm*z
	}
	if err := l.act.Eval(l.ctx, l.g, l.logs); err != nil {
		l.failed = err
		return math.Inf(1), 1
	}
	given := mixture.NewGiven(v.density(l.density), m.Own)
	domain := l.density.Domain()
	for i, g := range l.g { // beyond what float64 has of the range, which has next to no weight
		if !(g > domain.LeastMean && g < domain.MostMean) {
			if l.w[i] > 1e-6 {
				return math.Inf(1), 1
			}
			l.g[i] = l.g[len(l.g)/2]
		}
	}
	for i, y := range v.y {
		given.LogDensity(l.logs, y, l.g)
		top := floats.Max(l.logs)
		if !(top > math.Inf(-1)) {
			return math.Inf(1), 1
		}
		f := 0.0
		for j, v := range l.logs {
			f += l.w[j] * math.Exp(v-top)
		}
		sum -= v.many[i] * (top + math.Log(f))
		total += v.many[i]
	}
	return sum, total
}

// best minimises the value from the best of a few places.
func (l *likeness) best(spread float64) (*Marginal, float64) {
	places := [][]float64{nil}
	cross := func(values ...float64) {
		var all [][]float64
		for _, p := range places {
			for _, v := range values {
				all = append(all, append(slices.Clone(p), v))
			}
		}
		places = all
	}
	if !l.unit {
		cross(math.Log(0.3), 0, math.Log(2))
	}
	if l.moves {
		cross(l.centre)
	}
	for q, own := range l.density.Own() {
		switch begin := math.Log(own.Start); {
		case q == 0 && l.given > 0:
		case q == 0 && l.density.Domain().Scale:
			cross(math.Log(0.05*spread), math.Log(0.2*spread), math.Log(0.6*spread))
		case q == 0:
			cross(begin-2, begin, begin+2)
		default:
			cross(begin)
		}
	}
	least, start := math.Inf(1), places[0]
	for _, x := range places {
		if v := l.value(x); v < least {
			least, start = v, x
		}
	}
	if len(start) == 0 || math.IsInf(least, 1) {
		return l.at(start), least
	}
	r, err := optimize.Minimize(optimize.Problem{Func: l.value}, start,
		&optimize.Settings{FuncEvaluations: marginalSteps, Converger: &optimize.FunctionConverge{
			Absolute: 1e-6, Iterations: 20}}, &optimize.NelderMead{SimplexSize: 0.3})
	if r == nil || err != nil && r.F > least {
		return l.at(start), least
	}
	return l.at(r.X), r.F
}

// marginalOf is the maximum of the likelihood of the quantiles of y. Regressors are taken to be of unit norm, and the
// predictors of mean 0, where the features are N(0, I), there is no intercept, and y may be of such.
func marginalOf(ctx context.Context, p *problem.Problem, laws *laws) (*Marginal, error) {
	known, err := targetsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	l := &likeness{
		density: p.Shape.Density(), act: p.Activation, ctx: ctx, given: p.Shape.Sigma,
		moves: p.Shape.Intercept || p.Inputs.Centre != nil, centre: p.Link.Centre,
		g: make([]float64, marginalNodes), logs: make([]float64, marginalNodes),
	}
	for i := range marginalNodes {
		z := marginalEnd * (2*(float64(i)+0.5)/marginalNodes - 1)
		l.z = append(l.z, z)
		l.w = append(l.w, math.Exp(-z*z/2)*2*marginalEnd/marginalNodes/math.Sqrt(2*math.Pi))
	}
	q := solver.Quantiles(known.Y, known.W)
	if only := laws.each[0]; len(laws.each) == 1 {
		l.values = []valued{newValued(only, q, 1)}
		if only.trials == 0 {
			l.centre = p.Link.Of(q[len(q)/2]) - only.offset
		}
	} else if l.values, err = laws.values(ctx, p); err != nil {
		return nil, err
	}
	n := len(q)
	spread := (q[3*n/4] - q[n/4]) / 1.35
	if !(spread > 0) {
		spread = max(q[n-1]-q[0], math.SmallestNonzeroFloat64)
	}
	l.least = leastSpread * spread
	best, value := l.best(spread)
	if !l.moves && p.Inputs.Standard() {
		l.unit = true
		if unit, at := l.best(spread); min(known.Total, float64(len(known.Y)))*(at-value) <= unitDoubt {
			best = unit
		}
	}
	return best, l.failed
}

// Begin returns parameters of the shape of p with the regressors of an estimate, of which the values of y tell norm,
// intercept and noise where the density is not normal.
func Begin(p *problem.Problem, e *Evidence, est *Estimate) *model.Params {
	q := p.Shape.Adopt(est.Params)
	m := e.Marginal
	if m == nil {
		floats.Scale(cmp.Or(est.norm, e.Norm), q.Regressors)
		return q
	}
	cov := p.Second.Covariance()
	for i := range q.K {
		a := q.Regressor(i)
		v := mat.NewVecDense(q.D, a)
		if size := math.Sqrt(mat.Inner(v, cov, v)); size > 0 {
			floats.Scale(m.Norm/size, a)
		}
		if q.RegressorIntercepts != nil {
			q.RegressorIntercepts[i] = m.Intercept
			if c := p.Inputs.Centre; c != nil {
				q.RegressorIntercepts[i] -= floats.Dot(a, c)
			}
		}
	}
	for i := range q.Sigma {
		q.Sigma[i] = m.Own[0]
	}
	for o, values := range q.Own {
		for i := range values {
			values[i] = m.Own[1+o]
		}
	}
	return q
}

// firstMoment is the estimate of E[T_1(y)·x] = Σ_i p_i a_i, of features whose covariance is taken for I.
func firstMoment(ctx context.Context, p *problem.Problem, e *Evidence) ([]float64, error) {
	d := p.Shape.D
	sum, total := make([]float64, d), 0.0
	room := make([]float64, model.BlockRows)
	rows, outputs := e.transformed(p.Rows, 1)
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		t := room[:b.N]
		outputs.Apply(1, t, b.Y)
		if w := b.Role[model.Weights]; w != nil {
			floats.Mul(t, w)
			total += floats.Sum(w)
		} else {
			total += float64(b.N)
		}
		for j := range d {
			sum[j] += floats.Dot(t, b.Col(j))
			if p.Inputs.Centre != nil {
				sum[j] -= p.Inputs.Centre[j] * floats.Sum(t)
			}
		}
		return nil
	})
	floats.Scale(1/total, sum)
	if w := p.Inputs.Whiten; w != nil { // the sums are W⁻¹Σ p a, with a of whitened features, and W·a of these
		v := mat.NewVecDense(d, sum)
		var half mat.VecDense
		half.MulVec(w, v)
		v.MulVec(w, &half)
	}
	return sum, err
}
