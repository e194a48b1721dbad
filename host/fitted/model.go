// Package fitted is the fitted model and its file.
//
// A [Model] comes from host.Fit or from its file by [Read], and [Model.Write] writes
// that: Regressors, Gating and Sigma are the parameters, StandardErrors theirs, and
// Fit says how they were found. host/predict is what a model says of rows.
package fitted

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/host/terms"
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
		return nil, fmt.Errorf("the file has no penalised gate: no gate separated rows")
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
