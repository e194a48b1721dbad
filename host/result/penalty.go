package result

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result/warn"
	"github.com/gatedlearning/moe/host/search/penalty"
	"github.com/gatedlearning/moe/internal/shown"
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
		return 0, problem.Refuse("penalty %s: want none, auto or a number above 0", g)
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

// Value is one that was asked for, and checked, 0 where the rows choose it; nil of none.
func (g Penalty) Value() *float64 {
	if !g.Asked() {
		return nil
	}
	v, err := g.value()
	if err != nil {
		panic("result: " + err.Error())
	}
	return &v
}

// Penalties are those of a model for new rows: the size of one, 0 where the rows choose it, or nil for none.
type Penalties struct {
	Gate       *float64 // of a ridge
	Separating bool     // where a gate separates rows a ridge on it that the rows choose
	Experts    *float64 // of a ridge, or a lasso
	Lasso      bool
	Begins     func() // is called before there is one; nil for nobody
}

// onGate is the size of the ridge that the gate of a fit that has come to m is to have; nil for none.
func (a Penalties) onGate(m *fitted.Model) *float64 {
	switch {
	case m.Classes() == 1 || m.Fit.Status == Shrunk:
		return nil
	case a.Gate == nil && a.Separating && len(m.Fit.Separation) > 0:
		return new(float64)
	}
	return a.Gate
}

// PenaltyName is what a penalty on the experts is called.
func PenaltyName(lasso bool) string {
	if lasso {
		return fitted.Lasso
	}
	return "ridge"
}

// Penalise gives the model of a fit to p the one by a penalty on its gate, on its experts or on both: that on the gate
// is chosen first, and holds while that on the experts is. It gives none where rows are in groups.
func Penalise(ctx context.Context, p *problem.Problem, m *fitted.Model, s Settings) error {
	asked, best := s.Penalties, penalty.Maximum{Params: p.Shape.Adopt(p.Units.Into(m.Params()))}
	square := penalty.MeanSquare(best.Params)
	gate, experts := asked.onGate(m), asked.Experts
	if m.Fit.Status == Shrunk || !(square > 0) {
		experts = nil
	}
	if p.Grouped() || gate == nil && experts == nil {
		return nil
	}
	if asked.Begins != nil {
		asked.Begins()
	}
	out := &fitted.Penalised{Path: []fitted.PenalisedPoint{}}
	if gate != nil {
		path, err := penalty.Gate(ctx, p, best.Params, *gate)
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
	if experts != nil {
		var path *penalty.Path
		var err error
		if asked.Lasso {
			_, sets := together(m)
			path, err = penalty.Lasso(ctx, p, best.Params, sets, out.Lambda, square, *experts)
		} else {
			path, err = penalty.Experts(ctx, p, best.Params, out.Lambda, square, *experts)
		}
		switch {
		case err != nil:
			return err
		case path == nil:
			m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("no %s on the experts: one shrinks onto a few rows on the "+
				"way to it, or has too many coefficients for it", PenaltyName(asked.Lasso)))
		default:
			best = path.Points[path.Chosen]
			out.ExpertLambda, out.ExpertFolds, out.ExpertPath = best.Lambda, path.Folds, pointsOf(path)
			addSlopes(out.ExpertPath, path)
			if out.MeanSquare = square; asked.Lasso {
				out.ExpertPenalty = fitted.Lasso
			}
			if best.Lambda == 0 {
				m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("no %s on the experts: of those that were tried none is "+
					"better for rows that are not fitted", PenaltyName(asked.Lasso)))
			}
		}
	}
	if out.Lambda == 0 && out.ExpertLambda == 0 {
		return nil
	}
	if !best.Converged {
		m.Fit.Warn(fitted.WarnNewRows, "the penalised model has not converged: its coefficients and predictions may "+
			"be far from the best; try another penalty, or none")
	}
	out.LogLikelihood = best.LogLikelihood
	return bePenalised(ctx, p, m, out, best.Params, s)
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
	s Settings) (err error) {
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
	if err := penalisedErrors(ctx, m, p, at, s); err != nil {
		return err
	}
	emptied(m, p, at)
	return nil
}

// leastOfExpert is the rows of an expert below which it has none.
const leastOfExpert = 0.5

// emptied takes their standard errors from experts that have no rows at these parameters, under the penalty, and warns
// of them, before what was said of experts at the maximum without one, where they have rows.
func emptied(m *fitted.Model, p *problem.Problem, at *model.Params) {
	var names []string
	for i, share := range m.Penalised.Proportions {
		if share*p.Weights.Total < leastOfExpert {
			names = append(names, strconv.Itoa(i+1))
			m.Penalised.StandardErrors.Without([]int{i}, warn.GatesOf(at, []int{i}), p.Shape.Tied)
		}
	}
	if names == nil {
		return
	}
	said := "expert " + names[0] + " has no rows under the penalty, and its coefficients say"
	if len(names) > 1 {
		said = "experts " + shown.List(names) + " have no rows under the penalty, and their coefficients say"
	}
	f := &m.Fit
	for i, kind := range f.WarningKinds {
		if kind == fitted.WarnTooMany {
			f.Warnings[i] = strings.Replace(f.Warnings[i], ": ", ": at the maximum without the penalty, ", 1)
		}
	}
	f.Warnings = slices.Insert(f.Warnings, 0, said+" nothing: take fewer experts, or a smaller penalty")
	f.WarningKinds = slices.Insert(f.WarningKinds, 0, fitted.WarnTooMany)
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
func penalisedErrors(ctx context.Context, m *fitted.Model, p *problem.Problem, params *model.Params, s Settings) error {
	at := &optimum{infinity: infinity{p: p}, params: params,
		l: loss.NewLikelihood(p.Given, p.G, params, p.Shape.Estimated(), p.Threads)}
	penaliseBy(at.l, m)
	kind := s.kind(p)
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
	if err := at.correct(ctx, view, covariance); err != nil {
		return err
	}
	m.Penalised.StandardErrors = view.StandardErrors
	if len(covariance.Parameters) <= mostCovariance {
		m.Penalised.Covariance = &fitted.Covariance{Parameters: covariance.Names(p.Schema.Features),
			Matrix: rowsOf(covariance.Matrix)}
	}
	return nil
}
