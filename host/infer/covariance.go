// Package infer says how sure a fit is.
package infer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/infer/leaveoneout"
	"github.com/gatedlearning/moe/host/infer/sandwich"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Kind is how a covariance is estimated.
type Kind string

const (
	// Observed is the inverse of the observed information, H⁻¹ with H minus the
	// second derivatives of the log-likelihood: right where the model is.
	Observed Kind = "observed"
	// Robust is the sandwich H⁻¹MH⁻¹ with M the sum of the rows' score outer
	// products: right for independent rows also where the noise is not Gaussian or
	// not of equal variance. The parameters are then those of the closest mixture
	// (in Kullback–Leibler divergence). No small-sample factor is applied (HC0).
	Robust Kind = "robust"
	// Dependent is the sandwich with M the long-run covariance of the scores by the
	// Bartlett kernel (Newey & West 1987), corrected for the scores' being those at the maximum, its
	// bandwidth twice that which Andrews (1991) tells from the data: right
	// also where rows follow each other in time and their scores are correlated. Its intervals take
	// [Covariance.Critical] in the place of the normal quantile. See
	// [sandwich.LongRun] and [sandwich.Bandwidth].
	Dependent Kind = "hac"
	// Clustered is the sandwich with M the sum of the clusters' score outer products times G/(G−1) for G clusters:
	// right also where rows of one cluster depend on each other, and clusters do not. Its intervals take
	// [Covariance.Critical], of a t law with G − 1 degrees of freedom. See [sandwich.Clusters].
	Clustered Kind = "cluster"
)

// MaxParameters is the most parameters that a covariance is computed for: it
// takes the cube of their number in time.
const MaxParameters = 1000

// maxCondition is the condition number, of the information scaled to unit
// diagonal, above which it counts as singular: its inverse then has less than
// three digits.
const maxCondition = 1e13

// maxDecrement is the most that the score's Newton decrement sᵀH⁻¹s may be at an
// optimum: it bounds the square of every parameter's distance to the maximum of
// the local quadratic in standard errors. At a converged fit of a smooth g it is
// below 1e−6. A g with kinks puts the maximum onto kinks of the likelihood: each
// of its up to p rows there contributes about d/n, so p²/n is allowed besides.
const maxDecrement = 0.1

func decrementAllowed(p int, rows float64, kinks []float64) float64 {
	if len(kinks) == 0 {
		return maxDecrement
	}
	return min(maxDecrement+float64(p*p)/rows, 1)
}

// NoneError says why there is no covariance.
type NoneError struct {
	Reason   string
	Singular bool // the data do not determine all parameters
}

func (e *NoneError) Error() string { return e.Reason }

// Covariance is that of the estimates of a mixture's free parameters.
type Covariance struct {
	Kind       Kind
	Parameters []loss.Parameter // what the rows and columns of Matrix belong to; noise levels are σ, not log σ
	Matrix     *mat.SymDense
	Bandwidth  int           // of the kernel of [Dependent], in rows; 0 elsewhere
	Clusters   int           // of [Clustered]; 0 elsewhere
	inverse    *mat.SymDense // of the information of θ, 0 where that is held; nil of sums
	rows, d    int
	own        []mixture.OwnParameter // of the density
	levels     int                    // values that each of them has, of which some may be held
}

// Estimate returns the covariance of the free parameters of l at its maximum p.
// kinks are those of the activation. The parameters' covariance is asymptotic:
// as the rows grow in number, the errors over their standard errors tend to
// N(0, 1). A kink of g does no harm to that: the score of a row exists for
// almost every row, and the jumps of g′ have mean 0 at the truth since y − g has.
//
// The noise levels' rows are those of σ by the delta method. Observation weights
// count as repeated rows in H; in M a row is one observation. It is a
// *[NoneError] if p is not a maximum, if the information is singular or not
// positive definite, or if there are more than [MaxParameters].
func Estimate(ctx context.Context, l *loss.Likelihood, p *model.Params, kind Kind,
	kinks []float64) (*Covariance, error) {
	return EstimateGiven(ctx, l, p, kind, kinks, func(loss.Parameter) bool { return false }, nil)
}

