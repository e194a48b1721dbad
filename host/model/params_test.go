package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/combin"
)

// random returns parameters with intercepts and noise per expert, and rows.
func random(rng *rand.Rand, k, d, n int) (*Params, *Block) {
	p := NewParams(k, d)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = make([]float64, k), make([]float64, p.Gates()), make([]float64, k)
	b := &Block{N: n, X: make([]float64, n*d)}
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts, p.Sigma, b.X} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	return p, b
}

func probabilities(p *Params, b *Block) (probability, predictor []float64) {
	probability, predictor = make([]float64, p.K*b.N), make([]float64, p.K*b.N)
	p.GateLogits(probability, b)
	Softmax(probability, nil, probability, b.N)
	p.Predictors(predictor, b)
	return probability, predictor
}

// TestRelabelKeepsTheMixture: P(z|x) and the experts go together.
func TestRelabelKeepsTheMixture(t *testing.T) {
	const k, n = 4, 7
	p, b := random(rand.New(rand.NewPCG(3, 3)), k, 3, n)
	before, beforeA := probabilities(p, b)
	for _, perm := range combin.Permutations(k, k) {
		q := p.Relabel(perm)
		after, afterA := probabilities(q, b)
		for i, j := range perm {
			// A softmax of logits of a few units: relative error of a few ulps.
			if !floats.EqualApprox(before[i*n:(i+1)*n], after[j*n:(j+1)*n], 1e-14) ||
				!slices.Equal(beforeA[i*n:(i+1)*n], afterA[j*n:(j+1)*n]) || p.Sigma[i] != q.Sigma[j] {
				t.Fatalf("perm %v: expert %d differs from %d", perm, i, j)
			}
		}
	}
}

// TestShareGate: i becomes as probable as j, all others keep their odds against j.
func TestShareGate(t *testing.T) {
	const k, n = 4, 7
	p, b := random(rand.New(rand.NewPCG(4, 3)), k, 3, n)
	before, _ := probabilities(p, b)
	for i := range k {
		for j := range k {
			q := p.Clone()
			q.ShareGate(i, j)
			after, _ := probabilities(q, b)
			for r := range n {
				for l := range k {
					want := before[l*n+r] / before[j*n+r]
					if l == i {
						want = 1
					}
					if got := after[l*n+r] / after[j*n+r]; math.Abs(got/want-1) > 1e-12 {
						t.Fatalf("share %d of %d: odds of %d are %v, want %v", i, j, l, got, want)
					}
				}
			}
		}
	}
}

// TestSelect: of the same columns in another order, the mixture is the same.
func TestSelect(t *testing.T) {
	const k, n = 3, 5
	p, b := random(rand.New(rand.NewPCG(5, 3)), k, 4, n)
	from := []int{2, 0, 3, 1}
	turned := &Block{N: n, X: make([]float64, 4*n)}
	for j, at := range from {
		copy(turned.Col(j), b.Col(at))
	}
	gate, z := probabilities(p, b)
	gate2, z2 := probabilities(p.Select(from), turned)
	if !floats.EqualApprox(gate, gate2, 1e-14) || !floats.EqualApprox(z, z2, 1e-13) {
		t.Error("another mixture")
	}
}
