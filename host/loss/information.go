package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ). Terms in
// g″ are left out: at the true parameters their mean is 0, and where g is
// piecewise linear they are 0.
func (l *Likelihood) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.hessian(ctx, h, grad, theta, ofGradient|ofInformation)
}

// Exact is a likelihood whose Hessian has the terms in g″ too, as the observed information
// has ([Likelihood.Information]): where the data say little of a parameter, Newton's method
// without them nears its maximum slowly, or not at all.
type Exact struct{ *Likelihood }

// Exact returns l with its exact Hessian, for a g with these kinks.
func (l *Likelihood) Exact(kinks []float64) Exact {
	l.kinks = kinks
	return Exact{l}
}

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ).
func (l Exact) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.hessian(ctx, h, grad, theta, ofGradient|ofInformation|withBend)
}

func (l *Likelihood) hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64, want quantity) (float64, error) {
	s, err := l.at(ctx, theta, want)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(grad, s)
	l.boundGradient(grad, theta)
	l.penaliseGradient(grad, theta, 1/l.n)
	l.holdGradient(grad, theta)
	s.information.write(h, 1/l.n)
	l.boundHessian(h)
	l.penaliseHessian(h, 1/l.n, 0)
	l.holdHessian(h, grad, theta)
	return l.objective(s.loglik, theta), nil
}

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
func (l *Likelihood) Information(ctx context.Context, h *mat.SymDense, score []float64, p *model.Params, kinks []float64) error {
	l.kinks = kinks
	s, err := l.at(ctx, l.Theta(p), ofGradient|ofInformation|withBend)
	if err != nil {
		return err
	}
	l.gradient(score, s)
	floats.Scale(-l.n, score)
	s.information.write(h, 1/l.n)
	h.ScaleSym(l.n, h)
	return nil
}

// ScoreProducts writes Σ_rows s·sᵀ at p to m, with s = ∂/∂θ log p(y|x) the
// score of a row, times its weight where it has one: the middle of the sandwich
// covariance. A row is one observation, however much it weighs.
func (l *Likelihood) ScoreProducts(ctx context.Context, m *mat.SymDense, p *model.Params) error {
	s, err := l.at(ctx, l.Theta(p), ofProducts)
	if err != nil {
		return err
	}
	s.products.write(m)
	return nil
}

// LongRunProducts writes to m what takes the place of [Likelihood.ScoreProducts] where the
// rows follow each other in time: with s_t the score of row t, times its weight, and
// Γ_l = Σ_t s_t·s_{t−l}ᵀ,
//
//	M = Σ_{|l|<b} (1 − |l|/b)·Γ_l
//
// with the Bartlett kernel of bandwidth b, at least 1 (Newey & West 1987). It is never
// indefinite: it is (1/b)·Σ_t W_t·W_tᵀ with W_t = s_t + … + s_{t−b+1}, which is how it is
// computed. With b = 1 it is Σ_t s_t·s_tᵀ.
func (l *Likelihood) LongRunProducts(ctx context.Context, m *mat.SymDense, p *model.Params, bandwidth int) error {
	if bandwidth < 1 {
		panic("loss: bandwidth below 1")
	}
	out := newProductSums(l.layout)
	n := len(l.parameters)
	window := columnsOf(n, model.BlockRows)
	past := columnsOf(n, bandwidth) // the last scores of every parameter, in a ring
	sum, at := make([]float64, n), 0
	add := func(rows int, score func(i, t int) float64) {
		for i := range n {
			ring, w, here := past[i], sum[i], at
			for t := range rows {
				s := score(i, t)
				w += s - ring[here]
				ring[here] = s
				window[i][t] = w
				if here++; here == bandwidth {
					here = 0
				}
			}
			sum[i] = w
		}
		at = (at + rows) % bandwidth
		columns := make([][]float64, n)
		for i := range columns {
			columns[i] = window[i][:rows]
		}
		kernel.AddGram(out.packed, columns, columns)
	}
	if err := l.eachScore(ctx, p, func(scores [][]float64) {
		add(len(scores[0]), func(i, t int) float64 { return scores[i][t] })
	}); err != nil {
		return err
	}
	for left := bandwidth - 1; left > 0; left -= model.BlockRows { // the windows that end behind the rows
		add(min(left, model.BlockRows), func(int, int) float64 { return 0 })
	}
	floats.Scale(1/float64(bandwidth), out.packed)
	out.write(m)
	return nil
}

// mostCorrelation bounds the autocorrelations from which a bandwidth is told.
const mostCorrelation = 0.97

// Bandwidth returns that of the Bartlett kernel at which [Likelihood.LongRunProducts] has the least
// mean squared error where every parameter's scores are an autoregression of order 1
// (Andrews 1991, Eq. 6.2 and 6.4):
//
//	b = 1.1447·(α·n)^(1/3),   α = Σ_i 4ρ_i²/((1−ρ_i)⁶(1+ρ_i)²) / Σ_i 1/(1−ρ_i)⁴
//
// with ρ_i the scores' first autocorrelation at p, at most 0.97 in size. His weights
// of the parameters are here the inverse squares of the innovations' variances, so that
// units do not matter. It is rounded up, and between 1 and the number of rows.
func (l *Likelihood) Bandwidth(ctx context.Context, p *model.Params) (int, error) {
	n := len(l.parameters)
	squares, products, last := make([]float64, n), make([]float64, n), make([]float64, n)
	rows := 0
	err := l.eachScore(ctx, p, func(scores [][]float64) {
		for i, s := range scores {
			squares[i] += kernel.Dot(s, s)
			products[i] += last[i]*s[0] + kernel.Dot(s[1:], s[:len(s)-1])
			last[i] = s[len(s)-1]
		}
		rows += len(scores[0])
	})
	if err != nil {
		return 0, err
	}
	above, below := 0.0, 0.0
	for i := range n {
		if squares[i] == 0 {
			continue
		}
		r := max(-mostCorrelation, min(products[i]/squares[i], mostCorrelation))
		above += 4 * r * r / (math.Pow(1-r, 6) * (1 + r) * (1 + r))
		below += math.Pow(1-r, -4)
	}
	if below == 0 {
		return 1, nil
	}
	b := 1.1447 * math.Cbrt(above/below*float64(rows))
	return min(max(int(math.Ceil(b)), 1), rows), nil
}

// eachScore calls fn with the scores of every block's rows at p, in order: N values for
// every parameter, times the rows' weights, valid until fn returns.
func (l *Likelihood) eachScore(ctx context.Context, p *model.Params, fn func(scores [][]float64)) error {
	if l.unread != nil {
		return l.unread
	}
	l.unpack(l.cur, l.Theta(p))
	w, block := l.newWork(), 0
	return model.InOrder(ctx, l.rows, func(b *model.Block) error {
		if err := l.observe(ctx, w, l.cur, block, b); err != nil {
			return err
		}
		block++
		if err := l.slopes(ctx, w, l.cur, b, ofProducts); err != nil {
			return err
		}
		fn(w.scoresOf(l.parameters))
		return nil
	})
}