// EstimateGiven is [Estimate] of the parameters that are not held, given those that are:
// where a gate separates rows its coefficients have no finite optimum, and the
// likelihood tends to one without them. Where l is penalised p is the maximum of the penalised likelihood,
// whose information it is that is inverted, without the slopes that a lasso has brought to 0. Beside directions that
// are given it is of what does not move along them: the parameters that do have no covariance.
func EstimateGiven(ctx context.Context, l *loss.Likelihood, p *model.Params, kind Kind, kinks []float64,
	held func(loss.Parameter) bool, ends *Endless) (*Covariance, error) {
	c, err := estimate(ctx, l, p, kind, kinks, held, ends)
	if err != nil {
		return nil, err
	}
	c.d, c.own, c.levels = p.D, mixture.DensityOf(p.Family).Own(), len(p.Sigma)
	c.noiseFromLog(p)
	return c, c.check()
}

// estimate is [EstimateGiven] of θ.
func estimate[P any](ctx context.Context, l likelihood[P], p P, kind Kind, kinks []float64,
	held func(loss.Parameter) bool, ends *Endless) (*Covariance, error) {
	n := l.Dim()
	if n == 0 {
		return nil, &NoneError{Reason: "no parameter is free"}
	}
	h, score, err := informationAt(ctx, l, p, kinks)
	if err != nil {
		return nil, err
	}
	l.AddPenalty(h, score, l.Theta(p))
	var left []int
	var parameters []loss.Parameter
	zero := l.AtZero(l.Theta(p))
	for i, q := range l.Parameters() {
		if !held(q) && !zero[i] {
			left, parameters = append(left, i), append(parameters, q)
		}
	}
	if len(left) == 0 {
		return nil, &NoneError{Reason: "no parameter has a finite optimum"}
	}
	free := freeMap(l.Ties(), left)
	if ends != nil {
		free = ends.across(free, left)
	}
	v, err := inverseAt(inner(free, submatrix(h, left)), innerVector(free, subvector(score, left)), l.Rows(), kinks)
	if err != nil {
		return nil, err
	}
	v = outer(free, v)
	c := &Covariance{Kind: kind, Parameters: parameters, Matrix: v, inverse: embedded(v, left, n), rows: l.N()}
	if kind != Observed {
		m := mat.NewSymDense(n, nil)
		if err := scoreProducts(ctx, c, m, l, p, c.inverse); err != nil {
			return nil, err
		}
		c.Matrix = sandwich.Of(v, submatrix(m, left))
	}
	return c, nil
}

// freeMap is the map R from the parameters that are free to those at the places left, of which some are one: a column
// for each; nil where every place is its own.
func freeMap(ties [][]int, left []int) *mat.Dense {
	if len(ties) == 0 {
		return nil
	}
	one := make(map[int]int) // the column of a place
	columns := 0
	for _, at := range left {
		if _, known := one[at]; known {
			continue
		}
		one[at] = columns
		for _, places := range ties {
			if slices.Contains(places, at) {
				for _, other := range places {
					one[other] = columns
				}
			}
		}
		columns++
	}
	r := mat.NewDense(len(left), columns, nil)
	for i, at := range left {
		r.Set(i, one[at], 1)
	}
	return r
}

// inner is RᵀhR, outer RvRᵀ; of a nil R what they are given.
func inner(r *mat.Dense, h *mat.SymDense) *mat.SymDense {
	if r == nil {
		return h
	}
	var half, both mat.Dense
	half.Mul(h, r)
	both.Mul(r.T(), &half)
	return numeric.Symmetric(&both)
}

func outer(r *mat.Dense, v *mat.SymDense) *mat.SymDense {
	if r == nil {
		return v
	}
	var half, both mat.Dense
	half.Mul(v, r.T())
	both.Mul(r, &half)
	return numeric.Symmetric(&both)
}

