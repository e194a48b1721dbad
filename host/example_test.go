package host_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// rows returns n rows of five features from two ReLU experts: the first looks
// at x1, the second at x2, and the sign of x3 leans towards the one or the
// other.
func rows(n int) (x *mat.Dense, y []float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y = mat.NewDense(n, 5, nil), make([]float64, n)
	for i := range y {
		row := x.RawRowView(i)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		expert := 1
		if rng.Float64() < 1/(1+math.Exp(-row[2])) {
			expert = 0
		}
		y[i] = max(row[expert], 0) + 0.05*rng.NormFloat64()
	}
	return x, y
}

// A fit from a matrix in memory.
func Example_matrix() {
	x, y := rows(4000) // a 4000×5 matrix and 4000 targets
	relu, err := catalog.Open(context.Background(), "relu", nil)
	check(err)
	m, err := host.Fit(context.Background(), relu.Activation, dataset.Matrix(x, y), host.Config{K: 2})
	check(err)
	fmt.Printf("a_1 = %.4g\na_2 = %.4g\n", m.Regressors[0], m.Regressors[1])
	fmt.Printf("w_1 = %.4g\nσ = %.4g\n", m.Gating[0], m.Sigma[0])
	// Output:
	// a_1 = [0.002248 0.9981 -0.001972 -0.0001913 0.0008146]
	// a_2 = [1 0.002329 0.002815 0.0001386 -0.001087]
	// w_1 = [-0.01265 -0.02057 -0.9842 0.01561 0.01733]
	// σ = 0.05069
}

// Any function is an activation. Here the true parameters are known, and the
// fit is compared with them.
func ExampleFit() {
	softplus := sdk.Func{
		Name: "softplus",
		G:    func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) },
		DG:   func(z float64) float64 { return 1 / (1 + math.Exp(-z)) },
	}
	data, err := sample.New(sample.Config{Activation: softplus, K: 3, D: 8, N: 5000, Sigma: 0.05, Design: sample.Random, Seed: 1})
	check(err)
	m, err := host.Fit(context.Background(), softplus, data, host.Config{K: 3, Truth: data.Truth})
	check(err)
	fmt.Println("converged:", m.Fit.Converged)
	fmt.Printf("log-likelihood: %.4g\n", m.Fit.LogLikelihood)
	fmt.Println("E_reg below 1e-4:", m.Truth.EReg < 1e-4)
	// Output:
	// converged: true
	// log-likelihood: 4114
	// E_reg below 1e-4: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
