// Package fitted is the fitted model and its file, with the file of known
// parameters that it may be compared with.
//
// A [Model] comes from host.Fit or from its file by [Read], and [Model.Write] writes
// that: Regressors, Gating and Sigma are the parameters, StandardErrors theirs, and
// Fit says how they were found. host/predict is what a model says of rows.
package fitted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Format is the version of the model file where the features are columns of a table
// and the mixture is flat, of one activation and normal noise; elsewhere it is [FormatV2] or [FormatV3].
const Format = "moe-model/v1"

// FormatV3 is the version of the files of models whose noise is not normal.
const FormatV3 = "moe-model/v3"

// FormatV4 is the version of the files of models of a function of the target.
const FormatV4 = "moe-model/v4"

// FormatV5 is the version of the files of models of rows in groups.
const FormatV5 = "moe-model/v5"

// FormatV6 is the format of a model with a zero expert, whose gate has a row more.
const FormatV6 = "moe-model/v6"

// Normal is the name of the density of normal noise, which files leave out.
var Normal = mixture.Gaussian{}.Name()

// formats are those of models of one target.
var formats = []string{Format, FormatV2, FormatV3, FormatV4, FormatV5, FormatV6}

// DesignFormat is the format of a model with this design, which may be nil.
func DesignFormat(design *terms.Design) string {
	if design == nil {
		return Format
	}
	return FormatV2
}

// Model is a fitted mixture of K experts over D features. Its JSON is the
// model file. It holds no time, path or host: equal fits are equal files.
type Model struct {
	Format     string            `json:"format"`
	Activation stated.Activation `json:"activation"`
	D          int               `json:"d"`
	K          int               `json:"k"`
	Features   []string          `json:"features"` // D names
	Target     string            `json:"target"`

	// TargetScale is what the mixture is of in the place of the target y itself: h(y), of which are the parameters,
	// Sigma, the certificate and the paths of starts. Log-likelihoods, BIC and AIC are of y. "" is y.
	TargetScale scaling.Scale `json:"target_scale,omitempty"`

	// Hierarchy is the shape of the gates, as model.ParseHierarchy reads it, whose rows
	// Gating has; "" is one gate. Leaves are the experts' own activations, from left to
	// right; nil where all have Activation, which is else [Mixed].
	Hierarchy string              `json:"hierarchy,omitempty"`
	Leaves    []stated.Activation `json:"leaves,omitempty"`

	// Family is the density of the target around the experts' means, by its name in host/mixture, with
	// Sigma its scale, null where it has none, and Own the other parameters of its own by their names; "" is normal
	// noise.
	Family string `json:"family,omitempty"`

	// ZeroExpert says that beside the k experts of counts there is one that is always 0, whose probability is what the
	// others leave: the gate has k rows then, and its predictor is 0.
	ZeroExpert bool `json:"zero_expert,omitempty"`

	// columns that predictions need beside the features, by what they are: "offset", whose values, or with log(COLUMN)
	// their logarithms, are added to every expert's predictor; "trials", of how many trials the target is the
	// successes, with cbind(TARGET, COLUMN) the sum of both columns, without which predictions are of one trial
	Roles map[string]string `json:"roles,omitempty"`

	// how the features are made of raw columns; nil where they are columns
	Design *terms.Design `json:"design,omitempty"`

	// Shared are features whose coefficients are one parameter, the same in all experts; "(intercept)" is theirs.
	Shared []string `json:"shared,omitempty"`

	Regressors          [][]float64  `json:"regressors"`             // K rows a_i of D
	Gating              [][]float64  `json:"gating"`                 // K−1 rows w_i of D, K beside a zero expert
	RegressorIntercepts []float64    `json:"regressor_intercepts"`   // K, or null
	GatingIntercepts    []float64    `json:"gating_intercepts"`      // as many as Gating has rows, or null
	OutputScale         *OutputScale `json:"output_scale,omitempty"` // the means are c + s·g; nil: they are g
	Sigma               Sigma        `json:"sigma"`
	Own                 Own          `json:"own,omitempty"` // of the family, beside sigma
	Proportions         []float64    `json:"proportions"`   // K means of P(z=i|x) over the rows

	Fit            Fit             `json:"fit"`
	StandardErrors *StandardErrors `json:"standard_errors"` // null where there are none; a note says why
	Covariance     *Covariance     `json:"covariance"`      // null where there is none, and for many parameters
	// where standard errors for dependent rows were asked for
	HAC    *HAC    `json:"hac,omitempty"`
	Groups *Groups `json:"groups,omitempty"` // where rows in groups have one expert
	// other optima near this one; absent where none was seen, unless they were asked for
	Arrangements *Arrangements `json:"arrangements,omitempty"`
	// the model for new rows where a gate separates rows, or a ridge on the gate was asked for; absent elsewhere
	Penalised *Penalised `json:"penalised,omitempty"`
	Truth     *Recovery  `json:"truth,omitempty"` // where the true parameters were given
	// of the rows that were fitted; absent in files of before there were any
	Baselines *Baselines `json:"baselines,omitempty"`

	// Approximation is g as the fit evaluated it, where the activation ran in
	// another process: enough to predict without it.
	Approximation *native.Coefficients `json:"approximation,omitempty"`

	// Unknown are the members of the file that was read which nobody reads, as those that a
	// later version adds.
	Unknown []string `json:"-"`
}