// innerVector is Rᵀs.
func innerVector(r *mat.Dense, s []float64) []float64 {
	if r == nil {
		return s
	}
	_, n := r.Dims()
	out := mat.NewVecDense(n, nil)
	out.MulVec(r.T(), mat.NewVecDense(len(s), s))
	return out.RawVector().Data
}

// LeaveOneOut is [leaveoneout.Each] of a likelihood, or a part of it, and the maximum p that c is of. It is nil where c
// is made of sums.
func (c *Covariance) LeaveOneOut(ctx context.Context, l *loss.Likelihood, p *model.Params,
	kinks []float64) (*leaveoneout.Rows, error) {
	if c.inverse == nil {
		return nil, nil
	}
	return leaveoneout.Each(ctx, l, p, c.inverse, kinks)
}

// widened is how many times the bandwidth of least mean squared error that of [Dependent] is: intervals
// ask for less bias than that has, and [Covariance.Critical] knows what it costs in variance.
const widened = 2

// likelihood is one with parameters P, of one target or of several.
type likelihood[P any] interface {
	sandwich.Scores[P]
	ScoreProducts(ctx context.Context, m *mat.SymDense, p P) error
	Dense() bool
	Rows() float64
	Parameters() []loss.Parameter
	Theta(p P) []float64
	Ties() [][]int
	AddPenalty(h *mat.SymDense, score, theta []float64)
	AtZero(theta []float64) []bool
	Information(ctx context.Context, h *mat.SymDense, score []float64, p P, kinks []float64) error
}

// informationAt returns the observed information and the score at p; a *[NoneError] of too many parameters.
func informationAt[P any](ctx context.Context, l likelihood[P], p P, kinks []float64) (*mat.SymDense, []float64,
	error) {
	n := l.Dim()
	if n > MaxParameters || !l.Dense() {
		return nil, nil, &NoneError{Reason: fmt.Sprintf("%d parameters are too many to invert their information", n)}
	}
	h, score := mat.NewSymDense(n, nil), make([]float64, n)
	return h, score, l.Information(ctx, h, score, p, kinks)
}

// scoreProducts writes the middle of the sandwich around v to m, and to c of what it was made.
func scoreProducts[P any](ctx context.Context, c *Covariance, m *mat.SymDense, l likelihood[P], p P,
	v *mat.SymDense) (err error) {
	switch c.Kind {
	case Robust:
		return l.ScoreProducts(ctx, m, p)
	case Clustered:
		c.Clusters, err = sandwich.Clusters(ctx, m, l, p)
		return err
	}
	bandwidth, err := sandwich.Bandwidth(ctx, l, p)
	if err != nil {
		return err
	}
	c.Bandwidth = min(widened*bandwidth, l.N())
	return sandwich.LongRun(ctx, m, l, p, v, c.Bandwidth)
}

// Critical returns how many standard errors a 95 % interval goes to either side: 1.96, of [Clustered] the quantile of
// a t law with one degree of freedom less than there are clusters, and of [Dependent]
//
//	1.96 + 2.9694·b + 0.4160·b² − 0.5324·b³
//
// with b the bandwidth over the rows: the quantile where the share of the rows that a
// window has stays the same as they grow in number (Kiefer & Vogelsang 2005, Table 1).
func (c *Covariance) Critical() float64 {
	switch c.Kind {
	case Observed, Robust:
		return quantile(0.95)
	case Clustered:
		return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(c.Clusters - 1)}.Quantile(0.975)
	}
	b := float64(c.Bandwidth) / float64(c.rows)
	return 1.96 + b*(2.9694+b*(0.4160-b*0.5324))
}

// embedded is the n×n matrix with the rows and columns of v at the places named, and 0 elsewhere.
func embedded(v *mat.SymDense, named []int, n int) *mat.SymDense {
	out := mat.NewSymDense(n, nil)
	for i, a := range named {
		for j, b := range named[i:] {
			out.SetSym(a, b, v.At(i, i+j))
		}
	}
	return out
}

