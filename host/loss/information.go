package loss

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Information writes the observed information at p to h and the score to
// score: minus the second and the first derivatives of the log-likelihood
// Σ_rows log p(y|x) by θ,
//
//	h = −∂²/∂θ∂θᵀ Σ_rows log p(y|x),   score = ∂/∂θ Σ_rows log p(y|x)
//
// Unlike [Likelihood.Hessian] it has the terms in g″, −r_i·e_i·g″_i/σ_i in the
// notation of [mixture.Posterior], with g″ from central differences of g′. kinks are
// those of g, ascending; differences do not reach across them, and where g is
// piecewise linear there is no g″. The information is that of a point at which
// no row sits on a kink. A noise level at its floor has a score as any other.
func (l *surface[P]) Information(ctx context.Context, h *mat.SymDense, score []float64, p P,
	kinks []float64) error {
	l.kinks = kinks
	s, err := l.at(ctx, l.Theta(p), ofGradient|ofInformation|withBend)
	if err != nil {
		return err
	}
	l.pass.writeScore(score, -1/l.n, s, l.cur)
	floats.Scale(-l.n, score)
	s.information.write(h, 1/l.n)
	l.missing(h, 1/l.n)
	h.ScaleSym(l.n, h)
	return nil
}

// ScoreProducts writes Σ_rows s·sᵀ at p to m, with s = ∂/∂θ log p(y|x) the
// score of a row, times its weight where it has one: the middle of the sandwich
// covariance. A row is one observation, however much it weighs; of rows in groups a group is one.
func (l *surface[P]) ScoreProducts(ctx context.Context, m *mat.SymDense, p P) error {
	if l.groups != nil {
		return l.groupProducts(ctx, m, p)
	}
	s, err := l.at(ctx, l.Theta(p), ofProducts)
	if err != nil {
		return err
	}
	s.products.write(m)
	return nil
}

// groupProducts is ScoreProducts of rows in groups: Σ_g S_g·S_gᵀ, S_g the sum of the scores of the rows of a group.
func (l *surface[P]) groupProducts(ctx context.Context, m *mat.SymDense, p P) error {
	n, count, block := len(l.parameters), len(l.groups.weight), 0
	sums := make([]float64, count*n) // of the groups' scores, rows of n
	if err := l.EachScore(ctx, p, func(scores [][]float64, _ *model.Block) {
		for t, g := range l.groups.of[block] {
			for i, s := range scores {
				sums[g*n+i] += s[t]
			}
		}
		block++
	}); err != nil {
		return err
	}
	m.SymOuterK(1, mat.NewDense(count, n, sums).T())
	return nil
}

// Visitor is given blocks of rows: their places, of which the first row of block i is row i·[model.BlockRows] of the
// table, what the mixture says of them, and g″ at their experts' predictors, K rows of N values, nil where the
// regressors do not vary.
type Visitor func(block int, b *model.Block, seen *mixture.Posterior, bend []float64) error

// EachPosterior has all blocks visited, in any order: what the mixture with parameters p says of them has been
// differentiated by the predictors and by log ψ, and is valid until the visitor returns. There are several at a time,
// each with a visitor of its own, which visitor makes. kinks are those of g, as in [Likelihood.Information]. It panics
// where rows are in groups.
func (l *Likelihood) EachPosterior(ctx context.Context, p *model.Params, kinks []float64,
	visitor func() Visitor) error {
	if l.groups != nil {
		panic("loss: EachPosterior of rows in groups")
	}
	if l.unread != nil {
		return l.unread
	}
	l.kinks = kinks
	l.unpack(l.here, l.Theta(p))
	visitors := make([]Visitor, l.passes.workers)
	return model.Each(ctx, l.rows, len(visitors), func(worker, _, block int, b *model.Block) error {
		w := l.workOf(worker)
		if err := l.observe(ctx, w, l.cur, block, b); err != nil {
			return err
		}
		if err := l.slopes(ctx, w, l.cur, b, withBend); err != nil {
			return err
		}
		w.Differentiate(w.dg)
		w.DifferentiateNoise()
		if visitors[worker] == nil {
			visitors[worker] = visitor()
		}
		return visitors[worker](block, b, w.Posterior, w.bend)
	})
}

// EachScore calls fn with the scores s_t = ∂/∂θ log p(y_t|x_t) of every block's rows at p, times the rows' weights, the
// blocks in order: scores[i][t] is by parameter i of θ, of [Likelihood.Parameters], at row t of the block, valid until
// fn returns. Where rows are in groups those of a group add up to the group's.
func (l *surface[P]) EachScore(ctx context.Context, p P, fn func(scores [][]float64, b *model.Block)) error {
	if l.unread != nil {
		return l.unread
	}
	l.unpack(l.here, l.Theta(p))
	at, err := l.pass.ready(ctx, l.cur)
	if err != nil {
		return err
	}
	w, block := l.newWork(), 0
	return model.InOrder(ctx, l.rows, func(b *model.Block) error {
		if err := l.by.observe(ctx, w, at, block, b); err != nil {
			return err
		}
		block++
		if err := l.by.slopes(ctx, w, at, b, ofProducts); err != nil {
			return err
		}
		fn(w.scoresOf(l.layout), b)
		return nil
	})
}
