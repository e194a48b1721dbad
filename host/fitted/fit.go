package fitted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Fit says how the parameters were found.
type Fit struct {
	Method string `json:"method"`
	// "optimal" where the moment tensors are made of transforms of minimum variance
	Transform string `json:"transform,omitempty"`
	// "mixture" where the moment tensors take the features for a mixture of Gaussians
	Inputs string `json:"inputs,omitempty"`
	// of the mixture that the features are taken for
	InputComponents int `json:"input_components,omitempty"`

	Seed       uint64 `json:"seed"`
	N          int    `json:"n"`
	SigmaGiven bool   `json:"sigma_given,omitempty"` // the noise level was given, not estimated
	// names of the family's own parameters but sigma that were given, not estimated
	OwnGiven []string `json:"own_given,omitempty"`
	// the least that each expert's noise level could be, where that was given
	SigmaFloor float64 `json:"sigma_floor,omitempty"`
	Dropped    int     `json:"dropped,omitempty"` // rows that were left out for missing cells
	Weight     float64 `json:"weight,omitempty"`  // sum of the observations' weights, where there are any
	// the column of the weights
	WeightColumn string `json:"weight_column,omitempty"`
	// SHA-256 of targets and weights in the rows' order, for fits of the same rows to be compared; of passes over
	// parts "parts:" and one of all columns
	RowsDigest    string  `json:"rows_digest,omitempty"`
	LogLikelihood float64 `json:"log_likelihood"` // natural log of the density of y given x, summed over rows
	// Of models of a scale h(y) of the target: the same of the density of h(y), and the mean over the rows of the
	// probability that the noise gives to values that no y has.
	LogLikelihoodTransformed *float64 `json:"log_likelihood_transformed,omitempty"`
	ProbabilityOutside       float64  `json:"probability_outside,omitempty"`
	// absent where the information does not determine the parameters, or a gate of the maximum separates rows
	LeaveOneOut *LeaveOneOut `json:"leave_one_out,omitempty"`
	BIC         float64      `json:"bic"`
	AIC         float64      `json:"aic"`
	Converged   bool         `json:"converged"`
	Status      string       `json:"status"`
	Iterations  int          `json:"iterations"`
	Starts      []Start      `json:"starts"`

	// Survey is what many short starts on all rows of a small table have seen; absent
	// where there was none.
	Survey *Survey `json:"survey,omitempty"`

	// Begun says of which fit of a range this one came, of one expert less or more; absent where of none.
	Begun *Begun `json:"begun,omitempty"`

	// Steps are those of the search that have gained something on all rows after its starts were climbed there; absent
	// where none did.
	Steps []Step `json:"steps,omitempty"`

	// Where a range of k was fitted: every k, and the one that the eigenvalues of
	// T̂2 suggest, absent where there is no such suggestion. Where a tree was grown: every
	// tree, in the order in which they were fitted.
	Selection []Candidate `json:"selection,omitempty"`
	ChosenBy  string      `json:"chosen_by,omitempty"` // bicc, icl, heldout or set; BIC where it is absent
	EigengapK int         `json:"eigengap_k,omitempty"`
	// Where several descriptions were compared by rows that were left out: each of them.
	Descriptions []Description `json:"descriptions,omitempty"`
	// Of a range of k: a lower confidence bound for the number of experts, absent where none was made (a note says
	// why), and the ks that the data leave.
	AtLeast *AtLeast `json:"k_at_least,omitempty"`
	KSet    []int    `json:"k_set,omitempty"`

	Descent *Descent `json:"descent,omitempty"` // of methods l2 and l4

	// Separation lists the boundaries at which the gate separates the rows of experts
	// for certain: coefficients across them have no finite optimum, and the likelihood is
	// within 0.01 of its supremum as they grow. Absent where there are none.
	Separation []Separation `json:"separation,omitempty"`

	// Endless names coefficients of the gate, as "gate1:x", that have no finite optimum though it separates no experts:
	// it is certain of every row that they move, as where an expert has no row of a factor's level. Absent where there
	// are none.
	Endless []string `json:"endless,omitempty"`

	// Merges are what experts that may be too many come to in one; absent where none may.
	Merges []Merge `json:"merges,omitempty"`

	// Warnings are what speaks against relying on the result as it stands.
	Warnings []string `json:"warnings,omitempty"`
	// WarningKinds say what each of them is of, in their order.
	WarningKinds []WarningKind `json:"warning_kinds,omitempty"`

	// Passes is what passes over shards know for the certificate, which they end with;
	// absent elsewhere.
	Passes *progress.Passes `json:"passes,omitempty"`

	// Climbs is where passes over shards stand, or are to begin: at this model, and at others that
	// may be better on all rows. Absent elsewhere. Prints are of the rows that were read so far.
	Climbs []progress.Climb `json:"climbs,omitempty"`
	Prints *progress.Prints `json:"prints,omitempty"`

	Certificate     *Certificate     `json:"certificate"`      // null where there is none: see the notes
	MomentsEstimate *MomentsEstimate `json:"moments_estimate"` // null where none was made
	Notes           []string         `json:"notes"`            // what the fit could not use, and what it did instead
}

