// Package tensor estimates the moment tensors of the method,
//
//	T2 = E[Q2(y)·S2(x)] = c2·Σ_i p_i a_i a_iᵀ
//	T4 = E[Q4(y)·S4(x)] = c4·Σ_i p_i a_i⊗a_i⊗a_i⊗a_i
//
// with the Hermite tensors S2 = xxᵀ − I and S4 (002 Lemma 1). The sums behind
// them keep the powers of y apart: they add and merge, know nothing of g, and
// take the transform's coefficients, and so σ, at the end.
package tensor

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/memory"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Second are the sums of the first pass over the data, with y⁰, y¹ and y².
// Where rows have weights every term is multiplied by its row's: a row of weight
// 2 counts as two rows.
type Second struct {
	N, D  int
	W2    float64      // Σ of squared weights, N where there are none
	Y     [9]float64   // Σ y^p; Y[0] is the sum of the weights, N where there are none
	X     [3][]float64 // Σ y^p·x, d values
	XX    [3][]float64 // Σ y^p·x·xᵀ, upper triangle in rows
	Cubes []float64    // Σ x_j³
	Fours []float64    // Σ x_j⁴
}

// NewSecond returns empty sums over d features.
func NewSecond(d int) *Second {
	s := &Second{D: d, Cubes: make([]float64, d), Fours: make([]float64, d)}
	for p := range s.X {
		s.X[p] = make([]float64, d)
		s.XX[p] = make([]float64, d*(d+1)/2)
	}
	return s
}

// Merge adds the sums of o, over other rows, to s.
func (s *Second) Merge(o *Second) {
	s.N += o.N
	s.W2 += o.W2
	floats.Add(s.Y[:], o.Y[:])
	for p := range s.X {
		floats.Add(s.X[p], o.X[p])
		floats.Add(s.XX[p], o.XX[p])
	}
	floats.Add(s.Cubes, o.Cubes)
	floats.Add(s.Fours, o.Fours)
}

// Reset makes s the sums of no rows.
func (s *Second) Reset() {
	s.N, s.W2, s.Y = 0, 0, [9]float64{}
	for p := range s.X {
		clear(s.X[p])
		clear(s.XX[p])
	}
	clear(s.Cubes)
	clear(s.Fours)
}

// Like returns sums of no rows, of as many features.
func (s *Second) Like() *Second { return NewSecond(s.D) }

// Alike says whether sums of s and o may be added.
func (s *Second) Alike(o *Second) bool { return s.D == o.D }

// Scaled returns the sums of the same rows with feature j multiplied by c_j.
func (s *Second) Scaled(c []float64) *Second {
	out := NewSecond(s.D)
	out.N, out.W2, out.Y = s.N, s.W2, s.Y
	for p := range s.X {
		floats.MulTo(out.X[p], s.X[p], c)
	}
	s.each(func(at, j, l int) {
		for p := range s.XX {
			out.XX[p][at] = s.XX[p][at] * c[j] * c[l]
		}
	})
	for j, v := range c {
		out.Cubes[j] = s.Cubes[j] * v * v * v
		out.Fours[j] = s.Fours[j] * v * v * v * v
	}
	return out
}

// Add adds the rows of a block to s.
func (s *Second) Add(b *model.Block, w *Scratch) {
	n := b.N
	s.N += n
	powers := w.powers(b, len(s.Y)-1)
	s.W2 += kernel.Dot(powers[0], powers[0])
	cols := w.columns(b.X, n)
	s.addMeans(w, powers, cols)
	terms := powers[:len(s.XX)]
	if b.Role[model.Weights] == nil {
		terms[0] = nil
	}
	w.addSquares(s.XX[:], terms, cols)
	if b.Role[model.Weights] == nil {
		kernel.AddCubes(s.Cubes, s.Fours, cols)
		return
	}
	prod := w.buf(2 * n)
	square, weighted := prod[:n], prod[n:]
	for j, x := range cols {
		kernel.Mul(square, x, x)
		kernel.Mul(weighted, square, powers[0])
		s.Cubes[j] += kernel.Dot(weighted, x)
		s.Fours[j] += kernel.Dot(weighted, square)
	}
}

// addMeans adds the sums of the powers, and of the first of them times the columns: a
// tile's rows at a time, with ones beside the columns.
func (s *Second) addMeans(w *Scratch, powers, cols [][]float64) {
	const rows = 4
	w.cols = append(cols, w.allOnes(len(powers[0])))
	cols = w.cols
	sums := w.sums(rows * len(cols))
	kernel.AddProducts(sums, powers[:rows], cols)
	for p := range rows {
		row := sums[p*len(cols) : (p+1)*len(cols)]
		s.Y[p] += row[s.D]
		if p < len(s.X) {
			floats.Add(s.X[p], row[:s.D])
		}
	}
	for p := rows; p < len(s.Y); p++ {
		s.Y[p] += kernel.Sum(powers[p])
	}
}

// Scratch is the room that one worker needs to add blocks.
type Scratch struct {
	pow, prod, rest []float64
	out             [][]float64
	cols, products  [][]float64
	of2             []float64 // of products
	weighted        [][]float64
	store           []float64 // of weighted
	total           []float64
	ones            []float64
	basis           *mat.Dense // that coef is the transpose of, in rows
	coef, from      []float64
}

// allOnes returns so many ones, to be read only.
func (w *Scratch) allOnes(n int) []float64 {
	for len(w.ones) < n {
		w.ones = append(w.ones, 1)
	}
	return w.ones[:n]
}