// ScaledTarget is what the mixture is of: the target, or its scale of it, as log(wage).
func (m *Model) ScaledTarget() string { return m.TargetScale.Title(m.Target) }

// Baselines are simpler models of the rows that a model was fitted to, and of the same scale of the target.
type Baselines struct {
	Mean Baseline `json:"mean"` // one normal distribution
	// a linear regression on the features with an intercept; null for more than 100 of them
	Linear *Baseline `json:"linear"`
}

// Baseline is a normal regression by maximum likelihood.
type Baseline struct {
	Coefficients []float64 `json:"coefficients,omitempty"` // D; absent of the mean
	Intercept    float64   `json:"intercept"`
	Sigma        float64   `json:"sigma"`
}

func (b *Baselines) validate(d int) error {
	if b == nil {
		return nil
	}
	of := func(name string, l *Baseline, d int) error {
		if l == nil {
			return nil
		}
		if !(l.Sigma > 0) {
			return fmt.Errorf("%s.sigma = %v, want a number above 0", name, l.Sigma)
		}
		return cmp.Or(check.Vector(name+".coefficients", l.Coefficients, d),
			check.Vector(name, []float64{l.Intercept, l.Sigma}, 2))
	}
	return cmp.Or(of("baselines.mean", &b.Mean, 0), of("baselines.linear", b.Linear, d))
}

// Own are the own parameters of a family but sigma, by their names: of each one value for all experts or one for each.
type Own map[string]Sigma

// noiseOf are the own parameters of p as files have them: sigma, and the others.
func noiseOf(p *model.Params) (sigma Sigma, others Own) {
	own := mixture.DensityOf(p.Family).Own()
	for q, values := range slices.Insert(slices.Clone(p.Own), 0, p.Sigma) {
		switch {
		case q == 0 && (len(own) == 0 || own[0].Name == mixture.Sigma):
			sigma = Sigma(values)
		case len(values) > 0:
			if others == nil {
				others = Own{}
			}
			others[own[q].Name] = values
		}
	}
	return sigma, others
}

// Names are theirs, in the order of a family that has all of them.
func (o Own) Names(family string) (names []string) {
	for _, own := range mixture.DensityOf(family).Own() {
		if _, ok := o[own.Name]; ok {
			names = append(names, own.Name)
		}
	}
	return names
}

// into writes sigma and o, which are those of its family, to p.
func (o Own) into(p *model.Params, sigma []float64) {
	p.Sigma, p.Own = sigma, nil
	names := o.Names(p.Family)
	if len(sigma) == 0 && len(names) > 0 {
		p.Sigma, names = o[names[0]], names[1:]
	}
	for _, name := range names {
		p.Own = append(p.Own, o[name])
	}
}