// Start is one start of the likelihood's maximisation. Starts are screened on part of
// the rows; LogLikelihood is that of all rows at the parameters where the start
// ended.
type Start struct {
	Kind          string  `json:"kind"`
	LogLikelihood float64 `json:"log_likelihood"`
	Converged     bool    `json:"converged"`
	Status        string  `json:"status"` // why it ended; "diverged" for one that led nowhere
	Agrees        bool    `json:"agrees"` // with the best start on its optimum
	Rows          int     `json:"rows"`   // on which it was refined
	// Path is the mean log-likelihood of those rows at the start and after every
	// iteration.
	Path []float64 `json:"path"`
	// Loss is that of all rows where the method minimises another than the
	// likelihood; absent elsewhere and where it is not finite.
	Loss *float64 `json:"loss,omitempty"`
}

// AtLeast is a lower confidence bound for the number of experts, of split likelihood ratios.
type AtLeast struct {
	K     int     `json:"k"`
	Level float64 `json:"level"` // of confidence
	Rows  int     `json:"rows"`  // of both halves
	// LogE are the logarithms of the e-values against at most 1, 2, … experts: one of 3 or more, log(1/.05), speaks
	// against them at level .95.
	LogE []float64 `json:"log_e"`
}

// Merge is where climbs end from the fit with two of its experts in one: its log-likelihood and BIC less the fit's.
type Merge struct {
	Experts       [2]int  `json:"experts"` // from 1
	LogLikelihood float64 `json:"log_likelihood"`
	BIC           float64 `json:"bic"` // below 0 where the one is better
}

// Step is what a step of a search has gained.
type Step struct {
	Name string  `json:"name"`
	Gain float64 `json:"gain"` // of log-likelihood; more than 0.01
}

// Survey counts the optima at which starts ended that were run on all rows of a small
// table. The best of them are among the starts of the fit.
type Survey struct {
	Starts  int      `json:"starts"`
	Kinds   []string `json:"kinds"`    // of them
	Moves   int      `json:"moves"`    // runs from the best optima with one expert moved
	Optima  int      `json:"optima"`   // distinct ones, those apart that were given up as too low
	Met     int      `json:"met"`      // starts that ended at the best of all runs
	Singles int      `json:"met_once"` // optima at which one start ended
	Unseen  float64  `json:"unseen"`   // estimated chance that another start ends at an optimum that none has met
}

// Separation is the hyperplane ⟨coefficients, x⟩ + intercept = 0, in the columns of the
// data, between the rows of two groups of experts. Of all that separate them its
// nearest rows are the farthest away, by features of unit variance. In a tree the groups are
// those under branches of one gate, and the rows those of that gate by their posterior.
type Separation struct {
	Above        []int     `json:"above"` // experts, from 1, where the expression is positive
	Below        []int     `json:"below"`
	Coefficients []float64 `json:"coefficients"` // D
	Intercept    float64   `json:"intercept"`
	Margin       float64   `json:"margin"` // distance of the nearest rows, by features of unit variance
}

