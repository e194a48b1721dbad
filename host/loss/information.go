package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
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
	l.penaliseGradient(grad, theta, 1/l.n)
	l.holdGradient(grad, theta)
	s.information.write(h, 1/l.n)
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
