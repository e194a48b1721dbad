package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

type floatConstant struct {
	name  string
	value float64
}

// floatConstants are those of exp.go and log.go in internal/kernel.
var floatConstants = []floatConstant{
	{"one", 1}, {"half", 0.5}, {"two", 2},
	{"expLeast", -750}, {"expMost", 710},
	{"log2e", 0x1.71547652b82fep+0},
	{"ln2hi", 0x1.62e42feep-1}, {"ln2lo", 0x1.a39ef35793c76p-33},
	{"shift", 0x1.8p52},
	{"negligible", -40},
	{"e2", 0x1p-1}, {"e3", 0x1.5555555555557p-3}, {"e4", 0x1.5555555555556p-5},
	{"e5", 0x1.11111111100dcp-7}, {"e6", 0x1.6c16c16c162d4p-10}, {"e7", 0x1.a01a01abe7fe1p-13},
	{"e8", 0x1.a01a01a6d889cp-16}, {"e9", 0x1.71de0231960ebp-19}, {"e10", 0x1.27e4db646b17ep-22},
	{"e11", 0x1.af4de97ca4194p-26}, {"e12", 0x1.1f730349868cep-29},
	{"l1", 6.666666666666735130e-01}, {"l2", 3.999999999940941908e-01}, {"l3", 2.857142874366239149e-01},
	{"l4", 2.222219843214978396e-01}, {"l5", 1.818357216161805012e-01}, {"l6", 1.531383769920937332e-01},
	{"l7", 1.479819860511658591e-01},
	{"exponent", 0x1p52 + 1023}, // what the exponent is read with
	{"leastNormal", 0x1p-1022}, {"toNormal", 0x1p54}, {"taken", 54},
	{"perUnit", 64}, {"firstCell", -32*64 - 1}, {"lastCell", 32 * 64},
}

type bitConstant struct {
	name  string
	value uint64
}

var bitConstants = []bitConstant{
	{"bias", 1023},
	{"sqrtHalf", 0x3fe6a09e667f3bcd},
	{"exponentBits", 0xfff0000000000000},
	{"upward", 1023 << 52},
	{"counted", 0x4330000000000000},
	{"infinity", 0x7ff0000000000000}, {"minusInfinity", 0xfff0000000000000}, {"nan", 0x7ff8000000000001},
}

// expReduced returns eʳ and n with x = n·log 2 + r, n as it is in the lowest bits of the
// first and as a number.
func (g *gen) expReduced(x Op) (p, bits, n reg.VecVirtual) {
	bits = g.fma(x, g.c("log2e"), g.c("shift"))
	n = g.sub(bits, g.c("shift"))
	r := g.fnma(n, g.c("ln2hi"), x)
	VFNMADD231PD(g.c("ln2lo"), n, r)
	p = g.constant("e12")
	for _, c := range []string{"e11", "e10", "e9", "e8", "e7", "e6", "e5", "e4", "e3", "e2", "one", "one"} {
		VFMADD213PD(g.c(c), r, p)
	}
	return p, bits, n
}

// power returns 2ⁿ, n in the lowest bits.
func (g *gen) power(bits Op) reg.VecVirtual { return g.left(g.addInt(bits, g.c("bias")), 52) }

// expSmall is exp of x ≤ 0, 0 where that is negligible beside 1.
func (g *gen) expSmall(x reg.VecVirtual) reg.VecVirtual {
	negligible, none := g.constant("negligible"), g.zero()
	p, bits, _ := g.expReduced(x)
	return g.choose(atMost, x, negligible, none, g.mul(p, g.power(bits)))
}

// exp writes the kernel of Exp.
func (g *gen) exp() {
	g.begin("exp", "func(dst, src *float64, n int)", "writes exp of n values, a multiple of 8.")
	dst, src, n := param("dst"), param("src"), param("n")
	g.overRows(n, func(row reg.GPVirtual) {
		x := g.load(at(src, row, 0))
		// NaN stays: it is the second operand.
		x = g.max(g.constant("expLeast"), x)
		x = g.min(g.constant("expMost"), x)
		p, _, n := g.expReduced(x)
		// Half of n first: 2ⁿ may be no normal number.
		first := g.fma(n, g.c("half"), g.c("shift"))
		second := g.add(g.sub(n, g.sub(first, g.c("shift"))), g.c("shift"))
		p = g.mul(p, g.power(first))
		VMOVUPD(g.mul(p, g.power(second)), at(dst, row, 0))
	})
	g.end()
}

