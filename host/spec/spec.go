// Package spec describes a fit as a value: which columns of which table, what model, by
// which method. The flags of moe fit are one spelling of it, a JSON file is another:
//
//	{"format": "moe-fit/v1", "data": "trial.csv", "activation": {"name": "relu"}, "k": 3, "roles": {"weights": "w"}}
//
// It has all that the model depends on, and nothing that it does not depend on, such as
// threads, memory and the names of outputs.
package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/sdk"
)

// Format is that of the files.
const Format = "moe-fit/v1"

// Unsaid is what stands for a description of this family that says nothing of its experts.
func Unsaid(family string) string {
	rest := "--k 1:4 --intercept"
	if name := activation(family); name != "" {
		return "--activation " + name + " " + rest
	}
	return rest
}

// Fit describes a fit. Data, or Moments, is needed, and K or Hierarchy; what is absent has the default that
// moe fit --help names. Family, Noise, NoiseCovariance, Hierarchy, GatePenalty, ExpertRidge and ExpertLasso may have
// several values with commas between them, "shared,per-expert", where Choose is "heldout": see [Fit.Alternatives]. One
// that says nothing of its experts is of linear experts, from 1 to 4, with intercepts.
type Fit struct {
	Format string `json:"format"` // "moe-fit/v1"

	Data    string `json:"data,omitzero"`    // the table's file; "-" is standard input
	Moments string `json:"moments,omitzero"` // a file of merged sums of moe moments, in the place of data

	Target   string   `json:"target,omitzero"`   // column; the last where none is named
	Targets  []string `json:"targets,omitzero"`  // several columns: each its gate and experts
	Features []string `json:"features,omitzero"` // columns; all but the target
	Drop     []string `json:"drop,omitzero"`     // columns to leave out

	// columns that are neither, by what they are: "weights", "group", "cluster", "offset", of which log(COLUMN) is the
	// logarithm, and "trials", of a binomial target
	Roles map[string]string `json:"roles,omitzero"`

	// target, experts' terms and, after a bar, the gate's
	Formula      string   `json:"formula,omitzero"`
	GateFeatures []string `json:"gate_features,omitzero"` // columns that the gate sees; those of the experts
	// columns of one coefficient for all experts, "(intercept)" for theirs
	Shared      []string          `json:"shared,omitzero"`
	Categorical []string          `json:"categorical,omitzero"` // columns that are factors whatever stands in them
	Reference   map[string]string `json:"reference,omitzero"`   // reference levels by column; the commonest
	Missing     string            `json:"missing,omitzero"`     // rows with missing cells: "refuse" or "drop"
	// between a number's digits in a CSV file: "." or ","
	Decimal string `json:"decimal,omitzero"`

	// law of the target given its mean: "gaussian", "student-t", "lognormal", "gamma", "poisson", "negative-binomial",
	// "binomial"; absent: "gaussian"
	Family string  `json:"family,omitzero"`
	Dof    float64 `json:"dof,omitzero"` // degrees of freedom of student-t where they are known
	// beside the k experts of counts one that is always 0, to which the gate gives a probability
	ZeroExpert bool `json:"zero_expert,omitzero"`

	Activation Activation   `json:"activation,omitzero"` // of all experts; the family's own
	Leaves     []Activation `json:"leaves,omitzero"`     // the experts' own, from left to right
	K          int          `json:"k,omitzero"`          // number of experts, or the least of a range
	KTo        int          `json:"k_to,omitzero"`       // the most of a range
	// how a range is chosen from: "bicc", BIC corrected for few rows, "bic", "icl", "set", the least that the data
	// leave, or "heldout", crossvalidation, which chooses from several values of other keys too
	Choose host.Choice `json:"choose,omitzero"`
	// tree of gates over the experts, such as "2x(1,2)"; "auto" grows one, "none" among several is one gate
	Hierarchy string `json:"hierarchy,omitzero"`
	MaxLeaves int    `json:"max_leaves,omitzero"` // most leaves of a tree that grows; 8

	// "both", "experts" or "gate"; absent: nobody's
	Intercepts host.Intercepts `json:"intercepts,omitzero"`
	Gate       string          `json:"gate,omitzero"` // "softmax" or "constant"
	// level of the noise: "shared", "per-expert", or "per-expert:FLOOR", where none is less than the floor
	Noise       string           `json:"noise,omitzero"`
	Sigma       float64          `json:"sigma,omitzero"`        // the level where it is known
	OutputScale host.OutputScale `json:"output_scale,omitzero"` // means c + s*g: "shared" or "per-expert"
	GateShared  bool             `json:"gate_shared,omitzero"`  // one gate for all targets
	// of targets under one gate: "diagonal" or "full"
	NoiseCovariance host.NoiseCovariance `json:"noise_covariance,omitzero"`

	Method Method `json:"method,omitzero"`
	// of y, for the moment tensors: "polynomial" or "optimal"
	Transform host.Transform `json:"transform,omitzero"`
	// what the moment tensors take the features for: "gaussian", "mixture" or "auto"
	Inputs host.Inputs `json:"inputs,omitzero"`
	// kinds of standard errors: "observed" or "robust", and "hac"
	Errors []host.ErrorKind `json:"errors,omitzero"`
	// intervals and predictions over other optima near the best
	Arrangements bool `json:"arrangements,omitzero"`
	// ridge on the gate of the model for new rows: "none", "auto" or a number; where a gate separates rows
	GatePenalty host.Penalty `json:"gate_penalty,omitzero"`
	// ridge on the experts of the model for new rows: "none", "auto" or a number
	ExpertRidge host.Penalty `json:"expert_ridge,omitzero"`
	// lasso on the experts of the model for new rows, a factor's levels together: "none", "auto" or a number
	ExpertLasso host.Penalty `json:"expert_lasso,omitzero"`
	Start       string       `json:"start,omitzero"` // a model's or truth's file, one of the starts
	Truth       string       `json:"truth,omitzero"` // file of the true parameters

	Seed            *uint64 `json:"seed,omitempty"`            // of everything random; 1
	ExactActivation bool    `json:"exact_activation,omitzero"` // every value from the plugin

	// what else stands in the model's file, or does not
	Embed             bool `json:"embed,omitzero"`               // the activation's WebAssembly module
	NoGroupPosteriors bool `json:"no_group_posteriors,omitzero"` // without what is known of each group
}

