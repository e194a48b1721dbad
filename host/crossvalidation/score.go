package crossvalidation

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// HeldOut is how well fits of one number of experts describe the rows that they have
// not seen.
type HeldOut struct {
	K int `json:"k"`
	// LogLikelihood is Σ w·log p(y|x) over all rows, each by the fit that was made
	// without it; StandardError is that of it, were the rows drawn anew: √n times
	// the standard deviation of the rows' terms.
	LogLikelihood float64 `json:"log_likelihood"`
	StandardError float64 `json:"standard_error"`
	// Predictive is the same of the densities that intervals are of, with the uncertainty of each fit's parameters in
	// them, and of those as they are where a fit knows of none; absent where no fit does.
	Predictive              *float64 `json:"predictive_log_likelihood,omitempty"`
	PredictiveStandardError *float64 `json:"predictive_standard_error,omitempty"`
	// of the mean prediction, over all rows; of the median where the target has no mean. Of several targets it is that
	// of the distance from all of a row to their means.
	RMSE float64 `json:"rmse"`
	// Targets are several, each by itself; all else is of the density of all targets of a row.
	Targets   []OfTarget `json:"targets,omitempty"`
	Converged int        `json:"converged"` // fits, of as many as there are folds
	Folds     int        `json:"-"`
	// Certain is how many of the fits tell every target with certainty: their likelihood has no finite maximum.
	Certain int `json:"certain,omitempty"`
	// Unseen are features that tell nothing without some part, as the column of a level that hardly any row has: the
	// fits to the other parts are without them.
	Unseen []string `json:"unseen,omitempty"`
}

// OfTarget is how well fits describe one of several targets.
type OfTarget struct {
	Target        string  `json:"target"`
	LogLikelihood float64 `json:"log_likelihood"` // Σ w·log p(y|x) of this target alone
	RMSE          float64 `json:"rmse"`           // of the mean prediction
}

// Judged is the log-likelihood by which numbers of experts are compared: the predictive one, where there is one.
func (h *HeldOut) Judged() float64 {
	if h.Predictive != nil {
		return *h.Predictive
	}
	return h.LogLikelihood
}

// score sums up how well fits of one number of experts describe the rows that they have not seen.
type score struct {
	// predictive is by the density that predictions are of, with the uncertainty of the parameters in it where a fit
	// knows of it, plugIn by that at the parameters.
	predictive, plugIn tally
	uncertain          bool // some fit knows of uncertainty
	parameters         int
	converged, certain int
	weights            []float64 // of all groups, or rows
	observed           float64   // the sum of these
	targets            []ofTarget
	left               *behind // nil of one that is fitted without every part
}

// ofTarget sums up how far a target is from what fits predict, over rows with a mean, or a median, of weight scored.
type ofTarget struct{ logLikelihood, predictive, sse, scored float64 }

// tally sums up log-densities of groups, or rows.
type tally struct {
	logLikelihood, squares float64
	terms                  []float64 // times their weight
}

// count adds one.
func (t *tally) count(weight, logDensity float64) {
	t.logLikelihood += weight * logDensity
	t.squares += weight * logDensity * logDensity
	t.terms = append(t.terms, weight*logDensity)
}

// standardError is that of the sum over observations of this weight.
func (t *tally) standardError(weight float64) float64 {
	return math.Sqrt(max(t.squares-t.logLikelihood*t.logLikelihood/weight, 0))
}

// count adds a group, or a row.
func (s *score) count(weight, predictive, plugIn float64) {
	s.weights, s.observed = append(s.weights, weight), s.observed+weight
	s.predictive.count(weight, predictive)
	s.plugIn.count(weight, plugIn)
}

// behind is how far a score was below the best, after how many parts, when it was left.
type behind struct {
	parts             int
	by, standardError float64
}

// after says after how many parts.
func (b *behind) after() string {
	if b.parts == 1 {
		return "one part"
	}
	return fmt.Sprintf("%d parts", b.parts)
}

// String says so.
func (b *behind) String() string {
	if !numeric.Finite(b.by) {
		return fmt.Sprintf("after %s: their rows have a density of 0", b.after())
	}
	return fmt.Sprintf("after %s, %.3g below the best, ± %.2g", b.after(), b.by, b.standardError)
}

// measured are the logs of the densities of rows, or groups, that a fit has not seen.
type measured struct {
	weight, predictive, plugIn []float64
	uncertain                  bool // the fit knows of uncertainty
}

// take adds what a target has of row r.
func (m *measured) take(r int, weight, predictive, plugIn float64) {
	if r == len(m.weight) { // of the first target
		m.weight, m.predictive, m.plugIn = append(m.weight, weight), append(m.predictive, 0), append(m.plugIn, 0)
	}
	m.predictive[r] += predictive
	m.plugIn[r] += plugIn
}

// joint takes the targets' joint density under one gate, which is at the parameters alone.
func (m *measured) joint(ctx context.Context, v *fitted.Vector, act sdk.Activation, left []dataset.Loaded) error {
	*m = measured{}
	var tables []dataset.Source
	for _, table := range left {
		tables = append(tables, table)
	}
	return predict.JointDensities(ctx, v, act, tables, func(blocks []*model.Block, logDensity []float64) error {
		for r, of := range logDensity {
			m.take(len(m.weight), blocks[0].Weight(r), of, of)
		}
		return nil
	})
}

