package network_test

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

func squaredReLU() sdk.Activation {
	return sdk.Func{
		Name: "squared-relu", Kinks: []float64{0},
		G:  func(z float64) float64 { return max(z, 0) * max(z, 0) },
		DG: func(z float64) float64 { return 2 * max(z, 0) },
	}
}

// A network drawn, and found again from the moment tensors' start and four random ones.
func ExampleFit() {
	ctx, act := context.Background(), squaredReLU()
	rows, err := sample.NewNetwork(sample.NetworkConfig{Activation: act, K: 3, D: 10, N: 2000, Condition: 2, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := network.Fit(ctx, rows, act, network.Request{K: 3, Output: network.Signs, Starts: 4, Descent: 200, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := metric.Units(r.Network, rows.Truth, r.Odd)
	fmt.Printf("from %s; error of W below 1e-6: %v; optimum: %s\n", r.Starts[r.Best].Kind, e.Weights < 1e-6, r.Certificate.Optimum)
	// Output: from tensors; error of W below 1e-6: true; optimum: pass
}

// The Hessian of the expected loss at W = I for ReLU, of which the least eigenvalue
// is ρ(1).
func ExamplePopulationHessian() {
	relu := sdk.Func{Name: "relu", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0) }, DG: func(z float64) float64 {
		if z > 0 {
			return 1
		}
		return 0
	}}
	h, _, err := network.PopulationHessian(context.Background(), relu, network.Orthonormal(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := network.SpectrumOf(h)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("least eigenvalue %.4f, null vectors %d\n", s.Least(), s.Null)
	// Output: least eigenvalue 0.0908, null vectors 0
}
