package host

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/sdk"
)

// FitRange fits from, from+1, …, to experts, reading the data once, and returns
// the fit of the least BIC among those that converged, with Fit.Selection for
// all of them:
//
//	AIC = 2p − 2ℓ   BIC = p·log n − 2ℓ   ICL = BIC + 2·E,  E = −Σ_rows Σ_i r_i·log r_i
//
// for p parameters, the log-likelihood ℓ, n rows (the sum of their weights) and
// posteriors r; less is better. E is the entropy of the posteriors: ICL prefers
// experts that can be told apart (Biernacki, Celeux & Govaert 2000). Beside them
// Fit.EigengapK is the number of experts that T̂2 alone suggests, see
// [moment.Evidence.EigengapK].
//
// cfg.K is not looked at. A start or a truth of another k than is being fitted
// stands aside. Each k is fitted as [Fit] would, save for refusals: too many
// experts for the rows are refused at once.
func FitRange(ctx context.Context, act sdk.Activation, src dataset.Source, from, to int, cfg Config) (*fitted.Model, error) {
	if from < 1 || to < from {
		return nil, refuse("k from %d to %d, want 1 or more, the smaller first", from, to)
	}
	cfg.K = to
	cfg, p, err := load(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if s := cfg.Start; s != nil && (s.K < from || s.K > to || s.D != p.Shape.D) {
		return nil, refuse("the start has k = %d and d = %d, the fits k from %d to %d and d = %d", s.K, s.D, from, to, p.Shape.D)
	}
	e, err := measure(ctx, p, cfg.want())
	if err != nil {
		return nil, err
	}
	asked, err := cfg.requested(ctx, p)
	if err != nil {
		return nil, err
	}
	defer asked.leave(ctx)
	asked.chosen = chosen{From: from, To: to}
	if asked.chosen, err = asked.resumed(ctx, p); err != nil {
		return nil, err
	}
	for k := from + len(asked.chosen.Selection); k <= to; k++ {
		pk := p.With(k)
		ek, err := e.With(ctx, pk.Plain())
		if err != nil {
			return nil, err
		}
		r, err := cfg.of(k).started(ctx, pk, asked)
		if err != nil {
			return nil, err
		}
		m, err := fit(ctx, pk, ek, r)
		if err != nil {
			return nil, err
		}
		c, err := candidate(ctx, pk, m)
		if err != nil {
			return nil, err
		}
		asked.chosen = asked.chosen.with(c, m)
	}
	best := asked.chosen.Model
	best.Fit.Selection = asked.chosen.Selection
	warnOfEdge(best, from, to)
	best.Fit.EigengapK, err = e.EigengapK(p.Plain())
	return best, err
}

// of is the configuration for k experts of a range.
func (c Config) of(k int) Config {
	c.K = k
	if s := c.Start; s != nil && s.K != k {
		c.Start = nil
	}
	if t := c.Truth; t != nil && t.K != k {
		c.Truth = nil
	}
	if show := c.Progress; show != nil {
		c.Progress = func(stage Stage, done, total int) {
			show(Stage(fmt.Sprintf("k = %d, %s", k, stage)), done, total)
		}
	}
	return c
}

// chosen is what a range has come to: all fits so far and the best of them.
type chosen struct {
	From, To  int
	Selection []fitted.Candidate
	Model     *fitted.Model
}

// with returns what a range has come to after another fit.
func (s chosen) with(c fitted.Candidate, m *fitted.Model) chosen {
	s.Selection = append(s.Selection[:len(s.Selection):len(s.Selection)], c)
	best := s.Model
	if best == nil || m.Fit.Converged && !best.Fit.Converged ||
		m.Fit.Converged == best.Fit.Converged && m.Fit.BIC < best.Fit.BIC {
		s.Model = m
	}
	return s
}

// candidate measures a fit for the table of all k.
func candidate(ctx context.Context, p *problem.Problem, m *fitted.Model) (fitted.Candidate, error) {
	e, err := entropy(ctx, p, m)
	return fitted.Candidate{
		K: m.K, LogLikelihood: m.Fit.LogLikelihood, AIC: m.Fit.AIC, BIC: m.Fit.BIC,
		ICL: m.Fit.BIC + 2*e, Converged: m.Fit.Converged,
	}, err
}

// entropy is that of the posteriors of m, −Σ_rows w·Σ_i r_i·log r_i.
func entropy(ctx context.Context, p *problem.Problem, m *fitted.Model) (float64, error) {
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
			term := -r * math.Log(r)
			if b.W != nil {
				term *= b.W[at%b.N]
			}
			sum += term
		}
		return nil
	})
	return sum, err
}
