package model

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// negligible is the exponent below which a term of a sum of exponentials whose
// largest term is 1 is dropped: e⁻⁴⁰ = 4e−18 is under half an ulp of the sum.
const negligible = -40

// Linear writes ⟨c_i, x⟩ + b_i for each of the rows c_i of coef (m×d,
// row-major) and each row x of the block: dst is m rows of b.N values.
// intercepts may be nil.
func Linear(dst []float64, coef, intercepts []float64, b *Block) {
	d := len(b.X) / b.N
	for i := range len(coef) / d {
		row := dst[i*b.N : (i+1)*b.N]
		b0 := 0.0
		if intercepts != nil {
			b0 = intercepts[i]
		}
		for r := range row {
			row[r] = b0
		}
		for j, c := range coef[i*d : (i+1)*d] {
			if c != 0 { // as in the designs of the papers
				floats.AddScaled(row, c, b.Col(j))
			}
		}
	}
}

// GateLogits writes the k gate logits of each row of the block, the last of
// them 0: dst is k rows of b.N values.
func (p *Params) GateLogits(dst []float64, b *Block) {
	rows := p.Gates() * b.N
	Linear(dst[:rows], p.Gating, p.GatingIntercepts, b)
	clear(dst[rows : p.K*b.N])
}

// Predictors writes ⟨a_i, x⟩ + b_i for every expert and each row of the block:
// dst is k rows of b.N values.
func (p *Params) Predictors(dst []float64, b *Block) {
	Linear(dst[:p.K*b.N], p.Regressors, p.RegressorIntercepts, b)
}

// Softmax writes the softmax of each column of logits (k rows of n values) to
// dst and the log of its normaliser, log Σ_i exp(logit_i), to lse, which has n
// places, or is nil where it is not wanted. dst may be logits. Logits of any
// finite size are safe.
func Softmax(dst, lse, logits []float64, n int) {
	k := len(logits) / n
	if k == 2 {
		softmaxOfTwo(dst, lse, logits, n)
		return
	}
	for r := range n {
		softmaxOf(dst, lse, logits, n, k, r)
	}
}

// softmaxOf is [Softmax] of column r.
func softmaxOf(dst, lse, logits []float64, n, k, r int) {
	top := logits[r]
	for i := 1; i < k; i++ {
		top = max(top, logits[i*n+r])
	}
	sum := 0.0
	for i := range k {
		t := logits[i*n+r] - top
		e := 0.0
		if t == 0 {
			e = 1
		} else if t > negligible {
			e = math.Exp(t)
		}
		dst[i*n+r] = e
		sum += e
	}
	inv := 1 / sum
	for i := range k {
		dst[i*n+r] *= inv
	}
	if lse != nil {
		lse[r] = top + logOfSum(sum)
	}
}

// logOfSum is log sum. A single term leaves a sum of 1.
func logOfSum(sum float64) float64 {
	if sum == 1 {
		return 0
	}
	return math.Log(sum)
}

// softmaxOfTwo is [Softmax] of two rows: one exponential to a column, of the
// smaller logit less the larger, and no branch on which of them is which.
func softmaxOfTwo(dst, lse, logits []float64, n int) {
	first, second, first2, second2 := logits[:n], logits[n:2*n], dst[:n], dst[n:2*n]
	for r, a := range first {
		b := second[r]
		top := max(a, b)
		t := min(a, b) - top
		if !(t <= 0 && top <= math.MaxFloat64) { // not finite
			softmaxOf(dst, lse, logits, n, 2, r)
			continue
		}
		e := 0.0
		if t > negligible {
			e = math.Exp(t)
		}
		sum := 1 + e
		inv := 1 / sum
		p, q := math.Float64bits(inv), math.Float64bits(e*inv)
		larger, smaller := p, q
		if a < b {
			p = smaller
		}
		if a < b {
			q = larger
		}
		first2[r], second2[r] = math.Float64frombits(p), math.Float64frombits(q)
		if lse != nil {
			lse[r] = top + logOfSum(sum)
		}
	}
}
