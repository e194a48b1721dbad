package tensor

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/solver"
)

// Transformed are the sums over rows for a transform T_r of the target that stands
// before the pass: of 1 and of T_r(y), times every monomial of z of degree r and
// r − 2, with the projection z = Uᵀ(x − m), times the row's weight. [Second] and
// [Fourth] need no σ before the pass, but take polynomials only; these take any
// [solver.Outputs]. They add and merge over rows with the same transform.
type Transformed struct {
	N, M, Order int
	Y           [2]float64   // Σ 1, Σ T_r(y)
	Low, High   [2][]float64 // monomials of degree Order − 2 and Order, in lexicographic order; Low is Y for order 2

	outputs solver.Outputs
	basis   *mat.Dense // d×M, U; nil for the identity
	shift   []float64  // Uᵀm; nil for 0
}

// NewTransformed returns empty sums of order 2, 3 or 4 over the projection on the
// columns of u (d×m), or over all d features where u is nil, about a centre of x
// that may be nil for 0. It panics where outputs have no such order.
func NewTransformed(outputs solver.Outputs, order, d int, u *mat.Dense, centre []float64) *Transformed {
	if !outputs.Has(order) {
		panic(fmt.Sprintf("tensor: there is no transform of order %d", order))
	}
	s := &Transformed{M: d, Order: order, outputs: outputs, basis: u, shift: centre}
	if u != nil {
		if have, _ := u.Dims(); have != d {
			panic(fmt.Sprintf("tensor: basis of %d rows for %d features", have, d))
		}
		_, s.M = u.Dims()
		if centre != nil {
			s.shift = projected(u, centre)
		}
	}
	for p := range s.High {
		s.High[p] = make([]float64, monomials(s.M, order))
		s.Low[p] = make([]float64, monomials(s.M, order-2))
	}
	return s
}

// monomials returns C(m+r−1, r), the number of monomials of degree r.
func monomials(m, r int) int {
	n := 1
	for i := range r {
		n = n * (m + i) / (i + 1)
	}
	return n
}

// projected returns Uᵀx.
func projected(u *mat.Dense, x []float64) []float64 {
	var z mat.VecDense
	z.MulVec(u.T(), mat.NewVecDense(len(x), x))
	return z.RawVector().Data
}

func addEach(dst, src [][]float64) {
	for i := range dst {
		floats.Add(dst[i], src[i])
	}
}

func clearEach(lists [][]float64) {
	for _, list := range lists {
		clear(list)
	}
}

// SumTransformed makes a pass over the rows for T_order of outputs.
func SumTransformed(ctx context.Context, rows model.Rows, outputs solver.Outputs, order int, u *mat.Dense,
	centre []float64, workers int) (*Transformed, error) {
	_, d := rows.Dims()
	return sum(ctx, rows, workers, func() *Transformed { return NewTransformed(outputs, order, d, u, centre) })
}

// Merge adds the sums of o, over other rows with the same transform and basis.
func (s *Transformed) Merge(o *Transformed) {
	s.N += o.N
	floats.Add(s.Y[:], o.Y[:])
	addEach(s.Low[:], o.Low[:])
	addEach(s.High[:], o.High[:])
}

// Like returns empty sums of the same transform and order over the same projection.
func (s *Transformed) Like() *Transformed {
	out := *s
	out.N, out.Y = 0, [2]float64{}
	for p := range s.High {
		out.Low[p], out.High[p] = make([]float64, len(s.Low[p])), make([]float64, len(s.High[p]))
	}
	return &out
}

// Reset makes s the sums of no rows.
func (s *Transformed) Reset() {
	s.N, s.Y = 0, [2]float64{}
	clearEach(s.Low[:])
	clearEach(s.High[:])
}

