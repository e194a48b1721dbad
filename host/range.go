package host

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/sdk"
	"gonum.org/v1/gonum/mat"
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
// [fit.eigengap].
//
// cfg.K is not looked at. A start or a truth of another k than is being fitted
// stands aside. Each k is fitted as [Fit] would, save for refusals: too many
// experts for the rows are refused at once.
func FitRange(ctx context.Context, act sdk.Activation, src dataset.Source, from, to int, cfg Config) (*fitted.Model, error) {
	if from < 1 || to < from {
		return nil, &RequestError{fmt.Sprintf("k from %d to %d, want 1 or more, the smaller first", from, to)}
	}
	start := cfg.Start
	cfg.K, cfg.Start = to, nil
	base, err := prepare(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	base.cfg.Start, base.request.Start = start, start
	if start != nil && (start.K < from || start.K > to || start.D != base.data.D) {
		return nil, &RequestError{fmt.Sprintf("the start has k = %d and d = %d, the fits k from %d to %d and d = %d", start.K, start.D, from, to, base.data.D)}
	}
	base.before = &chosen{From: from, To: to}
	if err := base.resumeRange(); err != nil {
		return nil, err
	}
	for k := from + len(base.before.Selection); k <= to; k++ {
		f := base.with(k)
		if err := f.lead(); err != nil {
			return nil, err
		}
		m, err := f.run(ctx)
		if err != nil {
			return nil, err
		}
		c, err := f.candidate(ctx, m)
		if err != nil {
			return nil, err
		}
		base.before.add(c, m)
	}
	best := base.before.Model
	best.Fit.Selection = base.before.Selection
	best.Fit.EigengapK, err = base.eigengap()
	return best, err
}

// chosen is what a range has come to: all fits so far and the best of them.
type chosen struct {
	From, To  int
	Selection []fitted.Candidate
	Model     *fitted.Model
}

func (s *chosen) add(c fitted.Candidate, m *fitted.Model) {
	s.Selection = append(s.Selection, c)
	best := s.Model
	if best == nil || m.Fit.Converged && !best.Fit.Converged ||
		m.Fit.Converged == best.Fit.Converged && m.Fit.BIC < best.Fit.BIC {
		s.Model = m
	}
}

// with returns a fit of k experts to the data of f.
func (f *fit) with(k int) *fit {
	g := *f
	g.cfg.K, g.span = k, nil
	g.notes = append([]string(nil), f.notes...)
	if s := g.cfg.Start; s != nil && s.K != k {
		g.cfg.Start = nil
	}
	if t := g.cfg.Truth; t != nil && t.K != k {
		g.cfg.Truth = nil
	}
	if show := f.cfg.Progress; show != nil {
		g.cfg.Progress = func(stage Stage, done, total int) {
			show(Stage(fmt.Sprintf("k = %d, %s", k, stage)), done, total)
		}
	}
	return &g
}

// candidate measures a fit for the table of all k.
func (f *fit) candidate(ctx context.Context, m *fitted.Model) (fitted.Candidate, error) {
	entropy, err := f.entropy(ctx, m)
	return fitted.Candidate{
		K: m.K, LogLikelihood: m.Fit.LogLikelihood, AIC: m.Fit.AIC, BIC: m.Fit.BIC,
		ICL: m.Fit.BIC + 2*entropy, Converged: m.Fit.Converged,
	}, err
}

// entropy is that of the posteriors of m, −Σ_rows w·Σ_i r_i·log r_i.
func (f *fit) entropy(ctx context.Context, m *fitted.Model) (float64, error) {
	f.weight.uneven(f.data)
	defer f.weight.even(f.data)
	predictor := fitted.NewPredictor(f.units.into(m.Params()), f.act, f.schema.Name)
	sum := 0.0
	for i := range f.data.Blocks {
		b := &f.data.Blocks[i]
		p, err := predictor.Predict(ctx, b)
		if err != nil {
			return 0, err
		}
		for at, r := range p.Posterior {
			if r <= 0 {
				continue
			}
			term := -r * math.Log(r)
			if b.W != nil {
				term *= b.W[at%b.N]
			}
			sum += term
		}
	}
	return sum, nil
}

// eigengap is the number of experts that T̂2 suggests. T̂2/c2 estimates
// Σ p_i a_i a_iᵀ: as many eigenvalues as there are independent regressors are
// positive, the others are noise and as often negative. Counted are those that
// exceed twice the size of the most negative one. It is 0 where that says
// nothing: g without a transform, or no negative eigenvalue.
func (f *fit) eigengap() (int, error) {
	if f.transform.C2 == 0 {
		return 0, nil
	}
	var eig mat.EigenSym
	if !eig.Factorize(whitenedT2(f.second, f.inputs, f.transform), false) {
		return 0, fmt.Errorf("the eigenvalues of T2 cannot be computed")
	}
	values := eig.Values(nil) // ascending
	if values[0] >= 0 {
		return 0, nil
	}
	k := 0
	for _, v := range values {
		if v > -2*values[0] {
			k++
		}
	}
	return k, nil
}
