package loss

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Free says which parameters of a [Likelihood] vary; the others stay at their
// given values. Intercepts, where there are any, vary with their coefficients.
type Free struct {
	Regressors bool
	Gating     bool
	Sigma      bool
	// ExpertColumns and GateColumns are the features whose coefficients vary,
	// ascending; nil is all of them.
	ExpertColumns, GateColumns []int
}

// All is every parameter: the joint likelihood.
var All = Free{Regressors: true, Gating: true, Sigma: true}

// Likelihood is the mean negative log-likelihood of a mixture of experts,
//
//	L(A, W, σ) = −(1/n) Σ_rows log Σ_i p_i(x)·N(y | g(⟨a_i,x⟩+b_i), σ_i²)
//
// all constants included (002 Eq. 9 where only the gating varies, see [Log]).
// Where observations have weights each row's term is multiplied by its weight
// and n is their sum.
// Its argument θ lists the free parameters: for every expert a_i (and b_i), for
// every gate but the last w_i (and v_i), then log σ.
//
// Besides value and gradient it offers an EM step and the Hessian. A
// Likelihood keeps scratch space: it is not safe for concurrent use.
type Likelihood struct {
	rows    model.Rows
	act     model.Activation
	mix     mixture.Mixture
	base    *model.Params
	free    Free
	workers int

	k, d, da, dw, ns int     // experts, features, free coefficients of an expert and of a gate, noise levels
	expert, gate     []int   // the columns of those coefficients; d is the column of ones
	n                float64 // rows, or the sum of their weights
	unread           error   // of rows that could not be read
	logFloor         float64 // log of the smallest σ
	cur              *model.Params
	ones             []float64
	scratch          []*scratch
	chunks           []*sums
	total            *sums
	fixed            [][]float64 // residuals of each block, where the regressors are fixed
	kinks            []float64   // of g, where its second derivative is taken
	reuse            bool        // of held
	held             *gateCurvature
}

// NewLikelihood returns the likelihood of rows under mixtures of the shape of
// base, whose parameters stay as they are where free does not name them. The
// number of workers never changes the result; 0 means one per processor. It
// panics if the rows have another number of features than base. Rows that cannot
// be read are an error of the first evaluation.
func NewLikelihood(rows model.Rows, act model.Activation, base *model.Params, free Free, workers int) *Likelihood {
	return NewLikelihoodOf(mixture.Mixture{}, rows, act, base, free, workers)
}

// NewLikelihoodOf is [NewLikelihood] under another gate or noise. Where they have
// no second derivatives ([mixture.Mixture.Curved]) the likelihood is not Dense and
// has a value and a gradient alone.
func NewLikelihoodOf(mix mixture.Mixture, rows model.Rows, act model.Activation, base *model.Params, free Free, workers int) *Likelihood {
	if _, d := rows.Dims(); d != base.D {
		panic(fmt.Sprintf("loss: %d features, parameters for %d", d, base.D))
	}
	l := &Likelihood{
		rows: rows, act: act, mix: mix.WithDefaults(), base: base.Clone(), free: free,
		workers: min(model.Workers(workers), model.Chunks(rows)),
		k:       base.K, d: base.D, ns: len(base.Sigma),
		expert: columns(free.ExpertColumns, base.D, base.RegressorIntercepts != nil),
		gate:   columns(free.GateColumns, base.D, base.GatingIntercepts != nil),
		cur:    base.Clone(),
	}
	l.da, l.dw = len(l.expert), len(l.gate)
	l.ones = make([]float64, model.BlockRows)
	for i := range l.ones {
		l.ones[i] = 1
	}
	var rms float64
	l.n, rms, l.unread = totals(rows)
	l.logFloor = math.Log(sigmaFloor(rms, len(base.Sigma)))
	l.scratch = make([]*scratch, l.workers)
	l.chunks = make([]*sums, model.Chunks(rows))
	l.fixed = make([][]float64, model.Blocks(rows))
	return l
}

// columns lists the given features, all d if nil, and then the column of ones
// where there is an intercept.
func columns(given []int, d int, intercept bool) []int {
	out := append([]int(nil), given...)
	if given == nil {
		for j := range d {
			out = append(out, j)
		}
	}
	if intercept {
		out = append(out, d)
	}
	return out
}

