package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
)

// leastMoved rows must be of another expert for an optimum to be another arrangement.
const leastMoved = 1

// arrangements adds to the model the other optima near the best, whose experts the model has in the given order,
// and their weights where they were asked for.
func arrangements(ctx context.Context, m *fitted.Model, p *problem.Problem, out *outcome, order []int, cfg Config) error {
	if len(out.near) == 0 && !cfg.Arrangements {
		return nil
	}
	best := optimumOf(p, out.best, out.best.Params.Relabel(order), order)
	rows, _, err := shares(ctx, p, best.params, best.params)
	if err != nil {
		return err
	}
	own := &fitted.Arrangement{LogLikelihood: m.Fit.LogLikelihood, Rows: rows}
	all, found := []*optimum{best}, []*fitted.Arrangement{own}
	for _, c := range out.near {
		q := c.Params
		if o := p.Shape.Output; o != nil && o.Mirrored {
			q = q.Upright(o.Sum)
		}
		perm := nearest(q, best.params)
		a := &fitted.Arrangement{LogLikelihood: -c.Run.Value * p.Weights.Total}
		o := optimumOf(p, c, q.Relabel(perm), perm)
		if a.Rows, a.Moved, err = shares(ctx, p, o.params, best.params); err != nil {
			return err
		}
		if a.Below = own.LogLikelihood - a.LogLikelihood; a.Moved < leastMoved || slices.ContainsFunc(found[1:], func(b *fitted.Arrangement) bool { return alike(a, b) }) {
			continue
		}
		a.Differs = differs(a, own)
		a.SetParams(p.Units.OutOf(o.params))
		all, found = append(all, o), append(found, a)
	}
	if len(found) == 1 && !cfg.Arrangements {
		return nil
	}
	if len(found) > 1 {
		m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("intervals hold given the arrangement of the rows: %d more of them within 6 units of log-likelihood, see arrangements", len(found)-1))
	}
	m.Arrangements = &fitted.Arrangements{Rows: own.Rows, Others: []fitted.Arrangement{}}
	if cfg.Arrangements {
		if err := weigh(ctx, m, all, found, cfg); err != nil {
			return err
		}
		m.Arrangements.Weight, m.Arrangements.Unweighted = own.Weight, own.Unweighted
	}
	for _, a := range found[1:] {
		m.Arrangements.Others = append(m.Arrangements.Others, *a)
	}
	return nil
}

// nearest is the permutation that gives each expert of q the place of the one of best whose regressor, with its intercept, is
// nearest, by the sum of squares.
func nearest(q, best *model.Params) []int {
	k := q.K
	cost := make([]float64, k*k)
	for i := range k {
		for j := range k {
			for f, a := range q.Regressor(i) {
				cost[i*k+j] += (a - best.Regressor(j)[f]) * (a - best.Regressor(j)[f])
			}
			if q.RegressorIntercepts != nil {
				b := q.RegressorIntercepts[i] - best.RegressorIntercepts[j]
				cost[i*k+j] += b * b
			}
		}
	}
	return metric.Assign(k, cost)
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
			w := 1.0
			if b.W != nil {
				w = b.W[at%b.N]
			}
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

// weigh gives the arrangements weights, and the model the intervals over them.
func weigh(ctx context.Context, m *fitted.Model, all []*optimum, found []*fitted.Arrangement, cfg Config) error {
	logs, errs := make([]float64, len(all)), make([]*model.Params, len(all))
	for i, o := range all {
		c, why, err := o.weighable(ctx, found[i].Rows)
		if err != nil {
			return err
		}
		volume, ok := 0.0, false
		if c != nil {
			if volume, ok = c.LogVolume(); !ok {
				why = "its information is singular"
			}
		}
		if logs[i] = found[i].LogLikelihood + volume; !ok {
			logs[i], found[i].Unweighted = math.Inf(-1), why
			continue
		}
		if cfg.wants(Robust) {
			if c, err = o.covariance(ctx, infer.Robust); err != nil {
				return err
			}
		}
		errs[i] = o.errors(c)
		if i > 0 {
			found[i].StandardErrors = o.standardErrors(c)
			if len(c.Parameters) <= mostCovariance {
				found[i].Covariance = &fitted.Covariance{Parameters: c.Names(o.p.Schema.Features), Matrix: rowsOf(c.Matrix)}
			}
			as := found[i].Of(m)
			as.Proportions = normalised(found[i].Rows)
			noiseIntervals(o.p, as, c.Parameters)
		}
	}
	weights := infer.Weights(logs)
	if all[0].groups != nil {
		weights = nil // against a supremum at infinity no optimum weighs
	}
	for i := range found {
		w := 0.0
		if weights != nil {
			w = weights[i]
		}
		found[i].Weight = &w
	}
	if weights == nil {
		m.Fit.Notes = append(m.Fit.Notes, "no arrangement has a weight: "+found[0].Unweighted)
		return nil
	}
	m.Arrangements.Intervals = intervalsOver(weights, all, errs)
	return nil
}

// weighable is the observed covariance of an optimum that may have a weight, or why it may not.
func (o *optimum) weighable(ctx context.Context, rows []float64) (*infer.Covariance, string, error) {
	expert, _ := o.p.Shape.Estimated().Columns(o.params)
	for i, r := range rows {
		if r < float64(len(expert)) {
			return nil, fmt.Sprintf("expert %d has %.1f rows for %d coefficients", i+1, r, len(expert)), nil
		}
	}
	if o.groups != nil {
		return nil, "its gate separates rows, and has no finite optimum", nil
	}
	c, err := o.covariance(ctx, infer.Observed)
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		return nil, none.Reason, nil
	}
	return c, "", err
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

// intervalsOver are the intervals of the coefficients over optima with weights.
func intervalsOver(weights []float64, all []*optimum, errs []*model.Params) *fitted.ArrangementIntervals {
	params := make([]*model.Params, len(all))
	for i, o := range all {
		params[i] = o.p.Units.OutOf(o.params)
		if errs[i] == nil {
			errs[i] = params[i]
		}
	}
	each := func(of func(*model.Params) []float64) (out [][]float64) {
		for at := range of(params[0]) {
			estimates, se := make([]float64, len(all)), make([]float64, len(all))
			for i := range all {
				estimates[i], se[i] = of(params[i])[at], of(errs[i])[at]
			}
			lower, upper := infer.MixtureInterval(weights, estimates, se, intervalLevel)
			out = append(out, []float64{lower, upper})
		}
		return out
	}
	matrix := func(of func(*model.Params) []float64) [][][]float64 {
		flat, d := each(of), params[0].D
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
