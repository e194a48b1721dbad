package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/steps"
	"github.com/gatedlearning/moe/host/search/vacancy"
	"github.com/gatedlearning/moe/sdk"
)

// FitRange fits from, from+1, …, to experts, reading the data once, and returns
// the fit of the least BIC, corrected for few rows, among those that converged, or the best by another criterion
// (cfg.Choose), with Fit.Selection for all of them:
//
//	AIC = 2p − 2ℓ   BIC = p·log n − 2ℓ   BICc = p·log n·n/(n − p − 2) − 2ℓ
//	ICL = BIC + 2·E,  E = −Σ_rows Σ_i r_i·log r_i
//
// for p parameters, the log-likelihood ℓ, n rows (the sum of their weights) and
// posteriors r; less is better. E is the entropy of the posteriors: ICL prefers
// experts that can be told apart (Biernacki, Celeux & Govaert 2000). Beside them
// Fit.EigengapK is the number of experts that T̂2 alone suggests, see
// [moment.Evidence.EigengapK], and, by method [Auto], Fit.AtLeast a lower confidence bound for the number of experts,
// Fit.KSet the ks from it on that the data leave: those whose BIC is within 20 of the least of them, and larger ones
// that half of BIC's penalty prefers to the k of the least. No data bound the number from above.
//
// Where the rows cannot determine the parameters of so many experts it fits those that they can, and a warning says
// where it stopped. More experts than rows, and less rows than parameters of the least k, are refused.
//
// cfg.K is not looked at. A start or a truth of another k than is being fitted
// stands aside. Each k is fitted as [Fit] would.
//
// By method [Auto] each k begins from its neighbours too: from the fit of k − 1, of which one expert becomes two or is
// joined by another, and from that of k + 1, of which one is left out or two become one. Where that leads
// higher it is taken, and Fit.Selection says so; a fit to which nothing is better is that of its k alone, to the byte.
// Where a mixture of k experts is one of k + 1 too, which intercepts in the gate make it, the log-likelihood does not
// fall with k.
func FitRange(ctx context.Context, act sdk.Activation, src dataset.Source, from, to int,
	cfg Config) (*fitted.Model, error) {
	if from < 1 || to < from {
		return nil, problem.Refuse("k from %d to %d, want 1 or more, the smaller first", from, to)
	}
	asked := to
	s, to, stopped, err := openAsFar(ctx, act, src, from, to, cfg)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	fits, err := s.ladder(ctx, from, to)
	if err != nil {
		return nil, err
	}
	held := cfg.compared
	if cfg.Choose == ByHeldOut && held == nil {
		if held, err = Compare(ctx, []Alternative{{Activation: act, Source: src, From: from, To: to,
			Config: cfg}}); err != nil {
			return nil, err
		}
	}
	bound, why, err := s.atLeast(ctx, act, to)
	if err != nil {
		return nil, err
	}
	heldOut := 0
	if held != nil {
		heldOut = held.K
	}
	best := cfg.Choose.Choose(fits, heldOut, bound)
	if held != nil {
		held.Into(best.Fit.Selection, best.Target)
		if held.Table == nil {
			held.Tell(&best.Fit)
		}
	}
	if why != "" {
		best.Fit.Notes = append(best.Fit.Notes, "no lower bound for the number of experts: "+why)
	}
	if bound != nil && best.K < bound.K {
		best.Fit.Warn(fitted.WarnLargerK, "there are at least %d experts, with 95 %% confidence, and k = %d was "+
			"chosen: --choose set takes the least k that the data leave", bound.K, best.K)
	}
	if held != nil && held.Ks() <= to-from {
		best.Fit.Notes = append(best.Fit.Notes, fmt.Sprintf("k from %d on was not looked at by crossvalidation: "+
			"without a part the rows do not determine so many experts", from+held.Ks()))
	}
	if vacancy.Nested(s.p) {
		best.Fit.Notes = append(best.Fit.Notes, criterion.Falls(best.Fit.Selection)...)
	}
	if stopped != nil {
		best.Fit.Warn(fitted.WarnStopped, "k up to %d was fitted, not up to %d: %s", to, asked, stopped.Data.Msg)
	} else {
		criterion.WarnOfEdge(&best.Fit, best.K, from, to)
	}
	if best.Fit.EigengapK, err = s.e.EigengapK(s.p.Plain()); err != nil {
		return nil, err
	}
	return finish(ctx, s.p.With(best.K), best, s.cfg)
}

// openAsFar is [openRange] of as many experts, of from to to, as the rows determine: up to most, and why not more.
func openAsFar(ctx context.Context, act sdk.Activation, src dataset.Source, from, to int,
	cfg Config) (s *series, most int, few *problem.FewRowsError, err error) {
	s, err = openRange(ctx, act, src, from, to, cfg)
	if errors.As(err, &few) && few.K >= from && few.K < to {
		to = few.K
		s, err = openRange(ctx, act, src, from, to, cfg)
	}
	return s, to, few, err
}

