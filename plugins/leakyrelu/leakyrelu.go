// Package leakyrelu is the leaky rectified linear unit
//
//	g(z) = z      z ≥ 0
//	g(z) = s·z    z < 0
//
// with slope s.
package leakyrelu

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Family has one member for each slope in [0, 1]. At 0 it is the ReLU and at 1
// the identity. A slope above 1 is a leaky ReLU again, reflected and scaled,
// g_s(z) = −s·g_{1/s}(−z); a negative one is not monotone, and at −1 it is |z|,
// which cannot tell the regressors' signs.
var Family = sdk.Family{
	Name:    "leakyrelu",
	Version: "1",
	Doc:     "leaky ReLU: z for z ≥ 0, slope·z below",
	Params: []sdk.Param{
		{Name: "slope", Doc: "slope for z < 0", Default: 0.01, Min: 0, Max: 1},
	},
	New: func(p sdk.Params) (sdk.Activation, error) { return leaky{slope: p["slope"]}, nil },
}

type leaky struct{ slope float64 }

func (l leaky) Info() sdk.Info {
	return sdk.Info{
		Name:    "leakyrelu",
		Version: "1",
		Params:  sdk.Params{"slope": l.slope},
		Kinks:   []float64{0},
	}
}

// Eval writes max(z_i, s·z_i) to dst_i, which is g for s ≤ 1; NaN stays NaN.
func (l leaky) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("leakyrelu", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		dst[i] = max(v, l.slope*v)
	}
	return nil
}

// Deriv writes s to dst_i where z_i has its sign bit set, else 1. The table
// has no branch for the processor to mispredict at half of all z.
func (l leaky) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("leakyrelu", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	slopes := [2]float64{1, l.slope}
	for i, v := range z {
		dst[i] = slopes[math.Float64bits(v)>>63]
	}
	return nil
}

// ulps bounds the rounding of √(2/π), of s^p and of the few products and the
// sum after them, relative to the larger half line.
const ulps = 16 * 0x1p-53

// Moments returns the sum of the two half lines,
//
//	E[g(Z)^p·Z^q] = ½·E|Z|^(p+q)·(1 + (−1)^(p+q)·s^p).
func (l leaky) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	for p := range m.Value {
		for q := range m.Value[p] {
			half := gauss.AbsMoment(p+q) / 2
			sign := float64(1 - 2*((p+q)%2))
			m.Value[p][q] = half * (1 + sign*math.Pow(l.slope, float64(p)))
			m.Error[p][q] = ulps * half
		}
	}
	return m, nil
}
