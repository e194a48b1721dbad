package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What internal/kernel has of pieces and of the cells that lead to them.
const (
	pieceValues = 12
	pieceRight  = 8
	cellsBefore = 32*64 + 1
)

// places writes the kernel that finds the piece in which the cell of each z begins.
func (g *gen) places() {
	g.begin("places", "func(dst *uint16, z *float64, n int, index *uint16, lo, hi float64) int",
		"writes what the index has of the first z, whole vectors of n, a multiple of 8, up to one that is not in the "+
			"range, and returns how many.")
	dst, z, n, index := param("dst"), param("z"), param("n"), param("index")
	lo, hi := g.parameter("lo"), g.parameter("hi")
	cells := AllocLocal(4 * g.width)
	g.inRange(z, n, lo, hi, func(row reg.GPVirtual, x reg.VecVirtual) {
		g.cells(x, cells)
		for i := range g.width {
			p := GP64()
			MOVLQSX(cells.Offset(4*i), p)
			MOVWLZX(Mem{Base: index, Index: p, Scale: 2, Disp: 2 * cellsBefore}, p.As32())
			MOVW(p.As16(), Mem{Base: dst, Index: row, Scale: 2, Disp: 2 * i})
		}
	})
	g.end()
}

// piecewise writes the kernel of Piecewise. Coefficients come piece by piece and are
// turned in registers: vector gathers took four times as long on Zen 5.
func (g *gen) piecewise() {
	g.begin("piecewise", "func(dst, z *float64, n int, pieces *float64, places *uint16)",
		"writes the values at z, n of them, a multiple of 8, each in the piece of its place or in a later one.")
	dst, z, n, pieces, places := param("dst"), param("z"), param("n"), param("pieces"), param("places")
	g.overRows(n, func(row reg.GPVirtual) {
		x := g.load(at(z, row, 0))
		place := make([]reg.GPVirtual, g.width)
		for i := range place {
			place[i] = GP64()
			MOVWQZX(Mem{Base: places, Index: row, Scale: 2, Disp: 2 * i}, place[i])
		}
		turn, on := label("turn"), label("on")
		Label(turn)
		v := g.turned(pieces, place, 8)
		right, centre, slope := v[0], v[1], v[2]
		ahead := g.compare(atLeast, x, right)
		CMPL(g.both(ahead, ahead), U8(0))
		JEQ(LabelRef(on))
		g.advance(at(z, row, 0), pieces, place)
		JMP(LabelRef(turn))
		Label(on)
		t := g.mul(g.sub(x, centre), slope)
		square := g.mul(t, t)
		var sum reg.VecVirtual
		for _, from := range []int{4, 0} {
			c := g.turned(pieces, place, from)
			VFMADD231PD(t, c[3], c[2])
			VFMADD231PD(t, c[1], c[0])
			if sum != nil {
				VFMADD231PD(square, sum, c[2])
			}
			VFMADD231PD(square, c[2], c[0])
			sum = c[0]
		}
		VMOVUPD(sum, at(dst, row, 0))
	})
	g.end()
}

// cells writes ⌊64x⌋, between −2049 and 2048, as 32-bit integers.
func (g *gen) cells(x reg.VecVirtual, to Mem) {
	v := g.mul(x, g.c("perUnit"))
	v = g.min(g.max(v, g.c("firstCell")), g.c("lastCell"))
	if g.width == 8 {
		whole := YMM()
		VRNDSCALEPD(U8(1), v, v)
		VCVTTPD2DQ(v, whole)
		VMOVDQU(whole, to)
		return
	}
	whole := XMM()
	VROUNDPD(U8(1), v, v)
	VCVTTPD2DQY(v, whole)
	VMOVDQU(whole, to)
}

