package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// versions are those that this processor has, the portable one first.
func versions() []instructions {
	var out []instructions
	for v := portable; v <= best(); v++ {
		out = append(out, v)
	}
	return out
}

// with runs fn under a version.
func with(v instructions, fn func()) {
	was := assembly
	defer func() { assembly = was }()
	assembly = v
	fn()
}

// same says whether two slices have the same bits, NaN for NaN.
func same(a, b []float64) bool {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) && !(math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return false
		}
	}
	return len(a) == len(b)
}

// awkward are values at which functions break.
var awkward = []float64{
	0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
	0x1p-1022, 0x1.fffffffffffffp-1023, math.MaxFloat64, -math.MaxFloat64, 709.78, 709.79, 710, 711, -708.3, -708.4, -744.4, -745.1, -745.2, -746, -751,
	-40, math.Nextafter(-40, 0), math.Sqrt2, math.Sqrt2 / 2, math.Nextafter(1, 0), math.Nextafter(1, 2), 1e300, 1e-300, 1e-310, 0.5, 2, 3,
}

// values are n numbers of sizes that differ, with awkward ones among them if asked for.
func values(rng *rand.Rand, n int, some bool) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64() * math.Exp(3*rng.NormFloat64())
		if some && rng.IntN(6) == 0 {
			v[i] = awkward[rng.IntN(len(awkward))]
		}
	}
	return v
}

func rows(rng *rand.Rand, m, n int, some bool) [][]float64 {
	out := make([][]float64, m)
	for i := range out {
		out[i] = values(rng, n, some)
	}
	return out
}

// everything runs every kernel on slices of n values and returns all that they wrote.
func everything(rng *rand.Rand, n, k, d int, some bool) (out []float64) {
	a, b, c := values(rng, n, some), values(rng, n, some), values(rng, n, some)
	slice := func(fn func(dst []float64)) {
		dst := values(rng, n, some)
		fn(dst)
		out = append(out, dst...)
	}
	slice(func(dst []float64) { Exp(dst, a) })
	slice(func(dst []float64) { Log(dst, a) })
	slice(func(dst []float64) { Log(dst, dst) })
	slice(func(dst []float64) { Mul(dst, a, b) })
	slice(func(dst []float64) { Sub(dst, a, b) })
	slice(func(dst []float64) { MulSquare(dst, a, b) })
	slice(func(dst []float64) { Variance(dst, a) })
	slice(func(dst []float64) { MinusMul(dst, a, b) })
	slice(func(dst []float64) { MinusMulMul(dst, a, b, c) })
	slice(func(dst []float64) { AddMul(dst, a, b) })
	slice(func(dst []float64) { Bump(dst, a, 0.7) })
	slice(func(dst []float64) { Bend(dst, a, 0.7) })
	slice(func(dst []float64) { Soft(dst, a, 0.7) })
	slice(func(dst []float64) {
		std := make([]float64, n)
		Gaussian(dst, std, a, b, 1.7, 0.3)
		out = append(out, std...)
	})
	slice(func(dst []float64) { out = append(out, float64(piecewise(rng).Eval(dst, a))) })
	slice(func(dst []float64) {
		hinge := Hinge{Lo: -20, Hi: 20, Edge: 0.3, Below: [2]float64{0.5, -2}, Above: [2]float64{-0.1, 3}}
		out = append(out, float64(hinge.Eval(dst, a)))
	})
	slice(func(dst []float64) {
		log := make([]float64, n)
		Logistic(dst, log, a)
		out = append(out, log...)
	})
	out = append(out, Sum(a), Dot(a, b))
	threes, fours := values(rng, k, some), values(rng, k, some)
	AddCubes(threes, fours, rows(rng, k, n, some))
	out = append(append(out, threes...), fours...)
	logits, lse := values(rng, k*n, some), make([]float64, n)
	p := make([]float64, k*n)
	Softmax(p, lse, logits, n)
	out = append(append(out, p...), lse...)
	shifted := append([]float64(nil), logits...)
	SoftmaxShift(p, lse, shifted, n)
	out = append(append(append(out, p...), lse...), shifted...)
	Softmax(logits, nil, logits, n)
	out = append(out, logits...)
	cols, others := rows(rng, d, n, some), rows(rng, k, n, some)
	gram, products := values(rng, d*(d+1)/2, some), values(rng, k*d, some)
	AddGram(gram, cols, cols)
	AddProducts(products, others, cols)
	tiled := make([]float64, TiledSize(d))
	AddTiled(tiled, cols, cols)
	out = append(append(out, gram...), products...)
	for i := range d {
		for j := i; j < d; j++ {
			out = append(out, tiled[TiledAt(d, i, j)])
		}
	}
	dst, x := make([]float64, k*n), values(rng, d*n, some)
	few, named := rows(rng, d, n, false), make([]int, 0, n)
	for t := range n {
		if rng.IntN(2) == 0 {
			named = append(named, t)
		}
	}
	Gather(few, cols, named)
	for _, v := range few {
		out = append(out, v...)
	}
	Linear(dst, values(rng, k*d, some), values(rng, k, some), x, d, n)
	out = append(out, dst...)
	Linear(dst, values(rng, k*d, some), nil, x, d, n)
	return append(out, dst...)
}