// openRange reads the data of fits from from to to experts and measures them; the series is to be closed.
func openRange(ctx context.Context, act sdk.Activation, src dataset.Source, from, to int, cfg Config) (*series, error) {
	cfg.K = to
	s, err := openSeries(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	if start, d := cfg.Start, s.p.Shape.D; start != nil && (start.K < from || start.K > to || start.D != d) {
		err = problem.Refuse("the start has k = %d and d = %d, the fits k from %d to %d and d = %d", start.K, start.D,
			from, to, d)
	}
	if err == nil {
		err = s.cfg.sameFamily(s.p)
	}
	if err == nil {
		err = s.begin(ctx, checkpoint.Series{From: from, To: to})
	}
	if err != nil {
		s.p.Close()
		return nil, err
	}
	return s, nil
}

// close ends a series that has begun.
func (s *series) close(ctx context.Context) {
	s.asked.leave(ctx)
	s.p.Close()
}

// ladder fits every k, from its neighbours too where that helps.
func (s *series) ladder(ctx context.Context, from, to int) (criterion.Fits, error) {
	fits, made := criterion.Fits{}, 0
	_, auto := s.cfg.Method.(Auto)
	helps := auto && vacancy.NeighboursHelp(s.p)
	fit := func(k int, beside []int) error {
		if made == len(s.asked.chosen.Selection) {
			var from []search.Neighbour
			for _, o := range beside {
				if n, ok := s.neighbour(fits[o]); ok && helps {
					from = append(from, n)
				}
			}
			if err := s.fit(ctx, s.p.With(k), s.cfg.of(k), from, fitted.Candidate{}); err != nil {
				return err
			}
		}
		c, m := s.asked.chosen.Selection[made], s.asked.chosen.Models[made]
		if m.K != k || m.Params().D != s.p.Shape.D {
			return checkpoint.Damaged("it has the fits of a range of k in another order")
		}
		if was := fits[k].Model; was == nil || m.Fit.LogLikelihood > was.Fit.LogLikelihood {
			fits[k] = criterion.Of(s.p.With(k), c, m)
		}
		made++
		return nil
	}
	beats := func(k, beside int) (bool, error) {
		of, ok := s.neighbour(fits[k])
		o, besides := s.neighbour(fits[beside])
		if !ok || !besides {
			return false, nil
		}
		found, _, err := vacancy.Beat(ctx, s.p.With(k), of, []search.Neighbour{o}, steps.All())
		return found != nil, err
	}
	if !helps {
		beats = func(int, int) (bool, error) { return false, nil }
	}
	return fits, vacancy.UpAndDown(from, to, fit, beats)
}

// neighbour is a fit as the search for a k beside it takes it; false for none, and where an expert has shrunk onto a
// few rows.
func (s *series) neighbour(f criterion.Fit) (search.Neighbour, bool) {
	m := f.Model
	if m == nil || m.Fit.Status == result.Shrunk {
		return search.Neighbour{}, false
	}
	p := s.p.With(m.K)
	return search.Neighbour{Params: p.Shape.Adopt(p.Units.Into(m.Params())),
		Value: -m.Fit.LogLikelihood / p.Weights.Total}, true
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
func (s *series) begin(ctx context.Context, from checkpoint.Series) (err error) {
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

// fit makes the next fit, from neighbours too; as says how it came about.
func (s *series) fit(ctx context.Context, p *problem.Problem, cfg Config, from []search.Neighbour,
	as fitted.Candidate) error {
	e, err := s.e.With(ctx, p.Plain())
	if err != nil {
		return err
	}
	r, err := cfg.started(ctx, p, s.asked)
	if err != nil {
		return err
	}
	r.from = from
	m, err := fit(ctx, p, e, r)
	if err != nil {
		return err
	}
	c, err := criterion.Measure(ctx, p, m, as)
	if err != nil {
		return err
	}
	s.asked.chosen = after(s.asked.chosen, c, m)
	return nil
}

// best is the model of the best fit so far, with all of them.
func (s *series) best() *fitted.Model {
	best := s.asked.chosen.Model
	best.Fit.Selection = s.asked.chosen.Selection
	return best
}

// after is what a series has come to after another fit.
func after(s checkpoint.Series, c fitted.Candidate, m *fitted.Model) checkpoint.Series {
	s.Selection = append(s.Selection[:len(s.Selection):len(s.Selection)], c)
	if !s.Grown {
		s.Models = append(s.Models[:len(s.Models):len(s.Models)], m)
	} else if was := s.Model; was == nil ||
		criterion.Preferred(m.Fit.Converged, was.Fit.Converged, m.Fit.BIC, was.Fit.BIC) {
		s.Model = m
	}
	return s
}
