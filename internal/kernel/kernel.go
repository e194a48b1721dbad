// Package kernel has the inner loops of the likelihood and of the moments: exp, log,
// softmax, sums of products, functions of slices value by value, piecewise polynomials.
// Each is Go and, on amd64, assembly for AVX2 and for AVX-512 (written by the program in
// tools/kernels), which is chosen when the program starts.
//
// All give the same bytes. Functions of single values take the same operations in the
// same order. Sums go by eight lanes: lane l adds up the products of the values l, l+8,
// l+16, … by fused multiply-adds, as if zeros followed the last, and the lanes are added
// up as ((0+4)+(2+6))+((1+5)+(3+7)). Only the sign and the payload of a NaN may differ.
//
// Lengths that do not agree panic.
package kernel

import (
	"encoding/binary"
	"math"
)

//go:generate go -C ../../tools/kernels run . -arch avx2 -out ../../internal/kernel/avx2_amd64.s -stubs ../../internal/kernel/avx2_amd64.go -pkg kernel
//go:generate go -C ../../tools/kernels run . -arch avx512 -out ../../internal/kernel/avx512_amd64.s -stubs ../../internal/kernel/avx512_amd64.go -pkg kernel

// lanes is the number of values in a group. The assembly of functions of single values
// takes whole groups, Go the rest.
const lanes = 8

// whole returns n less what does not fill a group.
func whole(n int) int { return n &^ (lanes - 1) }

// Exp writes exp of src to dst, which may be src, to within 1 ulp. Below −745.2 it is
// 0, above 709.8 +Inf.
func Exp(dst, src []float64) {
	dst = dst[:len(src)]
	at := assembly.exp(dst, src)
	for i, x := range src[at:] {
		dst[at+i] = exp(x)
	}
}

// Log writes log of src to dst, which may be src, to within 1 ulp: −Inf of 0, NaN of
// what is less.
func Log(dst, src []float64) {
	dst = dst[:len(src)]
	at := assembly.log(dst, src)
	for i, x := range src[at:] {
		dst[at+i] = log(x)
	}
}

// Softmax writes the softmax of each column of logits, k rows of n values, to dst, and
// the log of its normaliser, log Σ_i exp(logit_i), to lse, which has n places, or is nil
// where it is not wanted. dst may be logits. Terms that are below e⁻⁴⁰ = 4e−18 of the
// largest, half an ulp of the sum, are 0. Logits of any finite size are safe; a column
// with NaN or +Inf, or of −Inf alone, becomes NaN.
func Softmax(dst, lse, logits []float64, n int) {
	if n == 0 {
		return
	}
	k := len(logits) / n
	dst = dst[:k*n]
	if lse != nil {
		lse = lse[:n]
	}
	for r := assembly.softmax(dst, lse, logits, n, k, false); r < n; r++ {
		softmax(dst, lse, logits, n, k, r, false)
	}
}

// SoftmaxShift is [Softmax] that takes the largest of each column off its logits, and writes
// the log of what is then the normaliser, between 0 and log k, to lse: what is added to the
// logits afterwards loses no digits to their size. dst may not be logits.
func SoftmaxShift(dst, lse, logits []float64, n int) {
	if n == 0 {
		return
	}
	k := len(logits) / n
	dst, lse = dst[:k*n], lse[:n]
	for r := assembly.softmax(dst, lse, logits, n, k, true); r < n; r++ {
		softmax(dst, lse, logits, n, k, r, true)
	}
}

// Logistic writes 1/(1 + exp(−t)) to dst and log(1 + exp(t)) to log, t the logits, as [Softmax]
// has them of t and 0. dst may be logits.
func Logistic(dst, log, logits []float64) {
	dst, log = dst[:len(logits)], log[:len(logits)]
	for i := assembly.logistic(dst, log, logits); i < len(logits); i++ {
		dst[i], log[i] = logistic(logits[i])
	}
}

// Sum returns Σ_t a_t.
func Sum(a []float64) float64 {
	if len(a) == 0 {
		return 0
	}
	return assembly.sum(a)
}

// Dot returns Σ_t a_t·b_t.
func Dot(a, b []float64) float64 {
	b = b[:len(a)]
	if len(a) == 0 {
		return 0
	}
	return assembly.dot(a, b)
}

// AddCubes adds Σ_t x_j[t]³ to cubes_j and Σ_t x_j[t]⁴ to fours_j for each of the columns
// x, of equal length: as [Dot] of the squares with x and with themselves.
func AddCubes(cubes, fours []float64, x [][]float64) {
	d := len(x)
	cubes, fours = cubes[:d], fours[:d]
	if d == 0 || len(x[0]) == 0 {
		return
	}
	for j := 0; j < d; j += 2 {
		l := min(j+1, d-1) // the last again
		sums := assembly.cubes(x[j], x[l][:len(x[j])])
		for i := j; i <= l; i++ {
			cubes[i] += sums[2*(i-j)]
			fours[i] += sums[2*(i-j)+1]
		}
	}
}

