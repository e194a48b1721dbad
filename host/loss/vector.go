package loss

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// Vector is the mean negative log-likelihood of a mixture whose experts have vector outputs
// under one gate,
//
//	L(θ) = −(1/n) Σ_rows log Σ_i p_i(x)·N(y | μ_i(x), Σ_i),   μ_ic = g(⟨a_ic,x⟩+b_ic)
//
// all constants included (002 Eq. 4 with the gate shared). For M = 1 it is [Likelihood].
// θ lists for every expert and each of its coordinates a_ic (and b_ic), then the gate as
// [Likelihood] does, then for every noise log s_1, …, log s_M and, where it is full, the
// u_cb of [model.VectorNoise].
//
// A Vector keeps scratch space: it is not safe for concurrent use.
type Vector struct {
	*vectorPasses
	ridges
	base, cur *model.VectorParams
	unread    error // of rows that could not be read
}

// NewVector returns the likelihood of rows, whose targets stand in M columns
// ([model.Beside]), under mixtures of the shape of base. Of free only the columns count: all
// parameters vary. Workers and errors are as of [NewLikelihood].
func NewVector(rows model.Rows, act model.Activation, base *model.VectorParams, free Free, workers int) *Vector {
	if _, d := rows.Dims(); d != base.D {
		panic(fmt.Sprintf("loss: %d features, parameters for %d", d, base.D))
	}
	t, err := model.TotalsOfEach(rows, base.M)
	o := newVectorLayout(base, free)
	o.gateBound = newGateBound(o.layout, t[0].Largest)
	for _, of := range t {
		o.ends = append(o.ends, span{math.Log(sigmaFloor(of.RMS, of.Deviation, o.levels)), mostLog})
	}
	for range o.own - o.m { // u may be anything
		o.ends = append(o.ends, span{math.Inf(-1), math.Inf(1)})
	}
	return &Vector{
		vectorPasses: newVectorPasses(o, rows, act, workers), ridges: ridges{of: o.layout, n: t[0].Weight},
		base: base.Clone(), cur: base.Clone(), unread: err,
	}
}

// vectorLayout is the layout of several targets, of whose noise of every level θ has log s_1, …, log s_M and then the
// u_cb.
type vectorLayout struct {
	*layout
	full  bool     // whether noise is
	pairs [][2]int // coordinates a ≤ b that the noise may join, whose products an M-step needs
}

func newVectorLayout(p *model.VectorParams, free Free) *vectorLayout {
	free = Free{Regressors: true, Gating: true, Sigma: true, ExpertColumns: free.ExpertColumns,
		GateColumns: free.GateColumns}
	o := &vectorLayout{full: p.Noise[0].Lower != nil}
	for a := range p.M {
		o.pairs = append(o.pairs, [2]int{a, a})
		for b := a + 1; b < p.M && o.full; b++ {
			o.pairs = append(o.pairs, [2]int{a, b})
		}
	}
	own := p.M
	if o.full {
		own = len(o.pairs)
	}
	o.layout = newLayoutOf(p.Coordinate(0), free, nil, p.M, own)
	return o
}

// noiseAt returns the place of parameter l of noise level s: log s_l for l < M.
func (o *vectorLayout) noiseAt(s, l int) int { return o.noise(s*o.own + l) }

// pairOf returns c and b of the u_cb that is parameter l ≥ M of a noise.
func (o *vectorLayout) pairOf(l int) (c, b int) { return model.LowerAt(l - o.m) }

// in returns where parameters stand in p.
func (o *vectorLayout) in(p *model.VectorParams) func(q Parameter) *float64 {
	return func(q Parameter) *float64 {
		switch {
		case q.Part == model.Noise:
			n, l := p.Noise[q.Index/o.own], q.Index%o.own
			if l < o.m {
				return &n.Scale[l]
			}
			return &n.Lower[l-o.m]
		case q.Part == model.Expert && q.Feature == o.d:
			return &p.RegressorIntercepts[q.Index]
		case q.Part == model.Expert:
			return &p.Regressors[q.Index*p.D+q.Feature]
		case q.Feature == o.d:
			return &p.GatingIntercepts[q.Index]
		}
		return &p.Gating[q.Index*p.D+q.Feature]
	}
}

// VectorDim returns the number of parameters of [NewVector] of the shape of p.
func VectorDim(p *model.VectorParams, free Free) int { return len(newVectorLayout(p, free).parameters) }

