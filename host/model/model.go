// Package model holds the values that the rest of the host passes around: the
// parameters of a mixture of experts, blocks of rows, and the softmax gate.
package model

import "fmt"

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
}

// Col returns feature j of the block's rows.
func (b *Block) Col(j int) []float64 { return b.X[j*b.N : (j+1)*b.N] }

// Data is a table of N rows with D features and a target, in blocks of
// [BlockRows] rows.
type Data struct {
	N, D   int
	Blocks []Block
}

// Head returns the first n rows of the data, or all of them if there are
// fewer, rounded up to whole blocks. It shares memory with d.
func (d *Data) Head(n int) *Data {
	nb := min((n+BlockRows-1)/BlockRows, len(d.Blocks))
	h := &Data{D: d.D, Blocks: d.Blocks[:nb]}
	for i := range h.Blocks {
		h.N += h.Blocks[i].N
	}
	return h
}

// Params are the parameters of a mixture of K experts over D features
// (002 Eq. 1, METHODS.md §1):
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

// SigmaOf returns the noise level of expert i.
func (p *Params) SigmaOf(i int) float64 {
	if len(p.Sigma) == 1 {
		return p.Sigma[0]
	}
	return p.Sigma[i]
}
