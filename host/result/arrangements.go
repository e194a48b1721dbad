package result

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/stream"
)

// leastMoved rows must be of another expert for an optimum to be another arrangement.
const leastMoved = 1

// arrangements adds to the model the other optima near the best, whose experts the model has in the given order,
// and their weights where they were asked for.
func arrangements(ctx context.Context, m *fitted.Model, p *problem.Problem, out *Outcome, order []int,
	s Settings) error {
	if len(out.Near) == 0 && !s.Arrangements {
		return nil
	}
	best := optimumOf(p, out.Best, out.Best.Params.Relabel(order), order)
	rows, _, err := shares(ctx, p, best.params, best.params)
	if err != nil {
		return err
	}
	own := &fitted.Arrangement{LogLikelihood: m.Fit.LogLikelihood, Rows: rows}
	all, found := []*optimum{best}, []*fitted.Arrangement{own}
	for _, c := range out.Near {
		q := c.Params
		if o := p.Shape.Output; o != nil && o.Mirrored {
			q = q.Upright(o.Sum)
		}
		perm := metric.Nearest(q, best.params)
		a := &fitted.Arrangement{LogLikelihood: -c.Run.Value * p.Weights.Total}
		o := optimumOf(p, c, q.Relabel(perm), perm)
		if a.Rows, a.Moved, err = shares(ctx, p, o.params, best.params); err != nil {
			return err
		}
		if a.Below = own.LogLikelihood - a.LogLikelihood; a.Moved < leastMoved || slices.ContainsFunc(found[1:],
			func(b *fitted.Arrangement) bool { return alike(a, b) }) {
			continue
		}
		a.Differs = differs(a, own)
		a.SetParams(p.Units.OutOf(o.params))
		all, found = append(all, o), append(found, a)
	}
	if len(found) == 1 && !s.Arrangements {
		return nil
	}
	if len(found) > 1 {
		m.Fit.Notes = append(m.Fit.Notes,
			fmt.Sprintf("intervals hold given the arrangement of the rows: %d more of them within 6 units of "+
				"log-likelihood, see arrangements", len(found)-1))
	}
	m.Arrangements = &fitted.Arrangements{Rows: own.Rows, Others: []fitted.Arrangement{}}
	if s.Arrangements {
		if err := weigh(ctx, m, all, found, s); err != nil {
			return err
		}
		m.Arrangements.Weight, m.Arrangements.Unweighted = own.Weight, own.Unweighted
	}
	for _, a := range found[1:] {
		m.Arrangements.Others = append(m.Arrangements.Others, *a)
	}
	return nil
}

// shares returns how many rows each expert of q has, Σ w·r_i, and how many are of another expert than under best,
// ½·Σ w·Σ_i |r_i − r_i(best)|.
func shares(ctx context.Context, p *problem.Problem, q, best *model.Params) (rows []float64, moved float64, err error) {
	rows = make([]float64, q.K)
	here, there := predict.NewPredictor(q, p.G, p.Schema.Name), predict.NewPredictor(best, p.G, p.Schema.Name)
	err = model.InOrder(ctx, p.Given, func(b *model.Block) error {
		x, err := here.Predict(ctx, b)
		if err != nil {
			return err
		}
		y, err := there.Predict(ctx, b)
		if err != nil {
			return err
		}
		for at, r := range x.Posterior {
			w := b.Weight(at % b.N)
			rows[at/b.N] += w * r
			moved += w * math.Abs(r-y.Posterior[at]) / 2
		}
		return nil
	})
	return rows, moved, err
}

// alike says whether two arrangements have as many rows for each expert and the same likelihood, as far as matters.
func alike(a, b *fitted.Arrangement) bool {
	if math.Abs(a.LogLikelihood-b.LogLikelihood) > 0.05 {
		return false
	}
	for i, r := range a.Rows {
		if math.Abs(r-b.Rows[i]) > leastMoved {
			return false
		}
	}
	return true
}

// mostNamed experts are named in what differs, those whose rows differ most.
const mostNamed = 3