// check refuses own parameters of other names than those of a family, which is known, of another number of values than
// one and k, or than sigma has, and outside of what they may be.
func (o Own) check(family string, sigma []float64, k int) error {
	own, levels := mixture.DensityOf(family).Own(), len(sigma)
	if len(own) > 0 && own[0].Name == mixture.Sigma {
		own = own[1:]
	} else if len(own) > 0 {
		if levels > 0 {
			return fmt.Errorf("sigma is %v, and the family %q has none", sigma, family)
		}
		if levels = len(o[own[0].Name]); levels != 1 && levels != k {
			return fmt.Errorf("own.%s has %d values, want 1 or k = %d", own[0].Name, levels, k)
		}
	}
	if len(o) != len(own) {
		return fmt.Errorf("own has %d parameters, want %d of the family %q", len(o), len(own), family)
	}
	for _, q := range own {
		if err := check.Vector("own."+q.Name, o[q.Name], levels); err != nil {
			return err
		}
		for _, v := range o[q.Name] {
			if !(v > 0 && v >= q.Least && v <= q.Most) {
				return fmt.Errorf("own.%s = %v, want a number above 0 from %v to %v", q.Name, v, q.Least, q.Most)
			}
		}
	}
	return nil
}

// Sigma is the noise level: one number for all experts or one for each.
type Sigma []float64

// MarshalJSON writes a single level as a number, several as a list, with null for NaN.
func (s Sigma) MarshalJSON() ([]byte, error) {
	if len(s) == 1 {
		return json.Marshal(s[0])
	}
	return gaps(s).MarshalJSON()
}

// UnmarshalJSON reads a number, a list of numbers, or null, which is none.
func (s *Sigma) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*s = nil
		return nil
	}
	if bytes.HasPrefix(data, []byte("[")) {
		return (*gaps)(s).UnmarshalJSON(data)
	}
	*s = make(Sigma, 1)
	return json.Unmarshal(data, &(*s)[0])
}

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
	Dropped  int      `json:"dropped,omitempty"` // rows that were left out for missing cells
	Weight   float64  `json:"weight,omitempty"`  // sum of the observations' weights, where there are any
	// SHA-256 of targets and weights in the rows' order, for fits of the same rows to be compared
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
	// log-likelihood of the rows, each by a fit without its part; where the choice is by it
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
	// log-likelihood of the rows, each by a fit without its part; absent where there is none
	HeldOut       *float64 `json:"held_out,omitempty"`
	Below         *float64 `json:"below,omitempty"`          // the highest
	StandardError *float64 `json:"standard_error,omitempty"` // of below
	Converged     int      `json:"converged,omitempty"`      // fits, of as many as there are parts
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

// Certificate says whether anything speaks for a better optimum and whether the
// model describes the data. See infer.Certificate.
type Certificate struct {
	Optimum string `json:"optimum"`         // pass, suspect or not judged
	Model   string `json:"model"`           // pass, suspect or not judged
	Reason  string `json:"reason"`          // for the verdict on the optimum
	Cause   string `json:"cause,omitempty"` // what a suspect model suggests, the likeliest first
	Try     string `json:"try,omitempty"`   // flags that allow for that
	// OptimumTry are flags of a further search, where one may change the verdict on the optimum.
	OptimumTry string            `json:"optimum_try,omitempty"`
	PValue     float64           `json:"p_value"` // smallest of the tests, times their number, at most 1
	Tests      []CertificateTest `json:"tests"`
	// of the experts: the mean of the sum of r(1 − r), r their posterior probabilities
	Overlap float64 `json:"overlap,omitempty"`
	// Untested are the experts with too few rows for tests of their own.
	Untested []UntestedExpert `json:"untested,omitempty"`
	NotMade  []TestNotMade    `json:"not_made,omitempty"`
	// Gain is what other mixtures may gain with sigma held; absent where no bound says something.
	Gain *GainBound `json:"gain_bound,omitempty"`
}

// GainBound bounds what mixtures of any number of identity experts under a constant gate gain in log-likelihood over
// the fitted one, with its sigma. See gain.BoundOf.
type GainBound struct {
	Upper   float64 `json:"upper"`   // no such mixture gains more
	Found   float64 `json:"found"`   // what one gains
	Experts int     `json:"experts"` // of that one
}