// TestVersionsAgree holds all versions to the same bits, over all lengths around the
// lanes and at awkward values.
func TestVersionsAgree(t *testing.T) {
	if len(versions()) == 1 {
		t.Skip("this processor has the portable version only")
	}
	seed := uint64(0)
	for n := range 40 {
		for _, some := range []bool{false, true} {
			for k := 1; k <= 5; k++ {
				seed++
				agree(t, seed, n, k, n%9+1, some)
			}
		}
	}
	for _, n := range []int{255, 256, 257} {
		agree(t, uint64(n), n, 7, 13, true)
	}
}

func agree(t *testing.T, seed uint64, n, k, d int, some bool) {
	t.Helper()
	var want []float64
	for i, v := range versions() {
		with(v, func() {
			got := everything(rand.New(rand.NewPCG(seed, 1)), n, k, d, some)
			if i == 0 {
				want = got
			} else if !same(got, want) {
				t.Errorf("version %d: n = %d, k = %d, d = %d, seed %d differs", v, n, k, d, seed)
			}
		})
	}
}

func FuzzVersionsAgree(f *testing.F) {
	f.Add(uint64(1), uint16(17), uint8(3), uint8(5), true)
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, k, d uint8, some bool) {
		agree(t, seed, int(n%600), int(k%12)+1, int(d%20)+1, some)
	})
}

// ulps is how far got is from the exact value, in units in the last place of it.
func ulps(got float64, exact *big.Float) float64 {
	v, _ := exact.Float64()
	if v == got {
		return 0.5
	}
	unit := math.Nextafter(math.Abs(v), math.Inf(1)) - math.Abs(v)
	diff := new(big.Float).SetPrec(200).Sub(big.NewFloat(got), exact)
	d, _ := diff.Quo(diff, big.NewFloat(unit)).Float64()
	return math.Abs(d)
}

