package experiment

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
)

// pair is a law f of inputs, p·N(m_1, Σ) + (1−p)·N(m_2, Σ).
type pair struct {
	p             float64
	first, second []float64
	precision     mat.SymDense // Σ⁻¹
	logDet        float64      // of Σ
	slope         []float64    // log p·N_1/((1−p)·N_2) = offset + ⟨slope, x⟩
	offset        float64
}

func newPair(p float64, first, second []float64, covariance *mat.SymDense) (*pair, error) {
	l := &pair{p: p, first: first, second: second}
	var chol mat.Cholesky
	if !chol.Factorize(covariance) {
		return nil, errors.New("the inputs' covariance within a component is not positive definite")
	}
	if err := chol.InverseTo(&l.precision); err != nil {
		return nil, err
	}
	l.logDet = chol.LogDet()
	one, two := mat.NewVecDense(len(first), first), mat.NewVecDense(len(first), second)
	var between, slope, middle mat.VecDense
	between.SubVec(one, two)
	middle.AddVec(one, two)
	slope.MulVec(&l.precision, &between)
	l.slope = slope.RawVector().Data
	l.offset = math.Log(p/(1-p)) - mat.Dot(&slope, &middle)/2
	return l, nil
}

// symmetricPair is p·N(μ, I) + (1−p)·N(−μ, I).
func symmetricPair(p float64, mean []float64) (*pair, error) {
	second := make([]float64, len(mean))
	floats.ScaleTo(second, -1, mean)
	unit := mat.NewSymDense(len(mean), nil)
	for i := range mean {
		unit.SetSym(i, i, 1)
	}
	return newPair(p, mean, second, unit)
}

// pairSteps bounds the iterations of EM for a pair.
const pairSteps = 300

// fitPair is the pair that EM finds for the inputs, from components of equal weight to
// either side of their mean along the leading axis of their covariance.
func fitPair(ctx context.Context, data *model.Data) (*pair, error) {
	sums, err := tensor.SumSecond(ctx, data, 1)
	if err != nil {
		return nil, err
	}
	mean, covariance := sums.Mean(), sums.Covariance()
	values, vectors, ok := eigenpairs(covariance)
	if !ok {
		return nil, errors.New("the inputs' covariance has no eigenvalues")
	}
	first, leading := make([]float64, data.D), data.D-1
	floats.AddScaledTo(first, mean, math.Sqrt(values[leading])/2, vectors[leading])
	l, err := pairAround(mean, covariance, 0.5, first)
	for range pairSteps {
		if err != nil {
			return nil, err
		}
		before := l
		p, first := l.expected(data)
		if l, err = pairAround(mean, covariance, p, first); err == nil && math.Abs(l.p-before.p)+
			floats.Distance(l.first, before.first, 2) < 1e-6 {
			break
		}
	}
	return l, err
}

// pairAround is the pair of a p and m_1 with this mean and covariance of all inputs: what
// an M-step makes of p and m_1.
func pairAround(mean []float64, covariance *mat.SymDense, p float64, first []float64) (*pair, error) {
	if !(p > 0 && p < 1) {
		return nil, errors.New("a component of the inputs' law is empty")
	}
	odds := p / (1 - p)
	off, second, within := make([]float64, len(mean)), make([]float64, len(mean)), mat.NewSymDense(len(mean), nil)
	floats.SubTo(off, first, mean)
	floats.AddScaledTo(second, mean, -odds, off)
	within.SymRankOne(covariance, -odds, mat.NewVecDense(len(mean), off))
	return newPair(p, first, second, within)
}

// expected is the mean posterior of the first component, and the mean of x under it.
func (l *pair) expected(data *model.Data) (p float64, first []float64) {
	first, sum := make([]float64, data.D), 0.0
	for t := range data.Blocks {
		b := &data.Blocks[t]
		r := l.posterior(b)
		sum += floats.Sum(r)
		for j := range first {
			first[j] += floats.Dot(r, b.Col(j))
		}
	}
	floats.Scale(1/sum, first)
	return sum / float64(data.N), first
}

// logit is the log odds of the first component, given x, of every row.
func (l *pair) logit(b *model.Block) []float64 {
	out := make([]float64, b.N)
	floats.AddConst(l.offset, out)
	for j, v := range l.slope {
		floats.AddScaled(out, v, b.Col(j))
	}
	return out
}

// posterior is the probability of the first component, given x, of every row.
func (l *pair) posterior(b *model.Block) []float64 {
	out := l.logit(b)
	for i, v := range out {
		out[i] = logistic(v)
	}
	return out
}

// weights are φ(x)/f(x) of every row, φ the density of N(0, I):
//
//	log φ/f = (log det Σ + (x−m_2)ᵀΣ⁻¹(x−m_2) − xᵀx)/2 − log(1−p) − log(1 + e^logit)
func (l *pair) weights(b *model.Block) []float64 {
	out := l.logit(b)
	d := len(l.second)
	x, off := make([]float64, d), mat.NewVecDense(d, nil)
	for i, logit := range out {
		for j := range x {
			x[j] = b.X[j*b.N+i]
			off.SetVec(j, x[j]-l.second[j])
		}
		square := mat.Inner(off, &l.precision, off) - floats.Dot(x, x)
		out[i] = math.Exp((l.logDet+square)/2 - math.Log(1-l.p) - softplus(logit))
	}
	return out
}

// weigh returns the rows with weights φ/f: sums over them are as of inputs N(0, I).
func (l *pair) weigh(data *model.Data) *model.Data { return withWeights(data, l.weights) }

// parts are those of the score tensors ∇^r f/f, r even: the posteriors' means of the
// Hermite tensors about m_1 and m_2. Σ must be I.
func (l *pair) parts(data *model.Data) []tensorPart {
	p, _ := l.expected(data)
	other := func(b *model.Block) []float64 {
		out := l.posterior(b)
		floats.Scale(-1, out)
		floats.AddConst(1, out)
		return out
	}
	return []tensorPart{{withWeights(data, l.posterior), l.first, p}, {withWeights(data, other), l.second, 1 - p}}
}

// withWeights returns the rows, which are not copied, with weights.
func withWeights(data *model.Data, weights func(*model.Block) []float64) *model.Data {
	out := &model.Data{N: data.N, D: data.D, Blocks: make([]model.Block, len(data.Blocks))}
	for t := range data.Blocks {
		out.Blocks[t] = data.Blocks[t]
		out.Blocks[t].Role[model.Weights] = weights(&data.Blocks[t])
	}
	return out
}