// Dim returns the number of parameters.
func (l *Vector) Dim() int { return len(l.parameters) }

// Rows returns the number of rows of the data, or the sum of their weights.
func (l *Vector) Rows() float64 { return l.n }

// Parameters lists the parameters in the order of θ. Index is i·M+c of a coefficient of
// a_ic, and of those of noise level s s·q+l, with q parameters each: log s_l for l < M, then
// the u_cb by rows.
func (l *Vector) Parameters() []Parameter { return slices.Clone(l.parameters) }

// Params returns the parameters at θ.
func (l *Vector) Params(theta []float64) *model.VectorParams {
	p := l.base.Clone()
	l.unpack(l.in(p), theta)
	return p
}

// Theta returns the parameters of p.
func (l *Vector) Theta(p *model.VectorParams) []float64 {
	theta := make([]float64, l.Dim())
	l.pack(theta, l.in(p))
	return theta
}

// Dense says whether a Hessian is worth its cost, see [MostDense].
func (l *Vector) Dense() bool {
	rows := l.k*l.m + l.gates
	return rows*(rows+1)/2*l.width*(l.width+1)/2 <= MostDense
}

// StepsPerHessian returns about how many EM steps cost as much as one Hessian, by the Gram
// matrices of both.
func (l *Vector) StepsPerHessian() float64 {
	rows := l.k*l.m + l.gates
	return float64(rows*(rows+1)/2) / float64(l.k*len(l.pairs))
}

// under returns the sums of what is wanted at p.
func (l *Vector) under(ctx context.Context, p *model.VectorParams, want quantity) (*vectorSums, error) {
	if l.unread != nil {
		return nil, l.unread
	}
	return l.sum(ctx, p, want)
}

func (l *Vector) at(ctx context.Context, theta []float64, want quantity) (*vectorSums, error) {
	l.unpack(l.in(l.cur), theta)
	return l.under(ctx, l.cur, want)
}

// LogLikelihood returns the log-likelihood of the data at p, summed over rows.
func (l *Vector) LogLikelihood(ctx context.Context, p *model.VectorParams) (float64, error) {
	s, err := l.under(ctx, p, 0)
	if err != nil {
		return math.NaN(), err
	}
	return s.loglik, nil
}

// Value returns L(θ), with the ridge on the gate if there is one, as do Grad, Hessian and
// EMStep.
func (l *Vector) Value(ctx context.Context, theta []float64) (float64, error) {
	s, err := l.at(ctx, theta, 0)
	if err != nil {
		return math.NaN(), err
	}
	return l.objective(s.loglik, theta), nil
}

// Grad writes ∇L(θ) to dst and returns L(θ).
func (l *Vector) Grad(ctx context.Context, dst, theta []float64) (float64, error) {
	s, err := l.at(ctx, theta, ofGradient)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(dst, s, theta)
	return l.objective(s.loglik, theta), nil
}

func (l *Vector) gradient(dst []float64, s *vectorSums, theta []float64) {
	s.gradient.write(dst, -1/l.n, l.cur)
	l.boundGradient(dst, theta)
	l.penaliseGradient(dst, theta, 1/l.n)
	l.holdGradient(dst, theta)
}

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ), without the terms in g″,
// as [Likelihood.Hessian] does.
func (l *Vector) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.hessian(ctx, h, grad, theta, ofGradient|ofInformation)
}

// ExactVector is a likelihood with its exact Hessian, see [Exact].
type ExactVector struct{ *Vector }

// Exact returns l with its exact Hessian, for a g with these kinks.
func (l *Vector) Exact(kinks []float64) ExactVector {
	l.kinks = kinks
	return ExactVector{l}
}

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ).
func (l ExactVector) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.hessian(ctx, h, grad, theta, ofGradient|ofInformation|withBend)
}

func (l *Vector) hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64, want quantity) (float64, error) {
	s, err := l.at(ctx, theta, want)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(grad, s, theta)
	s.information.write(h, 1/l.n)
	l.boundHessian(h)
	l.penaliseHessian(h, 1/l.n, 0)
	l.holdHessian(h, grad, theta)
	return l.objective(s.loglik, theta), nil
}

