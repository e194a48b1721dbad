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
	d := l.p.D
	copy(l.p.Gating, w)
	clear(dst)
	value, unit := 0.0, math.Log(l.p.SigmaOf(0))
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		wt := l.w[:b.N]
		res, err := l.p.Residuals(ctx, l.act, l.res, b)
		if err != nil {
			return err
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
