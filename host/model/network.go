package model

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Network are the parameters of a network with one hidden layer of K units over
// D features (003 slide 5),
//
//	y = Σ_i v_i·φ(⟨w_i, x⟩) + σ·N(0,1)
type Network struct {
	K, D    int
	Weights []float64 // K×D, row-major: w_i
	Output  []float64 // K: v_i
	Sigma   float64   // of the noise, ≥ 0
}

// NewNetwork returns a network of the given shape with all weights 0.
func NewNetwork(k, d int) *Network {
	if k < 1 || d < 1 {
		panic(fmt.Sprintf("model: k = %d, d = %d", k, d))
	}
	return &Network{K: k, D: d, Weights: make([]float64, k*d), Output: make([]float64, k)}
}

// Clone returns a deep copy of n.
func (n *Network) Clone() *Network {
	c := *n
	c.Weights, c.Output = slices.Clone(n.Weights), slices.Clone(n.Output)
	return &c
}

// Unit returns w_i; the slice aliases n.
func (n *Network) Unit(i int) []float64 { return n.Weights[i*n.D : (i+1)*n.D] }

// Mean writes Σ_i v_i·φ(⟨w_i, x⟩) for every row of the block to dst, which has
// b.N places. units has room for K·b.N values and is left with the φ(⟨w_i, x⟩), K
// rows of b.N.
func (n *Network) Mean(ctx context.Context, dst, units []float64, act Activation, b *Block) error {
	units = units[:n.K*b.N]
	Linear(units, n.Weights, nil, b)
	if err := act.Eval(ctx, units, units); err != nil {
		return err
	}
	clear(dst)
	for i, v := range n.Output {
		floats.AddScaled(dst, v, units[i*b.N:(i+1)*b.N])
	}
	return nil
}