// Activation is a nonlinearity by name.
type Activation struct {
	Name   string             `json:"name"`            // a built-in, a trusted plugin's name or path
	Params map[string]float64 `json:"params,omitzero"` // such as the slope of leakyrelu
}

// Method is a method of fitting and its settings, of which those that are absent, or 0,
// have the method's defaults.
type Method struct {
	Name   string  `json:"name,omitzero"`   // "auto" where it is absent
	Starts int     `json:"starts,omitzero"` // at most so many
	Mu     float64 `json:"mu,omitzero"`     // weight of the fourth powers in L4
	Radius float64 `json:"radius,omitzero"` // largest norm of a gating vector
	// at most so many rounds in which the moments are corrected for the gate
	Corrections int             `json:"corrections,omitzero"`
	Epochs      int             `json:"epochs,omitzero"`    // passes over the rows
	Batch       int             `json:"batch,omitzero"`     // rows in a mini-batch
	StepSize    float64         `json:"step_size,omitzero"` // of the first step
	Schedule    string          `json:"schedule,omitzero"`  // of the step size: "constant", "inverse" or "cosine"
	Optimiser   string          `json:"optimiser,omitzero"` // "sgd" or "adam"
	Lambda      float64         `json:"lambda,omitzero"`    // weight of the penalty in L4
	Penalty     descent.Penalty `json:"penalty,omitzero"`   // what L4 holds the rows' size by: "moment" or "norm"
	Ridge       *float64        `json:"ridge,omitempty"`    // weight of half the squared norm of A in L4
}

