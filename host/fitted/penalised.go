package fitted

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/model"
)

// KindPenalised is the kind of standard errors by the inverse of the information of a penalised likelihood.
const KindPenalised = "penalised"

// Lasso is the penalty on the experts that is no ridge.
const Lasso = "lasso"

// Penalised is the model at a maximum of the log-likelihood less a ridge on the gate and a penalty on the experts, a
// ridge or a lasso,
//
//	ℓ − λ·Σ_ij (w_ij − w̄_j)² − κ·Σ_ij a_ij²/s²
//	ℓ − λ·Σ_ij (w_ij − w̄_j)² − κ·Σ_ig √m_g·‖a_ig‖/s
//
// over all branches i of a gate, the last of which is 0, with w̄ their mean, and over the experts i, features in units
// of their standard deviations; s² is the mean square of the slopes a_ij at the maximum of ℓ, and a_ig are those of m_g
// features, the levels of a factor together. It is the model for rows
// that were not fitted, where a gate separates rows and the likelihood has no maximum, or where a penalty was given or
// chosen. What stands beside it in the file is the likelihood's.
type Penalised struct {
	Lambda        float64 `json:"lambda"`          // 0 where there is none on the gate
	Folds         int     `json:"folds,omitempty"` // of the crossvalidation that chose it; absent where none did
	LogLikelihood float64 `json:"log_likelihood"`  // ℓ, without the ridge
	// Path is the ridges that were compared, ascending; the last is Lambda where it was given.
	Path []PenalisedPoint `json:"path"`
	// The same of the penalty on the experts, κ; absent where there is none.
	ExpertPenalty string           `json:"expert_penalty,omitempty"` // lasso; absent: a ridge
	ExpertLambda  float64          `json:"expert_lambda,omitempty"`
	ExpertFolds   int              `json:"expert_folds,omitempty"`
	ExpertPath    []PenalisedPoint `json:"expert_path,omitempty"`
	MeanSquare    float64          `json:"mean_square,omitempty"` // s²
	// Without names what each expert is without under a lasso: the features, and the factors, whose slopes are 0.
	Without [][]string `json:"without,omitempty"`

	Regressors          [][]float64  `json:"regressors"`
	Gating              [][]float64  `json:"gating"`
	RegressorIntercepts []float64    `json:"regressor_intercepts"` // as in the model, or null
	GatingIntercepts    []float64    `json:"gating_intercepts"`    // or null
	OutputScale         *OutputScale `json:"output_scale,omitempty"`
	Sigma               Sigma        `json:"sigma"` // null where the family has none
	Own                 Own          `json:"own,omitempty"`
	Proportions         []float64    `json:"proportions"`

	StandardErrors *StandardErrors `json:"standard_errors"` // as in the model, of kind penalised or robust
	Covariance     *Covariance     `json:"covariance"`

	LeaveOneOut *LeaveOneOut `json:"leave_one_out,omitempty"` // under the same ridge; absent as in the model
}

// PenalisedPoint is the maximum for one ridge.
type PenalisedPoint struct {
	Lambda        float64  `json:"lambda"`
	LogLikelihood float64  `json:"log_likelihood"`
	HeldOut       *float64 `json:"held_out,omitempty"` // of rows that were not fitted; absent where nobody asked
	Converged     bool     `json:"converged"`
	// Slopes of every expert, of features in units of their standard deviations, to four digits, along the path of a
	// penalty on the experts; absent of more than MostSlopes.
	Slopes [][]float64 `json:"slopes,omitempty"`
}

// MostSlopes is the most slopes of all experts that a file has along a path.
const MostSlopes = 60

// SetParams copies q into the penalised model.
func (s *Penalised) SetParams(q *model.Params) {
	var m Model
	m.SetParams(q)
	s.Regressors, s.Gating, s.RegressorIntercepts, s.GatingIntercepts = m.Regressors, m.Gating, m.RegressorIntercepts,
		m.GatingIntercepts
	s.OutputScale, s.Sigma, s.Own = m.OutputScale, m.Sigma, m.Own
}

