package fitted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/model"
)

// StandardErrors are those of the parameters, in the places and the units of the
// parameters themselves; 0 where the model holds a parameter fixed at 0. NaN, which is null in JSON, where the gate
// separates rows and a coefficient has no finite optimum, and of experts that may be one.
type StandardErrors struct {
	Kind                string       `json:"kind"` // observed, robust, cluster or hac; see infer.Kind
	Regressors          [][]float64  `json:"regressors"`
	Gating              [][]float64  `json:"gating"`
	RegressorIntercepts []float64    `json:"regressor_intercepts"`   // K, or null
	GatingIntercepts    []float64    `json:"gating_intercepts"`      // K−1, or null
	OutputScale         *OutputScale `json:"output_scale,omitempty"` // nil where the model has none
	Sigma               Sigma        `json:"sigma"`                  // null where sigma was given
	// of the family, beside sigma; 0 of one at an end of what it may be
	Own Own `json:"own,omitempty"`

	// SigmaCorrected is for every noise level its estimate corrected for degrees of
	// freedom, see infer.NoiseCorrected: Sigma of the model is the maximum of the
	// likelihood, which lies below it. Null where sigma was given.
	SigmaCorrected Sigma `json:"sigma_corrected"`
	// DispersionCorrected is for every value of a family's first own parameter, sigma of student-t, shape or theta, its
	// estimate corrected for the coefficients that are estimated beside it, see infer.Dispersion: predictive laws have
	// it in the place of that of the maximum. Nil of normal noise, and where there is none.
	DispersionCorrected Sigma `json:"dispersion_corrected,omitempty"`
	// SigmaInterval is for every noise level its 95 % interval, around the corrected
	// estimate and not symmetric, see infer.NoiseInterval; null where sigma was given, [null, null] as above.
	SigmaInterval [][]float64 `json:"sigma_interval"`

	Clusters *Clusters `json:"clusters,omitempty"` // of kind cluster
}

// Clusters says from what standard errors of kind cluster are.
type Clusters struct {
	Column string `json:"column"` // of the ids: rows of one may depend on each other
	Count  int    `json:"count"`  // at least 2
	// CriticalValue is how many of these standard errors a 95 % interval goes to either side: the quantile of a t
	// law with Count − 1 degrees of freedom.
	CriticalValue float64 `json:"critical_value"`
}

func (c *Clusters) validate() error {
	if c != nil && (c.Count < 2 || !(c.CriticalValue > 0) || math.IsInf(c.CriticalValue, 0)) {
		return fmt.Errorf("standard_errors.clusters has %d clusters and a critical value of %v, want at least 2, and "+
			"a finite number above 0", c.Count, c.CriticalValue)
	}
	return nil
}

// errorsInJSON are standard errors as files have them: null for NaN.
type errorsInJSON struct {
	Kind                string `json:"kind"` // in the order of plainErrors, whose fields these hide
	Regressors          []gaps `json:"regressors"`
	Gating              []gaps `json:"gating"`
	RegressorIntercepts gaps   `json:"regressor_intercepts"`
	GatingIntercepts    gaps   `json:"gating_intercepts"`
	SigmaInterval       []gaps `json:"sigma_interval"`
	*plainErrors
}

type plainErrors StandardErrors

// MarshalJSON writes null for NaN.
func (s *StandardErrors) MarshalJSON() ([]byte, error) {
	return json.Marshal(errorsInJSON{s.Kind, rowsAs[gaps](s.Regressors), rowsAs[gaps](s.Gating), s.RegressorIntercepts,
		s.GatingIntercepts, rowsAs[gaps](s.SigmaInterval), (*plainErrors)(s)})
}

