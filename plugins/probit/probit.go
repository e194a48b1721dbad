// Package probit is g(z) = Φ(z), the distribution function of N(0,1): the inverse of the probit link of probabilities.
// Its Gaussian moments are left to quadrature, but E[g(Z)^p] = 1/(p + 1), since g(Z) is uniform.
package probit

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// Family has the probit as its only member.
var Family = sdk.Single(probit{})

type probit struct{}

func (probit) Info() sdk.Info { return sdk.Info{Name: "probit", Version: "1"} }

// Eval writes Φ(z_i) = erfc(−z_i/√2)/2 to dst_i, which keeps its digits where it is small.
func (probit) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("probit", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		dst[i] = 0.5 * math.Erfc(-v*(math.Sqrt2/2))
	}
	return nil
}

// Deriv writes φ(z_i) = e^(−z_i²/2)/√(2π) to dst_i.
func (probit) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("probit", dst, z); err != nil {
		return err
	}
	dst = dst[:len(z)]
	for i, v := range z {
		dst[i] = -0.5 * v * v
	}
	sdk.Exp(dst, dst)
	for i := range dst {
		dst[i] *= density
	}
	return nil
}

// density is φ(0) = 1/√(2π).
const density = 0.398942280401432677939946059934381868