// columns returns columns of n values.
func (w *Scratch) columns(values []float64, n int) [][]float64 {
	w.cols = w.cols[:0]
	for ; len(values) > 0; values = values[n:] {
		w.cols = append(w.cols, values[:n])
	}
	return w.cols
}

func (w *Scratch) buf(n int) []float64 {
	if len(w.prod) < n {
		w.prod = make([]float64, n)
	}
	return w.prod[:n]
}

// powers returns y⁰ … y^top for the rows of b, times their weights, to be read only.
func (w *Scratch) powers(b *model.Block, top int) [][]float64 {
	y, n := b.Y, b.N
	if len(w.pow) < (top+1)*n {
		w.pow = make([]float64, (top+1)*n)
	}
	w.out = w.out[:0]
	if b.Role[model.Weights] == nil {
		w.out = append(w.out, w.allOnes(n), y)
	} else {
		w.out = append(w.out, b.Role[model.Weights])
	}
	for p := len(w.out); p <= top; p++ {
		v := w.pow[p*n : (p+1)*n]
		kernel.Mul(v, w.out[p-1], y)
		w.out = append(w.out, v)
	}
	return w.out
}

// SumSecond makes the first pass over the rows. What does not fit in memory is a
// *memory.Error before it begins.
func SumSecond(ctx context.Context, rows model.Rows, workers int) (*Second, error) {
	_, d := rows.Dims()
	entries := 1.5 * float64(d) * float64(d+1)
	if err := room(fmt.Sprintf("the second moments of %d features", d), rows, workers, entries); err != nil {
		return nil, err
	}
	return sum(ctx, rows, workers, func() *Second { return NewSecond(d) })
}

// room says of sums of so many entries if there is not the memory for those that a
// pass keeps at a time: of every worker's block, of the nodes of [model.Tree] that
// wait for their other halves, and the total.
func room(what string, rows model.Rows, workers int, entries float64) error {
	waiting := bits.Len(uint(model.Blocks(rows)))
	return memory.Check(what, 8*entries*float64(2*model.Workers(workers)+waiting+1))
}

// adder is a set of sums that takes blocks.
type adder[T any] interface {
	model.Sums[T]
	Add(*model.Block, *Scratch)
}

// sum adds all blocks of rows, the same at any number of workers.
func sum[T adder[T]](ctx context.Context, rows model.Rows, workers int, empty func() T) (T, error) {
	scratch := make([]Scratch, model.Workers(workers))
	return model.Sum(ctx, rows, workers, empty, func(worker int, to T, b *model.Block) error {
		to.Add(b, &scratch[worker])
		return nil
	})
}

// MeanY returns the sample mean of y^p, p ≤ 8.
func (s *Second) MeanY(p int) float64 { return s.Y[p] / s.Y[0] }

// Effective returns the number of rows without weights whose mean would be as
// precise, (Σw)²/Σw² (Kish 1965): N where there are no weights.
func (s *Second) Effective() float64 { return s.Y[0] * s.Y[0] / s.W2 }

// Mean returns the sample mean of x.
func (s *Second) Mean() []float64 {
	m := make([]float64, s.D)
	floats.ScaleTo(m, 1/s.Y[0], s.X[0])
	return m
}

// Covariance returns the sample covariance of x (divisor n).
func (s *Second) Covariance() *mat.SymDense {
	m := s.Mean()
	c := mat.NewSymDense(s.D, nil)
	s.each(func(at, j, l int) { c.SetSym(j, l, s.XX[0][at]/s.Y[0]-m[j]*m[l]) })
	return c
}

func (s *Second) each(fn func(at, j, l int)) {
	at := 0
	for j := range s.D {
		for l := j; l < s.D; l++ {
			fn(at, j, l)
			at++
		}
	}
}

// T2 returns the estimate of E[Q2(y)·S2(x)] for Q2 = y² + δy, with Q2's sample
// mean taken off first (E S2 = 0, so this changes no expectation and lowers the
// variance), about a centre of x that may be nil for 0:
//
//	T̂2 = (1/n) Σ (Q2(y) − mean Q2)·(x−m)(x−m)ᵀ
func (s *Second) T2(delta float64, centre []float64) *mat.SymDense {
	if centre == nil {
		centre = make([]float64, s.D)
	}
	coef := [3]float64{-s.MeanY(2) - delta*s.MeanY(1), delta, 1}
	t := mat.NewSymDense(s.D, nil)
	s.each(func(at, j, l int) {
		v := 0.0
		for p, c := range coef {
			v += c * (s.XX[p][at] - centre[j]*s.X[p][l] - centre[l]*s.X[p][j] + centre[j]*centre[l]*s.Y[p])
		}
		t.SetSym(j, l, v/s.Y[0])
	})
	return t
}

// YX returns the sample mean of y·x.
func (s *Second) YX() []float64 {
	v := make([]float64, s.D)
	floats.ScaleTo(v, 1/s.Y[0], s.X[1])
	return v
}

// YXX returns the estimate of E[y·S2(x)], the sample mean of (y − ȳ)·x·xᵀ, of
// inputs that are standard.
func (s *Second) YXX() *mat.SymDense {
	mean := s.MeanY(1)
	t := mat.NewSymDense(s.D, nil)
	s.each(func(at, j, l int) { t.SetSym(j, l, (s.XX[1][at]-mean*s.XX[0][at])/s.Y[0]) })
	return t
}
