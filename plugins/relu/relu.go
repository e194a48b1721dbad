// Package relu is the rectified linear unit g(z) = max(z, 0) (002 Example 2).
package relu

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Family has the ReLU as its only member.
var Family = sdk.Single(relu{})

type relu struct{}

func (relu) Info() sdk.Info {
	return sdk.Info{Name: "relu", Version: "1", Kinks: []float64{0}}
}

// Eval writes max(z_i, 0) to dst_i; NaN stays NaN.
func (relu) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("relu", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		dst[i] = max(v, 0)
	}
	return nil
}

// Deriv writes 0 to dst_i where z_i has its sign bit set, else 1. The table
// has no branch for the processor to mispredict at half of all z.
func (relu) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("relu", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	slopes := [2]float64{1, 0}
	for i, v := range z {
		dst[i] = slopes[math.Float64bits(v)>>63]
	}
	return nil
}

// ulps bounds the rounding of √(2/π) and of the few products after it.
const ulps = 8 * 0x1p-53

// Moments returns E[g(Z)^p·Z^q] = ½·E|Z|^(p+q) for p ≥ 1 and E[Z^q] for p = 0.
func (relu) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	for p := range m.Value {
		for q := range m.Value[p] {
			v := gauss.AbsMoment(p+q) / 2
			if p == 0 {
				v = gauss.AbsMoment(q) * float64(1-q%2)
			}
			m.Value[p][q], m.Error[p][q] = v, ulps*v
		}
	}
	return m, nil
}
