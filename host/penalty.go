package host

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
)

// GatePenalty says whether the model of a fit comes with that of a ridge on the gate beside it, by which new rows are
// predicted (fitted.Penalised): "" where a gate separates rows, [NoGatePenalty] nowhere, [AutoGatePenalty] always, each
// with a ridge that the rows choose; or the ridge itself, a number above 0.
type GatePenalty string

// What a [GatePenalty] may be beside a number.
const (
	NoGatePenalty   GatePenalty = "none"
	AutoGatePenalty GatePenalty = "auto"
)

// value is the ridge, 0 where the rows choose it.
func (g GatePenalty) value() (float64, error) {
	if g == "" || g == NoGatePenalty || g == AutoGatePenalty {
		return 0, nil
	}
	v, err := strconv.ParseFloat(string(g), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, refuse("gate penalty %s: want none, auto or a number above 0", g)
	}
	return v, nil
}

// Check refuses what is neither a number above 0 nor one of the words.
func (g GatePenalty) Check() error {
	_, err := g.value()
	return err
}

// applies says whether it is asked of a fit that has come to m.
func (g GatePenalty) applies(c Config, m *fitted.Model) bool {
	_, constant := c.Gate.(Constant)
	switch {
	case m.Classes() == 1 || constant || g == NoGatePenalty || m.Fit.Status == shrunk:
		return false
	case g == "": // a part of the rows has passes to follow, and arrangements are a model for new rows of their own
		return len(m.Fit.Separation) > 0 && !c.beside && !c.Arrangements
	}
	return true
}

// check refuses what it cannot be beside.
func (g GatePenalty) check(c Config) error {
	_, constant := c.Gate.(Constant)
	switch {
	case g == "" || g == NoGatePenalty:
		return nil
	case constant:
		return refuse("gate penalty %s: a constant gate has no coefficients", g)
	case c.Arrangements:
		return refuse("gate penalty %s: predictions are by it, or over the arrangements", g)
	}
	return g.Check()
}

// penalise gives the model of a fit to p, as c asks, the one by a ridge on its gate; none where rows are in groups.
func penalise(ctx context.Context, p *problem.Problem, m *fitted.Model, c Config) error {
	if p.Grouped() || !c.GatePenalty.applies(c, m) {
		return nil
	}
	lambda, err := c.GatePenalty.value()
	if err != nil {
		return err
	}
	c.show(StagePenalty, 0, 0)
	path, err := search.PenaliseGate(ctx, p, p.Shape.Adopt(p.Units.Into(m.Params())), lambda)
	if err != nil {
		return err
	}
	if path == nil {
		m.Fit.Notes = append(m.Fit.Notes, "no penalised gate: an expert shrinks onto a few rows on the way to it")
		return nil
	}
	best := path.Points[path.Chosen]
	out := &fitted.Penalised{Lambda: best.Lambda, Folds: path.Folds, LogLikelihood: best.LogLikelihood}
	for _, at := range path.Points {
		point := fitted.PenalisedPoint{Lambda: at.Lambda, LogLikelihood: at.LogLikelihood, Converged: at.Converged}
		if held := at.HeldOut; !math.IsNaN(held) && !math.IsInf(held, 0) {
			point.HeldOut = &held
		}
		out.Path = append(out.Path, point)
	}
	out.SetParams(p.Units.OutOf(best.Params))
	l := loss.NewLikelihood(p.Given, p.G, best.Params, p.Shape.Estimated(), p.Threads)
	if out.Proportions, err = l.Proportions(ctx, best.Params); err != nil {
		return err
	}
	m.Penalised = out
	view := m.ForNewRows()
	view.Fit.LogLikelihood = best.LogLikelihood
	if err := checked(ctx, view, p, l, best.Params); err != nil {
		return err
	}
	return penalisedErrors(ctx, m, p, best, c)
}

// penalisedErrors adds the standard errors and the covariance of the penalised model, or a note why there are none.
func penalisedErrors(ctx context.Context, m *fitted.Model, p *problem.Problem, best search.Penalised, c Config) error {
	at := &optimum{p: p, params: best.Params,
		l: loss.NewLikelihood(p.Given, p.G, best.Params, p.Shape.Estimated(), p.Threads)}
	at.l.PenaliseGate(2 * best.Lambda)
	kind := at.kind(c)
	covariance, err := at.covariance(ctx, kind)
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		m.Fit.Notes = append(m.Fit.Notes, "no standard errors of the penalised gate: "+none.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	view := m.ForNewRows()
	view.StandardErrors = at.standardErrors(covariance)
	if kind == infer.Observed {
		view.StandardErrors.Kind = fitted.KindPenalised
	}
	if p.Shape.Sigma == 0 && p.Shape.Normal() {
		noiseIntervals(p, view, covariance)
	}
	m.Penalised.StandardErrors = view.StandardErrors
	if len(covariance.Parameters) <= mostCovariance {
		m.Penalised.Covariance = &fitted.Covariance{Parameters: covariance.Names(p.Schema.Features),
			Matrix: rowsOf(covariance.Matrix)}
	}
	return nil
}