// Default is a description with nothing in it.
func Default() *Fit { return &Fit{Format: Format} }

// Growing is the Hierarchy of a tree that is to be found.
const Growing = "auto"

// Grows says whether the tree is to be found.
func (f *Fit) Grows() bool { return f.Hierarchy == Growing }

// Leaf is an upper bound of the leaves of a tree that grows.
func (f *Fit) mostLeaves() int {
	if f.MaxLeaves == 0 {
		return host.DefaultMaxLeaves
	}
	return f.MaxLeaves
}

// Numbers are the least and the most experts that are fitted.
func (f *Fit) Numbers() (from, to int) {
	switch shape, err := f.Shape(); {
	case f.Grows():
		return 1, f.mostLeaves()
	case f.Hierarchy != "" && err == nil:
		return shape.Leaves(), shape.Leaves()
	}
	return f.K, max(f.K, f.KTo)
}

// Shape is the tree of gates that Hierarchy names; the zero value where it names none, or
// one that is to be found.
func (f *Fit) Shape() (model.Hierarchy, error) {
	if f.Hierarchy == "" || f.Grows() {
		return model.Hierarchy{}, nil
	}
	return model.ParseHierarchy(f.Hierarchy)
}

// Key is a part of a description as moe's flags call it.
type Key = setting.Key

// Error is a description that contradicts itself. [Error.Error] has its keys as they stand in
// files, [setting.Text.Worded] as somebody else says them.
type Error struct{ setting.Text }

func (e *Error) Error() string { return e.String() }

// Message is what an error of this or another package says, with what can be set in the program's words, such as
// "--drop x" where the error itself says "drop: x"; value is "" for a key alone.
func Message(err error, as func(key Key, value string) string) string {
	return setting.Message(err, as)
}

func refuse(format string, args ...any) error { return &Error{setting.Textf(format, args...)} }

// Check refuses what contradicts itself, whatever the data. Errors: [*Error],
// [*host.RequestError], *dataset.SelectionError, *terms.Error.
func (f *Fit) Check() error {
	if f.Several() {
		return f.checkAlternatives()
	}
	for _, check := range []func() error{f.checkRoles, f.checkMoments, f.checkExperts, f.checkTerms, f.checkFamily,
		f.checkValues, f.checkMethod, f.checkSharedGate, f.checkTargets} {
		if err := check(); err != nil {
			return err
		}
	}
	return cmp.Or(f.selection().Check(), f.checkConfig())
}

// checkConfig refuses what no fit is made of, whatever the data.
func (f *Fit) checkConfig() error {
	cfg, err := f.Config()
	if f.GateShared && joint.Known(cfg.Family) {
		cfg.Family = "" // every target alone begins with normal noise
	}
	if f.Leaves != nil {
		cfg.Leaves = make([]sdk.Activation, len(f.Leaves)) // which are not open
	}
	if err == nil {
		cfg, err = cfg.Checked()
	}
	if err != nil {
		return err
	}
	normal, offset := cfg.Family == "", f.roles()[model.Offsets]
	switch {
	case f.Targets != nil && !normal:
		return refuse("a fit of several targets knows normal noise alone, not the family %s", f.Family)
	case f.OutputScale != "" && f.Grows():
		return refuse("output scale %s is for one gate over experts of one activation, not for a tree or leaves",
			string(f.OutputScale))
	case f.Grouped() && f.ZeroExpert:
		return refuse("an expert that is always 0 is not for rows in groups")
	case f.Grouped() && f.GatePenalty.Asked():
		return refuse("a ridge on the gate is not for rows in groups")
	case offset != "" && normal:
		return refuse("the offset %s is for families of other than normal noise: take it off the target", offset)
	}
	return nil
}

func (f *Fit) checkRoles() error {
	for role := range f.Roles {
		if !slices.Contains(dataset.RoleNames(), role) {
			return refuse("%s: no role %q; there are %v", Key("roles"), role, dataset.RoleNames())
		}
	}
	return f.checkTogether()
}

