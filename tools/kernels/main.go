// Command kernels writes the assembly of internal/kernel:
//
//	go run . -arch avx2 -out FILE.s -stubs FILE.go -pkg kernel
//
// Everything is written once, over vectors of 4 or of 8 values. What a kernel computes
// is the same to the last bit on both, and in the portable Go beside it: functions of
// single values take the same operations in the same order, and sums go by eight lanes,
// lane l having the values l, l+8, l+16, …, fused multiply-adds all of them, and are
// added up as ((0+4)+(2+6))+((1+5)+(3+7)).
package main

import (
	"flag"
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	arch := flag.String("arch", "avx2", "avx2 or avx512")
	flag.Parse()
	g := &gen{arch: *arch, width: 4}
	if *arch == "avx512" {
		g.width = 8
	}
	ConstraintExpr("amd64")
	g.constants()
	g.exp()
	g.log()
	g.softmax(false)
	g.softmax(true)
	g.reductions()
	g.tile()
	for m := 1; m <= 4; m++ {
		g.linear(m)
	}
	g.elementwise()
	g.cubes()
	g.places()
	g.piecewise()
	g.hinge()
	if g.arch == "avx2" {
		g.gather() // the same for both
		g.columns()
	}
	Generate()
}

// gen writes kernels over vectors of width values.
type gen struct {
	arch  string
	width int
	table Mem
	at    map[string]int // of constants in the table
}

// lanes is the number of values in a group: sums have as many lanes.
const lanes = 8

func (g *gen) name(s string) string {
	return s + map[string]string{"avx2": "AVX2", "avx512": "AVX512"}[g.arch]
}

func (g *gen) vec() reg.VecVirtual {
	if g.width == 8 {
		return ZMM()
	}
	return YMM()
}

func (g *gen) bytes() int { return 8 * g.width }

// at returns the vector of values that begins i values behind p.
func at(p reg.Register, index reg.Register, values int) Mem {
	return Mem{Base: p, Index: index, Scale: 8, Disp: 8 * values}
}

// constants lists those of all kernels, each 8 times over.
func (g *gen) constants() {
	g.table, g.at = GLOBL(g.arch+"constants", attr.RODATA|attr.NOPTR), map[string]int{}
	add := func(name string, bits uint64) {
		g.at[name] = len(g.at) * 64
		for i := range 8 {
			DATA(g.at[name]+8*i, U64(bits))
		}
	}
	for _, c := range floatConstants {
		add(c.name, math.Float64bits(c.value))
	}
	for _, c := range bitConstants {
		add(c.name, c.value)
	}
	// A window of 8 ones and 8 zeros: the first of a short group.
	at := len(g.at) * 64
	g.at["window"] = at
	for i := range 16 {
		v := uint64(math.MaxUint64)
		if i >= 8 {
			v = 0
		}
		DATA(at+8*i, U64(v))
	}
}

func (g *gen) c(name string) Mem {
	at, ok := g.at[name]
	if !ok {
		panic("no constant " + name)
	}
	return g.table.Offset(at)
}

func (g *gen) load(m Op) reg.VecVirtual         { v := g.vec(); VMOVUPD(m, v); return v }
func (g *gen) constant(n string) reg.VecVirtual { return g.load(g.c(n)) }
func (g *gen) broadcast(m Op) reg.VecVirtual    { v := g.vec(); VBROADCASTSD(m, v); return v }
func (g *gen) zero() reg.VecVirtual {
	v := g.vec()
	if g.width == 8 {
		VPXORQ(v, v, v)
	} else {
		VXORPD(v, v, v)
	}
	return v
}

// The operations: a may be a register only, b a register or memory.
func (g *gen) add(a, b Op) reg.VecVirtual { v := g.vec(); VADDPD(b, a, v); return v }
func (g *gen) sub(a, b Op) reg.VecVirtual { v := g.vec(); VSUBPD(b, a, v); return v }
func (g *gen) mul(a, b Op) reg.VecVirtual { v := g.vec(); VMULPD(b, a, v); return v }
func (g *gen) div(a, b Op) reg.VecVirtual { v := g.vec(); VDIVPD(b, a, v); return v }

// max is a where a > b, else b; min is a where a < b, else b.
func (g *gen) max(a, b Op) reg.VecVirtual { v := g.vec(); VMAXPD(b, a, v); return v }
func (g *gen) min(a, b Op) reg.VecVirtual { v := g.vec(); VMINPD(b, a, v); return v }

// fma is a·b + c in a register of its own.
func (g *gen) fma(a, b, c Op) reg.VecVirtual { v := g.load(c); VFMADD231PD(b, a, v); return v }

// fnma is c − a·b.
func (g *gen) fnma(a, b, c Op) reg.VecVirtual { v := g.load(c); VFNMADD231PD(b, a, v); return v }

func (g *gen) and(a, b Op) reg.VecVirtual {
	v := g.vec()
	if g.width == 8 {
		VPANDQ(b, a, v)
	} else {
		VPAND(b, a, v)
	}
	return v
}

func (g *gen) or(a, b Op) reg.VecVirtual {
	v := g.vec()
	if g.width == 8 {
		VPORQ(b, a, v)
	} else {
		VPOR(b, a, v)
	}
	return v
}
func (g *gen) addInt(a, b Op) reg.VecVirtual { v := g.vec(); VPADDQ(b, a, v); return v }
func (g *gen) subInt(a, b Op) reg.VecVirtual { v := g.vec(); VPSUBQ(b, a, v); return v }
func (g *gen) left(a Op, n int) reg.VecVirtual {
	v := g.vec()
	VPSLLQ(Imm(uint64(n)), a, v)
	return v
}
func (g *gen) right(a Op, n int) reg.VecVirtual {
	v := g.vec()
	VPSRLQ(Imm(uint64(n)), a, v)
	return v
}

// Comparisons, false of NaN but for notLess.
const (
	equal   = 0x00
	less    = 0x11
	atMost  = 0x12
	notLess = 0x15 // true of NaN
	greater = 0x1e
	unlike  = 0x04 // not equal, true of NaN
	atLeast = 0x1d
)

// choose is yes where a compares with b, else no.
func (g *gen) choose(compare uint64, a, b, yes, no Op) reg.VecVirtual {
	v := g.vec()
	if g.width == 8 {
		k := K()
		VCMPPD(Imm(compare), b, a, k)
		VBLENDMPD(yes, no, k, v)
		return v
	}
	mask := g.vec()
	VCMPPD(Imm(compare), b, a, mask)
	VBLENDVPD(mask, yes, no, v)
	return v
}

// begin opens a function of the signature.
func (g *gen) begin(name, signature, doc string) {
	TEXT(g.name(name), attr.NOSPLIT, signature)
	Doc(fmt.Sprintf("%s %s", g.name(name), doc))
	Pragma("noescape")
}

// end closes it.
func (g *gen) end() {
	VZEROUPPER()
	RET()
}

// param loads an argument.
func param(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// overRows writes a loop over the rows, a multiple of lanes: body is given the index
// of the first row of a vector.
func (g *gen) overRows(rows reg.GPVirtual, body func(row reg.GPVirtual)) {
	row := GP64()
	XORQ(row, row)
	loop, done := label("rows"), label("done")
	CMPQ(rows, U8(0))
	JE(LabelRef(done))
	Label(loop)
	body(row)
	ADDQ(U8(uint64(g.width)), row)
	CMPQ(row, rows)
	JL(LabelRef(loop))
	Label(done)
}

var labels = 0

func label(s string) string {
	labels++
	return fmt.Sprintf("%s%d", s, labels)
}
