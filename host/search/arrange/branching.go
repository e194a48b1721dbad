package arrange

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// branching is minus the mean log-likelihood of a gate whose branches the rows have gone
// by weights, with a ridge: an objective of optim that does not depend
// on which branch is the last. Its argument is the predictors of all branches but the
// last, d coefficients each.
type branching struct {
	d, branches int
	n           float64 // rows, those without weight among them
	blocks      []branchRows

	logits, prob, lse, weights []float64 // room for a block
	weighted                   [][]float64
	gram                       []float64
}

// branchRows are up to model.BlockRows rows of a gate.
type branchRows struct {
	x     [][]float64 // the gate's columns, one after the other in flat
	flat  []float64
	mass  []float64 // by which the rows have gone each branch, a branch after the other
	total []float64 // by all
}

// ridge keeps a gate finite, as that of the screening does, in units of the total log-likelihood.
const ridge = 0.1

// leastMass is the weight below which a row says nothing of a gate.
const leastMass = 1e-6

// newBranching returns that of a gate with these columns x, by the posteriors r of the
// experts under its branches.
func newBranching(x, r [][]float64, branches [][]int) *branching {
	d, k := len(x), len(branches)
	b := &branching{
		d: d, branches: k, n: float64(len(x[0])),
		logits: make([]float64, k*model.BlockRows), prob: make([]float64, k*model.BlockRows),
		lse: make([]float64, model.BlockRows), weights: make([]float64, model.BlockRows),
		weighted: make([][]float64, d), gram: make([]float64, d*(d+1)/2),
	}
	for j := range b.weighted {
		b.weighted[j] = make([]float64, model.BlockRows)
	}
	for rows := range slices.Chunk(heavy(r, branches), model.BlockRows) {
		n := len(rows)
		at := branchRows{flat: make([]float64, d*n), mass: make([]float64, k*n), total: make([]float64, n)}
		for j := range d {
			at.x = append(at.x, at.flat[j*n:(j+1)*n])
		}
		kernel.Gather(at.x, x, rows)
		for c, experts := range branches {
			mass := at.mass[c*n : (c+1)*n]
			for _, i := range experts {
				for t, row := range rows {
					mass[t] += r[i][row]
				}
			}
			floats.Add(at.total, mass)
		}
		b.blocks = append(b.blocks, at)
	}
	return b
}

// heavy returns the rows of which the branches have more than leastMass together.
func heavy(r [][]float64, branches [][]int) (rows []int) {
	for t := range r[0] {
		total := 0.0
		for _, experts := range branches {
			for _, i := range experts {
				total += r[i][t]
			}
		}
		if total > leastMass {
			rows = append(rows, t)
		}
	}
	return rows
}

// Dim implements optim.Objective.
func (b *branching) Dim() int { return (b.branches - 1) * b.d }

// predictor returns that of branch c in w.
func (b *branching) predictor(w []float64, c int) []float64 { return w[c*b.d : (c+1)*b.d] }

// mean returns the mean of the predictors of all branches, the last of which is 0.
func (b *branching) mean(w []float64) []float64 {
	mean := make([]float64, b.d)
	for c := range b.branches - 1 {
		floats.AddScaled(mean, 1/float64(b.branches), b.predictor(w, c))
	}
	return mean
}

// Value implements optim.Objective.
func (b *branching) Value(_ context.Context, w []float64) (float64, error) {
	return b.sums(nil, nil, w), nil
}

// Grad implements optim.Objective.
func (b *branching) Grad(_ context.Context, dst, w []float64) (float64, error) {
	return b.sums(nil, dst, w), nil
}

// Hessian implements optim.Curved.
func (b *branching) Hessian(_ context.Context, h *mat.SymDense, grad, w []float64) (float64, error) {
	return b.sums(h, grad, w), nil
}