// checkTogether refuses what is not for rows in groups, or for shared coefficients, and what has no effect beside
// standard errors by clusters.
func (f *Fit) checkTogether() error {
	for _, k := range []struct {
		key string
		is  bool
	}{{"targets", f.Targets != nil}, {"hac", slices.Contains(f.Errors, host.Dependent)},
		{"arrangements", f.Arrangements}, {"hierarchy", f.Hierarchy != ""}, {"output-scale", f.OutputScale != ""}} {
		if f.Grouped() && k.is {
			if dataset.RolesOf(f.Roles)[model.Groups] == "" {
				return refuse("%s is not for rows in groups: leave out %s, or the last bar of %s", Key(k.key),
					Key(k.key), Key("formula"))
			}
			return refuse("%s is not for rows in groups: leave out %s or %s", Key(k.key), Key(k.key), Key("group"))
		}
	}
	for _, k := range f.given([]string{"output-scale", "moments"}) {
		if f.Shared != nil {
			return refuse("%s has no effect beside %s", Key("shared"), Key(k))
		}
	}
	switch {
	case f.NoGroupPosteriors && !f.Grouped():
		return refuse("%s has no effect without %s", Key("no-group-posteriors"), Key("group"))
	case f.Shared != nil && f.Hierarchy != "":
		return refuse("%s has no effect beside %s", Key("shared"), Key("hierarchy"))
	case f.Shared != nil && f.GateShared:
		return refuse("%s has no effect beside %s", Key("shared"), Key("gate-shared"))
	case f.Roles["cluster"] == "":
		return nil
	case slices.Contains(f.Errors, host.Robust):
		return refuse("%s has no effect beside %s, whose standard errors hold where robust ones do", Key("robust"),
			Key("cluster"))
	}
	return nil
}

// checkMoments refuses what says how data are read beside sums, which have been told.
func (f *Fit) checkMoments() error {
	switch {
	case f.Moments == "":
		return nil
	case f.Data != "":
		return refuse("want one of DATA and %s FILE", Key("moments"))
	case f.Arrangements:
		return refuse("%s has no effect beside %s: the likelihood is that of a random subsample", Key("arrangements"),
			Key("moments"))
	case slices.Contains(f.Errors, host.Dependent):
		return refuse("%s has no effect beside %s: the likelihood is that of a random subsample, whose rows do not "+
			"follow each other", Key("hac"), Key("moments"))
	}
	for _, k := range f.given(slices.Concat([]string{"target", "features", "drop"}, dataset.RoleNames(),
		[]string{"formula", "categorical", "reference", "missing", "decimal"})) {
		return refuse("%s has no effect beside %s: the sums have been made", Key(k), Key("moments"))
	}
	return nil
}

// given are those of the keys that have a value; what is a role goes by its name.
func (f *Fit) given(keys []string) (out []string) {
	is := map[string]bool{
		"target": f.Target != "", "features": f.Features != nil, "drop": f.Drop != nil, "formula": f.Formula != "",
		"categorical": f.Categorical != nil, "reference": f.Reference != nil, "missing": f.Missing != "",
		"decimal":   f.Decimal != "",
		"intercept": f.Intercepts != "", "gate-features": f.GateFeatures != nil, "gate": f.Gate != "",
		"shared":  f.Shared != nil,
		"moments": f.Moments != "", "output-scale": f.OutputScale != "",
		"sigma": f.Sigma != 0, "mu": f.Method.Mu != 0, "transform": f.Transform != "",
		"inputs": !f.Inputs.Gaussian(), "hac": slices.Contains(f.Errors,
			host.Dependent),
		"arrangements": f.Arrangements, "gate-penalty": f.GatePenalty != "",
		"expert-ridge": f.ExpertRidge != "", "expert-lasso": f.ExpertLasso != "",
		"choose":  f.Choose != "",
		"targets": f.Targets != nil, "start": f.Start != "", "truth": f.Truth != "", "leaves": f.Leaves != nil,
	}
	for _, k := range keys {
		if is[k] || f.Roles[k] != "" {
			out = append(out, k)
		}
	}
	return out
}