// TestNotMade is a test that the rows do not admit.
type TestNotMade struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// NewCertificate is how files state a certificate; nil for nil.
func NewCertificate(c *infer.Certificate) *Certificate {
	if c == nil {
		return nil
	}
	out := &Certificate{Optimum: c.Optimum, Model: c.Model, Reason: c.Reason, Cause: c.Cause, PValue: c.PValue,
		Overlap: c.Overlap, Tests: []CertificateTest{}}
	for _, t := range c.Tests {
		out.Tests = append(out.Tests, CertificateTest{Name: t.Name, Statistic: t.Statistic, DF: t.DF, PValue: t.PValue,
			Verdict: t.Verdict, Cause: t.Cause, Robust: t.Held()})
	}
	for _, u := range c.Untested {
		out.Untested = append(out.Untested, UntestedExpert{Expert: u.Expert + 1, Rows: u.Rows,
			Coefficients: u.Coefficients})
	}
	for _, t := range c.NotMade {
		out.NotMade = append(out.NotMade, TestNotMade{t.Name, t.Why})
	}
	return out
}

// UntestedExpert is an expert that a certificate's tests leave out.
type UntestedExpert struct {
	Expert       int     `json:"expert"` // from 1
	Rows         float64 `json:"rows"`   // the sum of its posterior probabilities
	Coefficients int     `json:"coefficients"`
}

// CertificateTest is one test of the model against the data.
type CertificateTest struct {
	Name      string  `json:"name"`
	Statistic float64 `json:"statistic"` // χ² with DF degrees of freedom
	DF        int     `json:"df"`
	PValue    float64 `json:"p_value"`
	Verdict   string  `json:"verdict"` // pass or suspect
	Cause     string  `json:"cause"`   // what a failure suggests
	// it holds whatever the shape of the noise, as little as the experts of this fit overlap
	Robust bool `json:"robust"`
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

// SetParams copies p into the model.
func (m *Model) SetParams(p *model.Params) {
	p = p.Clone()
	m.K, m.D = p.K, p.D
	m.Regressors = rows(p.Regressors, p.K, p.D)
	m.Gating = rows(p.Gating, p.Gates(), p.D)
	m.RegressorIntercepts, m.GatingIntercepts = p.RegressorIntercepts, p.GatingIntercepts
	m.Sigma, m.Own = noiseOf(p)
	m.OutputScale = outputScaleOf(p)
	m.Family, m.ZeroExpert = p.Family, p.Zero
	m.Hierarchy = ""
	if p.Tree.Depth() > 1 {
		m.Hierarchy = p.Tree.String()
	}
}

// Params returns a copy of the model's parameters.
func (m *Model) Params() *model.Params {
	p := model.NewParams(m.K, m.D)
	if m.ZeroExpert {
		p.AddZero()
	}
	fill(p.Regressors, m.Regressors)
	fill(p.Gating, m.Gating)
	p.RegressorIntercepts, p.GatingIntercepts = m.RegressorIntercepts, m.GatingIntercepts
	p.Tree, p.Family = shapeOf(m.Hierarchy), m.Family
	m.Own.into(p, m.Sigma)
	if m.OutputScale != nil {
		p.Offset, p.Scale = m.OutputScale.Offset, m.OutputScale.Scale
	}
	return p.Clone()
}

// Classes is how many the gate chooses among: the experts, and the one that is always 0 where there is one.
func (m *Model) Classes() int { return model.Classes(m.K, m.ZeroExpert) }

// ZeroProportion is the mean probability of the expert that is always 0; 0 where there is none.
func (m *Model) ZeroProportion() float64 {
	if !m.ZeroExpert {
		return 0
	}
	return max(0, 1-floats.Sum(m.Proportions))
}

// CheckZero refuses an expert that is always 0 beside what is no count under one gate.
func CheckZero(zero bool, family, hierarchy string) error {
	if !zero || mixture.Known(family) && mixture.Counts(mixture.DensityOf(family)) && hierarchy == "" {
		return nil
	}
	return fmt.Errorf("zero_expert beside the family %q or the hierarchy %q, want counts under one gate", family,
		hierarchy)
}

// ForNewRows is the model by which rows are predicted that were not fitted: the penalised one where there is one, else
// m itself.
func (m *Model) ForNewRows() *Model {
	if m.Penalised == nil {
		return m
	}
	return m.Penalised.of(m)
}

// LeftOut is what leaving out rows comes to of the model for new rows; nil where that is not known.
func (m *Model) LeftOut() *LeaveOneOut {
	if m.Penalised != nil {
		return m.Penalised.LeaveOneOut
	}
	return m.Fit.LeaveOneOut
}

// Of is the one of the file's models that is meant. It is an error where there is none.
func (m *Model) Of(which Which) (*Model, error) {
	switch {
	case which != "" && !slices.Contains(Whiches(), which):
		return nil, fmt.Errorf("no gate %q; there are %v", which, Whiches())
	case which == ByPenalty && m.Penalised == nil:
		return nil, fmt.Errorf("the file has no penalised gate: no gate separated rows; see moe fit --gate-penalty")
	case which == Maximum:
		out := *m
		out.Penalised = nil
		return &out, nil
	}
	return m.ForNewRows(), nil
}

// shapeOf is the tree of this name; one gate for "".
func shapeOf(hierarchy string) model.Hierarchy {
	shape, err := model.ParseHierarchy(hierarchy)
	if err != nil {
		return model.Hierarchy{}
	}
	return shape
}

// CheckTree refuses a hierarchy of another number of experts than k, leaves that are not
// k, and a name for the activation that does not go with them.
func CheckTree(hierarchy string, act stated.Activation, leaves []stated.Activation, k int) error {
	if hierarchy != "" {
		shape, err := model.ParseHierarchy(hierarchy)
		if err != nil {
			return err
		}
		if n := shape.Leaves(); n != k {
			return fmt.Errorf("k = %d, the hierarchy %s has %d leaves", k, shape, n)
		}
	}
	if leaves == nil {
		return nil
	}
	if len(leaves) != k {
		return fmt.Errorf("leaves has %d activations, want k = %d", len(leaves), k)
	}
	if act.Name != stated.Mixed {
		return fmt.Errorf("activation.name is %q beside leaves, want %q", act.Name, stated.Mixed)
	}
	for _, leaf := range leaves {
		if err := leaf.Check(); err != nil {
			return fmt.Errorf("leaves: %w", err)
		}
	}
	return nil
}

func rows(flat []float64, n, d int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = flat[i*d : (i+1)*d : (i+1)*d]
	}
	return out
}

