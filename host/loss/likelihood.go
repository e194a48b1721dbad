// Package loss holds the log-likelihood of a mixture, as a value to be minimised with its
// gradient, EM step and Hessian: over all parameters, over the gate alone (L_log, 002 Eq. 9),
// and of several targets under one gate.
package loss

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Likelihood is the mean negative log-likelihood of a mixture of experts,
//
//	L(A, W, σ) = −(1/n) Σ_rows log Σ_i p_i(x)·N(y | g(⟨a_i,x⟩+b_i), σ_i²)
//
// all constants included (002 Eq. 9 where only the gating varies, see [Log]).
// Where observations have weights each row's term is multiplied by its weight
// and n is their sum.
// Its argument θ lists the free parameters: for every expert a_i (and b_i), for
// every gate but the last w_i (and v_i), then log σ, or log ψ of densities with other parameters of their own. Where
// the parameters have an output of their own the means are c_i + s_i·g, and θ ends with all c, then all s.
//
// Besides value and gradient it offers an EM step and the Hessian. A
// Likelihood keeps scratch space: it is not safe for concurrent use.
type Likelihood struct {
	surface[*model.Params]
	steps *gateSteps // see Stepped; nil where there never was one
}

// NewLikelihood returns the likelihood of rows under mixtures of the shape of
// base, whose parameters stay as they are where free does not name them. The
// number of workers never changes the result; 0 means one per processor. It
// panics if the rows have another number of features than base. Rows that cannot
// be read are an error of the first evaluation.
func NewLikelihood(rows model.Rows, act model.Activation, base *model.Params, free Free, workers int) *Likelihood {
	return NewLikelihoodOf(mixture.Mixture{}, rows, act, base, free, workers)
}

// NewLikelihoodOf is [NewLikelihood] under another gate or density than the parameters name. Where the gate has
// no second derivatives ([mixture.Mixture.Curved]) the likelihood is not Dense: it
// has a value and a gradient, and its other methods panic. It panics where the means are c + s·g
// and the density is another than [mixture.Gaussian], and where base has other own parameters than the density.
func NewLikelihoodOf(mix mixture.Mixture, rows model.Rows, act model.Activation, base *model.Params, free Free,
	workers int) *Likelihood {
	if _, d := rows.Dims(); d != base.D {
		panic(fmt.Sprintf("loss: %d features, parameters for %d", d, base.D))
	}
	mix = mix.Of(base)
	if base.HasOutput() && !mixture.Normal(mix.Density) {
		panic("loss: means c + s·g of the density " + mix.Density.Name())
	}
	if own := len(mix.Density.Own()); own != min(1, len(base.Sigma))+len(base.Own) {
		panic(fmt.Sprintf("loss: parameters of another density than %s, which has %d of its own", mix.Density.Name(),
			own))
	}
	t, err := model.TotalsOf(rows)
	floor := leastScale
	if mix.Density.Domain().Scale {
		if floor = sigmaFloor(t, free.Core, len(base.Sigma)); free.LeastSigma > 0 {
			floor = free.LeastSigma
		}
	}
	o := newLayout(base, free, spans(mix.Density.Own(), floor))
	o.boundBy(t.Largest, 1)
	return newLikelihood(newPasses(o, rows, act, mix, workers), base, t.Weight, err)
}

func newLikelihood(s *passes, base *model.Params, weight float64, unread error) *Likelihood {
	return &Likelihood{surface: newSurface(s, s, in, base, weight, unread)}
}

// Log is L_log of 002 Eq. 9: the likelihood as a function of the gating alone,
// with the regressors and the noise of p.
func Log(rows model.Rows, act model.Activation, p *model.Params, workers int) *Likelihood {
	return NewLikelihood(rows, act, p, Free{Gating: true}, workers)
}

// WithGate returns the likelihood of the same rows with the gate of p, which stays
// as it is but for its bound, and no ridge.
func (l *Likelihood) WithGate(p *model.Params) *Likelihood {
	p = l.bounded(p)
	free := l.free
	free.Gating = false
	o := newLayout(p, free, l.ends)
	o.boundBy(l.largest, l.loosened)
	return newLikelihood(newPasses(o, l.rows, l.act, l.mix, l.passes.workers), p, l.n, l.unread)
}