// differs says in words how an arrangement shares the rows out.
func differs(a, own *fitted.Arrangement) string {
	var experts []int
	for i := range a.Rows {
		if math.Abs(a.Rows[i]-own.Rows[i]) >= leastMoved {
			experts = append(experts, i)
		}
	}
	if len(experts) == 0 {
		return fmt.Sprintf("%.0f rows of other experts, each with as many as in the model", a.Moved)
	}
	slices.SortStableFunc(experts, func(i, j int) int {
		return compareFloat(math.Abs(a.Rows[j]-own.Rows[j]), math.Abs(a.Rows[i]-own.Rows[i]))
	})
	experts = experts[:min(len(experts), mostNamed)]
	slices.Sort(experts)
	var out []string
	for _, i := range experts {
		out = append(out, fmt.Sprintf("expert %d on %.0f rows, on %.0f in the model", i+1, a.Rows[i], own.Rows[i]))
	}
	return strings.Join(out, "; ")
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// weigh gives the arrangements their shares of the posterior under infer.WeakPrior, and the model the intervals of its
// draws.
func weigh(ctx context.Context, m *fitted.Model, all []*optimum, found []*fitted.Arrangement, s Settings) error {
	for i, o := range all[1:] {
		if err := o.describe(ctx, m, found[i+1], s); err != nil {
			return err
		}
	}
	for _, a := range found {
		a.Weight = new(float64)
	}
	if why := all[0].unsampled(); why != "" {
		found[0].Unweighted = why
		m.Fit.Notes = append(m.Fit.Notes, "no arrangement has a weight: "+why)
		return nil
	}
	density := infer.Penalised{Likelihood: all[0].l, Prior: all[0].prior(found[0].Rows)}
	modes, whose, err := modesOf(ctx, density, all)
	if err != nil {
		return err
	}
	if len(modes) == 0 {
		found[0].Unweighted = "no maximum of the posterior was found"
		return nil
	}
	draws, err := infer.Sample(density.Log(ctx), modes, stream.New(s.Seed, stream.Posterior, 0))
	if err != nil {
		return err
	}
	taken := make([]bool, len(modes))
	for i, mode := range whose {
		switch {
		case mode < 0:
			found[i].Unweighted = "no maximum of the posterior was found near it"
		case taken[mode]:
			found[i].Unweighted = "its maximum of the posterior is that of one above"
		default:
			taken[mode], *found[i].Weight = true, draws.Shares[mode]
		}
	}
	m.Arrangements.Intervals = all[0].intervals(draws.Draws)
	return nil
}

// describe adds standard errors and covariance to an arrangement beside the model's own, where its optimum has them.
func (o *optimum) describe(ctx context.Context, m *fitted.Model, a *fitted.Arrangement, s Settings) error {
	o, err := o.withEnds(ctx)
	if err != nil {
		return err
	}
	c, err := o.covariance(ctx, s.kind(o.p))
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	a.StandardErrors = o.standardErrors(c)
	if len(c.Parameters) <= mostCovariance {
		a.Covariance = &fitted.Covariance{Parameters: c.Names(o.p.Schema.Features), Matrix: rowsOf(c.Matrix)}
	}
	as := a.Of(m)
	as.Proportions = normalised(a.Rows)
	noiseIntervals(o.p, as, c)
	return nil
}

// unsampled says why there are no draws from the posterior.
func (o *optimum) unsampled() string {
	switch {
	case !o.params.Tree.Equal(model.Hierarchy{}):
		return "the prior is of experts under one gate"
	case !o.p.Shape.Normal():
		return "the prior is of normal noise"
	case o.l.AtFloor(o.params):
		return "the noise is at its floor"
	case !o.l.Dense() || o.l.Dim() > infer.MaxParameters:
		return fmt.Sprintf("%d parameters are too many", o.l.Dim())
	}
	return ""
}

// prior is infer.WeakPrior in the units of the fit, with the sizes that the optimum has, of which the experts have so
// many rows.
func (o *optimum) prior(rows []float64) *infer.Prior {
	q, size, variance := o.params, 0.0, 0.0
	for i, share := range normalised(rows) {
		size += share * floats.Dot(q.Regressor(i), q.Regressor(i))
		if q.RegressorIntercepts != nil {
			size += share * q.RegressorIntercepts[i] * q.RegressorIntercepts[i]
		}
		variance += share * q.SigmaOf(i) * q.SigmaOf(i)
	}
	if size == 0 {
		size = 1
	}
	return infer.WeakPrior(o.l.Parameters(), q.K, math.Sqrt(size), math.Log(variance)/2)
}

// sameMode is a difference in the logarithm of the posterior density below which two climbs have ended at one maximum.
const sameMode = 1e-3

// modesOf climbs from every optimum to a maximum of the posterior, and says which of them is whose; −1 for none.
func modesOf(ctx context.Context, density infer.Penalised,
	all []*optimum) (modes []infer.Mode, whose []int, err error) {
	for _, o := range all {
		r, err := optim.Newton(ctx, density, density.Likelihood.Theta(o.params), optim.Settings{Iterations: 300})
		if err != nil {
			return nil, nil, err
		}
		mode, err := density.ModeAt(ctx, r.X)
		if err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(modes, func(other infer.Mode) bool { return math.Abs(other.Log-mode.Log) < sameMode })
		if at < 0 && mode.Positive() {
			at, modes = len(modes), append(modes, mode)
		}
		whose = append(whose, at)
	}
	return modes, whose, nil
}

// intervals are those of the coefficients, in the units of the data, that hold intervalLevel of draws of the
// parameters.
func (o *optimum) intervals(draws [][]float64) *fitted.ArrangementIntervals {
	all := make([]*model.Params, len(draws))
	for i, theta := range draws {
		all[i] = o.p.Units.OutOf(o.l.Params(theta))
	}
	each := func(of func(*model.Params) []float64) (out [][]float64) {
		values := make([]float64, len(all))
		for at := range of(all[0]) {
			for i, p := range all {
				values[i] = of(p)[at]
			}
			lower, upper := infer.SampleInterval(values, intervalLevel)
			out = append(out, []float64{lower, upper})
		}
		return out
	}
	matrix := func(of func(*model.Params) []float64) [][][]float64 {
		flat, d := each(of), all[0].D
		out := [][][]float64{}
		for at := 0; at < len(flat); at += d {
			out = append(out, flat[at:at+d])
		}
		return out
	}
	return &fitted.ArrangementIntervals{
		Level:               intervalLevel,
		Regressors:          matrix(func(p *model.Params) []float64 { return p.Regressors }),
		Gating:              matrix(func(p *model.Params) []float64 { return p.Gating }),
		RegressorIntercepts: each(func(p *model.Params) []float64 { return p.RegressorIntercepts }),
		GatingIntercepts:    each(func(p *model.Params) []float64 { return p.GatingIntercepts }),
	}
}

// normalised is v over its sum.
func normalised(v []float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x / sum
	}
	return out
}

// intervalLevel is that of the intervals over arrangements.
const intervalLevel = 0.95