// logNormal is log of normal positive x; less is taken off the exponent unless nil.
func (g *gen) logNormal(x reg.VecVirtual, less Op) reg.VecVirtual {
	t := g.subInt(x, g.c("sqrtHalf"))
	m := g.subInt(x, g.and(t, g.c("exponentBits")))
	e := g.or(g.right(g.addInt(t, g.c("upward")), 52), g.c("counted"))
	e = g.sub(e, g.c("exponent"))
	if less != nil {
		e = g.sub(e, less)
	}
	f := g.sub(m, g.c("one"))
	s := g.div(f, g.add(f, g.c("two")))
	z := g.mul(s, s)
	r := g.constant("l7")
	for _, c := range []string{"l6", "l5", "l4", "l3", "l2", "l1"} {
		VFMADD213PD(g.c(c), z, r)
	}
	r = g.mul(r, z)
	h := g.mul(g.mul(f, g.c("half")), f)
	// e·ln2hi − ((h − (s·(h+r) + e·ln2lo)) − f)
	r = g.mul(s, g.add(h, r))
	VFMADD231PD(g.c("ln2lo"), e, r)
	r = g.sub(g.sub(h, r), f)
	v := g.mul(e, g.c("ln2hi"))
	return g.sub(v, r)
}

// log writes the kernel of Log.
func (g *gen) log() {
	g.begin("log", "func(dst, src *float64, n int)", "writes log of n values, a multiple of 8.")
	dst, src, n := param("dst"), param("src"), param("n")
	g.overRows(n, func(row reg.GPVirtual) {
		x := g.load(at(src, row, 0))
		least := g.constant("leastNormal")
		up := g.choose(less, x, least, g.mul(x, g.c("toNormal")), x)
		taken := g.choose(less, x, least, g.constant("taken"), g.zero())
		v := g.logNormal(up, taken)
		// From here on what is no positive number.
		v = g.choose(equal, x, g.constant("infinity"), x, v)
		v = g.choose(equal, x, g.zero(), g.constant("minusInfinity"), v)
		v = g.choose(notLess, x, g.zero(), v, g.constant("nan"))
		v = g.choose(unlike, x, x, x, v)
		VMOVUPD(v, at(dst, row, 0))
	})
	g.end()
}

// softmax writes the kernel of Softmax, or with shift that of SoftmaxShift.
func (g *gen) softmax(shift bool) {
	name, doc := "softmax", "writes softmax and log-sum-exp of the first rows of k rows of n logits, a multiple of "+
		"8. lse may be nil."
	if shift {
		name, doc = "softmaxShift", "is softmax that takes the largest of a column off its logits. lse is that of "+
			"what is left."
	}
	g.begin(name, "func(dst, lse, logits *float64, n, k, rows int)", doc)
	dst, lse, logits, n, k, rows := param("dst"), param("lse"), param("logits"), param("n"), param("k"), param("rows")
	SHLQ(U8(3), n)
	g.overRows(rows, func(row reg.GPVirtual) {
		p, i := GP64(), GP64()
		LEAQ(at(logits, row, 0), p)
		top := g.load(Mem{Base: p})
		MOVQ(k, i)
		maxLoop, maxDone := label("max"), label("maxDone")
		DECQ(i)
		JZ(LabelRef(maxDone))
		Label(maxLoop)
		ADDQ(n, p)
		VMAXPD(top, g.load(Mem{Base: p}), top)
		DECQ(i)
		JNZ(LabelRef(maxLoop))
		Label(maxDone)

		to := GP64()
		LEAQ(at(logits, row, 0), p)
		LEAQ(at(dst, row, 0), to)
		MOVQ(k, i)
		sum := g.zero()
		expLoop := label("exp")
		Label(expLoop)
		t := g.sub(g.load(Mem{Base: p}), top)
		if shift {
			VMOVUPD(t, Mem{Base: p})
		}
		e := g.expSmall(t)
		VMOVUPD(e, Mem{Base: to})
		VADDPD(e, sum, sum)
		ADDQ(n, p)
		ADDQ(n, to)
		DECQ(i)
		JNZ(LabelRef(expLoop))

		inv := g.div(g.constant("one"), sum)
		LEAQ(at(dst, row, 0), to)
		MOVQ(k, i)
		mulLoop := label("mul")
		Label(mulLoop)
		VMOVUPD(g.mul(inv, Mem{Base: to}), Mem{Base: to})
		ADDQ(n, to)
		DECQ(i)
		JNZ(LabelRef(mulLoop))

		noLog := label("noLog")
		CMPQ(lse, U8(0))
		JE(LabelRef(noLog))
		l := g.logNormal(sum, nil)
		if !shift {
			l = g.add(top, l)
		}
		l = g.choose(unlike, sum, sum, sum, l)
		VMOVUPD(l, at(lse, row, 0))
		Label(noLog)
	})
	g.end()
}
