package fitted

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/model"
)

// Arrangements are what a fit has seen of other optima within 6 units of log-likelihood of the model's,
// which share the rows out among the experts in another way: standard errors and intervals
// hold given the model's own. Weights are shares of draws from the posterior under a weak prior (infer.WeakPrior,
// infer.Sample), and add up to 1.
type Arrangements struct {
	// K: sums of the experts' posterior probabilities in the model
	Rows       []float64     `json:"rows"`
	Weight     *float64      `json:"weight,omitempty"`     // of the model's own; absent where none were asked for
	Unweighted string        `json:"unweighted,omitempty"` // why that is 0
	Others     []Arrangement `json:"others"`               // best first

	// Intervals are those of the coefficients over all; absent where there were no draws.
	Intervals *ArrangementIntervals `json:"intervals,omitempty"`
}

// Arrangement is another optimum, its experts in the order of the model's whose regressors are nearest.
type Arrangement struct {
	LogLikelihood float64 `json:"log_likelihood"`
	Below         float64 `json:"below"`   // the model's log-likelihood less this one
	Differs       string  `json:"differs"` // in words: "expert 3 on 310 rows, on 5 in the model"
	// rows that are of another expert than in the model, by posterior probabilities
	Moved      float64   `json:"moved"`
	Rows       []float64 `json:"rows"`
	Weight     *float64  `json:"weight,omitempty"`
	Unweighted string    `json:"unweighted,omitempty"`

	Regressors          [][]float64  `json:"regressors"`
	Gating              [][]float64  `json:"gating"`
	RegressorIntercepts []float64    `json:"regressor_intercepts"` // or null
	GatingIntercepts    []float64    `json:"gating_intercepts"`    // or null
	OutputScale         *OutputScale `json:"output_scale,omitempty"`
	Sigma               Sigma        `json:"sigma"`

	// As in the model; absent where no weights were asked for, or the information has no inverse.
	StandardErrors *StandardErrors `json:"standard_errors,omitempty"`
	Covariance     *Covariance     `json:"covariance,omitempty"`
}

// ArrangementIntervals are quantiles of the draws of each coefficient: two ends each.
type ArrangementIntervals struct {
	Level               float64       `json:"level"`
	Regressors          [][][]float64 `json:"regressors"` // K×D
	Gating              [][][]float64 `json:"gating"`
	RegressorIntercepts [][]float64   `json:"regressor_intercepts"` // or null
	GatingIntercepts    [][]float64   `json:"gating_intercepts"`    // or null
}

// SetParams copies p into the arrangement.
func (a *Arrangement) SetParams(p *model.Params) {
	var m Model
	m.SetParams(p)
	a.Regressors, a.Gating, a.RegressorIntercepts, a.GatingIntercepts = m.Regressors, m.Gating, m.RegressorIntercepts,
		m.GatingIntercepts
	a.OutputScale, a.Sigma = m.OutputScale, m.Sigma
}

// Of is the model with the parameters of the arrangement, and without others.
func (a *Arrangement) Of(m *Model) *Model {
	out := *m
	out.Arrangements, out.HAC = nil, nil
	out.Regressors, out.Gating, out.RegressorIntercepts, out.GatingIntercepts = a.Regressors, a.Gating,
		a.RegressorIntercepts, a.GatingIntercepts
	out.OutputScale, out.Sigma, out.StandardErrors, out.Covariance = a.OutputScale, a.Sigma, a.StandardErrors,
		a.Covariance
	return &out
}

func (s *Arrangements) validate(m *Model) error {
	if s == nil {
		return nil
	}
	total := 0.0
	if s.Weight != nil {
		total = *s.Weight
	}
	if err := cmp.Or(check.Vector("arrangements.rows", s.Rows, m.K), checkWeight("arrangements.weight",
		s.Weight)); err != nil {
		return err
	}
	for i := range s.Others {
		a, name := &s.Others[i], fmt.Sprintf("arrangements.others[%d]", i)
		if err := cmp.Or(
			check.Vector(name+".rows", a.Rows, m.K), checkWeight(name+".weight", a.Weight),
			check.Vector(name+".log_likelihood", []float64{a.LogLikelihood, a.Below, a.Moved}, 3),
			check.Matrix(name+".regressors", a.Regressors, m.K, m.D),
			check.Matrix(name+".gating", a.Gating, model.Gates(m.Classes()), m.D),
			check.Optional(name+".regressor_intercepts", a.RegressorIntercepts, m.K),
			check.Optional(name+".gating_intercepts", a.GatingIntercepts, model.Gates(m.Classes())),
			a.OutputScale.validate(name+".output_scale", m.K),
			checkSigma(a.Sigma, m.K),
			a.Covariance.validate(),
		); err != nil {
			return err
		}
		if (a.RegressorIntercepts == nil) != (m.RegressorIntercepts == nil) ||
			(a.GatingIntercepts == nil) != (m.GatingIntercepts == nil) ||
			(a.OutputScale == nil) != (m.OutputScale == nil) {
			return fmt.Errorf("%s has intercepts or an output scale where the model has none, or none where it has",
				name)
		}
		if err := a.StandardErrors.validate(a.Of(m)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if a.Weight != nil {
			total += *a.Weight
		}
	}
	if total != 0 && math.Abs(total-1) > 1e-6 {
		return fmt.Errorf("the weights of arrangements add up to %v, want 1", total)
	}
	return nil
}

func checkWeight(name string, w *float64) error {
	if w != nil && !(*w >= 0 && *w <= 1) {
		return fmt.Errorf("%s = %v is not between 0 and 1", name, *w)
	}
	return nil
}