// add measures a fit on the rows that were left out, a table of every target: by the product of the targets'
// densities, or by their joint one.
func (s *score) add(ctx context.Context, act sdk.Activation, f criterion.Fit, left []dataset.Loaded) error {
	s.parameters = max(s.parameters, f.Parameters) // those of a part may be fewer
	if f.Certain {
		s.certain++
	}
	models, fits := []*fitted.Model{f.Model}, []*fitted.Fit(nil)
	if v := f.Vector; v != nil {
		models, fits = nil, v.Fits()
		for j := range v.Outputs {
			models = append(models, v.Model(j))
		}
	} else {
		fits = append(fits, &f.Model.Fit)
	}
	if !slices.ContainsFunc(fits, func(f *fitted.Fit) bool { return !f.Converged }) {
		s.converged++
	}
	if s.targets == nil {
		s.targets = make([]ofTarget, len(models))
	}
	var rows measured
	for j, m := range models {
		if err := s.targets[j].add(ctx, act, m, left[j], &rows); err != nil {
			return err
		}
	}
	if v := f.Vector; v != nil && v.SharedGate != nil {
		if err := rows.joint(ctx, v, act, left); err != nil {
			return err
		}
	}
	for r, w := range rows.weight {
		s.count(w, rows.predictive[r], rows.plugIn[r])
	}
	s.uncertain = s.uncertain || rows.uncertain
	return nil
}

// add measures the fit of a target on the rows that were left out, and adds their densities, or those of their groups,
// to what others have of them.
func (s *ofTarget) add(ctx context.Context, act sdk.Activation, m *fitted.Model, left dataset.Loaded,
	rows *measured) error {
	m = m.ForNewRows()
	at, uncertainty, scale := m.Params(), predict.UncertaintyOf(m), left.Schema().Scale
	predictor := predict.NewPredictor(at, act, left.Schema().Name).With(uncertainty)
	groups, err := loss.NewLikelihood(left.Data, act, at, loss.All, 1).OfGroups(ctx, at)
	if err != nil {
		return err
	}
	if groups != nil {
		if scale != "" {
			return problem.Refuse("parts of groups are measured on a target itself, not on %s",
				scale.Title(left.Schema().Target))
		}
		for g, v := range groups.LogDensity {
			rows.take(g, groups.Weight[g], v, v)
		}
	}
	rows.uncertain = rows.uncertain || uncertainty != nil && groups == nil
	row := 0
	return left.Read(ctx, func(b *model.Block) error {
		p, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		own := &predict.Own{Point: p.Mean, LogDens: p.LogDens}
		if scale != "" {
			if own, err = predictor.OwnScale(p, scale, b.Y); err != nil {
				return err
			}
		}
		for r, v := range b.Y {
			w, y := b.Weight(r), scale.Back(v)
			if groups == nil {
				by := own.LogDens[r]
				if uncertainty != nil {
					by = predictor.LogPredictive(p, r, v) + scale.LogSlope(v)
				}
				rows.take(row+r, w, by, own.LogDens[r])
				s.logLikelihood += w * own.LogDens[r]
				s.predictive += w * by
			}
			if e := y - own.Point[r]; !math.IsNaN(e) { // there is a mean, or a median
				s.sse, s.scored = s.sse+w*e*e, s.scored+w
			}
		}
		row += b.N
		return nil
	})
}

// heldOut is the score of k experts on a table.
func (s *score) heldOut(k int, of *parts) (HeldOut, error) {
	h := HeldOut{
		K: k, Converged: s.converged, Certain: s.certain, Folds: of.folds, Unseen: of.unseen(),
		LogLikelihood: s.plugIn.logLikelihood,
		StandardError: s.plugIn.standardError(s.observed),
	}
	mean := 0.0 // squared distance
	for j, t := range s.targets {
		mean += t.sse / t.scored
		if len(s.targets) > 1 {
			h.Targets = append(h.Targets, OfTarget{of.tables[j].Schema().Target, t.logLikelihood,
				math.Sqrt(t.sse / t.scored)})
		}
	}
	h.RMSE = math.Sqrt(mean)
	if of, by := s.predictive.logLikelihood, s.predictive.standardError(s.observed); s.uncertain && s.sound() {
		h.Predictive, h.PredictiveStandardError = &of, &by
	}
	if !numeric.Finite(h.LogLikelihood, h.StandardError, h.RMSE) {
		return h, &dataset.Error{File: of.of().Schema().Name,
			Msg: fmt.Sprintf("k = %d: held-out log-likelihood %.3g and rmse %.3g are not finite: a fit's predictions "+
				"are too far from the rows that it has not seen to be squared", k, h.LogLikelihood, h.RMSE)}
	}
	return h, nil
}

// sound says whether there is a log-likelihood of all rows to compare.
func (s *score) sound() bool { return s.left == nil && numeric.Finite(s.predictive.logLikelihood) }

// below is how far the log-likelihood is below another's, and the standard error of that, where one of weight w counts
// as w.
func (s *score) below(other *score) (by, standardError float64) {
	own, beside := &s.predictive, &other.predictive
	var off tally
	for t, weight := range s.weights {
		if weight > 0 {
			off.count(weight, (beside.terms[t]-own.terms[t])/weight)
		}
	}
	n := float64(len(off.terms))
	return off.logLikelihood, off.standardError(s.observed) * math.Sqrt(n/(n-1))
}

// described is a score as files have it, beside the highest.
func (s *score) described(k int, settings map[string]string, top *score, chosen bool) fitted.Description {
	d := fitted.Description{K: k, Settings: settings, Parameters: s.parameters, Converged: s.converged, Chosen: chosen}
	if len(s.targets) > 1 {
		d.Targets = len(s.targets)
	}
	switch {
	case s.left != nil:
		d.Reason = "left " + s.left.String()
		return d
	case !s.sound():
		d.Reason = fmt.Sprintf("log-likelihood %v of the rows that were left out", s.predictive.logLikelihood)
		return d
	}
	by, se := s.below(top)
	d.HeldOut, d.Below, d.StandardError = &s.predictive.logLikelihood, &by, &se
	return d
}