func fill(flat []float64, rows [][]float64) {
	for _, row := range rows {
		flat = flat[copy(flat, row):]
	}
}

// Validate reports the first thing that is wrong with the model: a format that
// is not that of its design, sizes that do not fit k and d, numbers that are not finite
// or out of range, or the name of an activation that cannot be one.
func (m *Model) Validate() error {
	if err := m.validateDesign(); err != nil {
		return err
	}
	if err := m.Activation.Check(); err != nil {
		return err
	}
	if err := check.Sizes(m.K, m.D); err != nil {
		return err
	}
	if err := CheckTree(m.Hierarchy, m.Activation, m.Leaves, m.K); err != nil {
		return err
	}
	if m.OutputScale != nil && (m.Hierarchy != "" || m.Leaves != nil) {
		return fmt.Errorf("output_scale beside a hierarchy or leaves")
	}
	if err := check.Names(m.Features, m.Target, m.D); err != nil {
		return err
	}
	if err := cmp.Or(
		CheckFamily(m.Family, m.Sigma, m.Own, m.K),
		CheckZero(m.ZeroExpert, m.Family, m.Hierarchy),
		check.Matrix("regressors", m.Regressors, m.K, m.D),
		check.Matrix("gating", m.Gating, model.Gates(m.Classes()), m.D),
		check.Optional("regressor_intercepts", m.RegressorIntercepts, m.K),
		check.Optional("gating_intercepts", m.GatingIntercepts, model.Gates(m.Classes())),
		m.OutputScale.validate("output_scale", m.K),
		check.Vector("proportions", m.Proportions, m.K),
	); err != nil {
		return err
	}
	for role := range m.Roles {
		if !slices.ContainsFunc(model.OfLaw[:], func(r model.Role) bool { return dataset.RoleNames()[r] == role }) {
			return fmt.Errorf("roles: no role %q of a column that predictions need", role)
		}
	}
	for i, p := range m.Proportions {
		if p < 0 || p > 1 {
			return fmt.Errorf("proportions[%d] = %v is not between 0 and 1", i, p)
		}
	}
	if m.Approximation != nil {
		if err := m.Approximation.Validate(); err != nil {
			return fmt.Errorf("approximation: %w", err)
		}
	}
	if err := m.StandardErrors.validate(m); err != nil {
		return err
	}
	if err := cmp.Or(m.Covariance.validate(), m.HAC.validate(m), m.Arrangements.validate(m), m.Groups.validate(m.K),
		m.validateShared(), m.Penalised.validate(m), m.Baselines.validate(m.D)); err != nil {
		return err
	}
	return m.Fit.validate(m.K, m.Classes(), m.D)
}

