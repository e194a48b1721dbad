// Package softplus is g(z) = log(1 + e^(βz))/β, a smooth ReLU, the sharper the larger β, whose values are above 0:
// means of counts and of positive targets that grow by sums and not by factors. Its Gaussian moments have no closed
// form.
package softplus

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// Family has one member for each β in [0.1, 10].
var Family = sdk.Family{
	Name:    "softplus",
	Version: "1",
	Doc:     "softplus: log(1 + e^(beta·z))/beta",
	Params:  []sdk.Param{{Name: "beta", Doc: "sharpness", Default: 1, Min: 0.1, Max: 10}},
	New:     func(p sdk.Params) (sdk.Activation, error) { return softplus{beta: p["beta"]}, nil },
}

type softplus struct{ beta float64 }

func (s softplus) Info() sdk.Info {
	return sdk.Info{Name: "softplus", Version: "1", Params: sdk.Params{"beta": s.beta}}
}

// Eval writes g(z_i) to dst_i as max(z, 0) + log(1 + e^−|βz|)/β, which neither overflows nor cancels.
func (s softplus) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("softplus", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		e := s.decays(room[:], z)
		for i, e := range e {
			dst[i] = max(z[i], 0) + math.Log1p(e)/s.beta
		}
		dst, z = dst[len(e):], z[len(e):]
	}
	return nil
}

// Deriv writes g′(z_i) = 1/(1 + e^−βz_i) to dst_i.
func (s softplus) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths("softplus", dst, z); err != nil {
		return err
	}
	var room [block]float64
	for len(z) > 0 {
		e := s.decays(room[:], z)
		for i, e := range e {
			top := 1.0
			if z[i] < 0 {
				top = e
			}
			dst[i] = top / (1 + e)
		}
		dst, z = dst[len(e):], z[len(e):]
	}
	return nil
}

// block is how many values are taken together.
const block = 256

// decays writes e^−|βz| of the first z, as many as there is room for, and returns them.
func (s softplus) decays(room, z []float64) []float64 {
	e := room[:min(len(room), len(z))]
	for i := range e {
		e[i] = -math.Abs(s.beta * z[i])
	}
	sdk.Exp(e, e)
	return e
}