// FromInformation is [Estimate] of kind [Observed] for parameters of which the observed
// information and the score at p are known, over so many rows.
func FromInformation(h *mat.SymDense, score []float64, parameters []loss.Parameter, p *model.Params, rows float64,
	kinks []float64) (*Covariance, error) {
	if n := len(parameters); n > MaxParameters {
		return nil, &NoneError{Reason: fmt.Sprintf("%d parameters are too many to invert their information", n)}
	}
	v, err := inverseAt(h, score, rows, kinks)
	if err != nil {
		return nil, err
	}
	c := &Covariance{Kind: Observed, Parameters: parameters, Matrix: v, d: p.D}
	c.noiseFromLog(p)
	return c, c.check()
}

// inverseAt returns the inverse of the information at a maximum, where the score is
// small.
func inverseAt(h *mat.SymDense, score []float64, rows float64, kinks []float64) (*mat.SymDense, error) {
	v, err := inverse(h)
	if err != nil {
		return nil, err
	}
	n := len(score)
	s := mat.NewVecDense(n, score)
	if d := mat.Inner(s, v, s); !(d <= decrementAllowed(n, rows, kinks)) {
		return nil, &NoneError{Reason: fmt.Sprintf("the likelihood is not at a maximum there: a Newton step would "+
			"move the parameters by up to %.2g standard errors", math.Sqrt(d))}
	}
	return v, nil
}

// submatrix returns the rows and columns named of m.
func submatrix(m *mat.SymDense, named []int) *mat.SymDense {
	out := mat.NewSymDense(len(named), nil)
	for i, a := range named {
		for j, b := range named[i:] {
			out.SetSym(i, i+j, m.At(a, b))
		}
	}
	return out
}

func subvector(v []float64, named []int) []float64 {
	out := make([]float64, len(named))
	for i, a := range named {
		out[i] = v[a]
	}
	return out
}

// Without drops parameters from the covariance of the others.
func (c *Covariance) Without(drop func(loss.Parameter) bool) {
	var left []int
	var parameters []loss.Parameter
	for i, q := range c.Parameters {
		if !drop(q) {
			left, parameters = append(left, i), append(parameters, q)
		}
	}
	c.Matrix, c.Parameters = submatrix(c.Matrix, left), parameters
}