// checkExperts looks at the number of experts, the tree and the leaves.
func (f *Fit) checkExperts() error {
	switch {
	case !f.Grows() && f.MaxLeaves != 0:
		return refuse("%s %d: it bounds the tree of %s auto", Key("max-leaves"), f.MaxLeaves, Key("hierarchy"))
	case f.MaxLeaves < 0:
		return refuse("%s %d: want at least 1", Key("max-leaves"), f.MaxLeaves)
	case f.Grows() && f.K != 0:
		return refuse("%s %s: %s auto finds the number of experts, and %s bounds it", Key("k"), f.numbers(),
			Key("hierarchy"), Key("max-leaves"))
	case f.Grows() && f.Targets != nil:
		return refuse("%s auto: it grows the tree of one target, and %s names several", Key("hierarchy"),
			Key("targets"))
	case f.Hierarchy == "" && f.K == 0:
		return refuse("%s: want a number of experts, or a %s", Key("k"), Key("hierarchy"))
	case f.K < 0 || f.K == 0 && f.KTo != 0:
		return refuse("%s %s: want at least 1", Key("k"), f.numbers())
	case f.Choose != "" && !slices.Contains(host.Choices(), f.Choose):
		return unknown("choose", host.Choices(), string(f.Choose))
	case f.Choose != "" && f.KTo == 0:
		return refuse("%s %s: there is one fit; give a range of numbers of experts, such as %s 1:6", Key("choose"),
			string(f.Choose), Key("k"))
	case f.KTo != 0 && f.KTo < f.K:
		return refuse("%s %s: want the smaller number first", Key("k"), f.numbers())
	case f.KTo != 0 && (f.Hierarchy != "" || len(f.Leaves) > 0):
		return refuse("%s %s: a hierarchy, and leaves of their own, have one number of experts", Key("k"), f.numbers())
	}
	shape, err := f.Shape()
	switch k, _ := f.Numbers(); {
	case err != nil:
		return refuse("%s%s", Key("hierarchy"), strings.TrimPrefix(err.Error(), "hierarchy"))
	case f.Hierarchy != "" && !f.Grows() && f.K != 0 && f.K != shape.Leaves():
		return refuse("%s %d: the hierarchy %s has %d leaves", Key("k"), f.K, shape, shape.Leaves())
	case f.Leaves == nil && f.Activation.Name == "":
		return refuse("%s: want the name of one, or %s", Key("activation"), Key("leaves"))
	case f.Leaves == nil:
		return nil
	case f.Activation.Name != "" || f.Activation.Params != nil:
		return refuse("%s %s: give it or %s", Key("leaves"), namesOf(f.Leaves), Key("activation"))
	case f.Grows():
		return refuse("%s %s: a tree that grows has one activation for all its leaves", Key("leaves"),
			namesOf(f.Leaves))
	case len(f.Leaves) != k:
		what := fmt.Sprintf("%d experts", k)
		if f.Hierarchy != "" {
			what = fmt.Sprintf("%d leaves of %s", k, f.Hierarchy)
		}
		return refuse("%s %s: %d names for the %s", Key("leaves"), namesOf(f.Leaves), len(f.Leaves), what)
	}
	return nil
}

// numbers is the number of experts, or the range.
func (f *Fit) numbers() string {
	if f.KTo != 0 {
		return fmt.Sprintf("%d:%d", f.K, f.KTo)
	}
	return fmt.Sprint(f.K)
}

func namesOf(leaves []Activation) string {
	var names []string
	for _, l := range leaves {
		names = append(names, l.Name)
	}
	return strings.Join(names, ",")
}

