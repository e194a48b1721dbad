package crossvalidation

import (
	"context"
	"fmt"
	"math"

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
	// of the mean prediction, over all rows; of the median where the target has no mean
	RMSE      float64 `json:"rmse"`
	Converged int     `json:"converged"` // fits, of as many as there are folds
	Folds     int     `json:"-"`
	// Certain is how many of the fits tell every target with certainty: their likelihood has no finite maximum.
	Certain int `json:"certain,omitempty"`
	// Unseen are features that tell nothing without some part, as the column of a level that hardly any row has: the
	// fits to the other parts are without them.
	Unseen []string `json:"unseen,omitempty"`
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
	observed, scored   float64   // the sum of these, and of the rows' with a mean, or a median
	sse                float64
	left               *behind // nil of one that is fitted without every part
}

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

// add measures a fit on the rows that were left out.
func (s *score) add(ctx context.Context, act sdk.Activation, m *fitted.Model, left dataset.Loaded) error {
	if m.Fit.Converged {
		s.converged++
	}
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
			s.count(groups.Weight[g], v, v)
		}
	}
	s.uncertain = s.uncertain || uncertainty != nil && groups == nil
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
				s.count(w, by, own.LogDens[r])
			}
			if e := y - own.Point[r]; !math.IsNaN(e) { // there is a mean, or a median
				s.sse, s.scored = s.sse+w*e*e, s.scored+w
			}
		}
		return nil
	})
}

// heldOut is the score of k experts on the table of that name.
func (s *score) heldOut(k int, name string) (HeldOut, error) {
	h := HeldOut{
		K: k, Converged: s.converged, Certain: s.certain,
		LogLikelihood: s.plugIn.logLikelihood,
		StandardError: s.plugIn.standardError(s.observed),
		RMSE:          math.Sqrt(s.sse / s.scored),
	}
	if of, by := s.predictive.logLikelihood, s.predictive.standardError(s.observed); s.uncertain && s.sound() {
		h.Predictive, h.PredictiveStandardError = &of, &by
	}
	if !numeric.Finite(h.LogLikelihood, h.StandardError, h.RMSE) {
		return h, &dataset.Error{File: name,
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
