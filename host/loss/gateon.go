package loss

import (
	"context"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
)

// GateOn is L_log (002 Eq. 9) on any rows: the likelihood of the gating W, with
// the regressors and the noise of the parameters it was made of. Its argument
// holds the (k−1)×d matrix W in rows. Unlike [Log] it keeps nothing of the rows,
// which suits mini-batches. It is not safe for concurrent use.
type GateOn struct {
	act model.Activation
	p   *model.Params

	prior, post, z []float64
	lse, w         []float64
}

// NewGateOn returns L_log with the regressors and the noise of p.
func NewGateOn(act model.Activation, p *model.Params) *GateOn {
	kn := func() []float64 { return make([]float64, p.K*model.BlockRows) }
	n := func() []float64 { return make([]float64, model.BlockRows) }
	return &GateOn{act: act, p: p.Clone(), prior: kn(), post: kn(), z: kn(), lse: n(), w: n()}
}

// Dim returns (k−1)·d.
func (l *GateOn) Dim() int { return (l.p.K - 1) * l.p.D }

// GradOn writes ∇L_log = −mean[(r_i − p_i)·x] over the rows to dst and
// returns L_log but for its constant log σ√(2π).
func (l *GateOn) GradOn(ctx context.Context, dst, w []float64, rows model.Rows) (float64, error) {
	k, d := l.p.K, l.p.D
	copy(l.p.Gating, w)
	clear(dst)
	value := 0.0
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		n := b.N
		prior, post, z := l.prior[:k*n], l.post[:k*n], l.z[:k*n]
		l.p.Predictors(z, b)
		if err := l.act.Eval(ctx, z, z); err != nil {
			return err
		}
		l.p.GateLogits(prior, b)
		for i := range k {
			inv := 1 / l.p.SigmaOf(i)
			for r, y := range b.Y {
				e := (y - z[i*n+r]) * inv
				post[i*n+r] = prior[i*n+r] - 0.5*e*e
			}
		}
		model.Softmax(prior, l.lse[:n], prior, n)
		value += floats.Sum(l.lse[:n])
		model.Softmax(post, l.lse[:n], post, n)
		value -= floats.Sum(l.lse[:n])
		for j := range k - 1 {
			floats.SubTo(l.w[:n], prior[j*n:(j+1)*n], post[j*n:(j+1)*n])
			addColumns(dst[j*d:(j+1)*d], l.w[:n], b)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n, _ := rows.Dims()
	floats.Scale(1/float64(n), dst)
	return value / float64(n), nil
}
