package sdk_test

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// A bare function is an activation; serve.Activation(softsign) would be the
// whole main of a plugin.
func ExampleFunc() {
	softsign := sdk.Func{
		Name:  "softsign",
		G:     func(z float64) float64 { return z / (1 + math.Abs(z)) },
		DG:    func(z float64) float64 { return 1 / ((1 + math.Abs(z)) * (1 + math.Abs(z))) },
		Kinks: []float64{0},
	}
	ctx := context.Background()
	z := []float64{-1, 0, 3}
	g := make([]float64, len(z))
	if err := softsign.Eval(ctx, g, z); err != nil {
		fmt.Println(err)
	}
	m, err := sdk.MomentsOf(ctx, softsign)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(g)
	fmt.Printf("E[g²] = %.4f, E[g·Z] = %.4f\n", m.Value[2][0], m.Value[1][1])
	// Output:
	// [-0.5 0 0.75]
	// E[g²] = 0.1830, E[g·Z] = 0.4128
}

// A family is a set of activations that differ in their parameters;
// serve.Family(elu) would serve them all.
func ExampleFamily() {
	elu := sdk.Family{
		Name:   "elu",
		Params: []sdk.Param{{Name: "alpha", Doc: "−g(−∞)", Default: 1, Min: 0.1, Max: 10}},
		New: func(p sdk.Params) (sdk.Activation, error) {
			alpha := p["alpha"]
			return sdk.Func{
				Name:   "elu",
				Params: p,
				Kinks:  []float64{0},
				G: func(z float64) float64 {
					if z < 0 {
						return alpha * math.Expm1(z)
					}
					return z
				},
				DG: func(z float64) float64 {
					if z < 0 {
						return alpha * math.Exp(z)
					}
					return 1
				},
			}, nil
		},
	}
	act, err := elu.Activation(nil)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(act.Info().Params)
	_, err = elu.Activation(sdk.Params{"alpha": 20})
	fmt.Println(err)
	_, err = elu.Activation(sdk.Params{"slope": 0.1})
	fmt.Println(err)
	// Output:
	// map[alpha:1]
	// activation "elu": alpha = 20 is outside [0.1, 10]
	// activation "elu" has no parameter "slope"; it takes alpha
}
