package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/penalty"
)

// Penalty says whether the model of a fit comes with that of a ridge on the gate, or a ridge or a lasso on the experts,
// beside it, by which new rows are predicted (fitted.Penalised): [NoPenalty] is without, [AutoPenalty] with one that
// the rows choose; else it is the penalty itself, a number above 0. "" is on the gate AutoPenalty where a gate
// separates rows, and NoPenalty elsewhere.
type Penalty string

// What a [Penalty] may be beside a number.
const (
	NoPenalty   Penalty = "none"
	AutoPenalty Penalty = "auto"
)

// value is the penalty, 0 where the rows choose it.
func (g Penalty) value() (float64, error) {
	if g == "" || g == NoPenalty || g == AutoPenalty {
		return 0, nil
	}
	v, err := strconv.ParseFloat(string(g), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, refuse("penalty %s: want none, auto or a number above 0", g)
	}
	return v, nil
}

// Check refuses what is neither a number above 0 nor one of the words.
func (g Penalty) Check() error {
	_, err := g.value()
	return err
}

// Asked says whether there is to be one whatever the rows say.
func (g Penalty) Asked() bool { return g != "" && g != NoPenalty }

// onGate says whether a fit that has come to m is to have a ridge on the gate.
func onGate(c Config, m *fitted.Model) bool {
	_, constant := c.Gate.(Constant)
	switch {
	case m.Classes() == 1 || constant || c.GatePenalty == NoPenalty || m.Fit.Status == shrunk:
		return false
	case c.GatePenalty == "": // a part of the rows has passes to follow, and arrangements are a model for new rows
		return len(m.Fit.Separation) > 0 && !c.beside && !c.Arrangements
	}
	return true
}

// checkPenalties refuses what they cannot be beside.
func checkPenalties(c Config) error {
	_, constant := c.Gate.(Constant)
	switch {
	case c.GatePenalty.Asked() && constant:
		return refuse("gate penalty %s: a constant gate has no coefficients", c.GatePenalty)
	case (c.GatePenalty.Asked() || onExperts(c).Asked()) && c.Arrangements:
		return refuse("a penalty on the gate or the experts: predictions are by it, or over the arrangements")
	case c.ExpertRidge.Asked() && c.ExpertLasso.Asked():
		return refuse("the experts have a ridge or a lasso, not both")
	case onExperts(c).Asked() && (c.Tied != nil || c.Output != ""):
		return refuse("a %s on the experts does not know shared coefficients, nor means c + s·g", penaltyName(c))
	}
	return firstError(c.GatePenalty.Check(), c.ExpertRidge.Check(), c.ExpertLasso.Check())
}

// onExperts is the penalty on them, and penaltyName which that is.
func onExperts(c Config) Penalty {
	if c.ExpertLasso.Asked() {
		return c.ExpertLasso
	}
	return c.ExpertRidge
}

func penaltyName(c Config) string {
	if c.ExpertLasso.Asked() {
		return fitted.Lasso
	}
	return "ridge"
}

// penalise gives the model of a fit to p, as c asks, the one by a penalty on its gate, on its experts or on both: that
// on the gate is chosen first, and holds while that on the experts is. It gives none where rows are in groups.
func penalise(ctx context.Context, p *problem.Problem, m *fitted.Model, c Config) error {
	best := penalty.Maximum{Params: p.Shape.Adopt(p.Units.Into(m.Params()))}
	square := penalty.MeanSquare(best.Params)
	gate, experts := onGate(c, m), onExperts(c).Asked() && m.Fit.Status != shrunk && square > 0
	if p.Grouped() || !gate && !experts {
		return nil
	}
	c.show(StagePenalty, 0, 0)
	out := &fitted.Penalised{Path: []fitted.PenalisedPoint{}}
	if gate {
		given, err := c.GatePenalty.value()
		if err != nil {
			return err
		}
		path, err := penalty.Gate(ctx, p, best.Params, given)
		if err != nil {
			return err
		}
		if path == nil {
			m.Fit.Notes = append(m.Fit.Notes, "no penalised gate: an expert shrinks onto a few rows on the way to it")
		} else {
			best = path.Points[path.Chosen]
			out.Lambda, out.Folds, out.Path = best.Lambda, path.Folds, pointsOf(path)
		}
	}
	if experts {
		given, err := onExperts(c).value()
		if err != nil {
			return err
		}
		var path *penalty.Path
		if c.ExpertLasso.Asked() {
			_, sets := together(m)
			path, err = penalty.Lasso(ctx, p, best.Params, sets, out.Lambda, square, given)
		} else {
			path, err = penalty.Experts(ctx, p, best.Params, out.Lambda, square, given)
		}
		switch {
		case err != nil:
			return err
		case path == nil:
			m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("no %s on the experts: one shrinks onto a few rows on the "+
				"way to it, or has too many coefficients for it", penaltyName(c)))
		default:
			best = path.Points[path.Chosen]
			out.ExpertLambda, out.ExpertFolds, out.ExpertPath = best.Lambda, path.Folds, pointsOf(path)
			addSlopes(out.ExpertPath, path)
			if out.MeanSquare = square; c.ExpertLasso.Asked() {
				out.ExpertPenalty = fitted.Lasso
			}
			if best.Lambda == 0 {
				m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("no %s on the experts: of those that were tried none is "+
					"better for rows that are not fitted", penaltyName(c)))
			}
		}
	}
	if out.Lambda == 0 && out.ExpertLambda == 0 {
		return nil
	}
	out.LogLikelihood = best.LogLikelihood
	return bePenalised(ctx, p, m, out, best.Params, c)
}

