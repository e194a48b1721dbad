package fitted

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/terms"
)

// FormatV2 is the version of the files that hold more than a flat mixture of one
// target.
const FormatV2 = "moe-model/v2"

// Vector is a model of several targets that share their features: a tree of experts
// for each (002 Eq. 4). Its JSON is a file of [FormatV2].
type Vector struct {
	Format    string              `json:"format"`
	Hierarchy string              `json:"hierarchy"` // of every output, as model.ParseHierarchy reads it
	Leaves    []stated.Activation `json:"leaves"`    // of the K experts of an output
	D         int                 `json:"d"`
	K         int                 `json:"k"`
	Features  []string            `json:"features"`
	Design    *terms.Design       `json:"design,omitempty"` // what raw columns became; absent where they are features
	Outputs   []Output            `json:"outputs"`

	// SharedGate is what the outputs have together where one gate is that of all; nil where
	// every output is a mixture of its own.
	SharedGate *SharedGate `json:"shared_gate,omitempty"`

	// Approximation is g as the fit evaluated it, where the activation ran in a plugin's process.
	Approximation *native.Coefficients `json:"approximation,omitempty"`

	Unknown []string `json:"-"` // members of the file that nobody reads
}

// Output is the tree of one target. Rows of the gating are those of
// [model.Hierarchy]. An output that was fitted has what a [Model] has of its fit.
type Output struct {
	Target              string      `json:"target"`
	Regressors          [][]float64 `json:"regressors"`           // K rows a_i of D
	Gating              [][]float64 `json:"gating"`               // K−1 rows w_i of D
	RegressorIntercepts []float64   `json:"regressor_intercepts"` // K, or null
	GatingIntercepts    []float64   `json:"gating_intercepts"`    // K−1, or null
	Sigma               Sigma       `json:"sigma"`                // null where the mixture's mean is all there is

	OutputScale    *OutputScale    `json:"output_scale,omitempty"` // the means are c + s·g; absent: they are g
	Proportions    []float64       `json:"proportions,omitempty"`  // K means of P(z=i|x) over the rows
	Fit            *Fit            `json:"fit,omitempty"`          // absent where the output was not fitted
	StandardErrors *StandardErrors `json:"standard_errors,omitempty"`
	Covariance     *Covariance     `json:"covariance,omitempty"`
	HAC            *HAC            `json:"hac,omitempty"`
	Arrangements   *Arrangements   `json:"arrangements,omitempty"`
	Truth          *Recovery       `json:"truth,omitempty"` // where the true parameters were given
	Baselines      *Baselines      `json:"baselines,omitempty"`
}

// NewVector returns the model of several targets that fits of the same features and
// shape are side by side. It panics if there is none; other faults are for
// [Vector.Validate].
func NewVector(fits []*Model) *Vector {
	first := fits[0]
	v := &Vector{
		Format: FormatV2, Hierarchy: first.Params().Hierarchy().String(), Leaves: first.Leaves,
		D: first.D, K: first.K, Features: first.Features, Design: first.Design, Approximation: first.Approximation,
	}
	if v.Leaves == nil {
		v.Leaves = slices.Repeat([]stated.Activation{first.Activation}, v.K)
	}
	for _, m := range fits {
		v.Outputs = append(v.Outputs, Output{
			Target: m.Target, Regressors: m.Regressors, Gating: m.withoutNils().Gating,
			RegressorIntercepts: m.RegressorIntercepts, GatingIntercepts: m.GatingIntercepts, Sigma: m.Sigma,
			OutputScale: m.OutputScale,
			Proportions: m.Proportions, Fit: &m.withoutNils().Fit, StandardErrors: m.StandardErrors,
			Covariance: m.Covariance, HAC: m.HAC, Arrangements: m.Arrangements, Truth: m.Truth,
			Baselines: m.Baselines,
		})
	}
	return v
}

// Model returns output j as a model of its own, which shares its memory.
func (v *Vector) Model(j int) *Model {
	o := &v.Outputs[j]
	m := &Model{
		Activation: v.Leaves[0], D: v.D, K: v.K, Features: v.Features, Target: o.Target, Design: v.Design,
		Regressors: o.Regressors, Gating: o.Gating, RegressorIntercepts: o.RegressorIntercepts,
		GatingIntercepts: o.GatingIntercepts,
		Sigma:            o.Sigma, OutputScale: o.OutputScale, Proportions: o.Proportions,
		StandardErrors: o.StandardErrors, Covariance: o.Covariance, HAC: o.HAC, Arrangements: o.Arrangements,
		Truth: o.Truth, Baselines: o.Baselines,
		Approximation: v.Approximation,
	}
	if shape := shapeOf(v.Hierarchy); shape.Depth() > 1 {
		m.Hierarchy = v.Hierarchy
	}
	if slices.ContainsFunc(v.Leaves, func(a stated.Activation) bool { return !a.Same(v.Leaves[0]) }) {
		m.Activation, m.Leaves = stated.Activation{Name: stated.Mixed, Params: map[string]float64{}}, v.Leaves
	}
	if o.Fit != nil {
		m.Fit = *o.Fit
	}
	if v.SharedGate != nil {
		m.Proportions = v.SharedGate.Proportions
		v.SharedGate.marginal(m, v, j)
	}
	m.Format = m.FormatOf()
	return m
}

