package infer

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// Effective returns tr(H⁻¹M) at a maximum p of l, with H the observed information, the penalties of l in it, and M the
// sum of the rows' score outer products: by how much the log-likelihood of as many other rows is lower in the mean
// (Takeuchi 1976). Where the model is right and there is no ridge it is the number of parameters. Errors are those of
// [Estimate].
func Effective(ctx context.Context, l *loss.Likelihood, p *model.Params, kinks []float64) (float64, error) {
	n := l.Dim()
	if n > MaxParameters || !l.Dense() {
		return 0, &NoneError{Reason: "the parameters are too many to invert their information"}
	}
	h, m, score := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil), make([]float64, n)
	if err := l.Information(ctx, h, score, p, kinks); err != nil {
		return 0, err
	}
	l.AddPenalty(h, score, l.Theta(p))
	v, err := inverseAt(h, score, l.Rows(), kinks)
	if err != nil {
		return 0, err
	}
	if err := l.ScoreProducts(ctx, m, p); err != nil {
		return 0, err
	}
	trace, zero := 0.0, l.AtZero(l.Theta(p))
	for i := range n {
		for j := range n {
			if zero[i] || zero[j] { // a lasso holds it
				continue
			}
			trace += v.At(i, j) * m.At(i, j)
		}
	}
	return trace, nil
}