// Descent says how methods l2 and l4 descended their loss by mini-batches.
type Descent struct {
	Loss      string   `json:"loss"`      // l2 or l4
	Optimiser string   `json:"optimiser"` // sgd or adam
	Batch     int      `json:"batch"`     // rows in a mini-batch
	StepSize  float64  `json:"step_size"`
	Schedule  string   `json:"schedule"`
	Epochs    int      `json:"epochs"`
	Steps     int      `json:"steps"` // mini-batches in those epochs
	Made      int      `json:"made"`  // of them, fewer where it diverged
	Value     *float64 `json:"value"` // the loss of all rows where it ended, null where that is not finite

	// Of l4 alone: the weights of its terms, and the bound on the gating.
	Mu      float64  `json:"mu,omitempty"`
	Lambda  float64  `json:"lambda,omitempty"`
	Ridge   *float64 `json:"ridge,omitempty"`
	Penalty string   `json:"penalty,omitempty"` // "norm" for that of 001
	Radius  float64  `json:"radius,omitempty"`
}

// MarshalJSON writes null for the log-likelihood of a start that led to none.
func (s Start) MarshalJSON() ([]byte, error) {
	type plain Start
	if numeric.Finite(s.LogLikelihood) {
		return json.Marshal(plain(s))
	}
	return json.Marshal(struct {
		plain
		LogLikelihood *float64 `json:"log_likelihood"` // nil, hides the NaN
	}{plain: plain(s)})
}

// UnmarshalJSON reads null as NaN.
func (s *Start) UnmarshalJSON(data []byte) error {
	type plain Start
	in := struct {
		LogLikelihood *float64 `json:"log_likelihood"`
		*plain
	}{plain: (*plain)(s)}
	err := json.Unmarshal(data, &in)
	s.LogLikelihood = math.NaN()
	if in.LogLikelihood != nil {
		s.LogLikelihood = *in.LogLikelihood
	}
	return err
}

// Candidate is a fit of one number of experts in a range, or of one tree on the way of a
// tree that was grown.
type Candidate struct {
	K             int     `json:"k"`
	LogLikelihood float64 `json:"log_likelihood"`
	AIC           float64 `json:"aic"`
	BIC           float64 `json:"bic"`
	ICL           float64 `json:"icl"` // BIC + 2·entropy of the posteriors
	// BIC corrected for few rows; where that chose another k than BIC, and the rows are enough for one
	BICc *float64 `json:"bicc,omitempty"`
	// log-likelihood of the rows, each by a fit without its part, predictive where fits know of their parameters'
	// uncertainty; where the choice is by it. Of several targets with gates of their own it is of this one
	HeldOut   *float64 `json:"held_out,omitempty"`
	Converged bool     `json:"converged"`

	// Of ranges alone: of which other k it came.
	Begun *Begun `json:"begun,omitempty"`

	// Of trees alone: the shape, as model.ParseHierarchy reads it, that which it came of by
	// which move, and whether it was grown on from.
	Hierarchy string `json:"hierarchy,omitempty"`
	From      string `json:"from,omitempty"` // absent for the first
	Move      string `json:"move,omitempty"` // split, merge or join; absent for the first
	Kept      bool   `json:"kept,omitempty"`
}

// Description is a description of a model beside others that were compared by the log-likelihood of rows that were left
// out.
type Description struct {
	K          int               `json:"k,omitempty"` // absent where it could not be fitted at all
	Settings   map[string]string `json:"settings"`    // what tells it from others, as files of --config have it
	Parameters int               `json:"parameters,omitempty"`
	Targets    int               `json:"targets,omitempty"` // several, whose density held_out is of; absent of one
	// log-likelihood of the rows, each by a fit without its part, predictive where fits know of their parameters'
	// uncertainty; absent where there is none
	HeldOut       *float64 `json:"held_out,omitempty"`
	Below         *float64 `json:"below,omitempty"`          // how far it is below the highest
	StandardError *float64 `json:"standard_error,omitempty"` // of below
	Converged     int      `json:"converged"`                // fits, of as many as there are parts
	Chosen        bool     `json:"chosen,omitempty"`
	Reason        string   `json:"reason,omitempty"` // why it has no log-likelihood
}