// UnmarshalJSON reads null as NaN.
func (s *StandardErrors) UnmarshalJSON(data []byte) error {
	in := errorsInJSON{plainErrors: (*plainErrors)(s)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	s.Kind, s.Regressors, s.Gating = in.Kind, rowsAs[[]float64](in.Regressors), rowsAs[[]float64](in.Gating)
	s.RegressorIntercepts, s.GatingIntercepts = in.RegressorIntercepts, in.GatingIntercepts
	s.SigmaInterval = rowsAs[[]float64](in.SigmaInterval)
	return nil
}

// Without leaves out what these experts, from 0 on, have for themselves, and these gates; not the coefficients of
// features that all experts share, in which D is the intercept.
func (s *StandardErrors) Without(experts, gates, shared []int) {
	if s == nil {
		return
	}
	blank := func(v []float64, i int) {
		if i < len(v) {
			v[i] = math.NaN()
		}
	}
	all := func(v []float64, but []int) {
		for j, se := range v {
			if se != 0 && !slices.Contains(but, j) { // one of 0 is held, and not estimated
				v[j] = math.NaN()
			}
		}
	}
	for _, i := range experts {
		all(s.Regressors[i], shared)
		if !slices.Contains(shared, len(s.Regressors[i])) {
			blank(s.RegressorIntercepts, i)
		}
		for _, own := range s.Own {
			if len(own) > 1 {
				blank(own, i)
			}
		}
		if len(s.Sigma) > 1 {
			blank(s.Sigma, i)
			if s.SigmaInterval != nil {
				all(s.SigmaInterval[i], nil)
			}
		}
	}
	for _, i := range gates {
		all(s.Gating[i], nil)
		blank(s.GatingIntercepts, i)
	}
}

// gaps are numbers of which some are not there: NaN, null in JSON.
type gaps []float64

// MarshalJSON writes null for NaN.
func (g gaps) MarshalJSON() ([]byte, error) {
	if g == nil {
		return []byte("null"), nil
	}
	out := make([]*float64, len(g))
	for i := range g {
		if !math.IsNaN(g[i]) {
			out[i] = &g[i]
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads null as NaN.
func (g *gaps) UnmarshalJSON(data []byte) error {
	var in []*float64
	if err := json.Unmarshal(data, &in); err != nil || in == nil {
		*g = nil
		return err
	}
	*g = make(gaps, len(in))
	for i, v := range in {
		(*g)[i] = math.NaN()
		if v != nil {
			(*g)[i] = *v
		}
	}
	return nil
}

// rowsAs are rows of numbers as those of another type, with gaps or without; nil for nil.
func rowsAs[To, From ~[]float64](rows []From) []To {
	if rows == nil {
		return nil
	}
	out := make([]To, len(rows))
	for i, row := range rows {
		out[i] = To(row)
	}
	return out
}

// withoutNaN is v with 0 for NaN.
func withoutNaN(v []float64) []float64 {
	out := slices.Clone(v)
	for i := range out {
		if math.IsNaN(out[i]) {
			out[i] = 0
		}
	}
	return out
}

// Covariance is the full covariance of the parameters' estimates.
type Covariance struct {
	Parameters []string    `json:"parameters"` // names of rows and columns
	Matrix     [][]float64 `json:"matrix"`
}

// HAC are standard errors that hold where rows follow each other in time, by the sandwich
// with the long-run covariance of the scores; see infer.Dependent.
type HAC struct {
	Kernel         string          `json:"kernel"`          // bartlett
	Bandwidth      int             `json:"bandwidth"`       // in rows: those that far apart count as independent
	StandardErrors *StandardErrors `json:"standard_errors"` // of kind hac; null for intervals of sigma
	// CriticalValue is how many of these standard errors a 95 % interval goes to either side, see
	// infer.Covariance.Critical; absent in files of before there was one, when it was 1.96.
	CriticalValue float64 `json:"critical_value,omitempty"`
	// Covariance is that of the same parameters as [Model.Covariance], where there is one. Files do not have it.
	Covariance [][]float64 `json:"-"`
}

func (h *HAC) validate(m *Model) error {
	switch {
	case h == nil:
		return nil
	case h.Bandwidth < 1 || h.StandardErrors == nil:
		return fmt.Errorf("hac has bandwidth %d, or no standard errors", h.Bandwidth)
	case !(h.CriticalValue >= 0) || math.IsInf(h.CriticalValue, 0):
		return fmt.Errorf("hac.critical_value = %v, want a finite number above 0", h.CriticalValue)
	}
	if err := h.StandardErrors.validate(m); err != nil {
		return fmt.Errorf("hac: %w", err)
	}
	return nil
}

// NewStandardErrors are the standard errors of a kind, given in the shape of parameters;
// noise says whether those of the noise levels are there.
func NewStandardErrors(kind string, se *model.Params, noise bool) *StandardErrors {
	var m Model
	m.SetParams(se)
	out := &StandardErrors{
		Kind: kind, Regressors: m.Regressors, Gating: m.Gating,
		RegressorIntercepts: m.RegressorIntercepts, GatingIntercepts: m.GatingIntercepts, OutputScale: m.OutputScale,
	}
	if noise {
		out.Sigma, out.Own = m.Sigma, m.Own
	}
	return out
}

// validate reports the first thing that does not fit the model or is not
// finite.
func (s *StandardErrors) validate(m *Model) error {
	if s == nil {
		return nil
	}
	rows := func(of [][]float64) [][]float64 {
		out := make([][]float64, len(of))
		for i, row := range of {
			out[i] = withoutNaN(row)
		}
		return out
	}
	if err := cmp.Or(
		check.Matrix("standard_errors.regressors", rows(s.Regressors), m.K, m.D),
		check.Matrix("standard_errors.gating", rows(s.Gating), model.Gates(m.Classes()), m.D),
		check.Optional("standard_errors.regressor_intercepts", withoutNaN(s.RegressorIntercepts), m.K),
		check.Optional("standard_errors.gating_intercepts", withoutNaN(s.GatingIntercepts), model.Gates(m.Classes())),
		check.Optional("standard_errors.sigma", withoutNaN(s.Sigma), len(m.Sigma)),
		s.Clusters.validate(),
		check.Optional("standard_errors.sigma_corrected", s.SigmaCorrected, len(m.Sigma)),
	); err != nil {
		return err
	}
	if corrected := s.DispersionCorrected; corrected != nil {
		const name = "standard_errors.dispersion_corrected"
		if err := check.Vector(name, corrected, len(m.Params().Sigma)); err != nil {
			return err
		}
		if slices.Min(corrected) <= 0 {
			return fmt.Errorf("%s = %v, want numbers above 0", name, corrected)
		}
	}
	if s.Own != nil && len(s.Own) != len(m.Own) {
		return fmt.Errorf("standard_errors.own has %d parameters, the model has %d", len(s.Own), len(m.Own))
	}
	for name, values := range s.Own {
		if err := check.Vector("standard_errors.own."+name, withoutNaN(values), len(m.Own[name])); err != nil {
			return err
		}
	}
	if s.SigmaInterval != nil {
		if err := check.Matrix("standard_errors.sigma_interval", rows(s.SigmaInterval), len(m.Sigma), 2); err != nil {
			return err
		}
	}
	if (s.OutputScale == nil) != (m.OutputScale == nil) || s.OutputScale != nil &&
		len(s.OutputScale.Offset) != len(m.OutputScale.Offset) {
		return fmt.Errorf("standard_errors.output_scale does not go with the model's")
	}
	if err := s.OutputScale.validate("standard_errors.output_scale", m.K); err != nil {
		return err
	}
	if (s.RegressorIntercepts == nil) != (m.RegressorIntercepts == nil) ||
		(s.GatingIntercepts == nil) != (m.GatingIntercepts == nil) {
		return fmt.Errorf("standard_errors has intercepts where the model has none, or none where it has")
	}
	return nil
}

func (c *Covariance) validate() error {
	if c == nil {
		return nil
	}
	return check.Matrix("covariance.matrix", c.Matrix, len(c.Parameters), len(c.Parameters))
}
