// Command moe-plugin-smoothrelu is an example of a plugin with a parameter: the
// smoothrelu
//
//	g(z) = log(1 + e^(βz))/β
//
// a smooth ReLU, the sharper the larger β.
package main

import (
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/serve"
)

var family = sdk.Family{
	Name:    "smoothrelu",
	Version: "1",
	Doc:     "smoothrelu: log(1 + e^(beta·z))/beta",
	Params:  []sdk.Param{{Name: "beta", Doc: "sharpness", Default: 1, Min: 0.1, Max: 10}},
	New:     func(p sdk.Params) (sdk.Activation, error) { return smoothrelu(p), nil },
}

// smoothrelu returns the member of the family with the given β. With e = e^−|βz|
// nothing overflows.
func smoothrelu(p sdk.Params) sdk.Func {
	beta := p["beta"]
	return sdk.Func{
		Name:    "smoothrelu",
		Version: "1",
		Params:  p,
		G: func(z float64) float64 {
			return max(z, 0) + math.Log1p(math.Exp(-math.Abs(beta*z)))/beta
		},
		DG: func(z float64) float64 {
			e := math.Exp(-math.Abs(beta * z))
			if z >= 0 {
				return 1 / (1 + e)
			}
			return e / (1 + e)
		},
	}
}

func main() { serve.Family(family) }
