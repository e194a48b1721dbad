// Package identity is the activation g(z) = z, the linear experts of 002
// Example 1.
package identity

import (
	"context"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Family has the identity as its only member.
var Family = sdk.Single(identity{})

type identity struct{}

func (identity) Info() sdk.Info { return sdk.Info{Name: "identity", Version: "1"} }

// Eval writes z_i to dst_i.
func (identity) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("identity", dst, z); err != nil {
		return err
	}
	copy(dst, z)
	return nil
}

// Deriv writes 1 to dst_i.
func (identity) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("identity", dst, z); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

// Moments returns E[g(Z)^p·Z^q] = E[Z^(p+q)], which is (p+q−1)!! for even p+q
// and 0 for odd. All are integers and exact.
func (identity) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	for p := range m.Value {
		for q := range m.Value[p] {
			if (p+q)%2 == 0 {
				m.Value[p][q] = gauss.AbsMoment(p + q)
			}
		}
	}
	return m, nil
}
