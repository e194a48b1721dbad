package loss

import (
	"math"

	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// grams are sums of weighted products x·xᵀ of the design's columns.
type grams struct {
	*layout
	tiled []float64 // in tiles, as [kernel.AddTiled] has them
}

func newGrams(o *layout, n int) grams {
	return grams{layout: o, tiled: make([]float64, n*kernel.TiledSize(o.width))}
}

func (s *grams) values() [][]float64 { return [][]float64{s.tiled} }

// gram returns matrix i.
func (s *grams) gram(i int) []float64 {
	q := kernel.TiledSize(s.width)
	return s.tiled[i*q : (i+1)*q]
}

// put writes factor times the rows and columns named of matrix i to the block of
// h whose first entry is (r, c), r ≤ c.
func (s *grams) put(h *mat.SymDense, i, r, c int, rows, cols []int, factor float64) {
	g := s.gram(i)
	for a, j := range rows {
		for b, l := range cols {
			if r == c && b < a {
				continue
			}
			lo, hi := min(j, l), max(j, l)
			h.SetSym(r+a, c+b, factor*g[kernel.TiledAt(s.width, lo, hi)])
		}
	}
}

// relativeRidge keeps a Gram matrix of nearly collinear or nearly unused
// columns invertible; it slows a step there and never moves its fixed point.
const relativeRidge = 1e-10

// system is a symmetric system of linear equations, solved by a Cholesky factorisation
// in room that is used again: [mat.Cholesky] allocates, and estimates a condition number
// that costs more than the rest where the system is small.
type system struct {
	h     *mat.SymDense
	upper blas64.Triangular // of h = UᵀU, after factorize
	room  []float64
}

func newSystem(n int) *system {
	return &system{
		h:     mat.NewSymDense(n, nil),
		upper: blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)},
		room:  make([]float64, n),
	}
}

// factorize factorises h with the least ridge, from relativeRidge of the mean
// diagonal up, that makes it positive definite; false if none does. With that ridge its
// condition number is at most n/relativeRidge.
func (s *system) factorize() bool {
	h, n := s.h.RawSymmetric(), s.upper.N
	mean := mat.Trace(s.h) / float64(n)
	// Where g is saturated g′² may be so small that no ridge is smaller.
	const leastNormal = 0x1p-1022
	if !(relativeRidge*mean > leastNormal) || math.IsInf(mean, 0) {
		return false
	}
	for ridge := relativeRidge * mean; ridge < 1e3*mean; ridge *= 100 {
		copy(s.upper.Data, h.Data)
		for i := range n {
			s.upper.Data[i*n+i] += ridge
		}
		if _, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: s.upper.Data}); ok {
			return true
		}
	}
	return false
}

// solve returns h⁻¹·b after factorize, in room that is used again.
func (s *system) solve(b []float64) []float64 {
	copy(s.room, b)
	lapack64.Potrs(s.upper, blas64.General{Rows: len(b), Cols: 1, Stride: 1, Data: s.room})
	return s.room
}

// square returns xᵀ·h·x after factorize.
func (s *system) square(x []float64) float64 {
	copy(s.room, x)
	v := blas64.Vector{N: len(x), Inc: 1, Data: s.room}
	blas64.Trmv(blas.NoTrans, s.upper, v)
	return blas64.Dot(v, v)
}