// bigExp is eˣ to some 150 bits, by halving x until Taylor's series is short.
func bigExp(x float64) *big.Float {
	const halvings = 20
	r := new(big.Float).SetPrec(200).SetFloat64(x)
	r.SetMantExp(r, -halvings)
	sum, term := big.NewFloat(1).SetPrec(200), big.NewFloat(1).SetPrec(200)
	for i := 1; i < 30; i++ {
		term.Mul(term, r)
		term.Quo(term, big.NewFloat(float64(i)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// mathLog is math.Log, which is wrong of numbers that are not normal on amd64
// (math.Log(5e-324) is −709 there).
func mathLog(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// bigLog is log x by Newton's method on bigExp.
func bigLog(x float64) *big.Float {
	y := new(big.Float).SetPrec(200).SetFloat64(mathLog(x))
	for range 2 {
		at, _ := y.Float64()
		rest := new(big.Float).SetPrec(200).Sub(y, big.NewFloat(at)) // below 1e−13
		e := bigExp(at)
		e.Mul(e, bigExpSmall(rest))
		// y += 2(x − e)/(x + e)
		bx := new(big.Float).SetPrec(200).SetFloat64(x)
		num, den := new(big.Float).SetPrec(200).Sub(bx, e), new(big.Float).SetPrec(200).Add(bx, e)
		num.Quo(num, den)
		y.Add(y, num.Mul(num, big.NewFloat(2)))
	}
	return y
}

// bigExpSmall is eʳ of a very small r.
func bigExpSmall(r *big.Float) *big.Float {
	sum, term := big.NewFloat(1).SetPrec(200), big.NewFloat(1).SetPrec(200)
	for i := 1; i < 12; i++ {
		term.Mul(term, r)
		term.Quo(term, big.NewFloat(float64(i)))
		sum.Add(sum, term)
	}
	return sum
}

// TestUlps holds Exp and Log to 1 ulp of the exact value, as their comments say.
func TestUlps(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	const n = 1500
	x, y := make([]float64, n), make([]float64, n)
	worst := func(name string, fn func(dst, src []float64), exact func(float64) *big.Float) {
		fn(y, x)
		most, at := 0.0, 0.0
		for i, v := range x {
			if u := ulps(y[i], exact(v)); u > most {
				most, at = u, v
			}
		}
		t.Logf("%s: at most %.3f ulp, at %g", name, most, at)
		if most > 1 {
			t.Errorf("%s: %g ulp at %g", name, most, at)
		}
	}
	for i := range x {
		x[i] = rng.Float64()*1400 - 700
		if i%2 == 0 {
			x[i] = -40 * rng.Float64()
		}
		if i%8 == 0 {
			x[i] = -745 + 37*rng.Float64() // results that are not normal numbers
		}
	}
	worst("exp", Exp, bigExp)
	for i := range x {
		x[i] = math.Exp(rng.Float64()*1400 - 700)
		switch i % 4 {
		case 0:
			x[i] = 1 + 9*rng.Float64()
		case 1:
			x[i] = 1 + (rng.Float64()-0.5)/64
		case 2:
			x[i] = 0x1p-1022 * rng.Float64()
		}
	}
	worst("log", Log, bigLog)
}

// TestSpecialValues holds Exp and Log to math's at the ends of their ranges.
func TestSpecialValues(t *testing.T) {
	for _, v := range versions() {
		with(v, func() {
			got := make([]float64, len(awkward))
			check := func(name string, fn func(dst, src []float64), want func(float64) float64) {
				fn(got, awkward)
				for i, x := range awkward {
					w := want(x)
					if !(math.Abs(got[i]-w) <= 4e-16*math.Abs(w)+math.SmallestNonzeroFloat64) && !same(got[i:i+1], []float64{w}) {
						t.Errorf("version %d: %s(%g) = %g, want %g", v, name, x, got[i], w)
					}
				}
			}
			check("exp", Exp, math.Exp)
			check("log", Log, mathLog)
		})
	}
}

// TestSums holds the sums to exact ones. An error of a sum of n terms by 8 lanes is
// below (n/8+4)·2⁻⁵³ of the sum of their sizes.
func TestSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{0, 1, 7, 8, 9, 100, 256} {
		const d, k = 6, 5
		a, b := rows(rng, d, n, false), rows(rng, k, n, false)
		exact := func(x, y []float64) (sum, size float64) {
			s := new(big.Float).SetPrec(300)
			for i := range x {
				p := new(big.Float).SetPrec(300).Mul(big.NewFloat(x[i]), big.NewFloat(y[i]))
				s.Add(s, p)
				size += math.Abs(x[i] * y[i])
			}
			sum, _ = s.Float64()
			return sum, size
		}
		close := func(name string, got float64, x, y []float64) {
			sum, size := exact(x, y)
			if bound := (float64(n)/8 + 4) * 0x1p-53 * size; !(math.Abs(got-sum) <= bound) {
				t.Errorf("%s of %d values: %g, want %g ± %g", name, n, got, sum, bound)
			}
		}
		ones := make([]float64, n)
		for i := range ones {
			ones[i] = 1
		}
		close("Sum", Sum(a[0]), a[0], ones)
		close("Dot", Dot(a[0], b[0]), a[0], b[0])
		cubes, fours, squares := make([]float64, d), make([]float64, d), make([]float64, n)
		AddCubes(cubes, fours, a)
		for j, x := range a {
			Mul(squares, x, x)
			close("AddCubes, 3", cubes[j], squares, x)
			close("AddCubes, 4", fours[j], squares, squares)
		}
		products, gram, tiled := make([]float64, d*k), make([]float64, d*(d+1)/2), make([]float64, TiledSize(d))
		AddProducts(products, a, b)
		AddGram(gram, a, a)
		AddTiled(tiled, a, a)
		at := 0
		for i := range a {
			for j := range b {
				close("AddProducts", products[i*k+j], a[i], b[j])
			}
			for j := i; j < d; j++ {
				close("AddGram", gram[at], a[i], a[j])
				if v := tiled[TiledAt(d, i, j)]; v != gram[at] {
					t.Errorf("AddTiled: %g at %d, %d, AddGram has %g", v, i, j, gram[at])
				}
				at++
			}
		}
	}
}

// TestAddGrams: for every number of weights and of columns, the Gram matrix of each weight, added to what is there.
func TestAddGrams(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for d := 1; d <= 9; d++ {
		for k := 1; k <= 9; k++ {
			for _, n := range []int{1, 8, 100, 256} {
				x, w, room := rows(rng, d, n, false), rows(rng, k, n, false), rows(rng, 4, 256, false)
				size := d * (d + 1) / 2
				got, want := make([]float64, k*size+1), make([]float64, k*size+1)
				for i := range got {
					got[i] = float64(i)
					want[i] = got[i]
				}
				AddGrams(got[:k*size], w, x, room)
				scale := make([]float64, len(want))
				for i := range w {
					at := i * size
					for j := range d {
						for l := j; l < d; l++ {
							for r := range n {
								want[at] += w[i][r] * x[j][r] * x[l][r]
								scale[at] += math.Abs(w[i][r] * x[j][r] * x[l][r])
							}
							at++
						}
					}
				}
				for i := range got {
					// Each of n terms and sums is rounded.
					if bound := float64(n+3) * 0x1p-53 * (scale[i] + float64(i)); !(math.Abs(got[i]-want[i]) <= bound) {
						t.Fatalf("%d weights, %d columns, %d rows: %v at %d, want %v ± %v", k, d, n, got[i], i, want[i], bound)
					}
				}
			}
		}
	}
}

// TestSoftmax holds Softmax to the definition, taken to some 150 bits.
func TestSoftmax(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const n, k = 37, 4
	logits := make([]float64, k*n)
	for i := range logits {
		logits[i] = 30 * rng.NormFloat64()
	}
	p, lse := make([]float64, k*n), make([]float64, n)
	Softmax(p, lse, logits, n)
	for r := range n {
		sum := new(big.Float).SetPrec(200)
		for i := range k {
			sum.Add(sum, bigExp(logits[i*n+r]))
		}
		s, _ := sum.Float64()
		if want := math.Log(s); math.Abs(lse[r]-want) > 1e-15*math.Max(1, math.Abs(want)) {
			t.Errorf("log-sum-exp %g, want %g", lse[r], want)
		}
		for i := range k {
			q := new(big.Float).Quo(bigExp(logits[i*n+r]), sum)
			want, _ := q.Float64()
			// Two roundings of 1 ulp each, and terms that are dropped.
			if math.Abs(p[i*n+r]-want) > 6e-16*want+5e-18 {
				t.Errorf("softmax %g, want %g", p[i*n+r], want)
			}
		}
	}
}

// TestSoftmaxShift: the same probabilities as Softmax to the bit, of logits less their
// largest, exactly, and the log of their normaliser, whatever the logits' size.
func TestSoftmaxShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 9))
	const n, k = 37, 4
	for _, size := range []float64{1, 1e9, 1e18, 1e300} {
		logits := make([]float64, k*n)
		for i := range logits {
			logits[i] = size * (rng.NormFloat64() + 2)
		}
		small := make([]float64, k*n) // what is left of them, by another way
		for r := range n {
			top := math.Inf(-1)
			for i := range k {
				top = max(top, logits[i*n+r])
			}
			for i := range k {
				small[i*n+r] = logits[i*n+r] - top
			}
		}
		want, wantLSE := make([]float64, k*n), make([]float64, n)
		Softmax(want, wantLSE, small, n)
		p, lse := make([]float64, k*n), make([]float64, n)
		SoftmaxShift(p, lse, logits, n)
		if !slices.Equal(p, want) || !slices.Equal(lse, wantLSE) || !slices.Equal(logits, small) {
			t.Errorf("logits of %g: not the softmax of what is left of them", size)
		}
	}
}

// TestLogistic: to the bit the softmax of a logit and 0, of any size, infinite and NaN too.
func TestLogistic(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	logits := []float64{0, math.Copysign(0, -1), 40, -40, 40.5, -40.5, 1e300, -1e300, math.Inf(-1), math.Inf(1), math.NaN()}
	for range 500 {
		logits = append(logits, rng.NormFloat64()*math.Exp(3*rng.NormFloat64()))
	}
	n := len(logits)
	two := append(slices.Clone(logits), make([]float64, n)...)
	want, wantLog, got, log := make([]float64, 2*n), make([]float64, n), make([]float64, n), make([]float64, n)
	Softmax(want, wantLog, two, n)
	Logistic(got, log, logits)
	for i, v := range logits {
		if !same(got[i:i+1], want[i:i+1]) || !same(log[i:i+1], wantLog[i:i+1]) {
			t.Errorf("of %g: %g and %g, the softmax has %g and %g", v, got[i], log[i], want[i], wantLog[i])
		}
	}
	Logistic(logits, log, logits)
	if !same(logits, got) {
		t.Error("in place it is another")
	}
}

// TestLinear holds Linear to its definition.
func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	const n, d, m = 41, 9, 6
	coef, from, x, dst := values(rng, m*d, false), values(rng, m, false), values(rng, d*n, false), make([]float64, m*n)
	Linear(dst, coef, from, x, d, n)
	for i := range m {
		for r := range n {
			want, size := from[i], math.Abs(from[i])
			for j := range d {
				want += coef[i*d+j] * x[j*n+r]
				size += math.Abs(coef[i*d+j] * x[j*n+r])
			}
			if math.Abs(dst[i*n+r]-want) > 20*0x1p-53*size {
				t.Errorf("row %d of %d: %g, want %g", r, i, dst[i*n+r], want)
			}
		}
	}
}