// Add adds the rows of a block to s.
func (s *Transformed) Add(b *model.Block, w *Scratch) {
	n := b.N
	s.N += n
	z := s.project(b, w)
	room := w.buf(2 * n * s.Order) // products of up to Order − 1 columns
	one, y := room[:n], room[n:2*n]
	s.outputs.Apply(s.Order, y, b.Y)
	if b.Role[model.Weights] == nil {
		copy(one, w.allOnes(n))
	} else {
		copy(one, b.Role[model.Weights])
		floats.Mul(y, b.Role[model.Weights])
	}
	s.Y[0] += kernel.Sum(one)
	s.Y[1] += kernel.Sum(y)
	cols := w.columns(z, n)
	terms := [2][]float64{one, y}
	if b.Role[model.Weights] == nil {
		terms[0] = nil
	}
	switch s.Order {
	case 2:
		w.addSquares(s.High[:], terms[:], cols)
		s.Low[0][0], s.Low[1][0] = s.Y[0], s.Y[1]
	case 4:
		w.addFourths(s.High[:], s.Low[:], terms[:], w.pairs(cols))
	default:
		at := 0
		addMonomials(&s.High, &at, room, z, n, 0, s.Order)
		at = 0
		addMonomials(&s.Low, &at, room, z, n, 0, s.Order-2)
	}
}

// addMonomials adds to dst, from *at on, the sums of the two columns at the head of
// room times every monomial of the given degree in the columns of z from first on.
func addMonomials(dst *[2][]float64, at *int, room, z []float64, n, first, degree int) {
	one, y := room[:n], room[n:2*n]
	for a := first; a < len(z)/n; a++ {
		za := z[a*n : (a+1)*n]
		if degree == 1 {
			dst[0][*at] += kernel.Dot(one, za)
			dst[1][*at] += kernel.Dot(y, za)
			*at++
			continue
		}
		next := room[2*n:]
		kernel.Mul(next[:n], one, za)
		kernel.Mul(next[n:2*n], y, za)
		addMonomials(dst, at, next, z, n, a, degree-1)
	}
}

// project returns z = Uᵀ(x − m), M columns of b.N values.
func (s *Transformed) project(b *model.Block, w *Scratch) []float64 {
	n := b.N
	if s.basis == nil && s.shift == nil {
		return b.X[:s.M*n]
	}
	if s.basis != nil {
		return w.project(s.basis, s.shift, b)
	}
	if cap(w.rest) < s.M*n {
		w.rest = make([]float64, s.M*n)
	}
	z := w.rest[:s.M*n]
	copy(z, b.X)
	for a, v := range s.shift {
		floats.AddConst(-v, z[a*n:(a+1)*n])
	}
	return z
}

// means returns the means of (T_r(y) − its sample mean) times every monomial of
// degree r − 2 and r.
func (s *Transformed) means() (low, high []float64) {
	n, mean := s.Y[0], s.Y[1]/s.Y[0]
	of := func(sums [2][]float64) []float64 {
		out := make([]float64, len(sums[0]))
		floats.ScaleTo(out, 1/n, sums[1])
		floats.AddScaled(out, -mean/n, sums[0])
		return out
	}
	return of(s.Low), of(s.High)
}

func (s *Transformed) mustBe(order int) {
	if s.Order != order {
		panic(fmt.Sprintf("tensor: sums of order %d, not %d", s.Order, order))
	}
}

// T2 returns the estimate of E[T_2(y)·S2(z)] = Σ_i p_i a_i a_iᵀ, a_i projected on z,
// with the sample mean of T_2 taken off first.
func (s *Transformed) T2() *mat.SymDense {
	s.mustBe(2)
	_, high := s.means()
	t := mat.NewSymDense(s.M, nil)
	at := 0
	for a := range s.M {
		for b := a; b < s.M; b++ {
			t.SetSym(a, b, high[at])
			at++
		}
	}
	return t
}

// T3 returns the estimate of E[T_3(y)·S3(z)] = Σ_i p_i a_i⊗a_i⊗a_i with
// S3 = z⊗z⊗z − the three placements of z⊗I (001, method 1), with the sample mean of
// T_3 taken off first.
func (s *Transformed) T3() *Sym3 {
	s.mustBe(3)
	low, high := s.means()
	t := NewSym3(s.M)
	t.each(func(i, a, b, c int) {
		v := high[i]
		for _, p := range [3][3]int{{a, b, c}, {b, a, c}, {c, a, b}} {
			if p[1] == p[2] {
				v -= low[p[0]]
			}
		}
		t.Data[i] = v
	})
	return t
}

// T4 returns the estimate of E[T_4(y)·S4(z)] = Σ_i p_i a_i⊗a_i⊗a_i⊗a_i, with the
// sample mean of T_4 taken off first.
func (s *Transformed) T4() *Sym4 {
	s.mustBe(4)
	low, high := s.means()
	return hermite4(s.M, low, high)
}
