package kernel

import "golang.org/x/sys/cpu"

// instructions is a set that kernels are written for.
type instructions int

const (
	portable instructions = iota
	avx2
	avx512
)

// assembly is the best that this processor has.
var assembly = best()

func best() instructions {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return portable
}

// What is given to a method is of the right lengths and not empty. Those of functions of
// single values return how many values they have done.

func (s instructions) exp(dst, src []float64) int {
	n := whole(len(src))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		expAVX512(&dst[0], &src[0], n)
	case avx2:
		expAVX2(&dst[0], &src[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) log(dst, src []float64) int {
	n := whole(len(src))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		logAVX512(&dst[0], &src[0], n)
	case avx2:
		logAVX2(&dst[0], &src[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) mul(dst, a, b []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		mulAVX512(&dst[0], &a[0], &b[0], n)
	case avx2:
		mulAVX2(&dst[0], &a[0], &b[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) sub(dst, a, b []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		subAVX512(&dst[0], &a[0], &b[0], n)
	case avx2:
		subAVX2(&dst[0], &a[0], &b[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) mulSquare(dst, a, b []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		mulSquareAVX512(&dst[0], &a[0], &b[0], n)
	case avx2:
		mulSquareAVX2(&dst[0], &a[0], &b[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) variance(dst, a []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		varianceAVX512(&dst[0], &a[0], n)
	case avx2:
		varianceAVX2(&dst[0], &a[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) minusMul(dst, a, b []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		minusMulAVX512(&dst[0], &a[0], &b[0], n)
	case avx2:
		minusMulAVX2(&dst[0], &a[0], &b[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) minusMulMul(dst, a, b, c []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		minusMulMulAVX512(&dst[0], &a[0], &b[0], &c[0], n)
	case avx2:
		minusMulMulAVX2(&dst[0], &a[0], &b[0], &c[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) addMul(dst, acc, a, b []float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		addMulAVX512(&dst[0], &acc[0], &a[0], &b[0], n)
	case avx2:
		addMulAVX2(&dst[0], &acc[0], &a[0], &b[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) bump(dst, a []float64, inv float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		bumpAVX512(&dst[0], &a[0], n, inv)
	case avx2:
		bumpAVX2(&dst[0], &a[0], n, inv)
	default:
		return 0
	}
	return n
}

func (s instructions) bend(dst, a []float64, inv float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		bendAVX512(&dst[0], &a[0], n, inv)
	case avx2:
		bendAVX2(&dst[0], &a[0], n, inv)
	default:
		return 0
	}
	return n
}

func (s instructions) soft(dst, a []float64, inv float64) int {
	n := whole(len(dst))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		softAVX512(&dst[0], &a[0], n, inv)
	case avx2:
		softAVX2(&dst[0], &a[0], n, inv)
	default:
		return 0
	}
	return n
}

func (s instructions) gaussian(dst, std, score, res []float64, inv, norm float64) int {
	n := whole(len(res))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		gaussianAVX512(&dst[0], &std[0], &score[0], &res[0], n, inv, norm)
	case avx2:
		gaussianAVX2(&dst[0], &std[0], &score[0], &res[0], n, inv, norm)
	default:
		return 0
	}
	return n
}

func (s instructions) piecewise(dst, z []float64, f *Piecewise) (done int) {
	var places [256]uint16
	for n := whole(len(z)); done < n; {
		block, in := min(n-done, len(places)), 0
		switch s {
		case avx512:
			in = placesAVX512(&places[0], &z[done], block, &f.index[0], f.lo, f.hi)
			piecewiseAVX512(&dst[done], &z[done], in, &f.pieces[0].C[0], &places[0])
		case avx2:
			in = placesAVX2(&places[0], &z[done], block, &f.index[0], f.lo, f.hi)
			piecewiseAVX2(&dst[done], &z[done], in, &f.pieces[0].C[0], &places[0])
		}
		if done += in; in < block {
			break
		}
	}
	return done
}

func (s instructions) hinge(dst, z []float64, h *Hinge) int {
	n := whole(len(z))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		return hingeAVX512(&dst[0], &z[0], n, &h.Lo)
	case avx2:
		return hingeAVX2(&dst[0], &z[0], n, &h.Lo)
	}
	return 0
}

func (s instructions) softmax(dst, lse, logits []float64, n, k int, shift bool) int {
	rows := whole(n)
	if rows == 0 || k == 0 {
		return 0
	}
	var l *float64
	if lse != nil {
		l = &lse[0]
	}
	switch {
	case s == avx512 && shift:
		softmaxShiftAVX512(&dst[0], l, &logits[0], n, k, rows)
	case s == avx512:
		softmaxAVX512(&dst[0], l, &logits[0], n, k, rows)
	case s == avx2 && shift:
		softmaxShiftAVX2(&dst[0], l, &logits[0], n, k, rows)
	case s == avx2:
		softmaxAVX2(&dst[0], l, &logits[0], n, k, rows)
	default:
		return 0
	}
	return rows
}

func (s instructions) logistic(dst, log, logits []float64) int {
	n := whole(len(logits))
	if n == 0 {
		return 0
	}
	switch s {
	case avx512:
		logisticAVX512(&dst[0], &log[0], &logits[0], n)
	case avx2:
		logisticAVX2(&dst[0], &log[0], &logits[0], n)
	default:
		return 0
	}
	return n
}

func (s instructions) sum(a []float64) float64 {
	switch s {
	case avx512:
		return sumAVX512(&a[0], len(a))
	case avx2:
		return sumAVX2(&a[0], len(a))
	}
	return sum(a)
}

func (s instructions) dot(a, b []float64) float64 {
	switch s {
	case avx512:
		return dotAVX512(&a[0], &b[0], len(a))
	case avx2:
		return dotAVX2(&a[0], &b[0], len(a))
	}
	return dot(a, b)
}

// cubes returns Σ a³, Σ a⁴, Σ b³ and Σ b⁴.
func (s instructions) cubes(a, b []float64) (sums [4]float64) {
	switch s {
	case avx512:
		cubesAVX512(&sums[0], &a[0], &b[0], len(a))
	case avx2:
		cubesAVX2(&sums[0], &a[0], &b[0], len(a))
	default:
		return cubesPortable(a, b)
	}
	return sums
}

// tile is of four rows by four. Sums beyond the rows and columns given, and with upper those below the diagonal, are
// not wanted, and are made where leaving them out would save nothing.
func (s instructions) tile(dst []float64, stride int, a, b [][]float64, n, rows, columns int, upper bool) {
	switch s {
	case avx512:
		tileAVX512(&dst[0], stride, &a[0], &b[0], n)
	case avx2:
		first := 0
		if upper || rows <= 2 {
			cornerAVX2(&dst[0], stride, &a[0], &b[0], n)
			first = 2
		}
		switch {
		case columns <= first:
		case rows <= 2:
			cornerAVX2(&dst[first], stride, &a[0], &b[first], n)
		default:
			tileAVX2(&dst[first], stride, &a[0], &b[first], n, columns-first)
		}
	default:
		tilePortable(dst, stride, a, b, n)
	}
}

// gather does four columns at a time and returns how many.
func (s instructions) gather(dst, src [][]float64, rows []int) int {
	if s == portable {
		return 0
	}
	at := 0
	for ; at+4 <= len(src); at += 4 {
		gatherAVX2(&dst[at], &src[at], &rows[0], len(rows))
	}
	return at
}

// columns does four columns and four rows at a time, the last four columns again where
// some are left, and returns how many rows.
func (s instructions) columns(dst []float64, src []byte, rows, columns int) int {
	at := rows &^ 3
	if s == portable || columns < 4 || at == 0 {
		return 0
	}
	for c := 0; c < columns; c += 4 {
		c := min(c, columns-4)
		columnsAVX2(&dst[c*rows], &src[8*c], rows, 8*columns, at)
	}
	return at
}

// linear does up to four rows of coefficients.
func (s instructions) linear(dst, coef, from, x []float64, d, n int) int {
	at := n &^ (2*lanes - 1)
	if at == 0 || s == portable {
		return 0
	}
	if s == avx512 {
		switch len(from) {
		case 1:
			linear1AVX512(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
		case 2:
			linear2AVX512(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
		case 3:
			linear3AVX512(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
		case 4:
			linear4AVX512(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
		}
		return at
	}
	switch len(from) {
	case 1:
		linear1AVX2(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
	case 2:
		linear2AVX2(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
	case 3:
		linear3AVX2(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
	case 4:
		linear4AVX2(&dst[0], &coef[0], &from[0], &x[0], n, d, at)
	}
	return at
}
