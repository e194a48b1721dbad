// Package loss holds the objectives of the method, each a value and a gradient
// to be minimised: L4 for the regressors (002 Eq. 7), L_log for the gating
// (002 Eq. 9), and the joint negative log-likelihood that refines both.
package loss

import (
	"context"
	"errors"
)

var errRank = errors.New("loss: the rows are linearly dependent")

// Activation is the nonlinearity g as the losses evaluate it; sdk.Activation
// satisfies it.
type Activation interface {
	Eval(ctx context.Context, dst, z []float64) error
	Deriv(ctx context.Context, dst, z []float64) error
}