// Part returns the likelihood of about n of the rows, see [model.Part], without a ridge; l where they are all, or in
// groups.
func (l *Likelihood) Part(n int) *Likelihood {
	rows := model.Part(l.rows, n)
	if rows == l.rows || l.groups != nil {
		return l
	}
	t, err := model.TotalsOf(rows)
	if l.unread != nil {
		err = l.unread
	}
	out := l.over(l.within(t.Largest, 1), rows, t.Weight)
	out.unread = err
	return out
}

// over returns the likelihood of rows of that weight in another layout, without a ridge.
func (l *Likelihood) over(o *layout, rows model.Rows, weight float64) *Likelihood {
	return newLikelihood(newPasses(o, rows, l.act, l.mix, l.passes.workers), l.base, weight, l.unread)
}

// Without returns the likelihood of all rows but one, of the same parameters under the same penalties.
func (l *Likelihood) Without(row int) (*Likelihood, error) {
	rows, weight, err := model.Without(l.rows, row)
	if err != nil {
		return nil, err
	}
	out := l.over(l.within(l.largest, l.loosened), rows, l.n-weight)
	out.penalty = l.penalty
	return out, nil
}

// AtFloor says whether the shared noise level of p is the smallest that a fit
// may reach: the experts then fit their rows to the last digits.
func (l *Likelihood) AtFloor(p *model.Params) bool {
	const rounding = 1e-9 // of exp and log
	return l.levels == 1 && l.free.LeastSigma == 0 && math.Log(p.Sigma[0]) <= l.ends[0].least+rounding
}

// AtEnd says whether a parameter is one of the density's own, but normal noise's without a floor that was given, and
// stands in p at an end of what it may be.
func (l *Likelihood) AtEnd(p *model.Params, q Parameter) bool {
	const rounding = 1e-9 // of exp and log
	if q.Part != model.Noise || l.normal && l.free.LeastSigma == 0 {
		return false
	}
	v := math.Log(*q.In(p))
	least, most := l.Ends(q)
	return v <= least+rounding || v >= most-rounding
}

// Ends returns what the logarithm of one of the density's own parameters may be.
func (l *Likelihood) Ends(q Parameter) (least, most float64) {
	return l.ends[q.Own].least, l.ends[q.Own].most
}

// Activation returns g.
func (l *Likelihood) Activation() model.Activation { return l.act }

// InGroups says whether rows are in groups, each of which has one expert.
func (l *Likelihood) InGroups() bool { return l.groups != nil }

// OfGroups returns what the mixture with parameters p says of the groups; nil where rows are in none.
func (l *Likelihood) OfGroups(ctx context.Context, p *model.Params) (*GroupValues, error) {
	if l.groups == nil {
		return nil, nil
	}
	if _, err := l.under(ctx, p, 0); err != nil {
		return nil, err
	}
	return &GroupValues{slices.Clone(l.groups.post), slices.Clone(l.groups.density), l.groups.weight}, nil
}