// checkTerms looks at what says how columns become features.
func (f *Fit) checkTerms() error {
	switch {
	case f.Missing != "" && f.Missing != "refuse" && f.Missing != "drop":
		return refuse("%s %s: want refuse or drop", Key("missing"), f.Missing)
	case f.Decimal != "" && f.Decimal != "." && f.Decimal != ",":
		return refuse("%s %s: want . or ,", Key("decimal"), f.Decimal)
	case f.Formula == "":
		return nil
	}
	formula, err := terms.Parse(f.Formula)
	if err != nil {
		return err
	}
	for _, k := range f.given([]string{"intercept", "features", "gate-features", "gate"}) {
		return refuse(
			"%s has no effect beside %s, which says it: y ~ experts | gate, each with an intercept unless - 1", Key(k),
			Key("formula"))
	}
	if f.Shared != nil {
		return refuse("%s has no effect beside %s, which says it: y ~ x1 + shared(x2)", Key("shared"), Key("formula"))
	}
	for role, name := range dataset.RoleNames() {
		said, has := f.Roles[name], formula.Roles[role]
		if said != "" && has != "" && said != has {
			return refuse("%s %s: that of %s is %s", Key(name), said, Key("formula"), has)
		}
	}
	if f.Target != "" && f.Target != formula.Target {
		return refuse("%s %s: the target of %s is %s", Key("target"), f.Target, Key("formula"), formula.Target)
	}
	return nil
}

// checkFamily looks at the law of the target.
func (f *Fit) checkFamily() error {
	known := host.Families()
	if f.GateShared {
		known = append(known, joint.Families()...)
	}
	switch {
	case f.Family != "" && !slices.Contains(known, f.Family):
		return refuse("%s %s: there is no such family; there are %s", Key("family"), f.Family,
			strings.Join(known, ", "))
	case f.Dof != 0 && f.Family != host.StudentT:
		return refuse("%s %v: only the family %s has degrees of freedom", Key("dof"), f.Dof, host.StudentT)
	case f.ZeroExpert && !host.Counts(f.Family):
		return refuse("%s: only counts have an expert that is always 0: %s %s", Key("zero-expert"), Key("family"),
			strings.Join(slices.DeleteFunc(known, func(name string) bool { return !host.Counts(name) }), " or "))
	case f.roles()[model.Trials] != "" && f.Family != host.Binomial:
		return refuse("%s %s: only the family %s has trials", Key("trials"), f.roles()[model.Trials], host.Binomial)
	case f.Family != host.Lognormal:
		return nil
	case f.Moments != "":
		return refuse("%s %s has no effect beside %s: the sums have been made of y", Key("family"), f.Family,
			Key("moments"))
	case f.Targets != nil:
		return refuse("%s %s: several targets are fitted as they are in the table", Key("family"), f.Family)
	}
	if formula, err := terms.Parse(f.Formula); f.Formula != "" && err == nil && formula.Scale != "" {
		return refuse("%s: the left side is %s, and the family lognormal is normal noise of log(%s): give one of them",
			Key("formula"), formula.Scale.Title(formula.Target), formula.Target)
	}
	return nil
}

// checkValues looks at values that are one of a few.
func (f *Fit) checkValues() error {
	if f.OutputScale != "" && !slices.Contains(host.OutputScales(), f.OutputScale) {
		return unknown("output-scale", host.OutputScales(), string(f.OutputScale))
	}
	if f.Transform != "" && !slices.Contains(host.Transforms(), f.Transform) {
		return unknown("transform", host.Transforms(), string(f.Transform))
	}
	if f.Inputs != "" && !slices.Contains(host.AllInputs(), f.Inputs) {
		return unknown("inputs", host.AllInputs(), string(f.Inputs))
	}
	if _, err := f.noise(); err != nil {
		return err
	}
	if err := f.checkPenalties(); err != nil {
		return err
	}
	gate, err := f.gate()
	if _, constant := gate.(host.Constant); constant && f.GateFeatures != nil {
		return refuse("a constant gate has no features")
	}
	return err
}

