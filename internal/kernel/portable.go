package kernel

import "math"

// What the assembly computes, in Go: every rounding is written out, by math.FMA where a
// product is added in one step and by a conversion where it is not, since compilers may
// otherwise fuse the two.

// constants of exp and log; see tools/kernels.
const (
	log2e = 0x1.71547652b82fep+0
	ln2hi = 0x1.62e42feep-1 // n·ln2hi is exact
	ln2lo = 0x1.a39ef35793c76p-33
	shift = 0x1.8p52 // shift + n has the integer n in its lowest bits
	// negligible is the exponent below which a term of a sum of exponentials whose
	// largest term is 1 is dropped: e⁻⁴⁰ = 4e−18 is under half an ulp of the sum.
	negligible = -40
)

// expCoefficients are those of a polynomial of degree 12 for eʳ, |r| ≤ log(2)/2, from
// the highest down, with a relative error of 3.4e−19: the first two of Taylor's series
// and a Chebyshev fit of the rest.
var expCoefficients = [...]float64{
	0x1.1f730349868cep-29, 0x1.af4de97ca4194p-26, 0x1.27e4db646b17ep-22, 0x1.71de0231960ebp-19, 0x1.a01a01a6d889cp-16,
	0x1.a01a01abe7fe1p-13, 0x1.6c16c16c162d4p-10, 0x1.11111111100dcp-7, 0x1.5555555555556p-5, 0x1.5555555555557p-3,
	0x1p-1, 1, 1,
}

// expReduced returns eʳ and n, also plus shift, with x = n·log 2 + r.
func expReduced(x float64) (p, shifted, n float64) {
	shifted = math.FMA(x, log2e, shift)
	n = shifted - shift
	r := math.FMA(-n, ln2hi, x)
	r = math.FMA(-n, ln2lo, r)
	p = expCoefficients[0]
	for _, c := range expCoefficients[1:] {
		p = math.FMA(p, r, c)
	}
	return p, shifted, n
}

// power returns 2ⁿ from n plus shift.
func power(shifted float64) float64 {
	return math.Float64frombits((math.Float64bits(shifted) + 1023) << 52)
}

func exp(x float64) float64 {
	if x < -750 {
		x = -750
	}
	if x > 710 {
		x = 710
	}
	p, _, n := expReduced(x)
	// Half of n first: 2ⁿ may be no normal number.
	first := math.FMA(n, 0.5, shift)
	second := (n - (first - shift)) + shift
	p *= power(first)
	return p * power(second)
}

// logCoefficients are those of fdlibm's log (FreeBSD's e_log.c), from the highest down.
var logCoefficients = [...]float64{
	1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
	2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
}

// logNormal is log of x·2^−taken, x positive and normal.
func logNormal(x, taken float64) float64 {
	const sqrtHalf = 0x3fe6a09e667f3bcd // the bits of √½
	bits := math.Float64bits(x)
	t := bits - sqrtHalf
	m := math.Float64frombits(bits - t&(0xfff<<52))
	e := math.Float64frombits((t+1023<<52)>>52|0x433<<52) - (0x1p52 + 1023)
	e -= taken
	f := m - 1
	s := f / (f + 2)
	z := float64(s * s)
	r := logCoefficients[0]
	for _, c := range logCoefficients[1:] {
		r = math.FMA(r, z, c)
	}
	r = float64(r * z)
	h := float64(float64(f*0.5) * f)
	r = math.FMA(e, ln2lo, float64(s*(h+r)))
	r = (h - r) - f
	return float64(e*ln2hi) - r
}

func log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case x < 0x1p-1022:
		return logNormal(x*0x1p54, 54)
	}
	return logNormal(x, 0)
}

// expSmall is exp of x ≤ 0, 0 where that is negligible beside 1.
func expSmall(x float64) float64 {
	if x <= negligible {
		return 0
	}
	p, shifted, _ := expReduced(x)
	return float64(p * power(shifted))
}

