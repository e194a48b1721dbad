// Package gaussians is mixtures of Gaussians that features are drawn from: their density, the posterior of their
// components, and an estimate by EM with the number of components chosen by BIC.
package gaussians

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Mixture is the density f(x) = Σ_c π_c·N(x; μ_c, Σ_c) over ℝ^d. It is read-only.
type Mixture struct {
	Components []Component
	D          int
}

// Component is one of a mixture.
type Component struct {
	Weight     float64 // π_c
	Mean       []float64
	Covariance *mat.SymDense // Σ_c, positive definite
	Precision  *mat.SymDense // Σ_c⁻¹

	root     *mat.Dense // L⁻¹ of Σ_c = L·Lᵀ
	constant float64    // log π_c − (d·log 2π + log det Σ_c)/2
}

// newComponent is false where the covariance is not positive definite.
func newComponent(weight float64, mean []float64, covariance *mat.SymDense) (Component, bool) {
	c := Component{Weight: weight, Mean: mean, Covariance: covariance}
	var chol mat.Cholesky
	if !chol.Factorize(covariance) {
		return c, false
	}
	var lower mat.TriDense
	chol.LTo(&lower)
	var root mat.TriDense
	if root.InverseTri(&lower) != nil {
		return c, false
	}
	c.root = mat.DenseCopyOf(&root)
	c.Precision = new(mat.SymDense)
	if chol.InverseTo(c.Precision) != nil {
		return c, false
	}
	c.constant = math.Log(weight) - (float64(len(mean))*math.Log(2*math.Pi)+chol.LogDet())/2
	return c, numeric.Finite(c.constant) && numeric.Finite(c.Precision.RawSymmetric().Data...)
}

// New returns the mixture of components with these weights, means and covariances; false where a covariance is not
// positive definite. It panics where their numbers differ.
func New(weights []float64, means [][]float64, covariances []*mat.SymDense) (*Mixture, bool) {
	if len(means) != len(weights) || len(covariances) != len(weights) {
		panic("gaussians: weights, means and covariances differ in number")
	}
	m := &Mixture{D: len(means[0])}
	for c, w := range weights {
		one, ok := newComponent(w, means[c], covariances[c])
		if !ok {
			return nil, false
		}
		m.Components = append(m.Components, one)
	}
	return m, true
}

// Through returns the mixture of x where m is that of u = L·(x − centre), with the symmetric inverse of L.
func (m *Mixture) Through(inverse *mat.SymDense, centre []float64) (*Mixture, bool) {
	var weights []float64
	var means [][]float64
	var covariances []*mat.SymDense
	for _, c := range m.Components {
		mean := append([]float64(nil), centre...)
		mat.NewVecDense(m.D, mean).AddVec(mat.NewVecDense(m.D, centre), product(inverse, c.Mean))
		var half, both mat.Dense
		half.Mul(inverse, c.Covariance)
		both.Mul(&half, inverse)
		weights, means = append(weights, c.Weight), append(means, mean)
		covariances = append(covariances, numeric.Symmetric(&both))
	}
	return New(weights, means, covariances)
}

func product(m mat.Matrix, x []float64) *mat.VecDense {
	var out mat.VecDense
	out.MulVec(m, mat.NewVecDense(len(x), x))
	return &out
}

// LogDensity writes the posterior P(c|x) of n points, column-major as features of a block are, to posterior, C columns
// of n values, and returns log f(x) of each. Sums are by log-sum-exp.
func (m *Mixture) LogDensity(posterior, x []float64, n int) []float64 {
	rows := mat.NewDense(m.D, n, x)
	var off, white mat.Dense
	for c, one := range m.Components {
		out := posterior[c*n : (c+1)*n]
		off.CloneFrom(rows)
		for j, mean := range one.Mean {
			floats.AddConst(-mean, off.RawRowView(j))
		}
		white.Reset()
		white.Mul(one.root, &off)
		for i := range out {
			out[i] = one.constant
		}
		for j := range m.D {
			for i, v := range white.RawRowView(j) {
				out[i] -= v * v / 2
			}
		}
	}
	logs := make([]float64, n)
	for i := range logs {
		most := math.Inf(-1)
		for c := range m.Components {
			most = max(most, posterior[c*n+i])
		}
		sum := 0.0
		for c := range m.Components {
			sum += math.Exp(posterior[c*n+i] - most)
		}
		logs[i] = most + math.Log(sum)
		for c := range m.Components {
			posterior[c*n+i] = math.Exp(posterior[c*n+i] - logs[i])
		}
	}
	return logs
}
