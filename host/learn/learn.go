// Package learn estimates the activation of a mixture of experts with its regressors, gate and noise.
package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/table"
)

// free is the number of free parameters; those of the curve that are at their bounds are not.
func (s *state) free(d int) int {
	ones := make([]float64, s.k)
	for i := range ones {
		ones[i] = 1
	}
	_, f := s.tangent(d, ones, s.g.held(make([]float64, s.g.size()))).Dims()
	for _, w := range s.w {
		f += len(w)
	}
	return f + 1
}

func (s *state) bic(r *rows) float64 {
	return float64(s.free(r.d))*math.Log(float64(r.n)) - 2*s.loglik
}

// seen returns the rows at the indices of their most probable experts.
func (s *state) seen(r *rows) []Row {
	out := make([]Row, 0, r.n)
	v := s.newView()
	for t := range r.n {
		x := r.x[t*r.d : (t+1)*r.d]
		s.look(x, r.y[t], v)
		best := 0
		for i, p := range v.post {
			if p > v.post[best] {
				best = i
			}
		}
		out = append(out, Row{s.index(best, x), r.y[t], best, v.post[best]})
	}
	return out
}

// indices returns the arguments of [state.seen], ascending.
func (s *state) indices(r *rows) []float64 {
	out := make([]float64, 0, r.n)
	for _, row := range s.seen(r) {
		out = append(out, row.Z)
	}
	slices.Sort(out)
	return out
}

// Beyond each outer knot are this share of the indices, and no fewer than so many rows, up to a twentieth of them: the
// ends of a curve are known by few rows, and a line from there is steadier than a cubic to the last of them (Harrell,
// Regression Modeling Strategies, 2.4.6, has the fifth from each end).
const (
	outer     = .002
	outerRows = 4
)

// knotsAt returns m knots where the indices z, ascending, are: half by their quantiles, half evenly. Indices of which
// nearly all are one, or no more than there are knots, are an [*Error].
func knotsAt(z []float64, m int) ([]float64, error) {
	last := len(z) - 1
	beyond := max(outer, float64(min(outerRows, last/20))/float64(len(z)))
	quantile := func(p float64) float64 {
		return z[min(int((beyond+(1-2*beyond)*p)*float64(len(z))), last)]
	}
	lo, hi := quantile(0), quantile(1)
	var knots []float64
	for i := range m {
		at := float64(i) / float64(m-1)
		knots = append(knots, (quantile(at)+lo+(hi-lo)*at)/2)
	}
	distinct := 1
	for i := range last {
		if z[i+1]-z[i] > 1e-9*(z[last]-z[0]) {
			distinct++
		}
	}
	if distinct <= m || !(hi-lo > 1e-6*(z[last]-z[0])) {
		return nil, &Error{fmt.Sprintf("the index has no spread for a curve of %d knots: it takes %d values over %d "+
			"rows, "+
			"and nearly all of them are from %.4g to %.4g", m, distinct, len(z), lo, hi)}
	}
	return knots, nil
}

// respline gives s a spline of m knots with the values of its curve: half of them where the indices are,
// spread by their quantiles and evenly, or, where it is bent, half of these where the curve is.
func (s *state) respline(r *rows, m int, bent bool) (*state, error) {
	z := s.indices(r)
	knots, err := knotsAt(z, m)
	if err != nil {
		return nil, err
	}
	out := s.clone()
	old, again := s.g.(*spline)
	if again && bent {
		knots = old.bends(knots[0], knots[m-1], m)
	}
	row := make([]float64, s.g.size())
	at := func(z float64) float64 {
		g, _ := s.g.at(z, row)
		return g
	}
	values := make([]float64, m)
	for i, k := range knots {
		values[i] = at(k)
	}
	switch {
	case !s.rising:
		out.g = newNatural(knots, values)
		return out, nil
	case again && old.basis.rising:
		slopes := make([]float64, m)
		for i, k := range knots {
			_, slopes[i] = old.at(k, row)
		}
		out.g = newRising(knots, values[0], slopes)
		return out, nil
	}
	if values[m-1] < values[0] { // the other sign of all indices
		for i := range out.a {
			for j := range out.a[i] {
				out.a[i][j] = -out.a[i][j]
			}
			if out.b != nil {
				out.b[i] = -out.b[i]
			}
		}
		slices.Reverse(knots)
		slices.Reverse(values)
		for i := range knots {
			knots[i] = -knots[i]
		}
	}
	slopes := make([]float64, m)
	for i := range m {
		from, to := max(i-1, 0), min(i+1, m-1)
		slopes[i] = max(0, (values[to]-values[from])/(knots[to]-knots[from]))
	}
	out.g = newRising(knots, values[0], slopes)
	return out, nil
}

