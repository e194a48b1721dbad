package minibatch

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// L2 is the mean squared error of the mixture's mean (002 §3.1),
//
//	ℓ2(A, W) = mean (y − ŷ(x))²,  ŷ(x) = Σ_i p_i(x)·g(⟨a_i,x⟩)
//
// the loss that the papers compare with. Its argument θ holds the k×d
// regressors in rows, then the (k−1)×d gating. It keeps scratch space: it is
// not safe for concurrent use.
type L2 struct {
	act model.Activation
	p   *model.Params

	prior, z, g, dg []float64 // k×BlockRows
	err, weights    []float64
}

// NewL2 returns the loss of k experts over d features.
func NewL2(k, d int, act model.Activation) *L2 {
	kn := func() []float64 { return make([]float64, k*model.BlockRows) }
	n := func() []float64 { return make([]float64, model.BlockRows) }
	return &L2{act: act, p: model.NewParams(k, d), prior: kn(), z: kn(), g: kn(), dg: kn(), err: n(), weights: n()}
}

// Dim returns (2k−1)·d.
func (l *L2) Dim() int { return (l.p.K + l.p.Gates()) * l.p.D }

// Params returns the parameters at θ with σ the given noise level.
func (l *L2) Params(theta []float64, sigma float64) *model.Params {
	p := model.NewParams(l.p.K, l.p.D)
	copy(p.Regressors, theta)
	copy(p.Gating, theta[p.K*p.D:])
	p.Sigma[0] = sigma
	return p
}

// GradOn writes ∇ℓ2 over the rows to dst and returns ℓ2. With
// e = ŷ − y:
//
//	∂/∂a_i = 2·mean e·p_i·g′_i·x    ∂/∂w_j = 2·mean e·p_j·(g_j − ŷ)·x
func (l *L2) GradOn(ctx context.Context, dst, theta []float64, rows model.Rows) (float64, error) {
	k, d := l.p.K, l.p.D
	copy(l.p.Regressors, theta)
	copy(l.p.Gating, theta[k*d:])
	clear(dst)
	value := 0.0
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		n := b.N
		prior, z, g, dg := l.prior[:k*n], l.z[:k*n], l.g[:k*n], l.dg[:k*n]
		e, w := l.err[:n], l.weights[:n]
		mixture.Mixture{}.Prior(prior, l.p, b)
		l.p.Predictors(z, b)
		if err := l.act.Eval(ctx, g, z); err != nil {
			return err
		}
		if err := l.act.Deriv(ctx, dg, z); err != nil {
			return err
		}
		clear(e) // ŷ
		for i := range k {
			for r, p := range prior[i*n : (i+1)*n] {
				e[r] += p * g[i*n+r]
			}
		}
		for j := range l.p.Gates() { // g_j − ŷ, kept in z
			floats.SubTo(z[j*n:(j+1)*n], g[j*n:(j+1)*n], e)
		}
		floats.Sub(e, b.Y)
		value += floats.Dot(e, e)
		for i := range k {
			for r, p := range prior[i*n : (i+1)*n] {
				w[r] = e[r] * p * dg[i*n+r]
			}
			addColumns(dst[i*d:(i+1)*d], w, b)
		}
		for j := range l.p.Gates() {
			for r, p := range prior[j*n : (j+1)*n] {
				w[r] = e[r] * p * z[j*n+r]
			}
			addColumns(dst[(k+j)*d:(k+j+1)*d], w, b)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n, _ := rows.Dims()
	floats.Scale(2/float64(n), dst)
	return value / float64(n), nil
}

// addColumns adds Σ_rows w·x to dst.
func addColumns(dst, w []float64, b *model.Block) {
	for j := range dst {
		dst[j] += kernel.Dot(w, b.Col(j))
	}
}
