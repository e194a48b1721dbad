package searchtest

import (
	"context"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
)

// ExactGap is what a fit of a problem's rows, with its gate penalised by lambda, gains on them over fits that leave
// out each, by as many fits as there are rows: of the others from its parameters, each with its row at weight 0; and
// how many of these fits did not converge.
func ExactGap(ctx context.Context, p *problem.Problem, fit *model.Params, lambda float64) (gap float64, lost int,
	err error) {
	data, err := model.InMemory(ctx, p.Given, 1)
	if err != nil {
		return 0, 0, err
	}
	at := p.Shape.Adopt(p.Units.Into(fit))
	weighed := func(weight func(row int) float64) *loss.Likelihood {
		out := &model.Data{N: data.N, D: data.D}
		for i, b := range data.Blocks {
			b.Role[model.Weights] = make([]float64, b.N)
			for r := range b.N {
				b.Role[model.Weights][r] = weight(i*model.BlockRows+r) * data.Blocks[i].Weight(r)
			}
			out.Blocks = append(out.Blocks, b)
		}
		l := loss.NewLikelihood(out, p.G, at, p.Shape.Estimated(), 1)
		if lambda > 0 {
			l.PenaliseGate(2 * lambda)
		}
		return l
	}
	for t := range data.N {
		is := func(row int) float64 { return map[bool]float64{true: 1}[row == t] }
		others, one := weighed(func(row int) float64 { return 1 - is(row) }), weighed(is)
		run, err := optim.Newton(ctx, others.Exact(p.Kinks()), others.Theta(at), optim.Settings{Iterations: 500})
		if err != nil {
			return 0, 0, err
		}
		if run.Status != optim.Converged {
			lost++
		}
		with, err := one.LogLikelihood(ctx, at)
		if err != nil {
			return 0, 0, err
		}
		without, err := one.LogLikelihood(ctx, others.Params(run.X))
		if err != nil {
			return 0, 0, err
		}
		gap += with - without
	}
	return gap, lost, nil
}