// Log is L_log of 002 Eq. 9: the likelihood as a function of the gating alone,
// with the regressors and the noise of p.
func Log(rows model.Rows, act model.Activation, p *model.Params, workers int) *Likelihood {
	return NewLikelihood(rows, act, p, Free{Gating: true}, workers)
}

// sigmaFloor is the smallest noise level that a fit may reach, relative to the
// target's rms: without one the likelihood of noiseless data has no maximum,
// and with noise per expert that of any data has none, since an expert may
// shrink onto a few rows.
func sigmaFloor(rms float64, levels int) float64 {
	relative := 1e-8
	if levels > 1 {
		relative = 1e-3
	}
	return max(relative*rms, 1e-300)
}

// totals returns the sum of the rows' weights and the rms of the target, weights
// apart.
func totals(rows model.Rows) (weight, rms float64, err error) {
	if weight, err = model.Weight(rows); err != nil {
		return 0, 0, err
	}
	sum := 0.0
	var room model.Room
	for i := range model.Blocks(rows) {
		b, err := rows.Block(i, &room)
		if err != nil {
			return 0, 0, err
		}
		sum += floats.Dot(b.Y, b.Y)
	}
	n, _ := rows.Dims()
	return weight, math.Sqrt(sum / float64(n)), nil
}

// Degenerate says whether an expert at p has shrunk onto fewer rows than
// determine it, or its noise onto the floor: such a maximum of the likelihood
// says nothing about the data.
func (l *Likelihood) Degenerate(ctx context.Context, p *model.Params) (bool, error) {
	if l.ns == 1 {
		return false, nil
	}
	s, err := l.pass(ctx, p, wantGrad)
	if err != nil {
		return false, err
	}
	for i, mass := range s.mass {
		if mass < float64(l.da+2) || math.Log(p.Sigma[i]) < l.logFloor+math.Ln2 {
			return true, nil
		}
	}
	return false, nil
}

// Rows returns the number of rows of the data, or the sum of their weights.
func (l *Likelihood) Rows() float64 { return l.n }

// Dense says whether a Hessian is worth its cost: its sums, kept once per
// chunk of the data, then take at most 16 MB each.
func (l *Likelihood) Dense() bool {
	const most = 2 << 20 // values
	dx := l.width()
	return l.mix.Curved() && l.k*(2*l.k-1)*dx*(dx+1)/2 <= most
}

// width is the number of columns of the design, ones included.
func (l *Likelihood) width() int {
	if l.base.RegressorIntercepts != nil || l.base.GatingIntercepts != nil {
		return l.d + 1
	}
	return l.d
}

// Dim returns the number of free parameters.
func (l *Likelihood) Dim() int {
	n := 0
	if l.free.Regressors {
		n += l.k * l.da
	}
	if l.free.Gating {
		n += (l.k - 1) * l.dw
	}
	if l.free.Sigma {
		n += l.ns
	}
	return n
}

// Pack writes the free parameters of p to θ, which has Dim() places.
func (l *Likelihood) Pack(theta []float64, p *model.Params) {
	l.each(p, func(at int, v *float64) { theta[at] = *v }, func(at int, sigma *float64) { theta[at] = math.Log(*sigma) })
}

// Unpack writes θ to the free parameters of p and leaves the others alone.
func (l *Likelihood) Unpack(p *model.Params, theta []float64) {
	l.each(p, func(at int, v *float64) { *v = theta[at] }, func(at int, sigma *float64) {
		*sigma = math.Exp(min(max(theta[at], l.logFloor), 300))
	})
}

// each calls coef with the place in θ and in p of every free coefficient, and
// noise with those of every free noise level.
func (l *Likelihood) each(p *model.Params, coef, noise func(at int, v *float64)) {
	at := 0
	visit := func(rows []float64, intercepts []float64, n int, columns []int) {
		for i := range n {
			for _, j := range columns {
				if j == l.d {
					coef(at, &intercepts[i])
				} else {
					coef(at, &rows[i*l.d+j])
				}
				at++
			}
		}
	}
	if l.free.Regressors {
		visit(p.Regressors, p.RegressorIntercepts, l.k, l.expert)
	}
	if l.free.Gating {
		visit(p.Gating, p.GatingIntercepts, l.k-1, l.gate)
	}
	if l.free.Sigma {
		for i := range p.Sigma {
			noise(at, &p.Sigma[i])
			at++
		}
	}
}