// pointsOf is how a file has those of a path.
func pointsOf(path *penalty.Path) (out []fitted.PenalisedPoint) {
	for _, at := range path.Points {
		point := fitted.PenalisedPoint{Lambda: at.Lambda, LogLikelihood: at.LogLikelihood, Converged: at.Converged}
		if held := at.HeldOut; !math.IsNaN(held) && !math.IsInf(held, 0) {
			point.HeldOut = &held
		}
		out = append(out, point)
	}
	return out
}

// addSlopes adds the experts' slopes to the points of a path, where they are not many.
func addSlopes(points []fitted.PenalisedPoint, path *penalty.Path) {
	for i, at := range path.Points {
		if at.Params == nil || len(at.Params.Regressors) > fitted.MostSlopes {
			continue
		}
		for e := range at.Params.K {
			var row []float64
			for _, v := range at.Params.Regressor(e) {
				v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
				row = append(row, v)
			}
			points[i].Slopes = append(points[i].Slopes, row)
		}
	}
}

// bePenalised makes out, whose parameters are these in the units of the fit, the model of m for new rows.
func bePenalised(ctx context.Context, p *problem.Problem, m *fitted.Model, out *fitted.Penalised, at *model.Params,
	c Config) (err error) {
	out.SetParams(p.Units.OutOf(at))
	if out.ExpertPenalty == fitted.Lasso {
		out.Without = withoutSets(m, p, at)
	}
	l := loss.NewLikelihood(p.Given, p.G, at, p.Shape.Estimated(), p.Threads)
	if out.Proportions, err = l.Proportions(ctx, at); err != nil {
		return err
	}
	m.Penalised = out
	view := m.ForNewRows()
	view.Fit.LogLikelihood = out.LogLikelihood
	if err := checked(ctx, view, p, l, at); err != nil {
		return err
	}
	return penalisedErrors(ctx, m, p, at, c)
}

// penaliseBy puts the penalties of m's model for new rows on l.
func penaliseBy(l *loss.Likelihood, m *fitted.Model) {
	s := m.Penalised
	if s.ExpertPenalty == fitted.Lasso {
		_, sets := together(m)
		penalty.PutLasso(l, l.ExpertNorms(sets), s.Lambda, s.ExpertLambda, s.MeanSquare)
		return
	}
	penalty.PutRidge(l, s.Lambda, s.ExpertLambda, s.MeanSquare)
}

// together are the sets of m's features whose slopes a lasso takes together, and their names: the levels of a factor,
// and each other feature alone.
func together(m *fitted.Model) (names []string, sets [][]int) {
	if m.Design != nil {
		return m.Design.Sets()
	}
	for j, name := range m.Features {
		names, sets = append(names, name), append(sets, []int{j})
	}
	return names, sets
}

// withoutSets names, of each expert of q in the order of m's, the sets of features whose slopes are 0.
func withoutSets(m *fitted.Model, p *problem.Problem, q *model.Params) [][]string {
	names, sets := together(m)
	columns, _ := p.Shape.Estimated().Columns(q)
	out := make([][]string, q.K)
	for i := range out {
		out[i] = []string{}
		for s, set := range sets {
			size, sees := 0.0, false
			for _, j := range set {
				size = max(size, math.Abs(q.Regressor(i)[j]))
				sees = sees || slices.Contains(columns, j)
			}
			if sees && size == 0 {
				out[i] = append(out[i], names[s])
			}
		}
	}
	return out
}

// penalisedErrors adds the standard errors and the covariance of the penalised model, or a note why there are none.
func penalisedErrors(ctx context.Context, m *fitted.Model, p *problem.Problem, params *model.Params, c Config) error {
	at := &optimum{p: p, params: params, l: loss.NewLikelihood(p.Given, p.G, params, p.Shape.Estimated(), p.Threads)}
	penaliseBy(at.l, m)
	kind := at.kind(c)
	covariance, err := at.covariance(ctx, kind)
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		m.Fit.Notes = append(m.Fit.Notes, "no standard errors of the penalised model: "+none.Reason)
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
