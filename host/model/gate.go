package model

import "github.com/gatedlearning/moe/internal/kernel"

// Linear writes ⟨c_i, x⟩ + b_i for each of the rows c_i of coef (m×d,
// row-major) and each row x of the block: dst is m rows of b.N values.
// intercepts may be nil.
func Linear(dst []float64, coef, intercepts []float64, b *Block) {
	kernel.Linear(dst, coef, intercepts, b.X, len(b.X)/b.N, b.N)
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

// Softmax writes the softmax of each column of logits (k rows of n values) to dst and
// the log of its normaliser to lse, which may be nil: [kernel.Softmax].
func Softmax(dst, lse, logits []float64, n int) { kernel.Softmax(dst, lse, logits, n) }
