// Package model holds the values that the rest of the host passes around: the
// parameters of a mixture of experts, blocks of rows, and the softmax gate.
package model

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
)

// BlockRows is the number of rows in every block but the last. It is a
// constant because sums over rows are taken block by block, in order: the same
// numbers then give the same bytes whatever the file format, the size of the
// reads or the number of processors.
const BlockRows = 256

// Block is a run of consecutive rows. X is column-major: feature j of the
// block's row i is X[j*N+i].
type Block struct {
	N int
	X []float64 // d columns of N values
	Y []float64 // N targets; nil where there is no target
	W []float64 // N weights of observations; nil where all are 1
}

// Clone returns a copy of the block with memory of its own.
func (b *Block) Clone() Block {
	values := make([]float64, 0, len(b.X)+len(b.Y)+len(b.W))
	keep := func(from []float64) []float64 {
		if from == nil {
			return nil
		}
		at := len(values)
		values = append(values, from...)
		return values[at:len(values):len(values)]
	}
	return Block{N: b.N, X: keep(b.X), Y: keep(b.Y), W: keep(b.W)}
}

// Col returns feature j of the block's rows.
func (b *Block) Col(j int) []float64 { return b.X[j*b.N : (j+1)*b.N] }

// Data is a table of N rows with D features and a target, in blocks of
// [BlockRows] rows.
type Data struct {
	N, D   int
	Blocks []Block
}

// Dims implements [Rows].
func (d *Data) Dims() (n, features int) { return d.N, d.D }

// Block implements [Rows]: it needs no room.
func (d *Data) Block(i int, _ *Room) (*Block, error) { return &d.Blocks[i], nil }

// Params are the parameters of a mixture of K experts over D features
// (002 Eq. 1):
//
//	P(z = i | x) = softmax_i(⟨w_1,x⟩+v_1, …, ⟨w_{K−1},x⟩+v_{K−1}, 0)
//	y | z = i, x ~ N(g(⟨a_i,x⟩ + b_i), σ_i²)
type Params struct {
	K, D                int
	Regressors          []float64 // K×D, row-major: a_i
	Gating              []float64 // (K−1)×D, row-major: w_i
	RegressorIntercepts []float64 // K values b_i, or nil for none
	GatingIntercepts    []float64 // K−1 values v_i, or nil for none
	Sigma               []float64 // one value shared by all experts, or K
}

// NewParams returns zero parameters of the given shape with a shared Sigma.
func NewParams(k, d int) *Params {
	if k < 1 || d < 1 {
		panic(fmt.Sprintf("model: k = %d, d = %d", k, d))
	}
	return &Params{
		K: k, D: d,
		Regressors: make([]float64, k*d),
		Gating:     make([]float64, (k-1)*d),
		Sigma:      make([]float64, 1),
	}
}

// Clone returns a deep copy of p.
func (p *Params) Clone() *Params {
	c := *p
	c.Regressors = append([]float64(nil), p.Regressors...)
	c.Gating = append([]float64(nil), p.Gating...)
	c.RegressorIntercepts = append([]float64(nil), p.RegressorIntercepts...)
	c.GatingIntercepts = append([]float64(nil), p.GatingIntercepts...)
	c.Sigma = append([]float64(nil), p.Sigma...)
	return &c
}

// Regressor returns a_i; the slice aliases p.
func (p *Params) Regressor(i int) []float64 { return p.Regressors[i*p.D : (i+1)*p.D] }

// Gate returns w_i for i < K−1; the slice aliases p. The last gate is 0 and is
// not stored.
func (p *Params) Gate(i int) []float64 { return p.Gating[i*p.D : (i+1)*p.D] }

// Gates returns the number of rows of Gating: one fewer than there are experts.
func (p *Params) Gates() int { return p.K - 1 }

// SigmaOf returns the noise level of expert i.
func (p *Params) SigmaOf(i int) float64 {
	if len(p.Sigma) == 1 {
		return p.Sigma[0]
	}
	return p.Sigma[i]
}

// GateOf returns w_i for any expert, zeros for the last. It may alias p.
func (p *Params) GateOf(i int) []float64 {
	if i < p.K-1 {
		return p.Gate(i)
	}
	return make([]float64, p.D)
}

// GateInterceptOf returns v_i for any expert: 0 for the last, and where there
// are no intercepts.
func (p *Params) GateInterceptOf(i int) float64 {
	if i < p.K-1 && p.GatingIntercepts != nil {
		return p.GatingIntercepts[i]
	}
	return 0
}

// SetGate gives expert i the gate w and the intercept v. The last expert's are
// 0 by convention: there they are taken off all others instead, which leaves
// P(z|x) as it should be.
func (p *Params) SetGate(i int, w []float64, v float64) {
	if i < p.K-1 {
		copy(p.Gate(i), w)
		if p.GatingIntercepts != nil {
			p.GatingIntercepts[i] = v
		}
		return
	}
	w = append([]float64(nil), w...)
	for j := range p.K - 1 {
		for c, x := range w {
			p.Gate(j)[c] -= x
		}
		if p.GatingIntercepts != nil {
			p.GatingIntercepts[j] -= v
		}
	}
}

// RandomDirections draws m points of the unit sphere of ℝ^d, m×d in rows.
func RandomDirections(rng *rand.Rand, m, d int) []float64 {
	a := make([]float64, m*d)
	for i := range m {
		row := a[i*d : (i+1)*d]
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	return a
}
