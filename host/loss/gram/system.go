package gram

import (
	"math"

	"github.com/gatedlearning/moe/internal/numeric"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// relativeRidge keeps a Gram matrix of nearly collinear or nearly unused
// columns invertible; it slows a step there and never moves its fixed point.
const relativeRidge = 1e-10

// System is a symmetric system of n linear equations, solved by a Cholesky factorisation
// in room that is used again: [mat.Cholesky] allocates, and estimates a condition number
// that costs more than the rest where the system is small.
type System struct {
	H     *mat.SymDense     // n×n
	Upper blas64.Triangular // U of H + ridge = UᵀU, after Factorize
	room  []float64
}

// NewSystem returns a system of n equations, H 0.
func NewSystem(n int) *System {
	return &System{
		H:     mat.NewSymDense(n, nil),
		Upper: blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)},
		room:  make([]float64, n),
	}
}

// Factorize factorises H with the least ridge, from 1e-10 of the mean
// diagonal up, that makes it positive definite; false if none does. With that ridge its
// condition number is at most n·1e10.
func (s *System) Factorize() bool {
	h, n := s.H.RawSymmetric(), s.Upper.N
	mean := mat.Trace(s.H) / float64(n)
	// Where g is saturated g′² may be so small that no ridge is smaller.
	const leastNormal = 0x1p-1022
	if !(relativeRidge*mean > leastNormal) || math.IsInf(mean, 0) {
		return false
	}
	for ridge := relativeRidge * mean; ridge < 1e3*mean; ridge *= 100 {
		copy(s.Upper.Data, h.Data)
		for i := range n {
			s.Upper.Data[i*n+i] += ridge
		}
		if _, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: s.Upper.Data}); ok {
			return true
		}
	}
	return false
}

// Solve returns (H + ridge)⁻¹·b after Factorize, in room that is used again.
func (s *System) Solve(b []float64) []float64 {
	copy(s.room, b)
	return numeric.SolveCholesky(s.Upper, s.room)
}

// Square returns xᵀ·(H + ridge)·x after Factorize.
func (s *System) Square(x []float64) float64 {
	copy(s.room, x)
	v := blas64.Vector{N: len(x), Inc: 1, Data: s.room}
	blas64.Trmv(blas.NoTrans, s.Upper, v)
	return blas64.Dot(v, v)
}
