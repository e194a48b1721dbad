package host_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
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
	// a_1 = [0.00225 0.9981 -0.001977 -0.0001867 0.0008099]
	// a_2 = [1 0.002329 0.002815 0.0001386 -0.001087]
	// w_1 = [-0.01265 -0.02057 -0.9842 0.01561 0.01733]
	// σ = 0.05069
}

// A tree of experts: a gate over an expert and a second gate over two, of activations of
// their own.
func Example_tree() {
	shape, err := model.ParseHierarchy("2x(1,2)")
	check(err)
	identity, err := catalog.Open(context.Background(), "identity", nil)
	check(err)
	tanh, err := catalog.Open(context.Background(), "tanh", nil)
	check(err)
	line, curve := identity.Activation, tanh.Activation
	data, err := sample.New(sample.Config{
		Tree: shape, Leaves: model.PerExpert{line, curve, curve}, K: 3, D: 4, N: 2000,
		Sigma: 0.1, Design: sample.Separated, Seed: 1,
	})
	check(err)
	m, err := host.Fit(context.Background(), nil, data, host.Config{
		K: 3, Hierarchy: shape, Leaves: []sdk.Activation{line, curve, curve}, Truth: data.Truth,
	})
	check(err)
	fmt.Println(m.Hierarchy, m.Fit.Certificate.Optimum)
	fmt.Printf("σ = %.4g, E_reg below 0.001: %v\n", m.Sigma[0], m.Truth.EReg < 0.001)
	// Output:
	// 2x(1,2) pass
	// σ = 0.1044, E_reg below 0.001: true
}

// A fitted model predicts: the mean, the experts' probabilities before and after y
// is known, and an interval for y.
func Example_predict() {
	ctx := context.Background()
	x, y := rows(4000)
	relu, err := catalog.Open(ctx, "relu", nil)
	check(err)
	data := dataset.Matrix(x, y).Named([]string{"age", "dose", "weight", "height", "pulse"}, "response")
	m, err := host.Fit(ctx, relu.Activation, data, host.Config{K: 2})
	check(err)
	for j, name := range m.Features {
		fmt.Printf("%-6s  %8.4f ± %.2g  %8.4f ± %.2g\n", name,
			m.Regressors[0][j], m.StandardErrors.Regressors[0][j], m.Regressors[1][j], m.StandardErrors.Regressors[1][j])
	}
	newX := mat.NewDense(2, 5, []float64{
		2, 1, 3, 0, 0,
		1, 1, 0, 0, 0,
	})
	p, err := predict.New(m, relu.Activation).Matrix(ctx, newX, []float64{1.95, 1.1}, 0.9)
	check(err)
	for i := range 2 {
		fmt.Printf("mean %.4g, 90 %% from %.4g to %.4g\n", p.Mean[i], p.Lower[i], p.Upper[i])
		fmt.Printf("  P(z|x) = %.4g, P(z|x,y) = %.4g\n", p.Gate.RawRowView(i), p.Posterior.RawRowView(i))
	}
	// Output:
	// age       0.0023 ± 0.0016    1.0005 ± 0.0017
	// dose      0.9981 ± 0.0017    0.0023 ± 0.0017
	// weight   -0.0020 ± 0.0017    0.0028 ± 0.0018
	// height   -0.0002 ± 0.0016    0.0001 ± 0.0018
	// pulse     0.0008 ± 0.0017   -0.0011 ± 0.0017
	// mean 1.963, 90 % from 1.864 to 2.095
	//   P(z|x) = [0.04749 0.9525], P(z|x,y) = [0 1]
	// mean 1.002, 90 % from 0.918 to 1.085
	//   P(z|x) = [0.4917 0.5083], P(z|x,y) = [0.4682 0.5318]
}

// A model is kept in a file, which is opened with the activation that it was fitted
// with.
func Example_save() {
	ctx := context.Background()
	x, y := rows(4000)
	relu, err := catalog.Open(ctx, "relu", nil)
	check(err)
	m, err := host.Fit(ctx, relu.Activation, dataset.Matrix(x, y), host.Config{K: 2})
	check(err)
	dir, err := os.MkdirTemp("", "moe")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.json")
	check(m.Write(ctx, path))

	opened, err := predict.Open(ctx, path, relu.Activation)
	check(err)
	newX, newY := rows(100)
	e, err := opened.Evaluate(ctx, dataset.Matrix(newX, newY))
	check(err)
	fmt.Printf("%d experts of %s over %s\n", opened.K, opened.Activation.Name, opened.Features)
	fmt.Printf("log-likelihood %.4g, R² %.4g\n", e.LogLikelihood, *e.R2)
	// Output:
	// 2 experts of relu over [x1 x2 x3 x4 x5]
	// log-likelihood 109.7, R² 0.4117
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