// AddProducts adds Σ_t a_i[t]·b_j[t] to dst[i·len(b)+j] for every pair of rows.
func AddProducts(dst []float64, a, b [][]float64) {
	dst = dst[:len(a)*len(b)]
	var out [16]float64
	for i := 0; i < len(a); i += 4 {
		for j := 0; j < len(b); j += 4 {
			if i+4 <= len(a) && j+4 <= len(b) {
				addTile(dst[i*len(b)+j:], len(b), a[i:i+4], b[j:j+4], false)
				continue
			}
			out = [16]float64{}
			addTile(out[:], 4, a[i:], b[j:], false)
			for s := range min(4, len(a)-i) {
				row := dst[(i+s)*len(b)+j:]
				for t := range min(4, len(b)-j) {
					row[t] += out[4*s+t]
				}
			}
		}
	}
}

// AddGram adds Σ_t a_i[t]·b_j[t], i ≤ j, to dst, an upper triangle in rows: where a_i is
// w times b_i, the Gram matrix of the columns b with the weights w.
func AddGram(dst []float64, a, b [][]float64) {
	d := len(a)
	b = b[:d]
	dst = dst[:d*(d+1)/2]
	var out [16]float64
	for i := 0; i < d; i += 4 {
		for j := i; j < d; j += 4 {
			out = [16]float64{}
			addTile(out[:], 4, a[i:], b[j:], i == j)
			for s := i; s < min(i+4, d); s++ {
				row := dst[s*d-s*(s-1)/2-s:] // entry (s, t) is at t
				for t := max(s, j); t < min(j+4, d); t++ {
					row[t] += out[4*(s-i)+t-j]
				}
			}
		}
	}
}

// AddGrams adds Σ_t w_i[t]·x_j[t]·x_l[t], j ≤ l, to the rows of dst, one for each of the
// weights w: d(d+1)/2 values, the upper triangle of a Gram matrix of the d columns x in rows. room is four columns, in
// which the products of columns are made once for all weights: with many of them, and few columns, it is faster than
// [AddTiled].
func AddGrams(dst []float64, w, x, room [][]float64) {
	d := len(x)
	size := d * (d + 1) / 2
	dst = dst[:len(w)*size]
	for at, j, l := 0, 0, 0; at < size; at += 4 {
		held := min(4, size-at)
		for s := range held {
			room[s] = room[s][:len(x[j])]
			Mul(room[s], x[j], x[l])
			if l++; l == d {
				j++
				l = j
			}
		}
		addRows(dst[at:], size, w, room[:held])
	}
}

// addRows is [AddProducts] of at most four b, to rows of dst that are stride apart.
func addRows(dst []float64, stride int, a, b [][]float64) {
	for i := 0; i < len(a); i += 4 {
		if i+4 <= len(a) && len(b) == 4 {
			addTile(dst[i*stride:], stride, a[i:i+4], b, false)
			continue
		}
		var out [16]float64
		addTile(out[:], 4, a[i:], b, false)
		for s := range min(4, len(a)-i) {
			for t := range b {
				dst[(i+s)*stride+t] += out[4*s+t]
			}
		}
	}
}

// TiledSize returns the number of values of a symmetric matrix of d columns in tiles of
// 4×4, those on the diagonal and above it, in rows of tiles.
func TiledSize(d int) int {
	m := (d + 3) / 4
	return 8 * m * (m + 1)
}

// TiledAt returns where entry (j, l), j ≤ l, of a matrix in tiles is.
func TiledAt(d, j, l int) int {
	m, r := (d+3)/4, j/4
	return 16*(r*m-r*(r-1)/2+l/4-r) + 4*(j%4) + l%4
}

// AddTiled is AddGram to a matrix in tiles: of many matrices of few rows it is the
// faster of the two. What is beyond the last column, and below the diagonal, is of no
// meaning.
func AddTiled(dst []float64, a, b [][]float64) {
	d, at := len(a), 0
	b = b[:d]
	dst = dst[:TiledSize(d)]
	for i := 0; i < d; i += 4 {
		for j := i; j < d; j += 4 {
			addTile(dst[at:at+16], 4, a[i:], b[j:], i == j)
			at += 16
		}
	}
}

// addTile adds the sums of products of the first rows of a with those of b, up to four
// of each, to the rows of dst, stride apart. What is beyond them there, and with upper what is below the diagonal,
// is of no meaning.
func addTile(dst []float64, stride int, a, b [][]float64, upper bool) {
	if n := len(a[0]); n > 0 {
		var as, bs [4][]float64
		four(&as, a, n)
		four(&bs, b, n)
		assembly.tile(dst[:3*stride+4], stride, as[:], bs[:], n, min(4, len(a)), min(4, len(b)), upper)
	}
}

// four writes the first four rows, of n values each, the last again where there are
// fewer.
func four(all *[4][]float64, rows [][]float64, n int) {
	for i := range all {
		all[i] = rows[min(i, len(rows)-1)][:n]
	}
}

