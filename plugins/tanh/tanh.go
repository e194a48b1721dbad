// Package tanh is the hyperbolic tangent, g of the gated recurrent unit (002 Eq. 5).
// Its Gaussian moments E[g(Z)^p Z^q] are 0 for odd p + q and have no closed form
// otherwise.
package tanh

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// Family has the hyperbolic tangent as its only member.
var Family = sdk.Single(tanh{})

type tanh struct{}

func (tanh) Info() sdk.Info { return sdk.Info{Name: "tanh", Version: "1"} }

// Eval writes tanh z_i to dst_i.
func (tanh) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("tanh", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		dst[i] = math.Tanh(v)
	}
	return nil
}

// Deriv writes g′(z_i) = 1 − tanh² z_i to dst_i, as 4e/(1+e)² with e = e^−2|z|, which
// does not cancel.
func (tanh) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("tanh", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		e := math.Exp(-2 * math.Abs(v))
		dst[i] = 4 * e / ((1 + e) * (1 + e))
	}
	return nil
}