// bends returns m knots from lo to hi, between which the integral of a constant and of the root of |g″|, of
// equal weight, is the same.
func (s *spline) bends(lo, hi float64, m int) []float64 {
	const cells = 400
	step := (hi - lo) / cells
	row := make([]float64, s.size())
	density, sum := make([]float64, cells), 0.0
	_, before := s.at(lo, row)
	for i := range density {
		_, after := s.at(lo+float64(i+1)*step, row)
		density[i] = math.Sqrt(math.Abs(after-before) / step)
		sum += density[i]
		before = after
	}
	knots, total, next := []float64{lo}, 0.0, 1
	for i, v := range density {
		part := .3 / cells
		if sum > 0 {
			part += .7 * v / sum
		} else {
			part = 1.0 / cells
		}
		for next < m-1 && total+part >= float64(next)/float64(m-1) {
			inside := (float64(next)/float64(m-1) - total) / part
			knots = append(knots, lo+(float64(i)+inside)*step)
			next++
		}
		total += part
	}
	return append(knots, hi)
}

// settle climbs with knots that follow the indices, then with knots that stand.
func (s *state) settle(ctx context.Context, r *rows, m, rounds, iterations int, bent bool) (*state, error) {
	var err error
	for range rounds {
		if s, err = s.respline(r, m, bent); err != nil {
			return nil, err
		}
		if s, err = s.climb(ctx, r, 8, 1e-2); err != nil {
			return nil, err
		}
	}
	if s, err = s.respline(r, m, bent); err != nil {
		return nil, err
	}
	return s.climb(ctx, r, iterations, 1e-3)
}

// best returns the state of the highest likelihood.
func best(all []*state) *state {
	return slices.MaxFunc(all, func(a, b *state) int { return cmp.Compare(a.loglik, b.loglik) })
}

// Config says what is learnt.
type Config struct {
	K          int
	UnitNorm   bool // every regressor has norm 1, not the first alone
	Intercepts bool // of experts and gate
	Monotone   bool // g rises
	Knots      int  // 0: of 6, 8, 10 and 12 those of the least BIC
	Seed       uint64
}

// The bounds of what can be learnt.
const (
	MinKnots  = 6
	MaxKnots  = 12
	startRows = 4000
	shownRows = 1500
	rounding  = 1e-9 // the noise, in standard deviations of y, that is none
)

// Learned is a curve with the mixture that it was learnt with.
type Learned struct {
	Table              *table.Table
	Params             *model.Params // in the units of the data; norms are as held
	Proportions        []float64     // of the experts, the largest first
	N                  int
	LogLikelihood, BIC float64
	Knots              int
	Middle             [2]float64 // where the middle 95 % of arguments are

	Even   bool     // k > 1, and every expert's sign is free
	Center *float64 // where g is even about; nil where it is not
	Named  []Named  // what else g may be, the least BIC first

	// Curve is g from the first knot to the last, with its standard errors where there are any.
	Curve  []Point
	Points []Point // at the knots
	// Bias is how far a finer spline is from this one; nil where there are no standard errors.
	Bias *Bias
	// StandardErrors are those of Params, in whose places they stand; nil where there are none, and then Unjudged says
	// why.
	StandardErrors *model.Params
	Unjudged       string

	Starts []Start // the highest first

	// Dependent are the features, from 0, that those before them tell in every row: their coefficients are held at 0.
	Dependent []int

	Rows []Row // at most 1,500, evenly spaced
}