// softmax is [Softmax] of column r, or with shift [SoftmaxShift].
func softmax(dst, lse, logits []float64, n, k, r int, shift bool) {
	top := logits[r]
	for i := 1; i < k; i++ {
		if v := logits[i*n+r]; v > top {
			top = v
		}
	}
	sum := 0.0
	for i := range k {
		t := logits[i*n+r] - top
		if shift {
			logits[i*n+r] = t
		}
		e := expSmall(t)
		dst[i*n+r] = e
		sum += e
	}
	inv := 1 / sum
	for i := range k {
		dst[i*n+r] *= inv
	}
	if lse != nil {
		lse[r] = math.NaN()
		if !math.IsNaN(sum) {
			lse[r] = logNormal(sum, 0)
			if !shift {
				lse[r] += top
			}
		}
	}
}

// logistic is [Logistic] of one value.
func logistic(t float64) (p, log float64) {
	top := math.Max(t, 0)
	e := expSmall((t - top) + (0 - top)) // of −|t|
	sum := e + 1
	if math.IsNaN(sum) {
		return math.NaN(), math.NaN()
	}
	p = 1 / sum
	if t < 0 {
		p *= e
	}
	return p, top + logNormal(sum, 0)
}

// laneSums are the sums of the eight lanes.
type laneSums [lanes]float64

// total adds up the lanes.
func (s *laneSums) total() float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func sum(a []float64) float64 {
	var s laneSums
	for ; len(a) >= lanes; a = a[lanes:] {
		for l, v := range a[:lanes] {
			s[l] += v
		}
	}
	for l := range s {
		v := 0.0
		if l < len(a) {
			v = a[l]
		}
		s[l] += v
	}
	return s.total()
}

func dot(a, b []float64) float64 {
	var s laneSums
	for ; len(a) >= lanes; a, b = a[lanes:], b[lanes:] {
		x, y := a[:lanes], b[:lanes]
		for l := range s {
			s[l] = math.FMA(x[l], y[l], s[l])
		}
	}
	for l := range s {
		if l < len(a) {
			s[l] = math.FMA(a[l], b[l], s[l])
		} else {
			s[l] += 0
		}
	}
	return s.total()
}

// linear is [Linear] of one row of coefficients, of the rows from at on.
func linear(dst, coef []float64, from float64, x []float64, at, n int) {
	for r := range dst {
		v := from
		for j, c := range coef {
			v = math.FMA(x[j*n+at+r], c, v)
		}
		dst[r] = v
	}
}

func gaussian(score, res, inv, norm float64) (e, v float64) {
	e = float64(res * inv)
	return e, math.FMA(-float64(e*0.5), e, score) - norm
}

// cubesPortable returns Σ a³, Σ a⁴, Σ b³ and Σ b⁴.
func cubesPortable(a, b []float64) (sums [4]float64) {
	for i, x := range [2][]float64{a, b} {
		var cube, four laneSums
		for ; len(x) >= lanes; x = x[lanes:] {
			for l, v := range x[:lanes] {
				square := float64(v * v)
				cube[l], four[l] = math.FMA(square, v, cube[l]), math.FMA(square, square, four[l])
			}
		}
		for l := range cube {
			v := 0.0
			if l < len(x) {
				v = x[l]
			}
			square := float64(v * v)
			cube[l], four[l] = math.FMA(square, v, cube[l]), math.FMA(square, square, four[l])
		}
		sums[2*i], sums[2*i+1] = cube.total(), four.total()
	}
	return sums
}

// tilePortable adds Σ a_i·b_j over n values to dst[i·stride+j].
func tilePortable(dst []float64, stride int, a, b [][]float64, n int) {
	for i, x := range a[:4] {
		for j, y := range b[:4] {
			dst[i*stride+j] += dot(x[:n], y[:n])
		}
	}
}