// sums returns the value at w, and writes the gradient and the Hessian where they are
// wanted.
func (b *branching) sums(h *mat.SymDense, grad, w []float64) float64 {
	if h != nil {
		h.Zero()
	}
	clear(grad)
	value := 0.0
	for i := range b.blocks {
		at := &b.blocks[i]
		value -= b.scores(at, w)
		if grad != nil {
			b.addGrad(grad, at)
		}
		if h != nil {
			b.addHessian(h, at)
		}
	}
	value += b.ridge(h, grad, w)
	floats.Scale(1/b.n, grad)
	if h != nil {
		h.ScaleSym(1/b.n, h)
	}
	return value / b.n
}

// scores computes the probabilities of the branches at w and returns the rows'
// log-likelihood Σ_t Σ_c mass_ct·log q_c(x_t).
func (b *branching) scores(at *branchRows, w []float64) float64 {
	n := len(at.total)
	logits := b.logits[:b.branches*n]
	free := logits[:(b.branches-1)*n]
	kernel.Linear(free, w, nil, at.flat, b.d, n)
	clear(logits[len(free):])
	kernel.SoftmaxShift(b.prob[:len(logits)], b.lse[:n], logits, n)
	return kernel.Dot(logits, at.mass[:len(logits)]) - kernel.Dot(b.lse[:n], at.total)
}

// addGrad adds Σ_t (total·q_c − mass_c)·x_t to every predictor's.
func (b *branching) addGrad(grad []float64, at *branchRows) {
	n := len(at.total)
	weight := b.weights[:n]
	for c := range b.branches - 1 {
		kernel.Mul(weight, at.total, b.prob[c*n:(c+1)*n])
		kernel.Sub(weight, weight, at.mass[c*n:(c+1)*n])
		kernel.AddProducts(b.predictor(grad, c), [][]float64{weight}, at.x)
	}
}

// addHessian adds Σ_t total·q_c·(δ_ce − q_e)·x_t·x_tᵀ to the block of branches c and e.
func (b *branching) addHessian(h *mat.SymDense, at *branchRows) {
	n := len(at.total)
	weight := b.weights[:n]
	for c := range b.branches - 1 {
		pc := b.prob[c*n : (c+1)*n]
		for e := c; e < b.branches-1; e++ {
			if e == c {
				kernel.Variance(weight, pc)
				kernel.Mul(weight, weight, at.total)
			} else {
				kernel.MinusMulMul(weight, at.total, pc, b.prob[e*n:(e+1)*n])
			}
			b.addGram(h, c*b.d, e*b.d, weight, at.x)
		}
	}
}

// addGram adds Σ_t weight_t·x_t·x_tᵀ to the block of h that begins at (row, column),
// row ≤ column.
func (b *branching) addGram(h *mat.SymDense, row, column int, weight []float64, x [][]float64) {
	for j, v := range x {
		b.weighted[j] = b.weighted[j][:len(weight)]
		kernel.Mul(b.weighted[j], weight, v)
	}
	clear(b.gram)
	kernel.AddGram(b.gram, b.weighted, x)
	raw, next := h.RawSymmetric(), 0
	for i := range b.d {
		for j := i; j < b.d; j++ {
			v := b.gram[next]
			next++
			raw.Data[(row+i)*raw.Stride+column+j] += v
			if row != column && i != j {
				raw.Data[(row+j)*raw.Stride+column+i] += v
			}
		}
	}
}

// ridge returns (τ/2)·Σ_c ‖w_c − w̄‖², as that of [loss.Likelihood.PenaliseGate], and adds
// its derivatives where they are wanted.
func (b *branching) ridge(h *mat.SymDense, grad, w []float64) float64 {
	mean, k := b.mean(w), float64(b.branches)
	if grad != nil {
		floats.AddScaled(grad, ridge, w)
		for c := range b.branches - 1 {
			floats.AddScaled(b.predictor(grad, c), -ridge, mean)
		}
	}
	if h != nil {
		for i := range w {
			h.SetSym(i, i, h.At(i, i)+ridge)
			for j := i; j < len(w); j += b.d {
				h.SetSym(i, j, h.At(i, j)-ridge/k)
			}
		}
	}
	return ridge / 2 * (floats.Dot(w, w) - k*floats.Dot(mean, mean))
}