// inverse returns h⁻¹ by the Cholesky factor of h scaled to unit diagonal.
func inverse(h *mat.SymDense) (*mat.SymDense, error) {
	n := h.SymmetricDim()
	scale := make([]float64, n)
	for i := range scale {
		if scale[i] = 1 / math.Sqrt(h.At(i, i)); !(scale[i] > 0) || math.IsInf(scale[i], 0) {
			return nil, &NoneError{"the information is not positive definite: a parameter cannot be told from the data",
				true}
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(scaledBy(scale, h)) {
		return nil, &NoneError{"the information is not positive definite: some combination of the parameters cannot " +
			"be told from the data", true}
	}
	if c := chol.Cond(); !(c < maxCondition) {
		return nil, &NoneError{fmt.Sprintf("the information is singular to working precision (condition number %.2g)",
			c), true}
	}
	v := mat.NewSymDense(n, nil)
	if err := chol.InverseTo(v); err != nil {
		return nil, &NoneError{Reason: "the information cannot be inverted: " + err.Error()}
	}
	return scaledBy(scale, v), nil
}

// scaledBy is diag(scale)·m·diag(scale).
func scaledBy(scale []float64, m *mat.SymDense) *mat.SymDense {
	out := mat.NewSymDense(len(scale), nil)
	for i := range scale {
		for j := i; j < len(scale); j++ {
			out.SetSym(i, j, scale[i]*m.At(i, j)*scale[j])
		}
	}
	return out
}

// noiseFromLog passes from log ψ to ψ: dψ = ψ·d log ψ.
func (c *Covariance) noiseFromLog(p *model.Params) {
	n := len(c.Parameters)
	for at, q := range c.Parameters {
		if q.Part != model.Noise {
			continue
		}
		sigma := *q.In(p)
		for j := range n {
			v := c.Matrix.At(at, j) * sigma
			if j == at {
				v *= sigma
			}
			c.Matrix.SetSym(at, j, v)
		}
	}
}

// check refuses numbers that overflow left without meaning.
func (c *Covariance) check() error {
	for i := range c.Parameters {
		for j := range c.Parameters {
			if !numeric.Finite(c.Matrix.At(i, j)) {
				return &NoneError{Reason: "the covariance is out of the range of float64"}
			}
		}
		if c.Matrix.At(i, i) < 0 {
			return &NoneError{Reason: "the covariance is not positive"}
		}
	}
	return nil
}

// Convert passes from the parameters of standardised features, (x − mean)/sd, to
// those of x: every coefficient is divided by its sd, and an intercept takes up
// −coefficient·mean/sd. Both have a value for every feature.
func (c *Covariance) Convert(mean, sd []float64) {
	half := convertRows(mat.DenseCopyOf(c.Matrix), c.Parameters, c.d, mean, sd)
	c.Matrix = numeric.Symmetric(convertRows(mat.DenseCopyOf(half.T()), c.Parameters, c.d, mean, sd))
}

// convertRows converts the rows of m, of these parameters of d features.
func convertRows(m *mat.Dense, parameters []loss.Parameter, d int, mean, sd []float64) *mat.Dense {
	for at, q := range parameters {
		if q.Feature != d {
			continue
		}
		for from, o := range parameters {
			if o.Part == q.Part && o.Index == q.Index && o.Feature != d {
				floats.AddScaled(m.RawRowView(at), -mean[o.Feature]/sd[o.Feature], m.RawRowView(from))
			}
		}
	}
	for at, q := range parameters {
		if q.Feature >= 0 && q.Feature != d {
			floats.Scale(1/sd[q.Feature], m.RawRowView(at))
		}
	}
	return m
}

// Errors returns the standard errors of the parameters, each in the place of the
// parameter itself in a copy of p's shape; 0 where a parameter was not free.
func (c *Covariance) Errors(p *model.Params) *model.Params {
	out := p.Like()
	c.WriteErrors(func(q loss.Parameter) *float64 { return q.In(out) })
	return out
}

// WriteErrors writes the standard errors of the parameters to their places.
func (c *Covariance) WriteErrors(in func(q loss.Parameter) *float64) {
	for at, q := range c.Parameters {
		*in(q) = math.Sqrt(c.Matrix.At(at, at))
	}
}

// Names returns the parameters' names, with experts counted from 1:
// expert1:FEATURE, expert1:(intercept), gate1:FEATURE, sigma or sigma1, and likewise
// other own parameters of the density, offset and scale. Those of one of several targets begin with its name, and what
// their normal noise has beside its levels are correlations.
func (c *Covariance) Names(features []string, targets ...string) []string {
	type kind struct {
		part model.ParamPart
		own  int
	}
	several := map[kind]int{}
	for _, q := range c.Parameters {
		several[kind{q.Part, q.Own}]++
	}
	names := make([]string, len(c.Parameters))
	for at, q := range c.Parameters {
		index, m := q.Index, len(targets)
		whose := [...]string{model.Expert: "expert", model.Gate: "gate", model.Noise: "sigma", model.Offset: "offset",
			model.Scale: "scale"}[q.Part]
		switch {
		case q.Part == model.Expert && m > 0:
			whose, index = targets[index%m]+":expert", index/m
		case q.Part == model.Noise && q.Own < m:
			whose = targets[q.Own] + ":sigma"
		case q.Part == model.Noise && len(c.own) > 0:
			whose = c.own[q.Own-m].Name
		case q.Part == model.Noise && m > 0:
			a, b := model.LowerAt(q.Own - m)
			whose = targets[b] + ":" + targets[a] + ":correlation"
		}
		if q.Feature >= 0 || several[kind{q.Part, q.Own}] > 1 || q.Part == model.Noise && c.levels > 1 {
			whose += fmt.Sprint(index + 1)
		}
		switch {
		case q.Feature < 0:
		case q.Feature == c.d:
			whose += ":" + model.InterceptName
		default:
			whose += ":" + features[q.Feature]
		}
		names[at] = whose
	}
	return names
}