// Fits are those of all targets, one where they share a gate; nil of a target that was not fitted.
func (v *Vector) Fits() []*Fit {
	if v.SharedGate != nil {
		return []*Fit{v.SharedGate.Fit}
	}
	var out []*Fit
	for j := range v.Outputs {
		out = append(out, v.Outputs[j].Fit)
	}
	return out
}

// Output returns the place of the output of this target, −1 for none.
func (v *Vector) Output(target string) int {
	return slices.IndexFunc(v.Outputs, func(o Output) bool { return o.Target == target })
}

// NewOutput returns the output with parameters p, without noise.
func NewOutput(target string, p *model.Params) Output {
	var m Model
	m.SetParams(p)
	return Output{
		Target: target, Regressors: m.Regressors, Gating: m.Gating,
		RegressorIntercepts: m.RegressorIntercepts, GatingIntercepts: m.GatingIntercepts,
	}
}

// Shape returns the hierarchy of the outputs.
func (v *Vector) Shape() (model.Hierarchy, error) { return model.ParseHierarchy(v.Hierarchy) }

// Params returns a copy of the parameters of output j.
func (v *Vector) Params(j int) *model.Params {
	m := v.Model(j)
	if m.Sigma == nil {
		m.Sigma = Sigma{0}
	}
	p := m.Params()
	p.Tree = shapeOf(v.Hierarchy)
	return p
}

// Validate reports the first thing that is wrong with the model, as [Model.Validate]
// does.
func (v *Vector) Validate() error {
	if v.Format != FormatV2 {
		return fmt.Errorf("format is %q, want %q", v.Format, FormatV2)
	}
	shape, err := v.Shape()
	if err != nil {
		return err
	}
	switch {
	case v.K != shape.Leaves() || len(v.Leaves) != v.K:
		return fmt.Errorf("k = %d and %d leaves, want the %d of the hierarchy %s", v.K, len(v.Leaves), shape.Leaves(),
			shape)
	case v.D < 1 || len(v.Features) != v.D:
		return fmt.Errorf("features has %d names, want d = %d, at least 1", len(v.Features), v.D)
	case len(v.Outputs) == 0:
		return fmt.Errorf("there are no outputs")
	}
	for _, leaf := range v.Leaves {
		if err := leaf.Check(); err != nil {
			return err
		}
	}
	if v.Design != nil {
		if err := v.Design.Validate(); err != nil {
			return fmt.Errorf("design: %w", err)
		}
		if !slices.Equal(v.Features, v.Design.Features()) {
			return fmt.Errorf("features are not the terms of the design")
		}
	}
	if v.Approximation != nil {
		if err := v.Approximation.Validate(); err != nil {
			return fmt.Errorf("approximation: %w", err)
		}
	}
	seen := map[string]bool{}
	for _, name := range v.Features {
		if name == "" || seen[name] {
			return fmt.Errorf("feature %q is empty or named twice", name)
		}
		if err := check.Name(name); err != nil {
			return err
		}
		seen[name] = true
	}
	for j := range v.Outputs {
		o := &v.Outputs[j]
		if o.Target == "" || seen[o.Target] {
			return fmt.Errorf("outputs[%d].target = %q is empty or named twice", j, o.Target)
		}
		if err := check.Name(o.Target); err != nil {
			return err
		}
		seen[o.Target] = true
		if err := v.validateOutput(o); err != nil {
			return fmt.Errorf("outputs[%d].%w", j, err)
		}
		if o.Fit == nil {
			m := v.Model(j)
			if err := cmp.Or(o.StandardErrors.validate(m), o.HAC.validate(m)); err != nil {
				return fmt.Errorf("outputs[%d].%w", j, err)
			}
			continue
		}
		if err := v.Model(j).Validate(); err != nil {
			return fmt.Errorf("outputs[%d]: %w", j, err)
		}
	}
	return v.SharedGate.validate(v)
}

func (v *Vector) validateOutput(o *Output) error {
	if err := cmp.Or(
		check.Matrix("regressors", o.Regressors, v.K, v.D),
		check.Matrix("gating", o.Gating, model.Gates(v.K), v.D),
		check.Optional("regressor_intercepts", o.RegressorIntercepts, v.K),
		check.Optional("gating_intercepts", o.GatingIntercepts, model.Gates(v.K)),
	); err != nil {
		return err
	}
	if o.Sigma != nil {
		return checkSigma(o.Sigma, v.K)
	}
	return nil
}

// Write validates the model and writes its file, beside path and then renamed.
func (v *Vector) Write(ctx context.Context, path string) error {
	return jsonfile.Write(ctx, path, v)
}

// JSON returns the model file, laid out as [Model.JSON] does.
func (v *Vector) JSON() ([]byte, error) {
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("a model that cannot be written: %w", err)
	}
	return jsonfile.Indent(v)
}

// ReadVector reads and validates a file of a [Vector]. Faults are as of [Read].
func ReadVector(path string) (*Vector, error) { return jsonfile.Read(path, VectorOf) }

// VectorOf is [ReadVector] of a file that is open.
func VectorOf(f *jsonfile.File) (*Vector, error) {
	v := new(Vector)
	var err error
	if v.Unknown, err = f.Sized(v, func() (k, d int) { return v.K, v.D }); err != nil {
		return nil, err
	}
	if err := v.Validate(); err != nil {
		return nil, &dataset.Error{File: f.Path, Msg: err.Error()}
	}
	return v, nil
}
