// Package stated is an activation as files state it: its name and its parameters, and what tells whether another of
// that name is the same function.
package stated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/table"
)

// Mixed is what stands for the activation of experts that have several.
const Mixed = "mixed"

// Activation names the nonlinearity of the experts.
type Activation struct {
	Name    string             `json:"name"`
	Params  map[string]float64 `json:"params"` // {} where it has none
	Version string             `json:"version"`

	// Values are g at fixed nodes, which tell whether an activation of that name is
	// the same function; nil in files of before there were any.
	Values *claims.Values `json:"values,omitempty"`

	// Module is the WebAssembly module that the activation is, where it was asked for: who has the
	// file needs nothing else.
	Module *Module `json:"module,omitempty"`

	// Table is the curve that the activation is, where it is one: who has the file needs nothing else.
	Table *table.Data `json:"table,omitempty"`
}

// Of is how files name the activation with this description.
func Of(info sdk.Info) Activation {
	params := make(map[string]float64, len(info.Params))
	for name, v := range info.Params {
		params[name] = v
	}
	return Activation{Name: info.Name, Params: params, Version: info.Version}
}

// Describe is how files name act, with its values, and with its points where it is a table.
func Describe(ctx context.Context, act sdk.Activation) (Activation, error) {
	a := Of(act.Info())
	if t, ok := act.(*table.Table); ok {
		data := t.Data()
		a.Table = &data
	}
	var err error
	a.Values, err = claims.ValuesOf(ctx, act)
	return a, err
}

// Verify compares act with the values in a file, or "", that names it. Another
// function is a *dataset.Error. A file without values says nothing of it.
func (a Activation) Verify(ctx context.Context, file string, act claims.Evaluator) error {
	if a.Values == nil {
		return nil
	}
	return a.another(file, "the one of that name here", a.Values.Compare(ctx, act))
}

// Agree compares the values in a file, or "", with those in a model of the activation,
// as [Activation.Verify] does with g itself. It says nothing where one has none.
func (a Activation) Agree(file string, m Activation) error {
	if a.Values == nil || m.Values == nil {
		return nil
	}
	return a.another(file, "the model's", a.Values.CompareValues(m.Values))
}

// another says that values differ, and passes on other errors.
func (a Activation) another(file, than string, err error) error {
	if differ := (*claims.DifferenceError)(nil); errors.As(err, &differ) {
		return &dataset.Error{File: file, Msg: fmt.Sprintf("its activation %s is another function than %s: %v", a, than,
			differ)}
	}
	return err
}

// Same says whether two names mean one activation: versions of it may differ.
func (a Activation) Same(b Activation) bool {
	return a.Name == b.Name && maps.Equal(a.Params, b.Params)
}

// String is the name with the parameters, as in "leakyrelu(slope=0.1)"; an expression is
// in quotes, as one types it: "'expr: beta*z'(beta=2)".
func (a Activation) String() string {
	name := a.Name
	if expression.Is(name) {
		name = "'" + name + "'"
	}
	if len(a.Params) == 0 {
		return name
	}
	var params []string
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		params = append(params, fmt.Sprintf("%s=%v", name, a.Params[name]))
	}
	return name + "(" + strings.Join(params, ", ") + ")"
}

// Kinds numbers activations, the same number for the same; nil for none.
func Kinds(leaves []Activation) (kinds []int) {
	for _, leaf := range leaves {
		kinds = append(kinds, slices.IndexFunc(leaves, leaf.Same))
	}
	return kinds
}

// Check refuses names that activations may not have, such as paths, texts that are no
// expression or not as their own name has them, and parameters that are not finite.
func (a *Activation) Check() error {
	if expression.Is(a.Name) {
		act, err := expression.Parse(a.Name, a.Params)
		if err != nil {
			return fmt.Errorf("activation.name: %w", err)
		}
		if name := act.Info().Name; name != a.Name {
			return fmt.Errorf("activation.name is %q, want it as %q", a.Name, name)
		}
		return a.checkValues()
	}
	for i, c := range a.Name {
		if !(c >= 'a' && c <= 'z') && !(i > 0 && (c >= '0' && c <= '9' || c == '-')) {
			return fmt.Errorf("activation.name %q: want lower case letters, digits and dashes, a letter first", a.Name)
		}
	}
	if a.Name == "" {
		return fmt.Errorf("activation.name is missing")
	}
	for name, v := range a.Params {
		if !numeric.Finite(v) {
			return fmt.Errorf("activation.params.%s = %v is not finite", name, v)
		}
	}
	return a.checkValues()
}

func (a *Activation) checkValues() error {
	if a.Module != nil {
		if err := a.Module.validate(); err != nil {
			return fmt.Errorf("activation.module: %w", err)
		}
	}
	if a.Table != nil {
		t, err := a.Table.Open()
		if err != nil {
			return fmt.Errorf("activation.table: %w", err)
		}
		if name := t.Info().Name; name != a.Name || len(a.Params) > 0 {
			return fmt.Errorf("activation.name is %q, and that of its table %q, without parameters", a.Name, name)
		}
	}
	if a.Values != nil {
		if err := a.Values.Validate(); err != nil {
			return fmt.Errorf("activation.values: %w", err)
		}
	}
	return nil
}
