package sdk

import (
	"context"
	"fmt"
)

// Func is an activation given by two Go functions. It is all that most
// plugins need:
//
//	serve.Activation(sdk.Func{Name: "square", G: func(z float64) float64 { return z * z },
//		DG: func(z float64) float64 { return 2 * z }})
type Func struct {
	Name    string
	Version string
	G       func(z float64) float64 // g
	DG      func(z float64) float64 // g′
	Kinks   []float64               // where g or g′ is not smooth, ascending
	Params  Params                  // the parameters in force, if it has any
}

// Info returns the description of f.
func (f Func) Info() Info {
	return Info{Name: f.Name, Version: f.Version, Params: f.Params, Kinks: f.Kinks}
}

// Eval writes g(z_i) to dst_i.
func (f Func) Eval(_ context.Context, dst, z []float64) error { return apply(f.Name, "G", f.G, dst, z) }

// Deriv writes g′(z_i) to dst_i.
func (f Func) Deriv(_ context.Context, dst, z []float64) error {
	return apply(f.Name, "DG", f.DG, dst, z)
}

func apply(name, field string, fn func(float64) float64, dst, z []float64) error {
	if fn == nil {
		return fmt.Errorf("activation %q: %s is not set", name, field)
	}
	if err := CheckLengths(name, dst, z); err != nil {
		return err
	}
	for i, v := range z {
		dst[i] = fn(v)
	}
	return nil
}

// CheckLengths returns an error naming the activation if dst and z differ in
// length. Eval and Deriv of an activation that is not a [Func] begin with it.
func CheckLengths(name string, dst, z []float64) error {
	if len(dst) != len(z) {
		return fmt.Errorf("activation %q: %d places for %d values", name, len(dst), len(z))
	}
	return nil
}
