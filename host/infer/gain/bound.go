// Package gain bounds what any other mixture could gain over a fitted one in log-likelihood: Lindsay's directional
// derivative, by branch and bound.
package gain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

const (
	// mostRows and mostCoefficients are the largest problem of which [BoundOf] makes a bound.
	mostRows         = 300
	mostCoefficients = 3
	// Budget is how many rows, once a box, a step or a start, a bound may look at: about a second of one core.
	Budget = 10_000_000
	// tolerance is what a bound may be above what was found, in log-likelihood.
	tolerance = 0.05
)

// Bound bounds what other mixtures gain over a fitted one.
type Bound struct {
	// Upper is what no mixture of any number of such experts gains, in any proportions, with σ held.
	Upper float64
	// Lower is what one of Experts experts does gain.
	Lower   float64
	Experts int
	// Derivative is no less than the directional derivative towards any one expert, max_θ Σ_i w_i·(f_i(θ)/f_i − 1)
	// with f the fitted mixture's density (Lindsay 1983): a bound of the gain too, and a larger one.
	Derivative float64
	// Towards is the best expert found for that: its coefficients, then its intercept where there is one.
	Towards []float64
	Boxes   int
	Closed  bool // the boxes of the least bound were not ended by the budget
}

// NoBoundError says why there is no bound.
type NoBoundError struct{ Why string }

func (e *NoBoundError) Error() string { return e.Why }

// BoundOf bounds the log-likelihood that any other mixture of experts ⟨a,x⟩ + b with p's σ, under a constant gate, has
// above that of p, a mixture of identity experts of that kind.
//
// For any positive numbers f_1 … f_n and any mixing law Q of experts θ, by Jensen's inequality, with W = Σ w_i,
//
//	Σ w_i·log(f_i(Q)/f_i) ≤ W·log(Σ w_i·f_i(Q)/f_i / W) ≤ W·log(max_θ S(θ)/W),   S(θ) = Σ w_i·f_i(θ)/f_i,
//
// since S of Q is a mean of S(θ). With the densities f of p itself this is at most max S − W, the directional
// derivative. BoundOf takes them, and then those of mixtures of more experts that it climbs to, whose own gain over p
// is added: the least is the bound. The maximum of S over all θ is that of a branch and bound, with every rounding
// outwards.
//
// It looks at no more than about budget rows, each once a box, a step or a start. Where that is enough Upper − Lower
// is at most .1, if the climb came to the maximum over all mixtures. Else Upper holds, and is not tight. Errors:
// [*NoBoundError], those of rows and of ctx.
func BoundOf(ctx context.Context, rows model.Rows, p *model.Params, free loss.Free, budget int) (*Bound, error) {
	t, err := newTable(ctx, rows, p, free)
	if err != nil {
		return nil, err
	}
	q := t.mixtureOf(p)
	base := t.logDensities(q)
	m, err := t.maximise(ctx, base, q, budget/8, false)
	if err != nil {
		return nil, err
	}
	out := &Bound{Upper: math.Inf(1), Experts: len(q), Boxes: m.boxes, Towards: t.given(m.best),
		Derivative: math.Exp(m.logUpper) - t.weight}
	for f, round := base, 0; ; round++ {
		gained := 0.0
		for i := range f {
			gained += t.w[i] * (f[i] - base[i])
		}
		if gained > out.Lower {
			out.Lower, out.Experts = gained, len(q)
		}
		// what rounding does to these sums is far below a relative 1e−9
		upper := gained + t.weight*(m.logUpper-math.Log(t.weight)) + 1e-9*(t.weight+math.Abs(gained))
		if upper < out.Upper {
			out.Upper, out.Closed = upper, m.closed
		}
		if out.Upper-out.Lower <= 2*tolerance || t.spent >= budget || round == mostRounds {
			return out, nil
		}
		q = t.climb(q, m.best, t.spent+(budget-t.spent)/2)
		f = t.logDensities(q)
		if m, err = t.maximise(ctx, f, q, budget, true); err != nil {
			return nil, err
		}
		out.Boxes += m.boxes
	}
}

// mostRounds bounds how often a maximum of S is added to the mixture.
const mostRounds = 20

