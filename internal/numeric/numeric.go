// Package numeric holds what several packages need of numbers and matrices and
// neither the standard library nor gonum has.
package numeric

import (
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// Finite says whether none of the values is infinite or NaN.
func Finite(values ...float64) bool {
	for _, v := range values {
		if v-v != 0 { // NaN for both
			return false
		}
	}
	return true
}

// NotFiniteError reports a value of a function of one number that is infinite or
// NaN where its argument is neither.
type NotFiniteError struct {
	Z, Value float64
}

func (e *NotFiniteError) Error() string { return fmt.Sprintf("%v at z = %v", e.Value, e.Z) }

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
