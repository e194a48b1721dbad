package host

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
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
	s, err := openSeries(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	defer s.p.Close()
	if start, d := cfg.Start, s.p.Shape.D; start != nil && (start.K < from || start.K > to || start.D != d) {
		return nil, refuse("the start has k = %d and d = %d, the fits k from %d to %d and d = %d", start.K, start.D, from, to, d)
	}
	if err := s.begin(ctx, chosen{From: from, To: to}); err != nil {
		return nil, err
	}
	defer s.asked.leave(ctx)
	for k := from + len(s.asked.chosen.Selection); k <= to; k++ {
		if err := s.fit(ctx, s.p.With(k), s.cfg.of(k), fitted.Candidate{}); err != nil {
			return nil, err
		}
	}
	best := s.best()
	warnOfEdge(best, from, to)
	best.Fit.EigengapK, err = s.e.EigengapK(s.p.Plain())
	return best, err
}

// series is the data that several fits are made of, one after the other, and what has
// come of them.
type series struct {
	cfg   Config
	p     *problem.Problem // as loaded
	e     *moment.Evidence
	asked request
}

// openSeries reads the data; the problem is to be closed.
func openSeries(ctx context.Context, act sdk.Activation, src dataset.Source, cfg Config) (*series, error) {
	cfg, p, err := load(ctx, act, src, cfg)
	return &series{cfg: cfg, p: p}, err
}

// begin measures the data and goes on where a checkpoint stood, if there is one.
func (s *series) begin(ctx context.Context, from chosen) (err error) {
	if s.e, err = measure(ctx, s.p, s.cfg.want()); err != nil {
		return err
	}
	if s.asked, err = s.cfg.requested(ctx, s.p); err != nil {
		return err
	}
	s.asked.chosen = from
	if s.asked.chosen, err = s.asked.resumed(ctx, s.p); err != nil {
		s.asked.leave(ctx)
	}
	return err
}

// fit makes the next fit; as says how it came about.
func (s *series) fit(ctx context.Context, p *problem.Problem, cfg Config, as fitted.Candidate) error {
	e, err := s.e.With(ctx, p.Plain())
	if err != nil {
		return err
	}
	r, err := cfg.started(ctx, p, s.asked)
	if err != nil {
		return err
	}
	m, err := fit(ctx, p, e, r)
	if err != nil {
		return err
	}
	c, err := candidate(ctx, p, m, as)
	if err != nil {
		return err
	}
	s.asked.chosen = s.asked.chosen.with(c, m)
	return nil
}

// best is the model of the best fit so far, with all of them.
func (s *series) best() *fitted.Model {
	best := s.asked.chosen.Model
	best.Fit.Selection = s.asked.chosen.Selection
	return best
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
	return c.showing(fmt.Sprintf("k = %d", k))
}

// under is the configuration for the tree h.
func (c Config) under(h model.Hierarchy) Config {
	c.K, c.Hierarchy = h.Leaves(), h
	if s := c.Start; s != nil && !s.Hierarchy().Equal(h) {
		c.Start = nil
	}
	if t := c.Truth; t != nil && !t.Hierarchy().Equal(h) {
		c.Truth = nil
	}
	return c.showing(h.String())
}

// showing is the configuration with stages that name what is being fitted.
func (c Config) showing(what string) Config {
	if show := c.Progress; show != nil {
		c.Progress = func(stage Stage, done, total int) {
			show(Stage(fmt.Sprintf("%s, %s", what, stage)), done, total)
		}
	}
	return c
}

// chosen is what a series has come to: all fits so far and the best of them. From and To
// are the least and the most experts.
type chosen struct {
	From, To  int
	Grown     bool `json:",omitempty"` // a tree
	Selection []fitted.Candidate
	Model     *fitted.Model
}

// with returns what a series has come to after another fit.
func (s chosen) with(c fitted.Candidate, m *fitted.Model) chosen {
	s.Selection = append(s.Selection[:len(s.Selection):len(s.Selection)], c)
	best := s.Model
	if best == nil || m.Fit.Converged && !best.Fit.Converged ||
		m.Fit.Converged == best.Fit.Converged && m.Fit.BIC < best.Fit.BIC {
		s.Model = m
	}
	return s
}

// candidate measures a fit, which came about as it says, for the table of all.
func candidate(ctx context.Context, p *problem.Problem, m *fitted.Model, as fitted.Candidate) (fitted.Candidate, error) {
	e, err := entropy(ctx, p, m)
	as.K, as.LogLikelihood, as.AIC, as.BIC = m.K, m.Fit.LogLikelihood, m.Fit.AIC, m.Fit.BIC
	as.ICL, as.Converged = m.Fit.BIC+2*e, m.Fit.Converged
	return as, err
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