// table are the rows of a bound.
type table struct {
	n, c    int
	x       []float64 // n rows of c values, in units of powers of 2 in which coefficients are about 1 at most
	unit    []float64 // of the coefficients: θ_j is t_j·unit_j
	y, w    []float64
	sigma   float64
	weight  float64 // Σ w
	columns []int   // of the design
	spent   int     // rows looked at
}

// component is an expert of a mixture: its t, and its proportion.
type component struct {
	t          []float64
	proportion float64
}

// newTable takes rows for p, or says why not.
func newTable(ctx context.Context, rows model.Rows, p *model.Params, free loss.Free) (*table, error) {
	no := func(format string, args ...any) (*table, error) {
		return nil, &NoBoundError{fmt.Sprintf(format, args...)}
	}
	columns, _ := free.Columns(p)
	n, _ := rows.Dims()
	t := &table{c: len(columns), columns: columns}
	varies := slices.ContainsFunc(p.Gating, func(w float64) bool { return w != 0 })
	switch {
	case varies:
		return no("the gate depends on the features")
	case len(p.Tree.Branches) > 0 || p.Zero || p.HasOutput() || len(free.Tied) > 0:
		return no("the experts are not of one kind under one gate, each with coefficients of its own")
	case !mixture.Normal(mixture.DensityOf(p.Family)) || len(p.Sigma) != 1 || !(p.Sigma[0] > 0):
		return no("the noise is not normal with one sigma")
	case n > mostRows || t.c > mostCoefficients || t.c == 0:
		return no("%d rows and %d coefficients, of at most %d and %d", n, t.c, mostRows, mostCoefficients)
	}
	for j := range p.D {
		for i := range p.K {
			if !slices.Contains(columns, j) && p.Regressor(i)[j] != 0 {
				return no("an expert has a coefficient that is held")
			}
		}
	}
	t.sigma = p.Sigma[0]
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		for _, role := range [...]model.Role{model.Groups, model.Offsets, model.Trials} {
			if b.Role[role] != nil {
				return &NoBoundError{"rows in groups, or with an offset or trials"}
			}
		}
		for r := range b.N {
			if b.Weight(r) == 0 {
				continue
			}
			for _, j := range columns {
				if j == p.D {
					t.x = append(t.x, 1)
				} else {
					t.x = append(t.x, b.Col(j)[r])
				}
			}
			t.y, t.w = append(t.y, b.Y[r]), append(t.w, b.Weight(r))
			t.weight += b.Weight(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.n = len(t.y)
	return t, t.scale()
}

// scale chooses the units, powers of 2, in which coefficients that matter are below 1: a unit changes what a column
// makes of the mean by eight times the largest target or more. Nothing but the work depends on them.
func (t *table) scale() error {
	reach := 8 * (floats.Norm(t.y, math.Inf(1)) + t.sigma)
	t.unit = make([]float64, t.c)
	for j := range t.c {
		squares := 0.0
		for i := range t.n {
			v := t.x[i*t.c+j]
			squares += v * v
			if v != 0 && !(math.Abs(v) > 1e-100) {
				squares = math.NaN()
			}
		}
		_, exponent := math.Frexp(reach / math.Sqrt(squares/float64(t.n)))
		if !(squares > 0 && squares < 1e200 && reach < 1e100 && t.sigma > 1e-100) || exponent > 300 || exponent < -300 {
			return &NoBoundError{"numbers are too large or too small"}
		}
		t.unit[j] = math.Ldexp(1, exponent)
		for i := range t.n {
			t.x[i*t.c+j] *= t.unit[j]
		}
	}
	return nil
}

// mixtureOf are the experts of p.
func (t *table) mixtureOf(p *model.Params) []component {
	logits := make([]float64, p.K)
	copy(logits, p.GatingIntercepts)
	floats.AddConst(-floats.LogSumExp(logits), logits)
	out := make([]component, p.K)
	for i := range out {
		out[i] = component{make([]float64, t.c), math.Exp(logits[i])}
		for at, j := range t.columns {
			if j == p.D {
				out[i].t[at] = p.RegressorIntercepts[i] / t.unit[at]
			} else {
				out[i].t[at] = p.Regressor(i)[j] / t.unit[at]
			}
		}
	}
	return out
}

// given are coefficients in the units of the rows.
func (t *table) given(v []float64) []float64 {
	out := slices.Clone(v)
	floats.Mul(out, t.unit)
	return out
}

func (t *table) row(i int) []float64 { return t.x[i*t.c : (i+1)*t.c] }

// residual is (y_i − ⟨t, x_i⟩)/σ, within the given error of what it is.
func (t *table) residual(i int, v []float64) (e, within float64) {
	t.spent++
	z, size := 0.0, math.Abs(t.y[i])
	for j, x := range t.row(i) {
		z += v[j] * x
		size += math.Abs(v[j] * x)
	}
	return (t.y[i] - z) / t.sigma, size / t.sigma * ulps
}

// ulps bounds the relative error of a sum of up to five products and a quotient, twice over.
const ulps = 0x1p-49

// logDensities are log Σ_j π_j·exp(−e_ij²/2), from below.
func (t *table) logDensities(q []component) []float64 {
	out, terms := make([]float64, t.n), make([]float64, len(q))
	for i := range out {
		for j, expert := range q {
			e, within := t.residual(i, expert.t)
			e = math.Abs(e) + within
			terms[j] = math.Log(expert.proportion) - e*e/2
		}
		out[i] = floats.LogSumExp(terms)
		out[i] -= 1e-13 * (1 + math.Abs(out[i]))
	}
	return out
}

// climb returns a mixture of higher likelihood: q with one expert more, and with others towards which the likelihood
// rises then, until none is found. The proportions of given experts are those of the maximum, by Newton steps under
// their signs (Wang 2007), and EM moves the experts.
func (t *table) climb(q []component, v []float64, budget int) []component {
	q = slices.Clone(q)
	for round := 1; ; round++ {
		const share = 0.01
		for j := range q {
			q[j].proportion *= 1 - share
		}
		q = append(q, component{v, share})
		t.proportions(q)
		for range 5 {
			t.stepEM(q)
		}
		t.proportions(q)
		q = slices.DeleteFunc(q, func(e component) bool { return e.proportion < 1e-9 })
		logS, at := t.highest(t.logDensities(q), round*starts)
		if logS <= math.Log(t.weight)+tolerance/2/t.weight || t.spent >= budget {
			return q
		}
		v = at
	}
}

// proportions maximises the likelihood over them, by the quadratic form of its second order under signs and halved
// steps.
func (t *table) proportions(q []component) {
	m := len(q)
	terms, ratio := make([]float64, m), make([]float64, t.n*m)
	likelihood := func() (sum float64) { // and ratios f_ij/f_i
		for i := range t.n {
			for j, expert := range q {
				e, _ := t.residual(i, expert.t)
				terms[j] = -e * e / 2
			}
			most := slices.Max(terms)
			f := 0.0
			for j, expert := range q {
				ratio[i*m+j] = math.Exp(terms[j] - most)
				f += expert.proportion * ratio[i*m+j]
			}
			floats.Scale(1/f, ratio[i*m:(i+1)*m])
			sum += t.w[i] * (math.Log(f) + most)
		}
		return sum
	}
	at := likelihood()
	for range 20 {
		// Of Σ w·log Σ_j π_j·ratio − W·Σ_j π_j, whose maximum over π ≥ 0 has the sum 1.
		form, linear := mat.NewSymDense(m, nil), make([]float64, m)
		for i, w := range t.w {
			row := ratio[i*m : (i+1)*m]
			form.SymRankOne(form, w, mat.NewVecDense(m, row))
			floats.AddScaled(linear, 2*w, row)
		}
		floats.AddConst(-t.weight, linear)
		from, to := make([]float64, m), make([]float64, m)
		for j := range q {
			from[j] = q[j].proportion
		}
		copy(to, from)
		for range 200 {
			for j := range to {
				rest := linear[j]
				for l, p := range to {
					if l != j {
						rest -= form.At(j, l) * p
					}
				}
				to[j] = max(0, rest/(form.At(j, j)+1e-300))
			}
		}
		floats.Scale(1/floats.Sum(to), to)
		gained := 0.0
		for step := 1.0; step > 1e-3; step /= 2 {
			for j := range q {
				q[j].proportion = (1-step)*from[j] + step*to[j]
			}
			if next := likelihood(); next > at {
				gained, at = next-at, next
				break
			}
		}
		if gained == 0 {
			for j := range q {
				q[j].proportion = from[j]
			}
		}
		if gained < 1e-4 {
			return
		}
	}
}

// stepEM is a step of EM of proportions and coefficients, in place.
func (t *table) stepEM(q []component) {
	weights := make([][]float64, len(q))
	for j := range weights {
		weights[j] = make([]float64, t.n)
	}
	terms := make([]float64, len(q))
	for i := range t.n {
		for j, expert := range q {
			e, _ := t.residual(i, expert.t)
			terms[j] = math.Log(expert.proportion) - e*e/2
		}
		all := floats.LogSumExp(terms)
		for j := range q {
			weights[j][i] = t.w[i] * math.Exp(terms[j]-all)
		}
	}
	for j := range q {
		q[j].proportion = floats.Sum(weights[j]) / t.weight
		q[j].t = t.leastSquares(weights[j], q[j].t)
	}
}

// leastSquares are the coefficients of weighted least squares, or those given where the rows do not tell them.
func (t *table) leastSquares(weights, otherwise []float64) []float64 {
	gram, right := mat.NewSymDense(t.c, nil), mat.NewVecDense(t.c, nil)
	values, sums := gram.RawSymmetric().Data, right.RawVector().Data
	for i, w := range weights {
		x := t.row(i)
		for j, v := range x {
			sums[j] += w * v * t.y[i]
			for l := j; l < t.c; l++ {
				values[j*t.c+l] += w * v * x[l]
			}
		}
	}
	var factor mat.Cholesky
	v := mat.NewVecDense(t.c, nil)
	if !factor.Factorize(gram) || factor.SolveVecTo(v, right) != nil {
		return otherwise
	}
	return v.RawVector().Data
}

// highest looks for the largest S, of the density of those logarithms, from experts through as many rows as they have
// coefficients, which it chooses by numbers from the given one on. It returns its logarithm.
func (t *table) highest(f []float64, from int) (best float64, at []float64) {
	best = math.Inf(-1)
	through := make([]float64, t.n)
	spread := [mostCoefficients]float64{0.6180339887, 0.4142135624, 0.2360679775} // irrational: no pattern of rows
	for s := from; s < from+starts; s++ {
		clear(through)
		for j := range t.c {
			_, at := math.Modf(float64(s+1) * spread[j])
			through[int(at*float64(t.n))] = 1
		}
		v := t.leastSquares(through, nil)
		if v == nil {
			continue
		}
		if logS, v := t.rise(f, v, firstSteps); logS > best {
			best, at = logS, v
		}
	}
	if at == nil {
		return best, nil
	}
	return t.rise(f, at, lastSteps)
}

const starts = 40

// rise climbs from v towards a local maximum of S, by steps of weighted least squares, none of which lowers it: of a
// sum of normal densities that is EM.
func (t *table) rise(f, v []float64, steps int) (logS float64, _ []float64) {
	logS, weights := t.shares(f, v)
	for range steps {
		next := t.leastSquares(weights, v)
		higher, shares := t.shares(f, next)
		if !(higher > logS) {
			break
		}
		gain := higher - logS
		logS, v, weights = higher, next, shares
		if gain < 1e-9 {
			break
		}
	}
	return logS, v
}

// firstSteps are what a start is given before it is compared with others, lastSteps what the best is.
const firstSteps, lastSteps = 8, 100

// shares are log S, to rounding, and each row's share in S.
func (t *table) shares(f, v []float64) (logS float64, shares []float64) {
	shares = make([]float64, t.n)
	for i := range shares {
		e, _ := t.residual(i, v)
		shares[i] = math.Log(t.w[i]) - f[i] - e*e/2
	}
	logS = floats.LogSumExp(shares)
	for i, v := range shares {
		shares[i] = math.Exp(v - logS)
	}
	return logS, shares
}
