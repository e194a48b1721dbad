// Package sigmoid is the logistic function g(z) = 1/(1 + e^−z) (002
// Example 3). Its Gaussian moments have no closed form.
package sigmoid

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// Family has the sigmoid as its only member.
var Family = sdk.Single(sigmoid{})

type sigmoid struct{}

func (sigmoid) Info() sdk.Info { return sdk.Info{Name: "sigmoid", Version: "1"} }

// Eval writes g(z_i) to dst_i. With e = e^−|z| it is 1/(1+e) above zero and
// e/(1+e) below, so that no finite z overflows and small values keep their
// relative accuracy.
func (sigmoid) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("sigmoid", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		e := math.Exp(-math.Abs(v))
		num := e
		if v >= 0 {
			num = 1
		}
		dst[i] = num / (1 + e)
	}
	return nil
}

// Deriv writes g′(z_i) = g(z_i)·(1 − g(z_i)) to dst_i, as e/(1+e)² with
// e = e^−|z|, which does not cancel.
func (sigmoid) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("sigmoid", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		e := math.Exp(-math.Abs(v))
		dst[i] = e / ((1 + e) * (1 + e))
	}
	return nil
}