// Proportions returns the mean gate probabilities E[p_i(x)] over the rows, or the groups: a pass over the features.
func (l *Likelihood) Proportions(ctx context.Context, p *model.Params) ([]float64, error) {
	if l.unread != nil {
		return nil, l.unread
	}
	room := make([]*mixture.Posterior, l.passes.workers)
	chunks := make([][]float64, len(l.chunks))
	err := model.Each(ctx, l.rows, len(room), func(worker, chunk, block int, b *model.Block) error {
		if room[worker] == nil {
			room[worker] = mixture.NewPosterior(l.mix, l.k)
		}
		if chunks[chunk] == nil {
			chunks[chunk] = make([]float64, l.k)
		}
		given := room[worker]
		given.Given(p, b)
		for i := range l.k {
			prior := given.PriorOf(i)
			if l.groups != nil {
				prior = given.PostOf(i) // room
				kernel.Mul(prior, given.PriorOf(i), l.groups.speaks[block])
			}
			chunks[chunk][i] += b.Sum(prior)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]float64, l.k)
	for _, c := range chunks {
		floats.Add(out, c)
	}
	n := l.n
	if l.groups != nil {
		n = floats.Sum(l.groups.weight)
	}
	numeric.Shares(out, n)
	return out, nil
}

// Structure sums over the data at p.
func (l *Likelihood) Structure(ctx context.Context, p *model.Params) (*Structure, error) {
	s, err := l.under(ctx, p, ofGradient|ofStructure)
	if err != nil {
		return nil, err
	}
	return s.structure.read(s.gradient), nil
}

// EMStep writes the next EM iterate after θ to dst and returns L(θ). The
// M-step is weighted least squares for the regressors (one Gauss–Newton step
// where g is not linear), the weighted residual variance for σ, which shrinks by
// at most half a step, and one Newton step of the weighted multinomial logistic
// regression for the gating, solved by products where the likelihood is [Likelihood.Stepped]. After
// [Likelihood.PoolCurvature] regressors are stepped by that. dst may not be θ.
func (l *Likelihood) EMStep(ctx context.Context, dst, theta []float64) (float64, error) {
	l.noNorms()
	theta = l.ties.Projected(l.bound.Projected(theta))
	copy(dst, theta)
	s, err := l.expectation(ctx, theta, l.Stepped())
	if err != nil {
		return math.NaN(), err
	}
	if l.pooled != nil {
		l.pooled.step(dst, s)
	} else if l.outputs > 0 {
		s.experts.stepOutputs(dst, l.cur, s.gradient)
	} else if l.ties != nil {
		s.experts.stepTied(dst, s.gradient, l.cur, l.mix.Density)
	} else if l.free.Regressors {
		for i := range l.k {
			at := l.regressor(i)
			ridge := l.penalty.Experts * mixture.Unit(l.mix.Density, l.cur.SigmaOf(i))
			s.experts.step(dst[at:at+l.da], i, s.gradient, ridge)
		}
	}
	if gate, score := l.gating(dst), l.penalised(s.gradient.ofGate(), theta); l.Stepped() {
		if err := l.stepGate(ctx, gate, score); err != nil {
			return math.NaN(), err
		}
	} else {
		l.held.step(gate, score)
	}
	l.Project(dst)
	if l.free.Sigma {
		s.gradient.stepNoise(dst, l.cur, l.mix.Density)
	}
	return l.objective(s.loglik, theta), nil
}

// PoolCurvature has EM steps take the curvatures of the experts' M-steps from the means of their rows
// (pooledCurvature). There are to be no ties, no outputs and no penalty on the experts.
func (l *Likelihood) PoolCurvature(ctx context.Context) error {
	system, sum, err := squaresOf(ctx, l.passes, l.expert)
	cov := mat.NewSymDense(l.da, nil)
	cov.ScaleSym(1/l.n, system.H)
	cov.SymRankOne(cov, -1/(l.n*l.n), mat.NewVecDense(l.da, sum))
	l.pooled = &pooledCurvature{cov, system}
	return err
}

// bounded returns p with its gates within the bound of these rows.
func (l *Likelihood) bounded(p *model.Params) *model.Params {
	o := newLayout(p, Free{Gating: true, GateColumns: l.free.GateColumns}, nil)
	o.boundBy(l.largest, l.loosened)
	theta, q := make([]float64, len(o.parameters)), p.Clone()
	o.pack(theta, in(p))
	o.unpack(in(q), theta)
	return q
}

// AtBound says whether a gate of p is at its bound, which may then cost likelihood.
func (l *Likelihood) AtBound(p *model.Params) bool {
	if p.Gates() == 0 {
		return false
	}
	o := newLayout(p, Free{Gating: true, GateColumns: l.free.GateColumns}, nil)
	o.boundBy(l.largest, l.loosened)
	theta := make([]float64, len(o.parameters))
	o.pack(theta, in(p))
	return o.bound.At(theta)
}

// Hold takes what points beyond the bounds of the gates out of the gradient and the Hessian at θ of −L, of sums over
// the rows without any bound, in place: [Likelihood.Project] holds θ itself.
func (l *Likelihood) Hold(grad []float64, h *mat.SymDense, theta []float64) {
	l.bound.Gradient(grad, theta)
	l.bound.Hessian(h)
}

// Loosened returns the likelihood of the same rows whose gates have so many times as large a bound,
// and no ridge.
func (l *Likelihood) Loosened(times float64) *Likelihood {
	return l.over(l.within(l.largest, times*l.loosened), l.rows, l.n)
}
