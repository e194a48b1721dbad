// Package numeric holds what several packages need of numbers and matrices and
// neither the standard library nor gonum has.
package numeric

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Finite says whether v is neither infinite nor NaN.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Symmetric returns (m + mᵀ)/2 of a square matrix: what is symmetric but for
// rounding, made so. It panics if m is not square.
func Symmetric(m mat.Matrix) *mat.SymDense {
	n, c := m.Dims()
	if n != c {
		panic(mat.ErrShape)
	}
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	return out
}
