package model

import (
	"context"
	"fmt"
)

// Activation is the nonlinearity g as everything that computes with it sees it:
// Eval writes g(z_i) to dst_i and Deriv g′(z_i); dst and z have equal length and
// may be the same slice. sdk.Activation and native.Function satisfy it.
type Activation interface {
	Eval(ctx context.Context, dst, z []float64) error
	Deriv(ctx context.Context, dst, z []float64) error
}

// PerExpert is the nonlinearities of K experts: where arguments come as K rows of equal
// length, as those of a block do, row i is expert i's. It panics where they do not.
type PerExpert []Activation

// Eval implements [Activation] on K rows.
func (a PerExpert) Eval(ctx context.Context, dst, z []float64) error {
	return a.each(dst, z, func(g Activation, dst, z []float64) error { return g.Eval(ctx, dst, z) })
}

// Deriv implements [Activation] on K rows.
func (a PerExpert) Deriv(ctx context.Context, dst, z []float64) error {
	return a.each(dst, z, func(g Activation, dst, z []float64) error { return g.Deriv(ctx, dst, z) })
}

func (a PerExpert) each(dst, z []float64, fn func(g Activation, dst, z []float64) error) error {
	if len(a) == 0 || len(z)%len(a) != 0 {
		panic(fmt.Sprintf("model: %d values of %d experts", len(z), len(a)))
	}
	n := len(z) / len(a)
	for i, g := range a {
		if err := fn(g, dst[i*n:(i+1)*n], z[i*n:(i+1)*n]); err != nil {
			return err
		}
	}
	return nil
}
