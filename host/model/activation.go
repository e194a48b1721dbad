package model

import "context"

// Activation is the nonlinearity g as everything that computes with it sees it:
// Eval writes g(z_i) to dst_i and Deriv g′(z_i); dst and z have equal length and
// may be the same slice. sdk.Activation and native.Function satisfy it.
type Activation interface {
	Eval(ctx context.Context, dst, z []float64) error
	Deriv(ctx context.Context, dst, z []float64) error
}
