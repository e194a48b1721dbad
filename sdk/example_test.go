package sdk_test

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// A bare function is an activation; its moments come by quadrature.
func Example() {
	softplus := sdk.Func{
		Name: "softplus",
		G:    func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) },
		DG:   func(z float64) float64 { return 1 / (1 + math.Exp(-z)) },
	}
	m, err := sdk.MomentsOf(context.Background(), softplus)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("E[g(Z)]    %.4g\n", m.Value[1][0])
	fmt.Printf("E[g(Z)Z]   %.4g\n", m.Hermite(1, 1))
	fmt.Printf("E[g²(Z)He2] %.4g\n", m.Hermite(2, 2))
	// Output:
	// E[g(Z)]    0.8061
	// E[g(Z)Z]   0.5
	// E[g²(Z)He2] 0.9066
}