// Params returns the parameters at θ.
func (l *Likelihood) Params(theta []float64) *model.Params {
	p := l.base.Clone()
	l.Unpack(p, theta)
	return p
}

// Theta returns the free parameters of p.
func (l *Likelihood) Theta(p *model.Params) []float64 {
	theta := make([]float64, l.Dim())
	l.Pack(theta, p)
	return theta
}

// LogLikelihood returns the log-likelihood of the data at p, summed over rows.
func (l *Likelihood) LogLikelihood(ctx context.Context, p *model.Params) (float64, error) {
	s, err := l.pass(ctx, p, wantValue)
	if err != nil {
		return math.NaN(), err
	}
	return s.loglik, nil
}

// Value returns L(θ).
func (l *Likelihood) Value(ctx context.Context, theta []float64) (float64, error) {
	l.Unpack(l.cur, theta)
	s, err := l.pass(ctx, l.cur, wantValue)
	if err != nil {
		return math.NaN(), err
	}
	return -s.loglik / l.n, nil
}

// Grad writes ∇L(θ) to dst and returns L(θ).
func (l *Likelihood) Grad(ctx context.Context, dst, theta []float64) (float64, error) {
	l.Unpack(l.cur, theta)
	s, err := l.pass(ctx, l.cur, wantGrad)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(dst, s, theta)
	return -s.loglik / l.n, nil
}

// gradient assembles ∇L from the sums:
//
//	∂/∂a_i = −mean r_i·(y−g_i)·g′_i·x/σ_i²   ∂/∂w_j = −mean (r_j−p_j)·x
//	∂/∂log σ_i = −mean r_i·((y−g_i)²/σ_i² − 1)
func (l *Likelihood) gradient(dst []float64, s *sums, theta []float64) {
	scale := -1 / l.n
	at := 0
	if l.free.Regressors {
		for i := range l.k {
			floats.ScaleTo(dst[at:at+l.da], scale/l.power(i), s.expert(i))
			at += l.da
		}
	}
	if l.free.Gating {
		for j := range l.k - 1 {
			floats.ScaleTo(dst[at:at+l.dw], scale, s.gate(j))
			at += l.dw
		}
	}
	if l.free.Sigma {
		for i := range l.ns {
			dst[at+i] = scale * l.sigmaScore(s, i)
			if theta[at+i] <= l.logFloor && dst[at+i] > 0 {
				dst[at+i] = 0 // at the floor and pushed below it
			}
		}
	}
}

// sigmaScore returns Σ_rows Σ_i r_i·(e_i²−1) over the experts that share noise
// level m, with e_i the standardised residual.
func (l *Likelihood) sigmaScore(s *sums, m int) float64 {
	if l.ns > 1 {
		return s.rss[m]/l.power(m) - s.mass[m]
	}
	return floats.Sum(s.rss)/l.power(0) - floats.Sum(s.mass)
}

// power returns the unit of expert i's deviance: σ_i² where the noise is Gaussian.
func (l *Likelihood) power(i int) float64 { return mixture.Power(l.mix.Family, l.cur.SigmaOf(i)) }

// Proportions returns the mean gate probabilities E[p_i(x)] over the data.
func (l *Likelihood) Proportions(ctx context.Context, p *model.Params) ([]float64, error) {
	s, err := l.pass(ctx, p, wantGrad)
	if err != nil {
		return nil, err
	}
	out := make([]float64, l.k)
	floats.ScaleTo(out, 1/l.n, s.prior)
	return out, nil
}

