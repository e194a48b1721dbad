package known

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
)

// Reference are parameters from a file, with the activation that they are of: the
// truth, or those of another fit.
type Reference struct {
	Activation stated.Activation
	Leaves     []stated.Activation // of the experts, where they have several
	Params     *model.Params
	Unknown    []string // members of the file that nobody reads
}

// ReadReference reads the parameters in a model file or a truth file, told apart by
// the key format, for a table with these features. Those of a model are matched
// by name; those of a truth file stand in the table's order. Faults of the
// content, features of another name or number among them, are a *dataset.Error.
func ReadReference(path string, features []string) (*Reference, error) {
	file, head, err := jsonfile.OpenHead(path)
	if err != nil {
		return nil, err
	}
	if head.Several {
		return nil, &dataset.Error{File: path,
			Msg: "a model of several targets, where the parameters of one are wanted"}
	}
	if head.Format == "" || head.Format == TruthFormat {
		t, err := truthOf(file)
		if err != nil {
			return nil, err
		}
		return &Reference{t.Activation, t.Leaves, t.Params(), t.Unknown}, fitting(path, t.D, features)
	}
	m, err := fitted.Of(file)
	if err != nil {
		return nil, err
	}
	return referenceOf(path, m, features)
}

// ReadReferences is [ReadReference] for every one of the targets, from the file of a model
// of several, whose outputs are found by their names.
func ReadReferences(path string, features, targets []string) ([]*Reference, error) {
	file, head, err := jsonfile.OpenHead(path)
	if err != nil {
		return nil, err
	}
	if !head.Several {
		return nil, &dataset.Error{File: path,
			Msg: fmt.Sprintf("parameters of one target, where those of %s are wanted", strings.Join(targets, ", "))}
	}
	v, err := fitted.VectorOf(file)
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
func referenceOf(path string, m *fitted.Model, features []string) (*Reference, error) {
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

// Compare measures an estimate against the truth. Leaves, where they are given, are the
// activations of the K experts of both: only those of the same stand for each other. It
// is an error if they differ in k, d or the tree of their gates.
func Compare(est, truth *model.Params, leaves ...stated.Activation) (fitted.Recovery, error) {
	if est.K != truth.K || est.D != truth.D {
		return fitted.Recovery{}, fmt.Errorf("the model has k = %d, d = %d, the truth k = %d, d = %d", est.K, est.D,
			truth.K, truth.D)
	}
	if a, b := est.Hierarchy(), truth.Hierarchy(); !a.Equal(b) {
		return fitted.Recovery{}, fmt.Errorf("the model is the tree %s, the truth %s", a, b)
	}
	if est.Zero != truth.Zero {
		return fitted.Recovery{}, fmt.Errorf("of the model and the truth one has an expert that is always 0")
	}
	ereg, perm := metric.EregOf(est, truth, stated.Kinds(leaves))
	return fitted.Recovery{EReg: ereg, EGating: metric.Egating(est, truth, perm)}, nil
}
