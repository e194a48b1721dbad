package criterion

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
)

// Measure measures a fit, which came about as it says, for the table of all.
func Measure(ctx context.Context, p *problem.Problem, m *fitted.Model,
	as fitted.Candidate) (fitted.Candidate, error) {
	e, err := entropy(ctx, p, m)
	as.K, as.LogLikelihood, as.AIC, as.BIC = m.K, m.Fit.LogLikelihood, m.Fit.AIC, m.Fit.BIC
	as.ICL, as.Converged, as.Begun = m.Fit.BIC+2*e, m.Fit.Converged, m.Fit.Begun
	return as, err
}

// entropy is that of the posteriors of m, −Σ_rows w·Σ_i r_i·log r_i.
func entropy(ctx context.Context, p *problem.Problem, m *fitted.Model) (float64, error) {
	if p.Grouped() {
		return groupEntropy(ctx, p, m)
	}
	predictor := predict.NewPredictor(p.Units.Into(m.Params()), p.G, p.Schema.Name)
	sum := 0.0
	err := model.InOrder(ctx, p.Given, func(b *model.Block) error {
		prediction, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		for at, r := range prediction.Posterior {
			if r <= 0 {
				continue
			}
			sum += -r * math.Log(r) * b.Weight(at%b.N)
		}
		return nil
	})
	return sum, err
}

// groupEntropy is that of the posteriors of the groups under m, −Σ_g w_g·Σ_i r_gi·log r_gi.
func groupEntropy(ctx context.Context, p *problem.Problem, m *fitted.Model) (float64, error) {
	at := p.Units.Into(m.Params())
	of, err := loss.NewLikelihood(p.Given, p.G, at, p.Shape.Estimated(), p.Threads).OfGroups(ctx, at)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i, r := range of.Posteriors {
		if r > 0 {
			sum -= of.Weight[i/at.K] * r * math.Log(r)
		}
	}
	return sum, nil
}