// Row is a row at the index of its most probable expert.
type Row struct {
	Z, Y      float64
	Expert    int // from 0
	Posterior float64
}

// Point is a point of the curve, with a pointwise interval of 95 %.
type Point struct {
	Z     float64  `json:"z"`
	G     float64  `json:"g"`
	SE    *float64 `json:"se"`
	Lower *float64 `json:"lower"`
	Upper *float64 `json:"upper"`
}

// Bias is the largest difference between the curve and that of a spline with a knot more in each interval, over the
// middle 95 % of arguments, with its standard error: the root of the difference of their variances.
type Bias struct {
	Knots      int      `json:"knots"`
	Z          float64  `json:"z"`
	Difference float64  `json:"difference"`
	SE         *float64 `json:"se"` // null where the finer spline's variance is not the larger, so that there is none
}

// Start is a start of the search and the log-likelihood that it came to with 6 knots on at most 4,000 rows.
type Start struct {
	Name          string  `json:"name"`
	LogLikelihood float64 `json:"log_likelihood"`
}

// starts are the fits that the search begins from: moment estimates, and maxima of the likelihood. Of a target that is
// likened to g no scale is fitted, others' means are c + s·g.
var starts = []struct {
	text    string
	method  host.Method
	likened bool
}{
	{"expr: max(z, 0)", host.Moments{}, true},
	{"expr: tanh(z)", host.Moments{}, true},
	{"expr: exp(-z^2)", host.Moments{}, true},
	{"expr: z", host.EM{Starts: 1}, true},
	{"expr: max(z, 0)", host.EM{Starts: 1}, false},
	{"expr: tanh(z)", host.EM{Starts: 1}, false},
	{"expr: exp(-z^2)", host.EM{Starts: 1}, false},
}

// activation has values.
type activation interface {
	Eval(ctx context.Context, dst, z []float64) error
}

// likened returns the means c + s·g that have the mean and the standard deviation of y at indices of N(0, 1).
func likened(ctx context.Context, y []float64, g activation) (c, s float64, err error) {
	z := make([]float64, 1000)
	for i := range z {
		z[i] = distuv.UnitNormal.Quantile((float64(i) + .5) / float64(len(z)))
	}
	if err := g.Eval(ctx, z, z); err != nil {
		return 0, 0, err
	}
	at, sd := stat.PopMeanStdDev(y, nil)
	mean, wide := stat.PopMeanStdDev(z, nil)
	return at - sd/wide*mean, sd / wide, nil
}

// Learn estimates g with the mixture.
func Learn(ctx context.Context, src dataset.Source, cfg Config) (*Learned, error) {
	data, err := dataset.Load(ctx, src)
	if err != nil {
		return nil, err
	}
	r, mean, scale, err := rowsOf(data, cfg.K == 1 || cfg.Intercepts)
	if err != nil {
		return nil, err
	}
	if least := 4 * (MaxKnots + cfg.K*(r.d+1)*2); r.n < least {
		return nil, &Error{fmt.Sprintf("%d rows for curves of up to %d knots, %d experts and %d features; want %d or "+
			"more",
			r.n, MaxKnots, cfg.K, r.d, least)}
	}
	if sd := spread(r.y); !(sd > 1e-12*math.Abs(r.y[0])) {
		return nil, &Error{"the target is constant"}
	}
	d, left := r.d, r.dependent()
	if len(left) > 0 {
		r.x, mean, scale = kept(r.x, d, left), kept(mean, d, left), kept(scale, d, left)
		r.d -= len(left)
	}
	few := r.thinned(startRows)
	begun, err := begin(ctx, few, cfg, scale)
	if err != nil {
		return nil, err
	}
	starts, all, err := screen(ctx, few, begun)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		if all[i], err = s.settle(ctx, few, 8, 2, 60, false); err != nil {
			return nil, err
		}
	}
	chosen, err := choose(ctx, r, best(all), cfg.Knots)
	if err != nil {
		return nil, err
	}
	out, err := canonical(chosen, r).learned(ctx, r, mean, scale)
	if err != nil {
		return nil, err
	}
	out.Starts, out.Dependent = starts, left
	out.Params, out.StandardErrors = widened(out.Params, d, left), widened(out.StandardErrors, d, left)
	return out, nil
}

