package fitted

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// FormatV2 is the version of the files that hold more than a flat mixture of one
// target.
const FormatV2 = "moe-model/v2"

// Vector is a model of several targets that share their features: a tree of experts
// for each (002 Eq. 4). Its JSON is a file of [FormatV2].
type Vector struct {
	Format    string       `json:"format"`
	Hierarchy string       `json:"hierarchy"` // of every output, as model.ParseHierarchy reads it
	Leaves    []Activation `json:"leaves"`    // of the K experts of an output
	D         int          `json:"d"`
	K         int          `json:"k"`
	Features  []string     `json:"features"`
	Outputs   []Output     `json:"outputs"`
}

// Output is the tree of one target. Rows of the gating are those of
// [model.Hierarchy].
type Output struct {
	Target              string      `json:"target"`
	Regressors          [][]float64 `json:"regressors"`           // K rows a_i of D
	Gating              [][]float64 `json:"gating"`               // K−1 rows w_i of D
	RegressorIntercepts []float64   `json:"regressor_intercepts"` // K, or null
	GatingIntercepts    []float64   `json:"gating_intercepts"`    // K−1, or null
	Sigma               Sigma       `json:"sigma"`                // null where the mixture's mean is all there is
}

// NewOutput returns the output with parameters p, without noise.
func NewOutput(target string, p *model.Params) Output {
	p = p.Clone()
	return Output{
		Target: target, Regressors: rows(p.Regressors, p.K, p.D), Gating: rows(p.Gating, p.Gates(), p.D),
		RegressorIntercepts: p.RegressorIntercepts, GatingIntercepts: p.GatingIntercepts,
	}
}

// Shape returns the hierarchy of the outputs.
func (v *Vector) Shape() (model.Hierarchy, error) { return model.ParseHierarchy(v.Hierarchy) }

// Params returns a copy of the parameters of output j.
func (v *Vector) Params(j int) *model.Params {
	o := &v.Outputs[j]
	p := model.NewParams(v.K, v.D)
	fill(p.Regressors, o.Regressors)
	fill(p.Gating, o.Gating)
	p.RegressorIntercepts, p.GatingIntercepts = o.RegressorIntercepts, o.GatingIntercepts
	if o.Sigma != nil {
		p.Sigma = o.Sigma
	}
	p.Tree = shapeOf(v.Hierarchy)
	return p.Clone()
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
		return fmt.Errorf("k = %d and %d leaves, want the %d of the hierarchy %s", v.K, len(v.Leaves), shape.Leaves(), shape)
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
	seen := map[string]bool{}
	for _, name := range v.Features {
		if name == "" || seen[name] {
			return fmt.Errorf("feature %q is empty or named twice", name)
		}
		seen[name] = true
	}
	for j := range v.Outputs {
		o := &v.Outputs[j]
		if o.Target == "" || seen[o.Target] {
			return fmt.Errorf("outputs[%d].target = %q is empty or named twice", j, o.Target)
		}
		seen[o.Target] = true
		if err := v.validateOutput(o); err != nil {
			return fmt.Errorf("outputs[%d].%w", j, err)
		}
	}
	return nil
}

func (v *Vector) validateOutput(o *Output) error {
	if err := firstError(
		checkMatrix("regressors", o.Regressors, v.K, v.D),
		checkMatrix("gating", o.Gating, model.Gates(v.K), v.D),
		checkOptional("regressor_intercepts", o.RegressorIntercepts, v.K),
		checkOptional("gating_intercepts", o.GatingIntercepts, model.Gates(v.K)),
	); err != nil || o.Sigma == nil {
		return err
	}
	return checkSigma(o.Sigma, v.K)
}

// Write validates the model and writes its file, beside path and then renamed.
func (v *Vector) Write(ctx context.Context, path string) error {
	if err := v.Validate(); err != nil {
		return fmt.Errorf("a model that cannot be written: %w", err)
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, append(joinLists(data), '\n'))
}

// ReadVector reads and validates a file of a [Vector]. Faults are as of [Read].
func ReadVector(path string) (*Vector, error) {
	v := new(Vector)
	if err := readJSON(path, v); err != nil {
		return nil, err
	}
	if err := v.Validate(); err != nil {
		return nil, &dataset.Error{File: path, Msg: err.Error()}
	}
	return v, nil
}
