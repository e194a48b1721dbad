package sdk

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Params are the named parameters of an activation, such as the slope of a
// leaky ReLU.
type Params map[string]float64

// Names returns the parameters' names in ascending order.
func (p Params) Names() []string { return slices.Sorted(maps.Keys(p)) }

// Param declares one parameter of a [Family]. Min and Max are inclusive; both
// zero means that every finite value is allowed.
type Param struct {
	Name    string
	Doc     string
	Default float64
	Min     float64
	Max     float64
}

// Family is a named set of activations, one for each value of its parameters.
type Family struct {
	Name    string
	Version string
	Doc     string
	Params  []Param
	New     func(Params) (Activation, error)
}

// Activation returns the member of f with the given parameters; those not
// named take their defaults. Unknown names, values that are not finite and
// values outside their range are errors.
func (f Family) Activation(given Params) (Activation, error) {
	full, err := f.complete(given)
	if err != nil {
		return nil, err
	}
	return f.New(full)
}

func (f Family) complete(given Params) (Params, error) {
	full := make(Params, len(f.Params))
	for _, p := range f.Params {
		full[p.Name] = p.Default
	}
	for _, name := range given.Names() {
		i := slices.IndexFunc(f.Params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("activation %q has no parameter %q%s", f.Name, name, f.known())
		}
		p, v := f.Params[i], given[name]
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("activation %q: %s = %v is not finite", f.Name, name, v)
		}
		if (p.Min != 0 || p.Max != 0) && (v < p.Min || v > p.Max) {
			return nil, fmt.Errorf("activation %q: %s = %v is outside [%v, %v]", f.Name, name, v, p.Min, p.Max)
		}
		full[name] = v
	}
	return full, nil
}

func (f Family) known() string {
	if len(f.Params) == 0 {
		return "; it takes none"
	}
	names := make([]string, len(f.Params))
	for i, p := range f.Params {
		names[i] = p.Name
	}
	return "; it takes " + strings.Join(names, ", ")
}

// Single is the family whose only member is a.
func Single(a Activation) Family {
	info := a.Info()
	return Family{
		Name:    info.Name,
		Version: info.Version,
		New:     func(Params) (Activation, error) { return a, nil },
	}
}