// Gather writes the rows named of each of the columns src to dst: dst_j[i] =
// src_j[rows[i]]. The columns are of equal length.
func Gather(dst, src [][]float64, rows []int) {
	if len(rows) == 0 || len(src) == 0 {
		return
	}
	n := len(src[0])
	for _, t := range rows {
		_ = src[0][t]
	}
	for j := range src {
		_, _ = src[j][:n], dst[j][:len(rows)]
	}
	for j := assembly.gather(dst, src, rows); j < len(src); j++ {
		to, from := dst[j], src[j]
		for i, t := range rows {
			to[i] = from[t]
		}
	}
}

// Columns writes a table of little-endian float64, which src has row by row, to dst
// column by column.
func Columns(dst []float64, src []byte, rows, columns int) {
	dst, src = dst[:rows*columns], src[:8*rows*columns]
	at := assembly.columns(dst, src, rows, columns)
	for c := range columns {
		to := dst[c*rows : (c+1)*rows]
		for r := at; r < rows; r++ {
			to[r] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*(r*columns+c):]))
		}
	}
}

// Linear writes from_i + Σ_j coef_ij·x_j to the rows of dst: coef is m rows of d
// coefficients, x d columns of n values, dst m rows of n values. from may be nil for 0.
func Linear(dst, coef, from, x []float64, d, n int) {
	if n == 0 || d == 0 {
		return
	}
	x = x[:d*n]
	var none [4]float64
	for i, m := 0, len(coef)/d; i < m; i += 4 {
		rows := min(4, m-i)
		b := none[:rows]
		if from != nil {
			b = from[i : i+rows]
		}
		to, c := dst[i*n:(i+rows)*n], coef[i*d:(i+rows)*d]
		at := assembly.linear(to, c, b, x, d, n)
		if at == n {
			continue
		}
		for s, v := range b {
			linear(to[s*n+at:(s+1)*n], c[s*d:(s+1)*d], v, x, at, n)
		}
	}
}

// Mul writes a·b to dst.
func Mul(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := assembly.mul(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] * b[i]
	}
}

// Sub writes a − b to dst.
func Sub(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := assembly.sub(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] - b[i]
	}
}

// MulSquare writes a·b·b to dst.
func MulSquare(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := assembly.mulSquare(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] * b[i] * b[i]
	}
}

// Variance writes a·(1 − a) to dst.
func Variance(dst, a []float64) {
	a = a[:len(dst)]
	for i := assembly.variance(dst, a); i < len(dst); i++ {
		dst[i] = a[i] * (1 - a[i])
	}
}

// MinusMul writes −a·b to dst, 0 rather than −0.
func MinusMul(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := assembly.minusMul(dst, a, b); i < len(dst); i++ {
		dst[i] = 0 - float64(a[i]*b[i])
	}
}

// MinusMulMul writes −a·b·c to dst, 0 rather than −0.
func MinusMulMul(dst, a, b, c []float64) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := assembly.minusMulMul(dst, a, b, c); i < len(dst); i++ {
		dst[i] = 0 - float64(float64(a[i]*b[i])*c[i])
	}
}

// AddMul adds a·b to dst in one rounding.
func AddMul(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := assembly.addMul(dst, dst, a, b); i < len(dst); i++ {
		dst[i] = math.FMA(a[i], b[i], dst[i])
	}
}

// Bump writes 1/(1 + t²) with t = a·inv to dst.
func Bump(dst, a []float64, inv float64) {
	a = a[:len(dst)]
	for i := assembly.bump(dst, a, inv); i < len(dst); i++ {
		t := float64(a[i] * inv)
		dst[i] = 1 / math.FMA(t, t, 1)
	}
}

// Bend writes t/(1 + t²) with t = a·inv to dst.
func Bend(dst, a []float64, inv float64) {
	a = a[:len(dst)]
	for i := assembly.bend(dst, a, inv); i < len(dst); i++ {
		t := float64(a[i] * inv)
		dst[i] = t / math.FMA(t, t, 1)
	}
}

// Soft writes t/√(1 + t²/4) with t = a·inv to dst.
func Soft(dst, a []float64, inv float64) {
	a = a[:len(dst)]
	for i := assembly.soft(dst, a, inv); i < len(dst); i++ {
		t := float64(a[i] * inv)
		h := t * 0.5
		dst[i] = t / math.Sqrt(math.FMA(h, h, 1))
	}
}

// Gaussian writes e = res·inv to std and score − e²/2 − norm to dst.
func Gaussian(dst, std, score, res []float64, inv, norm float64) {
	dst, std, score = dst[:len(res)], std[:len(res)], score[:len(res)]
	for i := assembly.gaussian(dst, std, score, res, inv, norm); i < len(res); i++ {
		std[i], dst[i] = gaussian(score[i], res[i], inv, norm)
	}
}