// screen climbs from all starts on few rows, and returns the three highest.
func screen(ctx context.Context, few *rows, begun []start) ([]Start, []*state, error) {
	var out []Start
	var all []*state
	var last error
	for _, b := range begun {
		s, err := b.settle(ctx, few, MinKnots, 3, 10, false)
		if fault := (*Error)(nil); errors.As(err, &fault) {
			last = err
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, s)
		out = append(out, Start{b.name, s.loglik})
	}
	if len(all) == 0 {
		return nil, nil, last
	}
	slices.SortStableFunc(out, func(a, b Start) int { return cmp.Compare(b.LogLikelihood, a.LogLikelihood) })
	slices.SortStableFunc(all, func(a, b *state) int { return cmp.Compare(b.loglik, a.loglik) })
	return out, all[:min(3, len(all))], nil
}

// bentRows is how many rows a knot takes whose place follows the curve: BIC does not count the places.
const bentRows = 50

// held says whether rows hold both ends of the curve: beyond each outer knot are more than half of the
// [outerRows] that [knotsAt] leaves there, for the indices move once more after that.
func (s *state) held(r *rows) bool {
	z := s.indices(r)
	least := min(outerRows, (len(z)-1)/20) / 2
	knots := s.g.(*spline).knots
	return z[least] < knots[0] && z[len(z)-1-least] > knots[len(knots)-1]
}

// choose returns the fit of the least BIC, over numbers of knots and where they are, of those whose ends are held if
// there are any.
func choose(ctx context.Context, r *rows, top *state, knots int) (*state, error) {
	numbers := []int{6, 8, 10, 12}
	if knots > 0 {
		numbers = []int{knots}
	}
	var chosen *state
	held := false
	for _, m := range numbers {
		for _, bent := range []bool{false, true} {
			if bent && r.n < bentRows*m {
				continue
			}
			from, rounds := top, 1
			if bent && chosen != nil {
				from, rounds = chosen, 3
			}
			next, err := from.settle(ctx, r, m, rounds, 40, bent)
			if fault := (*Error)(nil); errors.As(err, &fault) && chosen != nil {
				continue
			}
			if err != nil {
				return nil, err
			}
			holds := next.held(r)
			if chosen == nil || holds && !held || holds == held && next.bic(r) < chosen.bic(r) {
				chosen, held = next, holds
			}
		}
	}
	return chosen, nil
}

func rowsOf(data *model.Data, centred bool) (r *rows, mean, scale []float64, err error) {
	n, d := data.N, data.D
	r = &rows{n: n, d: d, x: make([]float64, n*d)}
	first := 0
	for _, block := range data.Blocks {
		for t := range block.N {
			for j := range d {
				r.x[(first+t)*d+j] = block.X[j*block.N+t]
			}
		}
		r.y = append(r.y, block.Y...)
		first += block.N
	}
	mean, scale = make([]float64, d), make([]float64, d)
	for j := range d {
		m, v := 0.0, 0.0
		for t := range n {
			m += r.x[t*d+j] / float64(n)
		}
		for t := range n {
			v += (r.x[t*d+j] - m) * (r.x[t*d+j] - m) / float64(n)
		}
		if !(v > 1e-24*m*m) { // but for rounding
			return nil, nil, nil, &Error{fmt.Sprintf("feature %d is constant: an index along it has no spread", j+1)}
		}
		scale[j] = math.Sqrt(v)
		if centred {
			mean[j] = m
		}
		for t := range n {
			r.x[t*d+j] = (r.x[t*d+j] - mean[j]) / scale[j]
		}
	}
	return r, mean, scale, nil
}

// thinned returns at most so many of the rows, evenly spaced.
func (r *rows) thinned(most int) *rows {
	if r.n <= most {
		return r
	}
	out := &rows{n: most, d: r.d}
	for i := range most {
		t := i * r.n / most
		out.x, out.y = append(out.x, r.x[t*r.d:(t+1)*r.d]...), append(out.y, r.y[t])
	}
	return out
}

