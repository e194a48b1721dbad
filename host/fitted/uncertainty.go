package fitted

import (
	"fmt"

	"github.com/gatedlearning/moe/host/model"
)

// StandardErrors are those of the parameters, in the places and the units of the
// parameters themselves; 0 where the model holds a parameter fixed at 0.
type StandardErrors struct {
	Kind                string      `json:"kind"` // observed, or robust; see infer.Kind
	Regressors          [][]float64 `json:"regressors"`
	Gating              [][]float64 `json:"gating"`
	RegressorIntercepts []float64   `json:"regressor_intercepts"`
	GatingIntercepts    []float64   `json:"gating_intercepts"`
	Sigma               Sigma       `json:"sigma"` // null where sigma was given

	// SigmaCorrected is for every noise level its estimate corrected for degrees of
	// freedom, see infer.NoiseCorrected: Sigma of the model is the maximum of the
	// likelihood, which lies below it. Null where sigma was given.
	SigmaCorrected Sigma `json:"sigma_corrected"`
	// SigmaInterval is for every noise level its 95 % interval, around the corrected
	// estimate and not symmetric, see infer.NoiseInterval; null where sigma was given.
	SigmaInterval [][]float64 `json:"sigma_interval"`
}

// Covariance is the full covariance of the parameters' estimates.
type Covariance struct {
	Parameters []string    `json:"parameters"` // names of rows and columns
	Matrix     [][]float64 `json:"matrix"`
}

// SetErrors copies standard errors, given in the shape of parameters, into the
// model; noise says whether those of the noise levels are there.
func (m *Model) SetErrors(kind string, se *model.Params, noise bool) {
	se = se.Clone()
	m.StandardErrors = &StandardErrors{
		Kind:                kind,
		Regressors:          rows(se.Regressors, se.K, se.D),
		Gating:              rows(se.Gating, se.Gates(), se.D),
		RegressorIntercepts: se.RegressorIntercepts,
		GatingIntercepts:    se.GatingIntercepts,
	}
	if noise {
		m.StandardErrors.Sigma = Sigma(se.Sigma)
	}
}

// validate reports the first thing that does not fit the model or is not
// finite.
func (s *StandardErrors) validate(m *Model) error {
	if s == nil {
		return nil
	}
	if err := firstError(
		checkMatrix("standard_errors.regressors", s.Regressors, m.K, m.D),
		checkMatrix("standard_errors.gating", s.Gating, model.Gates(m.K), m.D),
		checkOptional("standard_errors.regressor_intercepts", s.RegressorIntercepts, m.K),
		checkOptional("standard_errors.gating_intercepts", s.GatingIntercepts, model.Gates(m.K)),
		checkOptional("standard_errors.sigma", s.Sigma, len(m.Sigma)),
		checkOptional("standard_errors.sigma_corrected", s.SigmaCorrected, len(m.Sigma)),
	); err != nil {
		return err
	}
	if s.SigmaInterval != nil {
		if err := checkMatrix("standard_errors.sigma_interval", s.SigmaInterval, len(m.Sigma), 2); err != nil {
			return err
		}
	}
	if (s.RegressorIntercepts == nil) != (m.RegressorIntercepts == nil) || (s.GatingIntercepts == nil) != (m.GatingIntercepts == nil) {
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
