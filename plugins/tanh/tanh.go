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

// Eval writes tanh z_i to dst_i, as 1 − 2e/(1+e) with e = e^−2|z| where |z| ≥ 5/8 and else
// by the rational function that [math.Tanh] takes there (Moshier's Cephes), both of every z
// and chosen between without a branch: each is the value of about half of all z.
func (tanh) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("tanh", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		e := decays(room[:], z)
		for i, e := range e {
			m := math.Abs(z[i])
			below := uint64(int64(math.Float64bits(m)-math.Float64bits(0.625)) >> 63) // all ones, or 0
			v := math.Float64bits(near(m))&below | math.Float64bits(1-2*e/(1+e))&^below
			dst[i] = math.Copysign(math.Float64frombits(v), z[i])
		}
		dst, z = dst[len(e):], z[len(e):]
	}
	return nil
}

// near is tanh z for 0 ≤ z < 5/8.
func near(z float64) float64 {
	s := z * z
	p := (-9.64399179425052238628e-1*s-9.92877231001918586564e1)*s - 1.61468768441708447952e3
	q := ((s+1.12811678491632931402e2)*s+2.23548839060100448583e3)*s + 4.84406305325125486048e3
	return z + z*s*p/q
}

// block is how many values are taken together.
const block = 256

// decays writes e^−2|z| of the first z, as many as there is room for, and returns them.
func decays(room, z []float64) []float64 {
	e := room[:min(len(room), len(z))]
	for i := range e {
		e[i] = -2 * math.Abs(z[i])
	}
	sdk.Exp(e, e)
	return e
}

// Deriv writes g′(z_i) = 1 − tanh² z_i to dst_i, as 4e/(1+e)² with e = e^−2|z|, which
// does not cancel.
func (tanh) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("tanh", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		e := decays(room[:], z)
		for i, e := range e {
			dst[i] = 4 * e / ((1 + e) * (1 + e))
		}
		dst, z = dst[len(e):], z[len(e):]
	}
	return nil
}
