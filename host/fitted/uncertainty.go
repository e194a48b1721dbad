package fitted

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// StandardErrors are those of the parameters, in the places and the units of the
// parameters themselves; 0 where the model holds a parameter fixed at 0, NaN, which is
// null in JSON, where the gate separates rows and a coefficient has no finite optimum.
type StandardErrors struct {
	Kind                string       `json:"kind"` // observed, robust, cluster or hac; see infer.Kind
	Regressors          [][]float64  `json:"regressors"`
	Gating              [][]float64  `json:"gating"`
	RegressorIntercepts []float64    `json:"regressor_intercepts"`   // K, or null
	GatingIntercepts    []float64    `json:"gating_intercepts"`      // K−1, or null
	OutputScale         *OutputScale `json:"output_scale,omitempty"` // nil where the model has none
	Sigma               Sigma        `json:"sigma"`                  // null where sigma was given
	// as of [Model]; 0 of one at an end of what it may be
	Own Own `json:"own,omitempty"`

	// SigmaCorrected is for every noise level its estimate corrected for degrees of
	// freedom, see infer.NoiseCorrected: Sigma of the model is the maximum of the
	// likelihood, which lies below it. Null where sigma was given.
	SigmaCorrected Sigma `json:"sigma_corrected"`
	// SigmaInterval is for every noise level its 95 % interval, around the corrected
	// estimate and not symmetric, see infer.NoiseInterval; null where sigma was given.
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

// MarshalJSON writes null for NaN.
func (s *StandardErrors) MarshalJSON() ([]byte, error) {
	type plain StandardErrors
	out := struct {
		Kind                string       `json:"kind"` // in the order of plain, whose fields these hide
		Regressors          [][]float64  `json:"regressors"`
		Gating              [][]*float64 `json:"gating"`
		RegressorIntercepts []float64    `json:"regressor_intercepts"`
		GatingIntercepts    []*float64   `json:"gating_intercepts"`
		*plain
	}{s.Kind, s.Regressors, make([][]*float64, len(s.Gating)), s.RegressorIntercepts, pointers(s.GatingIntercepts),
		(*plain)(s)}
	for i, row := range s.Gating {
		out.Gating[i] = pointers(row)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads null as NaN.
func (s *StandardErrors) UnmarshalJSON(data []byte) error {
	type plain StandardErrors
	in := struct {
		Gating           [][]*float64 `json:"gating"`
		GatingIntercepts []*float64   `json:"gating_intercepts"`
		*plain
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	s.Gating = make([][]float64, len(in.Gating))
	for i, row := range in.Gating {
		s.Gating[i] = values(row)
	}
	s.GatingIntercepts = values(in.GatingIntercepts)
	return nil
}

// pointers returns pointers to the values, nil for NaN; nil for nil.
func pointers(v []float64) []*float64 {
	if v == nil {
		return nil
	}
	out := make([]*float64, len(v))
	for i := range v {
		if !math.IsNaN(v[i]) {
			out[i] = &v[i]
		}
	}
	return out
}

// values is the inverse of pointers.
func values(v []*float64) []float64 {
	if v == nil {
		return nil
	}
	out := make([]float64, len(v))
	for i := range v {
		out[i] = math.NaN()
		if v[i] != nil {
			out[i] = *v[i]
		}
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
	gating := make([][]float64, len(s.Gating))
	for i, row := range s.Gating {
		gating[i] = withoutNaN(row)
	}
	if err := firstError(
		checkMatrix("standard_errors.regressors", s.Regressors, m.K, m.D),
		checkMatrix("standard_errors.gating", gating, model.Gates(m.Classes()), m.D),
		checkOptional("standard_errors.regressor_intercepts", s.RegressorIntercepts, m.K),
		checkOptional("standard_errors.gating_intercepts", withoutNaN(s.GatingIntercepts), model.Gates(m.Classes())),
		checkOptional("standard_errors.sigma", s.Sigma, len(m.Sigma)),
		s.Clusters.validate(),
		checkOptional("standard_errors.sigma_corrected", s.SigmaCorrected, len(m.Sigma)),
	); err != nil {
		return err
	}
	if s.Own != nil && len(s.Own) != len(m.Own) {
		return fmt.Errorf("standard_errors.own has %d parameters, the model has %d", len(s.Own), len(m.Own))
	}
	for name, values := range s.Own {
		if err := checkVector("standard_errors.own."+name, values, len(m.Own[name])); err != nil {
			return err
		}
	}
	if s.SigmaInterval != nil {
		if err := checkMatrix("standard_errors.sigma_interval", s.SigmaInterval, len(m.Sigma), 2); err != nil {
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
	return checkMatrix("covariance.matrix", c.Matrix, len(c.Parameters), len(c.Parameters))
}