// Information writes the observed information at p to h and the score to score, as
// [Likelihood.Information] does, for a g with these kinks.
func (l *Vector) Information(ctx context.Context, h *mat.SymDense, score []float64, p *model.VectorParams,
	kinks []float64) error {
	l.kinks = kinks
	s, err := l.under(ctx, p, ofGradient|ofInformation|withBend)
	if err != nil {
		return err
	}
	s.information.write(h, 1)
	s.gradient.write(score, 1, p)
	return nil
}

// ScoreProducts writes Σ_rows w²·s·sᵀ of the rows' scores s = ∂log p(y|x)/∂θ at p, with their
// weights, to m, as [Likelihood.ScoreProducts] does.
func (l *Vector) ScoreProducts(ctx context.Context, m *mat.SymDense, p *model.VectorParams) error {
	s, err := l.under(ctx, p, ofProducts)
	if err != nil {
		return err
	}
	s.products.write(m)
	return nil
}

// Proportions returns the mean gate probabilities E[p_i(x)] over the data.
func (l *Vector) Proportions(ctx context.Context, p *model.VectorParams) ([]float64, error) {
	s, err := l.under(ctx, p, ofGradient)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(s.gradient.prior)
	floats.Scale(1/l.n, out)
	return out, nil
}

// Mass returns how many rows each expert has by the posterior, Σ r_i.
func (l *Vector) Mass(ctx context.Context, p *model.VectorParams) ([]float64, error) {
	s, err := l.under(ctx, p, ofGradient)
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.gradient.mass), nil
}

// Degenerate says whether an expert with noise of its own has shrunk onto so few rows, or to
// so little noise, that the likelihood has no bound there.
func (l *Vector) Degenerate(ctx context.Context, p *model.VectorParams) (bool, error) {
	if l.levels == 1 {
		return false, nil
	}
	s, err := l.under(ctx, p, ofGradient)
	if err != nil {
		return false, err
	}
	for i, mass := range s.gradient.mass {
		if mass < float64(l.da+l.m+1) {
			return true, nil
		}
		for c, scale := range p.Noise[i].Scale {
			if math.Log(scale) < l.ends[c].least+math.Ln2 {
				return true, nil
			}
		}
	}
	return false, nil
}

// EMStep writes the next EM iterate after θ to dst and returns L(θ). The M-step is weighted
// multivariate least squares for the regressors (one Gauss–Newton step where g is not
// linear, in the metric of Σ_i⁻¹), the weighted scatter of the residuals for the noise, whose
// scales shrink by at most half a step, and the step of [Likelihood.EMStep] for the gate.
// dst may not be θ.
func (l *Vector) EMStep(ctx context.Context, dst, theta []float64) (float64, error) {
	theta = l.within(theta)
	copy(dst, theta)
	gate := l.gating(theta)
	want := ofGradient | ofExperts
	fresh := len(gate) > 0 && !(l.reuse && l.held.near(gate, l.n))
	if fresh {
		want |= ofGates
	}
	s, err := l.at(ctx, theta, want)
	if err != nil {
		return math.NaN(), err
	}
	if fresh {
		l.held.take(gate, func(h *mat.SymDense) {
			s.gates.hessian(h)
			l.penaliseHessian(h, 1, l.atGate)
		})
	}
	for i := range l.k {
		at := l.regressor(i * l.m)
		s.experts.step(dst[at:at+l.m*l.da], i, l.factors[min(i, l.levels-1)], s.gradient)
	}
	l.held.step(l.gating(dst), l.penalised(s.gradient.ofGate(), theta))
	l.Project(dst)
	for level := range l.levels {
		at := l.noiseAt(level, 0)
		s.gradient.stepNoise(dst[at:at+l.own], level, l.factors[level])
	}
	return l.objective(s.loglik, theta), nil
}

// AtBound says whether a gate of p is at its bound, which may then cost likelihood.
func (l *Vector) AtBound(p *model.VectorParams) bool { return l.atBound(l.Theta(p)) }

// Loosened returns the likelihood of the same rows whose gates have so many times as large a bound,
// and no ridge.
func (l *Vector) Loosened(times float64) *Vector {
	inner, outer := *l.layout, *l.vectorLayout
	inner.gateBound = l.on(&inner, times)
	outer.layout = &inner
	return &Vector{
		vectorPasses: newVectorPasses(&outer, l.rows, l.act, l.vectorPasses.workers),
		ridges:       ridges{of: &inner, n: l.n},
		base:         l.base.Clone(), cur: l.cur.Clone(), unread: l.unread,
	}
}