// start is a state to climb from, and what it is called.
type start struct {
	*state
	name string
}

func begin(ctx context.Context, r *rows, cfg Config, scale []float64) (out []start, err error) {
	hostCfg := host.Config{K: cfg.K, Seed: cfg.Seed}
	if cfg.Intercepts {
		hostCfg.Intercepts = host.BothIntercepts
	}
	metric := make([]float64, r.d)
	for j, v := range scale {
		metric[j] = 1 / (v * v)
	}
	sd := spread(r.y)
	empty := func() *state {
		return &state{k: cfg.K, unit: cfg.UnitNorm, metric: metric, intercept: cfg.Intercepts,
			placed: cfg.K == 1 || cfg.Intercepts, rising: cfg.Monotone, sigma: sd}
	}
	for _, from := range starts {
		act, err := expression.Parse(from.text, nil)
		if err != nil {
			return nil, err
		}
		c, y, name := hostCfg, r.y, "fit, "
		offset, factor := 0.0, 1.0 // of y by what is fitted
		if c.Method = from.method; from.method == (host.Moments{}) {
			name = "moments, "
		}
		if from.likened {
			if offset, factor, err = likened(ctx, r.y, act); err != nil {
				return nil, err
			}
			y = slices.Clone(y)
			floats.AddConst(-offset, y)
			floats.Scale(1/factor, y)
		} else {
			c.Output = host.SharedScale
		}
		m, err := host.Fit(ctx, act, dataset.Matrix(mat.NewDense(r.n, r.d, r.x), y), c)
		if err != nil { // there is no such estimate, as where there are too few features for moments
			if ctx.Err() != nil {
				return nil, err
			}
			continue
		}
		name += strings.TrimPrefix(from.text, "expr: ")
		out = append(out, start{empty().from(m, act, r.d, offset, factor), name})
	}
	rng := stream.New(cfg.Seed, stream.Curve, 0)
	for n := range 6 {
		s := empty()
		for range cfg.K {
			a := make([]float64, r.d)
			for j := range a {
				a[j] = rng.NormFloat64() * scale[j]
			}
			norm := s.norm(a)
			for j := range a {
				a[j] /= norm
			}
			s.a = append(s.a, a)
		}
		for range cfg.K - 1 {
			w := make([]float64, r.d, r.d+1)
			if cfg.Intercepts {
				w = append(w, 0)
			}
			s.w = append(s.w, w)
		}
		if cfg.Intercepts {
			s.b = make([]float64, cfg.K)
		}
		s.g = function(func(z float64) float64 { return z * sd })
		out = append(out, start{s, fmt.Sprintf("random %d", n+1)})
	}
	return out, nil
}

func spread(y []float64) float64 { return stat.PopStdDev(y, nil) }

// from takes a fit with another activation for a start; what was fitted is (y − offset)/factor, or c + s·g.
func (s *state) from(m *fitted.Model, act activation, d int, offset, factor float64) *state {
	p := m.Params()
	one := 0.0
	for i := range s.k {
		a := slices.Clone(p.Regressors[i*d : (i+1)*d])
		norm := s.norm(a)
		if i == 0 {
			one = norm
		}
		if i == 0 || s.unit {
			for j := range a {
				a[j] /= norm
			}
		} else {
			for j := range a {
				a[j] /= one
			}
		}
		s.a = append(s.a, a)
	}
	for i := range s.k - 1 {
		w := slices.Clone(p.Gating[i*d : (i+1)*d])
		if s.intercept {
			w = append(w, p.GatingIntercepts[i])
		}
		s.w = append(s.w, w)
	}
	if p.RegressorIntercepts != nil {
		for _, b := range p.RegressorIntercepts {
			s.b = append(s.b, b/one)
		}
	}
	if p.Scale != nil {
		offset, factor = p.Offset[0], p.Scale[0]
	}
	s.g = function(func(z float64) float64 {
		v := []float64{one * z}
		if act.Eval(context.Background(), v, v) != nil {
			return math.NaN()
		}
		return offset + factor*v[0]
	})
	return s
}

