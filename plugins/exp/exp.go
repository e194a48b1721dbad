// Package exp is the exponential g(z) = e^z, the inverse of the log link of counts and of positive targets. Beyond z =
// 600 it goes on as its tangent there, so that no finite z has a value that is not.
package exp

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Family has the exponential as its only member.
var Family = sdk.Single(exponential{})

type exponential struct{}

func (exponential) Info() sdk.Info { return sdk.Info{Name: "exp", Version: "1"} }

// end is where the tangent begins.
const end = 600

// Eval writes e^z_i to dst_i.
func (e exponential) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("exp", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		part := powers(room[:], z)
		for i, v := range part {
			if z[i] > end {
				v *= 1 + (z[i] - end)
			}
			dst[i] = v
		}
		dst, z = dst[len(part):], z[len(part):]
	}
	return nil
}

// Deriv writes g′(z_i) to dst_i.
func (e exponential) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("exp", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		part := powers(room[:], z)
		copy(dst, part)
		dst, z = dst[len(part):], z[len(part):]
	}
	return nil
}

// block is how many values are taken together.
const block = 256

// powers writes e^min(z, end) of the first z, as many as there is room for, and returns them.
func powers(room, z []float64) []float64 {
	e := room[:min(len(room), len(z))]
	for i := range e {
		e[i] = min(z[i], end)
	}
	sdk.Exp(e, e)
	return e
}

// ulps bounds the rounding of e^(p²/2) and of the few sums and products after it.
const ulps = 16 * 0x1p-53

// Moments returns E[g(Z)^p·Z^q] = e^(p²/2)·E[(Z + p)^q]: the density of Z times e^(pZ) is e^(p²/2) times that of Z + p.
func (exponential) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	for p := range m.Value {
		for q := range m.Value[p] {
			sum, binomial := 0.0, 1.0
			for j := range q + 1 {
				if j%2 == 0 {
					sum += binomial * math.Pow(float64(p), float64(q-j)) * gauss.AbsMoment(j)
				}
				binomial *= float64(q-j) / float64(j+1)
			}
			v := math.Exp(float64(p*p)/2) * sum
			m.Value[p][q], m.Error[p][q] = v, ulps*v
		}
	}
	return m, nil
}