// Shifted is s with log-likelihoods that are higher by so much, as those of another scale of the target.
func (s *Penalised) Shifted(by float64) *Penalised {
	out := *s
	out.LogLikelihood += by
	out.LeaveOneOut = s.LeaveOneOut.Shifted(by)
	out.Path, out.ExpertPath = shifted(s.Path, by), shifted(s.ExpertPath, by)
	return &out
}

func shifted(path []PenalisedPoint, by float64) []PenalisedPoint {
	out := slices.Clone(path)
	for i := range out {
		point := &out[i]
		if point.LogLikelihood += by; point.HeldOut != nil {
			held := *point.HeldOut + by
			point.HeldOut = &held
		}
	}
	return out
}

// of is m with these parameters, without what else is of the maximum.
func (s *Penalised) of(m *Model) *Model {
	out := *m
	out.Arrangements, out.HAC, out.Truth, out.Penalised = nil, nil, nil, s
	out.Regressors, out.Gating, out.RegressorIntercepts, out.GatingIntercepts = s.Regressors, s.Gating,
		s.RegressorIntercepts, s.GatingIntercepts
	out.OutputScale, out.Sigma, out.Own, out.Proportions = s.OutputScale, s.Sigma, s.Own, s.Proportions
	out.StandardErrors, out.Covariance = s.StandardErrors, s.Covariance
	return &out
}

// Which says which of a file's models is meant: "" is the one for new rows, see [Model.ForNewRows].
type Which string

// The models of a file.
const (
	Maximum   Which = "maximum"   // of the likelihood
	ByPenalty Which = "penalised" // of the likelihood less the ridge
)

// Whiches lists them.
func Whiches() []Which { return []Which{Maximum, ByPenalty} }

func (s *Penalised) validate(m *Model) error {
	if s == nil {
		return nil
	}
	if !(s.Lambda >= 0 && s.ExpertLambda >= 0 && s.Lambda+s.ExpertLambda > 0) {
		return fmt.Errorf("penalised.lambda = %v and penalised.expert_lambda = %v, want one above 0 and none below it",
			s.Lambda, s.ExpertLambda)
	}
	if err := cmp.Or(
		check.Vector("penalised.lambda", []float64{s.Lambda, s.ExpertLambda, s.LogLikelihood}, 3),
		check.Matrix("penalised.regressors", s.Regressors, m.K, m.D),
		check.Matrix("penalised.gating", s.Gating, model.Gates(m.Classes()), m.D),
		check.Optional("penalised.regressor_intercepts", s.RegressorIntercepts, m.K),
		check.Optional("penalised.gating_intercepts", s.GatingIntercepts, model.Gates(m.Classes())),
		s.OutputScale.validate("penalised.output_scale", m.K),
		CheckFamily(m.Family, s.Sigma, s.Own, m.K),
		check.Vector("penalised.proportions", s.Proportions, m.K),
		s.Covariance.validate(),
	); err != nil {
		return err
	}
	if s.ExpertPenalty != "" && s.ExpertPenalty != Lasso ||
		(s.Without != nil) != (s.ExpertPenalty == Lasso) || s.Without != nil && len(s.Without) != m.K {
		return fmt.Errorf("penalised.expert_penalty = %q with %d lists of what experts are without, want %q with one "+
			"of each expert, or neither", s.ExpertPenalty, len(s.Without), Lasso)
	}
	for _, at := range s.ExpertPath {
		if at.Slopes == nil {
			continue
		}
		if err := check.Matrix("penalised.expert_path.slopes", at.Slopes, m.K, m.D); err != nil {
			return err
		}
	}
	if (s.RegressorIntercepts == nil) != (m.RegressorIntercepts == nil) ||
		(s.GatingIntercepts == nil) != (m.GatingIntercepts == nil) ||
		(s.OutputScale == nil) != (m.OutputScale == nil) || len(s.Sigma) != len(m.Sigma) {
		return fmt.Errorf("penalised has intercepts, an output scale or noise levels where the model has none, or " +
			"none where it has")
	}
	if err := s.StandardErrors.validate(s.of(m)); err != nil {
		return fmt.Errorf("penalised: %w", err)
	}
	return nil
}
