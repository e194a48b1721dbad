package fitted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

// Reference are parameters from a file, with the activation that they are of: the
// truth, or those of another fit.
type Reference struct {
	Activation stated.Activation
	Leaves     []stated.Activation // of the experts, where they have several
	Params     *model.Params
	Unknown    []string // as of [Model]
}

// ReadReference reads the parameters in a model file or a truth file, told apart by
// the key format, for a table with these features. Those of a model are matched
// by name; those of a truth file stand in the table's order. Faults of the
// content, features of another name or number among them, are a *dataset.Error.
func ReadReference(path string, features []string) (*Reference, error) {
	head, err := jsonfile.HeadOf(path)
	if err != nil {
		return nil, err
	}
	if head.Several {
		return nil, &dataset.Error{File: path,
			Msg: "a model of several targets, where the parameters of one are wanted"}
	}
	if head.Format == "" || head.Format == TruthFormat {
		t, err := ReadTruth(path)
		if err != nil {
			return nil, err
		}
		return &Reference{t.Activation, t.Leaves, t.Params(), t.Unknown}, fitting(path, t.D, features)
	}
	m, err := Read(path)
	if err != nil {
		return nil, err
	}
	return referenceOf(path, m, features)
}

// ReadReferences is [ReadReference] for every one of the targets, from the file of a model
// of several, whose outputs are found by their names.
func ReadReferences(path string, features, targets []string) ([]*Reference, error) {
	head, err := jsonfile.HeadOf(path)
	if err != nil {
		return nil, err
	}
	if !head.Several {
		return nil, &dataset.Error{File: path,
			Msg: fmt.Sprintf("parameters of one target, where those of %s are wanted", strings.Join(targets, ", "))}
	}
	v, err := ReadVector(path)
	if err != nil {
		return nil, err
	}
	out := make([]*Reference, len(targets))
	for i, target := range targets {
		j := v.Output(target)
		if j < 0 {
			return nil, &dataset.Error{File: path, Msg: fmt.Sprintf("the model has no target %q", target)}
		}
		if out[i], err = referenceOf(path, v.Model(j), features); err != nil {
			return nil, err
		}
	}
	if len(out) > 0 {
		out[0].Unknown = v.Unknown // once
	}
	return out, nil
}

// referenceOf are the parameters of a model, for a table with these features.
func referenceOf(path string, m *Model, features []string) (*Reference, error) {
	if err := fitting(path, m.D, features); err != nil {
		return nil, err
	}
	from := make([]int, len(features))
	for j, name := range features {
		if from[j] = slices.Index(m.Features, name); from[j] < 0 {
			return nil, &dataset.Error{File: path, Msg: fmt.Sprintf("the model has no feature %q, which the data have",
				name)}
		}
	}
	return &Reference{m.Activation, m.Leaves, m.Params().Select(from), m.Unknown}, nil
}

// Same says whether the experts have these activations: act, or leaves where they have
// several.
func (r *Reference) Same(act stated.Activation, leaves []stated.Activation) bool {
	return r.Activation.Same(act) && slices.EqualFunc(r.Leaves, leaves, stated.Activation.Same)
}

// Agree compares the values of the activations, of which those of a model have the same
// names, as [stated.Activation.Agree] does.
func (r *Reference) Agree(file string, act stated.Activation, leaves []stated.Activation) error {
	err := r.Activation.Agree(file, act)
	for i, leaf := range r.Leaves {
		if err == nil {
			err = leaf.Agree(file, leaves[i])
		}
	}
	return err
}

func fitting(path string, d int, features []string) error {
	if d != len(features) {
		return &dataset.Error{File: path, Msg: fmt.Sprintf("d = %d, the data have %d features", d, len(features))}
	}
	return nil
}

// ReadParams returns the parameters that [ReadReference] reads.
func ReadParams(path string, features []string) (*model.Params, error) {
	r, err := ReadReference(path, features)
	if err != nil {
		return nil, err
	}
	return r.Params, nil
}
