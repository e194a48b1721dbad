package minibatch

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Gate is L_log (002 Eq. 9) on any rows: the likelihood of the gating W, with
// the regressors and the noise of the parameters it was made of. Its argument
// holds the (k−1)×d matrix W in rows. Unlike [loss.Log] it keeps nothing of the rows,
// which suits mini-batches. It is not safe for concurrent use.
type Gate struct {
	act model.Activation
	p   *model.Params

	post *mixture.Posterior
	res  []float64 // k×BlockRows
	w    []float64
}

// NewGate returns L_log with the regressors and the noise of p.
func NewGate(act model.Activation, p *model.Params) *Gate {
	return &Gate{
		act: act, p: p.Clone(), post: mixture.NewPosterior(mixture.Mixture{}, p.K),
		res: make([]float64, p.K*model.BlockRows), w: make([]float64, model.BlockRows),
	}
}

// Dim returns (k−1)·d.
func (l *Gate) Dim() int { return l.p.Gates() * l.p.D }

// GradOn writes ∇L_log = −mean[(r_i − p_i)·x] over the rows to dst and
// returns L_log but for its constant log σ_1√(2π).
func (l *Gate) GradOn(ctx context.Context, dst, w []float64, rows model.Rows) (float64, error) {
	k, d := l.p.K, l.p.D
	copy(l.p.Gating, w)
	clear(dst)
	value, unit := 0.0, math.Log(l.p.SigmaOf(0))
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		n := b.N
		res, wt := l.res[:k*n], l.w[:n]
		l.p.Predictors(res, b)
		if err := l.act.Eval(ctx, res, res); err != nil {
			return err
		}
		for i := range k {
			floats.SubTo(res[i*n:(i+1)*n], b.Y, res[i*n:(i+1)*n])
		}
		l.post.Given(l.p, b)
		l.post.Observe(res, unit)
		value += floats.Sum(l.post.LogPrior)
		value -= floats.Sum(l.post.LogJoint)
		for j := range l.p.Gates() {
			l.post.GateScore(wt, j)
			addColumns(dst[j*d:(j+1)*d], wt, b)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n, _ := rows.Dims()
	floats.Scale(-1/float64(n), dst)
	return value / float64(n), nil
}
