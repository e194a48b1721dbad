package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// columns writes the kernel of Columns: squares of four rows by four columns, turned in
// registers.
func (g *gen) columns() {
	g.begin("columns", "func(dst *float64, src *byte, n int, stride int, rows int)",
		"writes four columns of n values each, of which the rows, a multiple of 4, stand stride bytes apart.")
	to, from, n, stride, rows := param("dst"), param("src"), param("n"), param("stride"), param("rows")
	second, third := GP64(), GP64()
	SHLQ(U8(3), n)
	LEAQ(Mem{Base: n, Index: n, Scale: 1}, second)
	LEAQ(Mem{Base: n, Index: n, Scale: 2}, third)
	ahead := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, ahead)
	loop, done := label("rows"), label("done")
	Label(loop)
	CMPQ(rows, U8(4))
	JL(LabelRef(done))
	row := make([]reg.VecVirtual, 4)
	for i, m := range []Mem{{Base: from}, {Base: from, Index: stride, Scale: 1}, {Base: from, Index: stride, Scale: 2},
		{Base: from, Index: ahead, Scale: 1}} {
		row[i] = YMM()
		VMOVUPD(m, row[i])
	}
	var low, high [2]reg.VecVirtual
	for i := range low {
		low[i], high[i] = YMM(), YMM()
		VUNPCKLPD(row[2*i+1], row[2*i], low[i])
		VUNPCKHPD(row[2*i+1], row[2*i], high[i])
	}
	for i, m := range []Mem{{Base: to}, {Base: to, Index: n, Scale: 1}, {Base: to, Index: second, Scale: 1},
		{Base: to, Index: third, Scale: 1}} {
		pair, half := low, U8(0x20)
		if i%2 == 1 {
			pair = high
		}
		if i >= 2 {
			half = U8(0x31)
		}
		v := YMM()
		VPERM2F128(half, pair[1], pair[0], v)
		VMOVUPD(v, m)
	}
	LEAQ(Mem{Base: from, Index: stride, Scale: 4}, from)
	ADDQ(U8(32), to)
	SUBQ(U8(4), rows)
	JMP(LabelRef(loop))
	Label(done)
	g.end()
}