// learned is what s is in the data's units. S is in its canonical form.
func (s *state) learned(ctx context.Context, r *rows, mean, scale []float64) (*Learned, error) {
	g := s.g.(*spline)
	at := s.indices(r)
	out := &Learned{N: r.n, LogLikelihood: s.loglik, BIC: s.bic(r), Knots: len(g.knots)}
	p := model.NewParams(s.k, r.d)
	shift := make([]float64, s.k) // of the index by the features' means
	for i, a := range s.a {
		for j, v := range a {
			p.Regressors[i*r.d+j] = v / scale[j]
			shift[i] += v / scale[j] * mean[j]
		}
	}
	move := 0.0
	if s.b == nil {
		move = shift[0] // one expert; 0 where features are not centred
	} else {
		p.RegressorIntercepts = make([]float64, s.k)
		for i, b := range s.b {
			p.RegressorIntercepts[i] = b - shift[i]
		}
		total, weighted := 0.0, 0.0
		for i, e := range s.pass(r).expected {
			total, weighted = total+e, weighted+e*p.RegressorIntercepts[i]
		}
		move = -weighted / total
		for i := range p.RegressorIntercepts {
			p.RegressorIntercepts[i] += move
		}
	}
	if s.intercept {
		p.GatingIntercepts = make([]float64, s.k-1)
	}
	for i, w := range s.w {
		for j := range r.d {
			p.Gating[i*r.d+j] = w[j] / scale[j]
			if s.intercept {
				p.GatingIntercepts[i] -= w[j] / scale[j] * mean[j]
			}
		}
		if s.intercept {
			p.GatingIntercepts[i] += w[r.d]
		}
	}
	p.Sigma = []float64{s.sigma}
	out.Params = p
	for _, v := range s.pass(r).expected {
		out.Proportions = append(out.Proportions, v/float64(r.n))
	}
	out.Rows = s.seen(r.thinned(shownRows))
	for i := range out.Rows {
		out.Rows[i].Z += move
	}
	var z []float64
	for _, knot := range g.knots {
		z = append(z, knot+move)
	}
	out.Middle = [2]float64{at[len(at)/40] + move, at[len(at)-1-len(at)/40] + move}
	var err error
	if out.Table, err = table.New(z, g.values, g.slopes); err != nil {
		return nil, err
	}
	center, even := evenAbout(s, r)
	if out.Even = even; even {
		center += move
		out.Center = &center
	}
	if out.Named, err = compare(ctx, s, r, move); err != nil {
		return nil, err
	}
	if err := out.flat(r); err != nil {
		return nil, err
	}
	if s.sigma < rounding*spread(r.y) {
		out.Unjudged = "the residuals are nothing but rounding"
		for i := range out.Named {
			out.Named[i].untested()
		}
	}
	return out, s.judge(ctx, r, &frame{mean, scale, move}, out)
}

// flat refuses a curve that is constant: to which, and to all functions with a name, BIC prefers the target's mean.
func (l *Learned) flat(r *rows) error {
	const free = 2 // mean and noise
	n := float64(r.n)
	constant := n*(math.Log(2*math.Pi)+2*math.Log(spread(r.y))+1) + free*math.Log(n)
	least := l.BIC
	if len(l.Named) > 0 {
		least = min(least, l.Named[0].BIC)
	}
	if constant <= least {
		return &Error{fmt.Sprintf("g comes out constant: the mean of the target alone has a BIC of %.2f, the curve "+
			"one of %.2f", constant, l.BIC)}
	}
	return nil
}

// WriteCSV writes the curve at its knots as a table's file, with the columns lower and upper where there are intervals.
func (l *Learned) WriteCSV(w io.Writer) error {
	if l.StandardErrors == nil {
		return l.Table.WriteCSV(w)
	}
	d := l.Table.Data()
	var b strings.Builder
	b.WriteString("z,g,dg,lower,upper\n")
	for i, z := range d.Z {
		for j, v := range []float64{z, d.G[i], d.Slopes[i], *l.Points[i].Lower, *l.Points[i].Upper} {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Error is a table of which no curve can be learned.
type Error struct{ Msg string }

func (e *Error) Error() string { return e.Msg }