// TestElementwise holds the functions of slices to their definitions, to three
// roundings of what is added up.
func TestElementwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	const n = 29
	a, b, c, was := values(rng, n, false), values(rng, n, false), values(rng, n, false), values(rng, n, false)
	dst, std := make([]float64, n), make([]float64, n)
	for _, f := range []struct {
		name string
		run  func()
		want func(i int) (value, size float64)
	}{
		{"Mul", func() { Mul(dst, a, b) }, func(i int) (float64, float64) { return a[i] * b[i], math.Abs(a[i] * b[i]) }},
		{"Sub", func() { Sub(dst, a, b) }, func(i int) (float64, float64) { return a[i] - b[i], math.Abs(a[i]) + math.Abs(b[i]) }},
		{"MulSquare", func() { MulSquare(dst, a, b) }, func(i int) (float64, float64) { return a[i] * b[i] * b[i], math.Abs(a[i] * b[i] * b[i]) }},
		{"Variance", func() { Variance(dst, a) }, func(i int) (float64, float64) { return a[i] * (1 - a[i]), math.Abs(a[i]) + a[i]*a[i] }},
		{"MinusMul", func() { MinusMul(dst, a, b) }, func(i int) (float64, float64) { return -a[i] * b[i], math.Abs(a[i] * b[i]) }},
		{"MinusMulMul", func() { MinusMulMul(dst, a, b, c) }, func(i int) (float64, float64) { return -a[i] * b[i] * c[i], math.Abs(a[i] * b[i] * c[i]) }},
		{"AddMul", func() { AddMul(dst, a, b) }, func(i int) (float64, float64) { return was[i] + a[i]*b[i], math.Abs(was[i]) + math.Abs(a[i]*b[i]) }},
		{"Bump", func() { Bump(dst, a, 0.7) }, func(i int) (float64, float64) { return 1 / (1 + 0.49*a[i]*a[i]), 1 }},
		{"Bend", func() { Bend(dst, a, 0.7) }, func(i int) (float64, float64) { return 0.7 * a[i] / (1 + 0.49*a[i]*a[i]), 1 }},
		{"Soft", func() { Soft(dst, a, 0.7) }, func(i int) (float64, float64) {
			return 0.7 * a[i] / math.Sqrt(1+0.49*a[i]*a[i]/4), 2
		}},
		{"Gaussian", func() { Gaussian(dst, std, a, b, 0.7, 0.3) }, func(i int) (float64, float64) {
			return a[i] - 0.49*b[i]*b[i]/2 - 0.3, math.Abs(a[i]) + b[i]*b[i]
		}},
	} {
		copy(dst, was)
		f.run()
		for i := range n {
			if want, size := f.want(i); math.Abs(dst[i]-want) > 4*0x1p-52*size {
				t.Errorf("%s at %d: %g, want %g", f.name, i, dst[i], want)
			}
		}
	}
	for i := range n {
		if std[i] != 0.7*b[i] {
			t.Errorf("Gaussian at %d: residual %g, want %g", i, std[i], 0.7*b[i])
		}
	}
}

