package loss

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
)

// Vector is the mean negative log-likelihood of a mixture whose experts have vector outputs
// under one gate,
//
//	L(θ) = −(1/n) Σ_rows log Σ_i p_i(x)·N(y | μ_i(x), Σ_i),   μ_ic = g(⟨a_ic,x⟩+b_ic)
//
// all constants included (002 Eq. 4 with the gate shared), or with another [joint.Density] in the place of N. For
// M = 1 and normal noise it is [Likelihood].
// θ lists for every expert and each of its coordinates a_ic (and b_ic), then the gate as
// [Likelihood] does, then for every noise log s_1, …, log s_M and [model.VectorNoise.Others]: where normal noise is
// full the u_cb.
//
// A Vector keeps scratch space: it is not safe for concurrent use.
type Vector struct {
	surface[*model.VectorParams]
	several *vectorPasses
}

// NewVector returns the likelihood of rows, whose targets stand in M columns
// ([model.Beside]), under mixtures of the shape of base. Of free the columns count, and whether the gate
// varies: all else does. Workers and errors are as of [NewLikelihood].
func NewVector(rows model.Rows, act model.Activation, base *model.VectorParams, free Free, workers int) *Vector {
	if _, d := rows.Dims(); d != base.D {
		panic(fmt.Sprintf("loss: %d features, parameters for %d", d, base.D))
	}
	t, err := model.TotalsOfEach(rows, base.M)
	o := newVectorLayout(base, free)
	o.boundBy(t[0].Largest, 1)
	for _, of := range t {
		o.ends = append(o.ends, span{math.Log(sigmaFloor(of, 0, o.levels)), mostLog})
	}
	for _, q := range joint.Of(base.Family).Own(base.M) {
		o.ends = append(o.ends, span{q.Least, q.Most})
	}
	for len(o.ends) < o.own { // u may be anything
		o.ends = append(o.ends, span{math.Inf(-1), math.Inf(1)})
	}
	return newVector(newVectorPasses(o, rows, act, workers), base, t[0].Weight, err)
}

func newVector(s *vectorPasses, base *model.VectorParams, weight float64, unread error) *Vector {
	return &Vector{newSurface(s.passes, s, s.in, base, weight, unread), s}
}

// newVectorLayout is the layout of several targets. Of every noise θ has log s_1, …, log s_M, then the u_cb.
func newVectorLayout(p *model.VectorParams, free Free) *layout {
	free = Free{Regressors: true, Gating: free.Gating, Sigma: true, ExpertColumns: free.ExpertColumns,
		GateColumns: free.GateColumns}
	full, joined := p.Noise[0].Lower != nil, [][2]int{}
	for a := range p.M {
		joined = append(joined, [2]int{a, a})
		for b := a + 1; b < p.M && (full || p.Family != ""); b++ {
			joined = append(joined, [2]int{a, b})
		}
	}
	o := newLayoutOf(p.Coordinate(0), free, nil, p.M, joined, p.M+len(p.Noise[0].Others()))
	o.correlated = full
	return o
}

// VectorDim returns the number of parameters of [NewVector] of the shape of p.
func VectorDim(p *model.VectorParams, free Free) int { return len(newVectorLayout(p, free).parameters) }

// EMStep writes the next EM iterate after θ to dst and returns L(θ). The M-step is weighted
// multivariate least squares for the regressors (one Gauss–Newton step where g is not
// linear, in the metric of Σ_i⁻¹), the weighted scatter of the residuals for the noise, whose
// scales shrink by at most half a step, and the step of [Likelihood.EMStep] for the gate. Of another density it is a
// step of Fisher's scoring for the regressors, and one of Newton's method for ψ.
// dst may not be θ.
func (l *Vector) EMStep(ctx context.Context, dst, theta []float64) (float64, error) {
	theta = l.bound.Projected(theta)
	copy(dst, theta)
	s, err := l.expectation(ctx, theta, false)
	if err != nil {
		return math.NaN(), err
	}
	for i := range l.k {
		at := l.regressor(i * l.m)
		s.several.experts.step(dst[at:at+l.m*l.da], i, l.several.noises[min(i, l.levels-1)].Weight, s.several.gradient)
	}
	l.held.step(l.gating(dst), l.penalised(s.several.gradient.ofGate(), theta))
	l.Project(dst)
	for level := range l.levels {
		at := l.noiseAt(level, 0)
		s.several.gradient.stepNoise(dst[at:at+l.own], level, l.several.noises[level])
	}
	return l.objective(s.loglik, theta), nil
}

// AtBound says whether a gate of p is at its bound, which may then cost likelihood.
func (l *Vector) AtBound(p *model.VectorParams) bool { return l.bound.At(l.Theta(p)) }

// Loosened returns the likelihood of the same rows whose gates have so many times as large a bound,
// and no ridge.
func (l *Vector) Loosened(times float64) *Vector {
	return l.over(l.within(l.largest, times*l.loosened), l.rows, l.base, l.n, l.unread)
}

// WithGate is [Likelihood.WithGate].
func (l *Vector) WithGate(p *model.VectorParams) *Vector {
	p, free := l.Params(l.Theta(p)), l.free // with the gate within its bound
	free.Gating = false
	o := newVectorLayout(p, free)
	o.ends = l.ends
	o.boundBy(l.largest, l.loosened)
	return l.over(o, l.rows, p, l.n, l.unread)
}

// Part is [Likelihood.Part].
func (l *Vector) Part(n int) *Vector {
	rows := model.Part(l.rows, n)
	if rows == l.rows {
		return l
	}
	t, err := model.TotalsOfEach(rows, l.m)
	return l.over(l.within(t[0].Largest, 1), rows, l.base, t[0].Weight, cmp.Or(l.unread, err))
}

// over returns the likelihood of rows of that weight in another layout, without a ridge.
func (l *Vector) over(o *layout, rows model.Rows, base *model.VectorParams, weight float64, unread error) *Vector {
	return newVector(newVectorPasses(o, rows, l.act, l.passes.workers), base, weight, unread)
}
