package model

import (
	"context"
	"math"
	"math/big"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Linear writes ⟨c_i, x⟩ + b_i for each of the rows c_i of coef (m×d,
// row-major) and each row x of the block: dst is m rows of b.N values.
// intercepts may be nil.
func Linear(dst []float64, coef, intercepts []float64, b *Block) {
	kernel.Linear(dst, coef, intercepts, b.X, len(b.X)/b.N, b.N)
}

// GateLogits writes the gate's logit of every class for each row of the block, the last of
// them 0: dst is [Params.Classes] rows of b.N values.
func (p *Params) GateLogits(dst []float64, b *Block) {
	rows := p.Gates() * b.N
	Linear(dst[:rows], p.Gating, p.GatingIntercepts, b)
	clear(dst[rows : p.Classes()*b.N])
}

// Even says whether the gate is 0, so that all classes are as likely in every row.
func (p *Params) Even() bool {
	moved := func(v float64) bool { return v != 0 }
	return !slices.ContainsFunc(p.Gating, moved) && !slices.ContainsFunc(p.GatingIntercepts, moved)
}

// logitError is how far a logit of [Params.ExactGateLogits] may be from ⟨w,x⟩ + v, relative to
// the larger of 1 and its size.
const logitError = 1e-13

// ExactGateLogits is [Params.GateLogits] to logitError, also where large terms cancel: where
// their rounding could be seen a sum goes in twice the digits (Ogita, Rump & Oishi 2005), and
// where that is not enough, in all. Logits beyond what numbers reach are held there.
func (p *Params) ExactGateLogits(dst []float64, b *Block) {
	const unit = 0x1p-53
	p.GateLogits(dst, b)
	most := make([]float64, p.D)
	for j := range most {
		for _, x := range b.Col(j) {
			most[j] = max(most[j], math.Abs(x))
		}
	}
	terms := float64(p.D + 1)
	for i := range p.Gates() {
		w, v := p.Gate(i), 0.0
		if p.GatingIntercepts != nil {
			v = p.GatingIntercepts[i]
		}
		size := math.Abs(v)
		for j, c := range w {
			size += math.Abs(c) * most[j]
		}
		if size*terms*unit <= logitError {
			continue
		}
		for r := range b.N {
			x := func(j int) float64 { return b.X[j*b.N+r] }
			logit := twice(w, v, x)
			if !(terms*terms*unit*unit*size <= logitError*max(1, math.Abs(logit))) {
				logit = wholly(w, v, x)
			}
			dst[i*b.N+r] = logit
		}
	}
}

// twice returns v + Σ_j w_j·x_j as if summed in twice the digits.
func twice(w []float64, v float64, x func(j int) float64) float64 {
	sum, rest := v, 0.0
	for j, c := range w {
		p := c * x(j)
		next := sum + p
		back := next - sum
		rest += math.FMA(c, x(j), -p) + ((sum - (next - back)) + (p - back))
		sum = next
	}
	return sum + rest
}

// wholly returns v + Σ_j w_j·x_j rounded once, within a quarter of the largest number.
func wholly(w []float64, v float64, x func(j int) float64) float64 {
	const digits = 4300 // from the least product's last to the largest's first
	sum := new(big.Float).SetPrec(digits).SetFloat64(v)
	for j, c := range w {
		var a, b big.Float
		sum.Add(sum, a.SetPrec(106).Mul(b.SetFloat64(c), new(big.Float).SetFloat64(x(j))))
	}
	logit, _ := sum.Float64()
	return min(max(logit, -math.MaxFloat64/4), math.MaxFloat64/4)
}

// Predictors writes ⟨a_i, x⟩ + b_i for every expert and each row of the block, plus the row's offset where there is
// one: dst is k rows of b.N values.
func (p *Params) Predictors(dst []float64, b *Block) {
	dst = dst[:p.K*b.N]
	p.LinearParts(dst, b)
	if offset := b.Role[Offsets]; offset != nil {
		for i := range p.K {
			floats.Add(dst[i*b.N:(i+1)*b.N], offset)
		}
	}
}

// LinearParts writes ⟨a_i, x⟩ + b_i likewise: what of the predictors is linear in the parameters.
func (p *Params) LinearParts(dst []float64, b *Block) {
	Linear(dst[:p.K*b.N], p.Regressors, p.RegressorIntercepts, b)
}

// Residuals writes those of every expert to the beginning of room, which it returns: K rows of b.N.
// The means are [Params.Output].
func (p *Params) Residuals(ctx context.Context, means Activation, room []float64, b *Block) ([]float64, error) {
	dst := room[:p.K*b.N]
	p.Predictors(dst, b)
	if err := means.Eval(ctx, dst, dst); err != nil {
		return nil, err
	}
	for i := range p.K {
		r := dst[i*b.N : (i+1)*b.N]
		floats.SubTo(r, b.Y, r)
	}
	return dst, nil
}

// Tilt adds sign·(⟨w,x⟩ + v) to the logit of expert i.
func (p *Params) Tilt(i int, w []float64, v, sign float64) {
	from, to := i, i+1
	if i == p.Gates() { // the last is 0: it is taken off all others
		from, to, sign = 0, i, -sign
	}
	for j := from; j < to; j++ {
		floats.AddScaled(p.Gate(j), sign, w)
		if p.GatingIntercepts != nil {
			p.GatingIntercepts[j] += sign * v
		}
	}
}

// Softmax writes the softmax of each column of logits (k rows of n values) to dst and
// the log of its normaliser to lse, which may be nil: [kernel.Softmax].
func Softmax(dst, lse, logits []float64, n int) { kernel.Softmax(dst, lse, logits, n) }

// SoftmaxShift is [Softmax] that takes the largest of each column off its logits, so that what
// is added to them afterwards loses no digits: [kernel.SoftmaxShift].
func SoftmaxShift(dst, lse, logits []float64, n int) { kernel.SoftmaxShift(dst, lse, logits, n) }
