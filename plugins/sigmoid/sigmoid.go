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
// relative accuracy. The numerator is chosen without a branch: the sign of z is as good
// as random.
func (sigmoid) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("sigmoid", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		e := decays(room[:], z)
		for i, e := range e {
			below := uint64(int64(math.Float64bits(z[i])) >> 63) // all ones, or 0
			num := math.Float64frombits(math.Float64bits(e)&below | math.Float64bits(1)&^below)
			dst[i] = num / (1 + e)
		}
		dst, z = dst[len(e):], z[len(e):]
	}
	return nil
}

// block is how many values are taken together.
const block = 256

// decays writes e^−|z| of the first z, as many as there is room for, and returns them.
func decays(room, z []float64) []float64 {
	e := room[:min(len(room), len(z))]
	for i := range e {
		e[i] = -math.Abs(z[i])
	}
	sdk.Exp(e, e)
	return e
}

// Deriv writes g′(z_i) = g(z_i)·(1 − g(z_i)) to dst_i, as e/(1+e)² with
// e = e^−|z|, which does not cancel.
func (sigmoid) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("sigmoid", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		e := decays(room[:], z)
		for i, e := range e {
			dst[i] = e / ((1 + e) * (1 + e))
		}
		dst, z = dst[len(e):], z[len(e):]
	}
	return nil
}
