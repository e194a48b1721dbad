// Package numeric holds what several packages need of numbers and matrices and
// neither the standard library nor gonum has.
package numeric

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
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

// Columns returns d columns of n zeros.
func Columns(d, n int) [][]float64 {
	out, store := make([][]float64, d), make([]float64, d*n)
	for j := range out {
		out[j] = store[j*n : (j+1)*n : (j+1)*n]
	}
	return out
}

// FirstOf returns the first n values of every column.
func FirstOf(columns [][]float64, n int) [][]float64 {
	out := make([][]float64, len(columns))
	for j, c := range columns {
		out[j] = c[:n]
	}
	return out
}

// AppendFloats appends the bytes of v to b: little-endian, eight for each.
func AppendFloats(b []byte, v []float64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// ReadFloats fills dst from as many little-endian bytes as it needs, the first of b. It
// panics if those are fewer.
func ReadFloats(dst []float64, b []byte) {
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
}

// Shares divides sums of weights, each times a number of 0 to 1, by the sum of the weights. A sum that is rounded
// otherwise than the whole may be above it by that much: the share is then 1.
func Shares(sums []float64, whole float64) {
	for i := range sums {
		sums[i] = min(1, 1/whole*sums[i])
	}
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

// SetTriangle writes an upper triangle in rows, one value after the other, to m.
func SetTriangle(m *mat.SymDense, packed []float64) {
	to := m.RawSymmetric()
	for i := range to.N {
		n := to.N - i
		copy(to.Data[i*(to.Stride+1):], packed[:n])
		packed = packed[n:]
	}
}

// SolveCholesky solves UᵀU·x = b in place, U upper triangular, and returns b. It sums in the order of
// [gonum.org/v1/gonum/lapack/lapack64.Potrs], which calls a function for every entry where there is one right-hand
// side. It does not look at U's condition number.
func SolveCholesky(u blas64.Triangular, b []float64) []float64 {
	row := func(i int) (diagonal float64, rest []float64) {
		return u.Data[i*u.Stride+i], u.Data[i*u.Stride+i+1 : i*u.Stride+u.N]
	}
	b = b[:u.N]
	for i := range b { // Uᵀ
		diagonal, rest := row(i)
		b[i] *= 1 / diagonal
		floats.AddScaled(b[i+1:], -b[i], rest)
	}
	for i := range slices.Backward(b) { // U
		diagonal, rest := row(i)
		x, sum := b[i+1:], b[i]
		for j, v := range rest[:len(x)] {
			sum -= float64(v * x[j])
		}
		b[i] = sum * (1 / diagonal)
	}
	return b
}

// Extent returns the range of the values that are finite, from 0 to 1 where none is.
func Extent(lists ...[]float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, l := range lists {
		for _, v := range l {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo > hi {
		return 0, 1
	}
	return lo, hi
}

// LogBetween is the logarithm of the density at y of a number with these probabilities around nodes at m, which rise or
// fall; false where y lies between no two of them.
func LogBetween(p, m []float64, y float64) (float64, bool) {
	for j, a := range m[:len(m)-1] {
		b := m[j+1]
		if (y < a) == (y < b) || !(p[j] > 0 && p[j+1] > 0) {
			continue
		}
		f, scale := (y-a)/(b-a), b-a
		if min(a, b) > 0 {
			log := math.Log(b / a)
			f, scale = math.Log(y/a)/log, y*log
		}
		return (1-f)*math.Log(p[j]) + f*math.Log(p[j+1]) - math.Log(math.Abs(scale)), true
	}
	return 0, false
}
