package fitted

import (
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// ReadParams reads the parameters in a model file or a truth file, told apart by
// the key format, for a table with these features. Those of a model are matched
// by name; those of a truth file stand in the table's order. Faults of the
// content, features of another name or number among them, are a *dataset.Error.
func ReadParams(path string, features []string) (*model.Params, error) {
	format, err := FormatOf(path)
	if err != nil {
		return nil, err
	}
	if format == "" {
		t, err := ReadTruth(path)
		if err != nil {
			return nil, err
		}
		if t.D != len(features) {
			return nil, &dataset.Error{File: path, Msg: fmt.Sprintf("d = %d, the data have %d features", t.D, len(features))}
		}
		return t.Params(), nil
	}
	m, err := Read(path)
	if err != nil {
		return nil, err
	}
	if m.D != len(features) {
		return nil, &dataset.Error{File: path, Msg: fmt.Sprintf("d = %d, the data have %d features", m.D, len(features))}
	}
	from := make([]int, len(features))
	for j, name := range features {
		if from[j] = slices.Index(m.Features, name); from[j] < 0 {
			return nil, &dataset.Error{File: path, Msg: fmt.Sprintf("the model has no feature %q, which the data have", name)}
		}
	}
	return m.Params().Select(from), nil
}
