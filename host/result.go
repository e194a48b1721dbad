package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// model writes down the fit that ended at best.
func (f *fit) model(ctx context.Context, best *climber, all []*climber) (*fitted.Model, error) {
	f.weight.uneven(f.data)
	defer f.weight.even(f.data)
	l := loss.NewLikelihood(f.data, f.act, best.params, f.free(), f.cfg.Threads)
	proportions, order, err := f.byProportion(ctx, best.params)
	if err != nil {
		return nil, err
	}
	m := &fitted.Model{
		Format:      fitted.Format,
		Activation:  fitted.ActivationOf(f.sdk.Info()),
		Features:    f.schema.Features,
		Target:      f.schema.Target,
		Proportions: permuted(proportions, order),

		Approximation: f.native,
	}
	m.SetParams(metric.Relabel(f.units.outOf(best.params), order))
	loglik, p := -best.run.Value*f.weight.total, float64(f.parameters())
	m.Fit = fitted.Fit{
		Method:        f.cfg.Method,
		Seed:          f.cfg.Seed,
		N:             f.data.N,
		LogLikelihood: loglik,
		Weight:        f.weight.reported(),
		BIC:           p*math.Log(f.weight.total) - 2*loglik,
		AIC:           2*p - 2*loglik,
		Converged:     best.run.Status == optim.Converged,
		Status:        best.run.Status.String(),
		Iterations:    best.run.Iterations,
		Descent:       f.descended,
		Certificate:   fitted.CertificateOf(f.certificate),
		Notes:         f.notes,
	}
	if f.cfg.Sigma == 0 && l.AtFloor(best.params) {
		m.Fit.Notes = append(m.Fit.Notes, "sigma stands at its floor, 1e-8 of the target's root mean square: the experts fit their rows to the last digits, and the likelihood of such data has no maximum")
	}
	if n := count(all, func(c *climber) bool { return c.shrunk }); n > 0 {
		m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("%d of %d starts ended with an expert that shrank onto a few rows and were set aside", n, len(all)))
	}
	if best.shrunk {
		m.Fit.Converged, m.Fit.Status = false, "degenerate: an expert shrank onto a few rows; use a smaller k or shared noise"
	}
	if e := f.estimate; e != nil {
		est := fitted.MomentsEstimate{Proportions: e.proportions}
		p := f.units.outOf(e.params)
		for i := range p.K {
			est.Regressors = append(est.Regressors, p.Regressor(i))
		}
		m.Fit.MomentsEstimate = &est
	}
	if err := f.reportStarts(ctx, m, l, all); err != nil {
		return nil, err
	}
	if err := f.uncertainty(ctx, m, best, order); err != nil {
		return nil, err
	}
	if f.cfg.Truth != nil {
		r, err := fitted.Compare(m.Params(), f.cfg.Truth)
		if err != nil {
			return nil, &RequestError{err.Error()}
		}
		m.Truth = &r
	}
	return m, nil
}

// reportStarts writes down every start with its likelihood on all rows, best
// first: by likelihood, or by the loss where a method minimises another.
func (f *fit) reportStarts(ctx context.Context, m *fitted.Model, l *loss.Likelihood, all []*climber) error {
	for _, c := range all {
		if c.failed() {
			c.loglik = math.NaN()
			continue
		}
		if c.rows == f.data.N {
			c.loglik = -c.run.Value * f.weight.total
			continue
		}
		var err error
		if c.loglik, err = l.LogLikelihood(ctx, c.params); err != nil {
			return err
		}
	}
	if all[0].loss == nil {
		slices.SortStableFunc(all, func(a, b *climber) int { return cmp.Compare(b.loglik, a.loglik) })
	}
	for _, c := range all {
		m.Fit.Starts = append(m.Fit.Starts, fitted.Start{
			Kind: c.kind, LogLikelihood: c.loglik, Converged: c.run.Status == optim.Converged,
			Status: c.run.Status.String(), Agrees: c.agrees, Rows: c.rows, Path: path(c.run.Trace),
			Loss: finiteOrNil(c.loss),
		})
	}
	return nil
}

func finiteOrNil(v *float64) *float64 {
	if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
		return nil
	}
	return v
}

// path is the mean log-likelihood at the start and after every iteration, to six
// decimals, which is what a picture shows of it.
func path(trace []float64) []float64 {
	out := make([]float64, 0, len(trace))
	for _, v := range trace {
		if v = -math.Round(v*1e6) / 1e6; !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}

// byProportion returns the experts' proportions and the permutation that puts
// the largest first: expert i becomes expert order[i].
func (f *fit) byProportion(ctx context.Context, p *model.Params) (proportions []float64, order []int, err error) {
	proportions, err = loss.NewLikelihood(f.data, f.act, p, f.free(), f.cfg.Threads).Proportions(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	index := make([]int, p.K)
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(proportions[b], proportions[a]) })
	order = make([]int, p.K)
	for rank, i := range index {
		order[i] = rank
	}
	return proportions, order, nil
}

func permuted(v []float64, order []int) []float64 {
	out := make([]float64, len(v))
	for i, j := range order {
		out[j] = v[i]
	}
	return out
}

func count(all []*climber, is func(*climber) bool) (n int) {
	for _, c := range all {
		if is(c) {
			n++
		}
	}
	return n
}