// checkPenalties looks at what the model for new rows is made by.
func (f *Fit) checkPenalties() error {
	for _, asked := range []struct {
		key string
		host.Penalty
	}{{"gate-penalty", f.GatePenalty}, {"expert-ridge", f.ExpertRidge}, {"expert-lasso", f.ExpertLasso}} {
		switch {
		case !asked.Asked():
		case asked.Check() != nil:
			return refuse("%s %s: want none, auto or a number above 0", Key(asked.key), string(asked.Penalty))
		case f.Arrangements:
			return refuse("%s has no effect beside %s: predictions are over these", Key(asked.key), Key("arrangements"))
		case asked.key != "gate-penalty":
			for _, k := range f.given([]string{"shared", "output-scale", "group"}) {
				return refuse("%s is not for a fit with %s", Key(asked.key), Key(k))
			}
		}
	}
	if f.ExpertRidge.Asked() && f.ExpertLasso.Asked() {
		return refuse("%s has no effect beside %s: the experts have one of them", Key("expert-lasso"),
			Key("expert-ridge"))
	}
	if f.GatePenalty.Asked() && f.Gate == (host.Constant{}).Name() {
		return refuse("%s has no effect beside %s %s, which has no coefficients", Key("gate-penalty"), Key("gate"),
			f.Gate)
	}
	return nil
}