// EMStep writes the next EM iterate after θ to dst and returns L(θ). The
// M-step is weighted least squares for the regressors (one Gauss–Newton step
// where g is not linear), the weighted residual variance for σ, which shrinks by
// at most half a step, and one Newton step of the weighted multinomial logistic
// regression for the gating. dst may not be θ.
func (l *Likelihood) EMStep(ctx context.Context, dst, theta []float64) (float64, error) {
	l.Unpack(l.cur, theta)
	copy(dst, theta)
	at := 0
	if l.free.Regressors {
		at = l.k * l.da
	}
	var gate []float64
	if l.free.Gating {
		gate = dst[at : at+(l.k-1)*l.dw]
	}
	s, err := l.sumsOfEM(ctx, gate)
	if err != nil {
		return math.NaN(), err
	}
	if l.free.Regressors {
		for i := range l.k {
			s.stepRegressor(dst[i*l.da:(i+1)*l.da], i)
		}
	}
	s.stepGating(gate, l.held)
	if l.free.Sigma {
		l.stepSigma(dst[at+len(gate):], s)
	}
	return -s.loglik / l.n, nil
}

// StepsPerHessian returns about how many EM steps cost as much as one Hessian:
// its Gram matrices are 2k−1 times as many as those of the experts' M-step.
func (l *Likelihood) StepsPerHessian() float64 { return float64(2*l.k - 1) }

// ReuseCurvature lets EM steps use the curvature of the gating from a step
// before while the gate is near to where it was: its Gram matrices, (k−1)k/2 of
// them, are most of what a step costs where there are many experts. EM then has
// the same fixed points and about the same speed.
func (l *Likelihood) ReuseCurvature() { l.reuse = true }

// sumsOfEM returns the sums behind an EM step at l.cur, whose free gating is
// given, and sees to l.held.
func (l *Likelihood) sumsOfEM(ctx context.Context, gate []float64) (*sums, error) {
	if len(gate) == 0 {
		return l.pass(ctx, l.cur, wantExperts)
	}
	if l.reuse && l.held.near(gate) {
		return l.pass(ctx, l.cur, wantExperts)
	}
	s, err := l.pass(ctx, l.cur, wantEM)
	if err == nil {
		l.held = s.gateCurvature(gate, l.n)
	}
	return s, err
}

// stepSigma writes log σ after the regressors' step: s.rss has been lowered by
// what the step gains.
func (l *Likelihood) stepSigma(logSigma []float64, s *sums) {
	// Annealing: a noise level that falls faster than by half a step freezes the
	// posteriors before the experts have parted.
	const slowest = 0.5
	set := func(m int, rss, mass float64) {
		least := mixture.Power(l.mix.Family, slowest*l.cur.Sigma[m])
		if mass <= 0 {
			return
		}
		logSigma[m] = max(mixture.LogScale(l.mix.Family, max(rss/mass, least)), l.logFloor)
	}
	if l.ns == 1 {
		set(0, floats.Sum(s.rss), floats.Sum(s.mass))
		return
	}
	for i := range l.k {
		set(i, s.rss[i], s.mass[i])
	}
}

// holdAtFloor takes the noise levels that stand at the floor and are pushed
// below it out of a Newton step: row and column of the identity.
func (l *Likelihood) holdAtFloor(h *mat.SymDense, grad, theta []float64) {
	if !l.free.Sigma {
		return
	}
	for at := l.Dim() - l.ns; at < l.Dim(); at++ {
		if theta[at] > l.logFloor || grad[at] != 0 {
			continue
		}
		for j := range l.Dim() {
			h.SetSym(at, j, 0)
		}
		h.SetSym(at, at, 1)
	}
}

// AtFloor says whether the shared noise level of p is the smallest that a fit
// may reach: the experts then fit their rows to the last digits.
func (l *Likelihood) AtFloor(p *model.Params) bool {
	const rounding = 1e-9 // of exp and log
	return l.ns == 1 && math.Log(p.Sigma[0]) <= l.logFloor+rounding
}

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ). Terms in
// g″ are left out: at the true parameters their mean is 0, and where g is
// piecewise linear they are 0.
func (l *Likelihood) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	l.Unpack(l.cur, theta)
	s, err := l.pass(ctx, l.cur, wantHessian)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(grad, s, theta)
	l.hessian(h, s)
	l.holdAtFloor(h, grad, theta)
	return -s.loglik / l.n, nil
}