// Begun says that a fit of a range came of that of one expert less or more.
type Begun struct {
	K    int     `json:"k"`    // of the other
	By   string  `json:"by"`   // join, split, loss or merge: what became of its experts
	Gain float64 `json:"gain"` // of log-likelihood, over what the search had found without it
}

// String says where a fit began, and what that gained.
func (b *Begun) String() string {
	how := map[string]string{"join": "and one expert more", "split": "with one expert in two",
		"loss": "less one expert", "merge": "with two experts in one"}[b.By]
	return fmt.Sprintf("begun from k = %d %s, log-likelihood %+.2f", b.K, how, b.Gain)
}

// MomentsEstimate is the estimate by moment tensors that the likelihood
// started from.
type MomentsEstimate struct {
	Regressors  [][]float64 `json:"regressors"`
	Proportions []float64   `json:"proportions"`
}

// Recovery is the distance to known parameters, see metric.Ereg and
// metric.Egating.
type Recovery struct {
	EReg    float64 `json:"e_reg"`
	EGating float64 `json:"e_gating"`
}

// Parameters is how many were estimated, as the criteria count them.
func (f *Fit) Parameters() int { return int(math.Round(f.AIC/2 + f.LogLikelihood)) }

func (f *Fit) validate(k, classes, d int) error {
	if err := cmp.Or(
		check.Vector("fit.log_likelihood", []float64{f.LogLikelihood}, 1),
		check.Vector("fit.bic", []float64{f.BIC}, 1),
		check.Vector("fit.aic", []float64{f.AIC}, 1),
	); err != nil {
		return err
	}
	if f.N < 1 {
		return fmt.Errorf("fit.n = %d, want at least 1", f.N)
	}
	for i, s := range f.Starts {
		if s.Converged && !numeric.Finite(s.LogLikelihood) {
			return fmt.Errorf("fit.starts[%d].log_likelihood = %v is not finite", i, s.LogLikelihood)
		}
		if err := check.Vector(fmt.Sprintf("fit.starts[%d].path", i), s.Path, len(s.Path)); err != nil {
			return err
		}
	}
	if c := f.Certificate; c != nil {
		for i, t := range c.Tests {
			if err := check.Vector(fmt.Sprintf("fit.certificate.tests[%d]", i), []float64{t.Statistic, t.PValue},
				2); err != nil {
				return err
			}
		}
	}
	if err := cmp.Or(f.Passes.Validate(k, d), f.Prints.Validate()); err != nil {
		return err
	}
	for i := range f.Climbs {
		if err := f.Climbs[i].Validate(fmt.Sprintf("fit.climbs[%d]", i), k, d); err != nil {
			return err
		}
	}
	for i, s := range f.Separation {
		if err := s.validate(fmt.Sprintf("fit.separation[%d]", i), classes, d); err != nil {
			return err
		}
	}
	if e := f.MomentsEstimate; e != nil {
		return cmp.Or(
			check.Matrix("fit.moments_estimate.regressors", e.Regressors, k, d),
			check.Vector("fit.moments_estimate.proportions", e.Proportions, k),
		)
	}
	return nil
}

func (s *Separation) validate(name string, k, d int) error {
	for _, i := range slices.Concat(s.Above, s.Below) {
		if i < 1 || i > k {
			return fmt.Errorf("%s names expert %d of %d", name, i, k)
		}
	}
	if len(s.Above) == 0 || len(s.Below) == 0 {
		return fmt.Errorf("%s has no experts on one side", name)
	}
	return cmp.Or(
		check.Vector(name+".coefficients", s.Coefficients, d),
		check.Vector(name+".intercept", []float64{s.Intercept}, 1),
		check.Vector(name+".margin", []float64{s.Margin}, 1),
	)
}