// turned returns four values of the pieces at the places, from one on, a vector for each.
func (g *gen) turned(pieces reg.GPVirtual, place []reg.GPVirtual, from int) (v [4]reg.VecVirtual) {
	at := func(i, j int) Mem { return at(pieces, place[i], from+j) }
	if g.width == 4 {
		for j := 0; j < 4; j += 2 {
			var pair [2]reg.VecVirtual // of pieces 0 and 2, 1 and 3
			for i := range pair {
				pair[i] = YMM()
				VBROADCASTF128(at(i, j), pair[i])
				VINSERTF128(U8(1), at(i+2, j), pair[i], pair[i])
			}
			v[j], v[j+1] = YMM(), YMM()
			VUNPCKLPD(pair[1], pair[0], v[j])
			VUNPCKHPD(pair[1], pair[0], v[j+1])
		}
		return v
	}
	var pair [4]reg.VecVirtual // of pieces 0 and 2, 1 and 3, 4 and 6, 5 and 7
	for i, first := range []int{0, 1, 4, 5} {
		pair[i] = ZMM()
		VBROADCASTF64X4(at(first, 0), pair[i])
		VINSERTF64X4(U8(1), at(first+2, 0), pair[i], pair[i])
	}
	for odd, unpack := range []func(...Op){VUNPCKLPD, VUNPCKHPD} {
		first, second := ZMM(), ZMM()
		unpack(pair[1], pair[0], first)
		unpack(pair[3], pair[2], second)
		for j, which := range []Constant{U8(0x88), U8(0xdd)} {
			v[2*j+odd] = ZMM()
			VSHUFF64X2(which, second, first, v[2*j+odd])
		}
	}
	return v
}

// advance moves the places of the vector at z to the pieces that hold its values.
func (g *gen) advance(z Mem, pieces reg.GPVirtual, place []reg.GPVirtual) {
	for i, p := range place {
		x := XMM()
		VMOVSD(z.Offset(8*i), x)
		next, found := label("next"), label("found")
		Label(next)
		VUCOMISD(at(pieces, p, pieceRight), x)
		JCS(LabelRef(found))
		ADDQ(U8(pieceValues), p)
		JMP(LabelRef(next))
		Label(found)
	}
}

// hinge writes the kernel of Hinge.
func (g *gen) hinge() {
	g.begin("hinge", "func(dst, z *float64, n int, hinge *float64) int",
		"writes the values at the first z, whole vectors of n, a multiple of 8, up to one that is not in the range, "+
			"and returns how many.")
	dst, z, n, hinge := param("dst"), param("z"), param("n"), param("hinge")
	var v [7]reg.VecVirtual // lo, hi, the edge, value at 0 and slope below it and above
	for i := range v {
		v[i] = g.broadcast(Mem{Base: hinge, Disp: 8 * i})
	}
	g.inRange(z, n, v[0], v[1], func(row reg.GPVirtual, x reg.VecVirtual) {
		value, slope := g.choose(less, x, v[2], v[3], v[5]), g.choose(less, x, v[2], v[4], v[6])
		VFMADD231PD(x, slope, value)
		VMOVUPD(value, at(dst, row, 0))
	})
	g.end()
}

// parameter loads an argument to all lanes.
func (g *gen) parameter(name string) reg.VecVirtual {
	x := XMM()
	Load(Param(name), x)
	return g.broadcast(x)
}

// inRange writes a loop over the vectors of n values at z, a multiple of lanes, that ends
// before one with a value that is not lo ≤ x < hi, and returns how many values it has done.
func (g *gen) inRange(z, n reg.GPVirtual, lo, hi reg.VecVirtual, body func(row reg.GPVirtual, x reg.VecVirtual)) {
	row := GP64()
	XORQ(row, row)
	loop, done := label("rows"), label("done")
	Label(loop)
	CMPQ(row, n)
	JGE(LabelRef(done))
	x := g.load(at(z, row, 0))
	CMPL(g.both(g.compare(atLeast, x, lo), g.compare(less, x, hi)), U32(1<<g.width-1))
	JNE(LabelRef(done))
	body(row, x)
	ADDQ(U8(uint64(g.width)), row)
	JMP(LabelRef(loop))
	Label(done)
	Store(row, ReturnIndex(0))
}

// compare returns a bit for each value, in a mask register or as the sign of a vector's.
func (g *gen) compare(compare uint64, a, b Op) reg.Register {
	if g.width == 8 {
		k := K()
		VCMPPD(Imm(compare), b, a, k)
		return k
	}
	mask := g.vec()
	VCMPPD(Imm(compare), b, a, mask)
	return mask
}

// both returns the bits that two comparisons have both.
func (g *gen) both(a, b reg.Register) reg.GPVirtual {
	bits := GP32()
	if g.width == 8 {
		KANDB(a, b, b)
		KMOVB(b, bits)
	} else {
		VANDPD(a, b, b)
		VMOVMSKPD(b, bits)
	}
	return bits
}