// checkMethod refuses settings that the method has no use for.
func (f *Fit) checkMethod() error {
	m, err := f.Method.build()
	if err != nil {
		return err
	}
	for _, asked := range []struct {
		option host.Option
		is     bool
	}{
		{host.OptStart, f.Start != ""}, {host.OptTransform, f.Transform != ""},
		{host.OptInputs, !f.Inputs.Gaussian()},
		{host.OptRobust, slices.Contains(f.Errors, host.Robust)},
		{host.OptHAC, slices.Contains(f.Errors, host.Dependent)},
		{host.OptShared, f.Shared != nil}, {host.OptZeroExpert, f.ZeroExpert},
		{host.OptGroup, f.Grouped()}, {host.OptCluster, f.Roles["cluster"] != ""},
		{host.OptArrangements, f.Arrangements}, {host.OptGatePenalty, f.GatePenalty != ""},
		{host.OptExpertRidge, f.ExpertRidge != ""}, {host.OptExpertLasso, f.ExpertLasso != ""},
		{host.OptWeights, f.roles()[model.Weights] != ""}, {host.OptGateFeatures, f.GateFeatures != nil},
		{host.OptHierarchy, f.Grows()}, {host.OptLeaves, f.Leaves != nil},
	} {
		if asked.is {
			if err := host.Admit(m, asked.option); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSharedGate looks at what goes with one gate for all targets.
func (f *Fit) checkSharedGate() error {
	switch {
	case !f.GateShared && f.NoiseCovariance != "":
		return refuse("%s has no effect without %s: targets with gates of their own have noise of their own",
			Key("noise-covariance"), Key("gate-shared"))
	case !f.GateShared:
		return nil
	case f.Targets == nil:
		return refuse("%s has no effect without %s, which share the gate", Key("gate-shared"), Key("targets"))
	case f.NoiseCovariance != "" && f.NoiseCovariance != host.Diagonal && f.NoiseCovariance != host.Full:
		return refuse("%s %s: want %s or %s", Key("noise-covariance"), f.NoiseCovariance, host.Diagonal, host.Full)
	}
	for _, k := range f.given([]string{"arrangements", "sigma", "mu", "transform", "inputs"}) {
		return refuse("%s has no effect beside %s", Key(k), Key("gate-shared"))
	}
	if m, fitting := f.Method.name(), host.Taking(host.OptSharedGate); !slices.Contains(fitting, m) {
		return refuse("%s %s: targets under one gate are fitted by method %s", Key("method"), m,
			strings.Join(fitting, ", "))
	}
	return nil
}

// besides are the keys that have no effect beside targets, and why.
var besides = []struct{ key, why string }{
	{"target", "they are the targets"},
	{"formula", "a formula has one target"},
	{"moments", "the sums are made for one target"},
	{"output-scale", "an offset and a scale are of one target"},
	{"gate-penalty", "the model for new rows is of one target"},
	{"expert-ridge", "the model for new rows is of one target"},
	{"expert-lasso", "the model for new rows is of one target"},
}

// checkTargets looks at several targets and what stands beside them.
func (f *Fit) checkTargets() error {
	if f.Targets == nil {
		return nil
	}
	for _, b := range besides {
		if f.given([]string{b.key}) != nil {
			return refuse("%s has no effect beside %s: %s", Key(b.key), Key("targets"), b.why)
		}
	}
	if f.KTo != 0 && f.Choose != host.ByHeldOut {
		return refuse("%s %s: of several targets a range is for %s %s", Key("k"), f.numbers(), Key("choose"),
			string(host.ByHeldOut))
	}
	if len(f.Targets) == 0 {
		return refuse("%s: want the names of columns", Key("targets"))
	}
	for i, name := range f.Targets {
		switch {
		case name == "":
			return refuse("%s %s: name %d is empty", Key("targets"), strings.Join(f.Targets, ","), i+1)
		case slices.Contains(f.Targets[:i], name):
			return refuse("%s: column %q is named twice", Key("targets"), name)
		case slices.Contains(f.Features, name), slices.Contains(f.GateFeatures, name):
			return refuse("%s: column %q is both a feature and a target", Key("targets"), name)
		case slices.Contains(f.Drop, name):
			return refuse("%s: column %q is both a target and dropped", Key("targets"), name)
		}
		for _, role := range dataset.RoleNames() {
			if f.Roles[role] == name {
				return refuse("%s: column %q is both a target and the %s", Key("targets"), name, role)
			}
		}
	}
	return nil
}

// Grouped says whether the rows are in groups.
func (f *Fit) Grouped() bool { return f.roles()[model.Groups] != "" }

// roles are the columns that are neither features nor the target, of which a formula may name some.
func (f *Fit) roles() dataset.Roles {
	roles := dataset.RolesOf(f.Roles)
	if f.Formula == "" {
		return roles
	}
	if formula, err := terms.Parse(f.Formula); err == nil {
		for role, column := range formula.Roles {
			if column != "" {
				roles[role] = column
			}
		}
	}
	return roles
}

// selection is that of the columns for one target.
func (f *Fit) selection() dataset.Selection {
	sel := dataset.Selection{Target: f.Target, Features: f.Features, Drop: f.Drop, Roles: f.roles().Raw(),
		Decimal: '.'}
	if f.Decimal == "," {
		sel.Decimal = ','
	}
	if f.Missing == "drop" {
		sel.Absent = dataset.Drop
	}
	return sel
}

// WithDefaults completes a description: without an activation or leaves the experts have the family's
// own. Where it says nothing of the experts at all, neither activation nor number, tree or intercepts, there are
// 1 to 4 of them, with intercepts, and whole is true: that is [Unsaid]. A formula has its own intercepts.
// Of several targets, and of sums of moments, the number of experts is to be said. With said something is said of
// the experts elsewhere.
func (f *Fit) WithDefaults(said bool) (whole bool) {
	named := said || f.Activation.Name != "" || f.Activation.Params != nil || f.Leaves != nil
	if f.Activation.Name == "" && f.Leaves == nil {
		f.Activation.Name = activation(f.Family)
	}
	if named || f.K != 0 || f.KTo != 0 || f.Hierarchy != "" || f.MaxLeaves != 0 || f.Intercepts != "" ||
		f.Targets != nil || f.Moments != "" {
		return false
	}
	f.K, f.KTo = 1, 4
	if f.Formula == "" {
		f.Intercepts = host.BothIntercepts
	}
	return true
}

// JSON is the description as a file.
func (f *Fit) JSON() ([]byte, error) {
	c := *f
	c.Format = Format
	data, err := json.MarshalIndent(&c, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