// validateShared refuses shared coefficients that are none, or not the same.
func (m *Model) validateShared() error {
	for _, name := range m.Shared {
		j := slices.Index(m.Features, name)
		of := func(i int) float64 { return m.Regressors[i][j] }
		switch {
		case name == model.InterceptName && m.RegressorIntercepts != nil:
			of = func(i int) float64 { return m.RegressorIntercepts[i] }
		case j < 0:
			return fmt.Errorf("shared has %q, which is no feature", name)
		}
		for i := range m.K {
			if of(i) != of(0) {
				return fmt.Errorf("the coefficients of %q are shared and not the same", name)
			}
		}
	}
	return nil
}

// FormatOf is the format of a model of what m has.
func (m *Model) FormatOf() string {
	if m.ZeroExpert {
		return FormatV6
	}
	if m.Groups != nil {
		return FormatV5
	}
	if m.TargetScale != "" {
		return FormatV4
	}
	if m.Family != "" {
		return FormatV3
	}
	if m.Hierarchy != "" || m.Leaves != nil || m.OutputScale != nil {
		return FormatV2
	}
	return DesignFormat(m.Design)
}

// validateDesign holds the format and the features against the design.
func (m *Model) validateDesign() error {
	switch {
	case !slices.Contains(formats, m.Format):
		return fmt.Errorf("format is %q, want one of %s", m.Format, strings.Join(formats, ", "))
	case !m.TargetScale.Known() || m.TargetScale != "" && m.Family != "":
		return fmt.Errorf("target_scale is %q, want log, sqrt or reciprocal, of normal noise", m.TargetScale)
	case m.Format != m.FormatOf():
		return fmt.Errorf("format is %q, want %q for a model with or without a design, a hierarchy, leaves, an "+
			"output scale, a family, a target scale, groups or a zero expert", m.Format, m.FormatOf())
	case m.Design == nil:
		return nil
	}
	if err := m.Design.Validate(); err != nil {
		return fmt.Errorf("design: %w", err)
	}
	if !slices.Equal(m.Features, m.Design.Features()) {
		return fmt.Errorf("features are not the terms of the design")
	}
	if slices.Contains(m.Design.Columns, m.Target) {
		return fmt.Errorf("design.columns holds the target %q", m.Target)
	}
	return nil
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

func checkSigma(sigma []float64, k int) error {
	if len(sigma) != 1 && len(sigma) != k {
		return fmt.Errorf("sigma has %d values, want 1 or k = %d", len(sigma), k)
	}
	for _, v := range sigma {
		if !(v > 0) || !numeric.Finite(v) {
			return fmt.Errorf("sigma = %v, want a finite number above 0", v)
		}
	}
	return nil
}

// CheckFamily refuses one that is not known here, and own parameters that are not its.
func CheckFamily(family string, sigma []float64, own Own, k int) error {
	if !mixture.Known(family) {
		return fmt.Errorf("family is %q, which is not known here; there are %s", family,
			strings.Join(mixture.Densities(), ", "))
	}
	if all := mixture.DensityOf(family).Own(); len(all) > 0 {
		if all[0].Name == mixture.Sigma {
			if err := checkSigma(sigma, k); err != nil {
				return err
			}
		}
		return own.check(family, sigma, k)
	}
	if len(sigma)+len(own) > 0 {
		return fmt.Errorf("sigma is %v and own %v, the family %s has none", sigma, own, family)
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