// TestGather holds Gather to its definition.
func TestGather(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 13))
	const n, d = 30, 7
	src, dst, named := rows(rng, d, n, false), rows(rng, d, n, false), []int{0, 3, 4, 17, 29}
	Gather(dst, src, named)
	for j := range d {
		for i, at := range named {
			if dst[j][i] != src[j][at] {
				t.Errorf("column %d has %g of row %d, want %g", j, dst[j][i], at, src[j][at])
			}
		}
	}
}

// TestColumns holds Columns to its definition, for all numbers of rows and columns that
// leave some over.
func TestColumns(t *testing.T) {
	was := assembly
	defer func() { assembly = was }()
	for _, v := range versions() {
		assembly = v
		for _, n := range []int{1, 3, 4, 7, 64, 257} {
			for d := 1; d < 14; d++ {
				src, dst := make([]byte, 8*n*d), make([]float64, n*d)
				for i := range n * d {
					binary.LittleEndian.PutUint64(src[8*i:], math.Float64bits(float64(i)))
				}
				Columns(dst, src, n, d)
				for i := range n * d {
					if dst[i%d*n+i/d] != float64(i) {
						t.Fatalf("%d×%d: %g in the place of %d", n, d, dst[i%d*n+i/d], i)
					}
				}
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, gram, logits := rows(rng, 10, 256, false), make([]float64, 55), values(rng, 3*256, false)
	tiled, probabilities := make([]float64, TiledSize(10)), make([]float64, 3*256)
	if n := testing.AllocsPerRun(10, func() {
		AddGram(gram, a, a)
		AddTiled(tiled, a, a)
		Softmax(logits, a[0], logits, 256)
		SoftmaxShift(probabilities, a[0], logits, 256)
		Logistic(a[1], a[0], a[2])
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func Benchmark(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 256
	for _, v := range versions() {
		run := func(name string, values int, fn func()) {
			b.Run(fmt.Sprintf("%s/%d", name, v), func(b *testing.B) {
				with(v, func() {
					b.SetBytes(int64(8 * values))
					for b.Loop() {
						fn()
					}
				})
			})
		}
		x, y := values(rng, n, false), make([]float64, n)
		run("Exp", n, func() { Exp(y, x) })
		run("Log", n, func() { Log(y, x) })
		run("Dot", n, func() { Dot(y, x) })
		f := sines()
		z := values(rng, n, false)
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		run("Piecewise", n, func() { f.Eval(y, z) })
		hinge := Hinge{Lo: -20, Hi: 20, Above: [2]float64{0, 1}}
		run("Hinge", n, func() { hinge.Eval(y, z) })
		cubes, fours, both := make([]float64, 2), make([]float64, 2), [][]float64{x, y}
		run("Cubes", 2*n, func() { AddCubes(cubes, fours, both) })
		logits, p := values(rng, 3*n, false), make([]float64, 3*n)
		run("Softmax", 3*n, func() { Softmax(p, y, logits, n) })
		run("SoftmaxShift", 3*n, func() { SoftmaxShift(p, y, logits, n) })
		run("Logistic", n, func() { Logistic(p[:n], y, logits[:n]) })
		for _, d := range []int{10, 30, 100} {
			a, gram := rows(rng, d, n, false), make([]float64, d*(d+1)/2)
			run(fmt.Sprintf("Gram%d", d), d*(d+1)/2*n, func() { AddGram(gram, a, a) })
			tiled := make([]float64, TiledSize(d))
			run(fmt.Sprintf("Tiled%d", d), d*(d+1)/2*n, func() { AddTiled(tiled, a, a) })
			for i := range a {
				a[i] = a[i][:25]
			}
			run(fmt.Sprintf("GramFew%d", d), d*(d+1)/2*25, func() { AddGram(gram, a, a) })
			run(fmt.Sprintf("TiledFew%d", d), d*(d+1)/2*25, func() { AddTiled(tiled, a, a) })
			coef, cols, dst := values(rng, 3*d, false), values(rng, d*n, false), make([]float64, 3*n)
			run(fmt.Sprintf("Linear%d", d), d*3*n, func() { Linear(dst, coef, nil, cols, d, n) })
		}
	}
}
