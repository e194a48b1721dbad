package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A lane8 is eight lanes: one vector or two.
type lane8 []reg.VecVirtual

func (g *gen) zeros() (v lane8) {
	for range lanes / g.width {
		v = append(v, g.zero())
	}
	return v
}

// reduce adds the lanes to the value at out.
func (g *gen) reduce(v lane8, store func(sum reg.VecVirtual)) {
	four := YMM()
	if g.width == 8 {
		VEXTRACTF64X4(U8(1), v[0], four)
		VADDPD(four, v[0].AsY(), four)
	} else {
		VADDPD(v[1], v[0], four)
	}
	g.reduceFour(four, store)
}

func (g *gen) reduceFour(four reg.VecVirtual, store func(sum reg.VecVirtual)) {
	two, one := XMM(), XMM()
	if g.width == 8 {
		VEXTRACTF64X2(U8(1), four, two)
	} else {
		VEXTRACTF128(U8(1), four, two)
	}
	VADDPD(two, four.AsX(), two)
	VPERMILPD(U8(1), two, one)
	VADDSD(one, two, one)
	store(one)
}

// short is a mask of the first rest rows of a group.
type short struct {
	k     reg.OpmaskVirtual
	masks []reg.VecVirtual // where there are no mask registers
}

func (g *gen) short(rest reg.GPVirtual, halves ...int) short {
	window := GP64()
	LEAQ(g.c("window").Offset(64), window)
	from := GP64()
	MOVQ(rest, from)
	SHLQ(U8(3), from)
	SUBQ(from, window)
	if g.width == 8 {
		v, k := g.load(Mem{Base: window}), K()
		VPMOVQ2M(v, k)
		return short{k: k}
	}
	var s short
	for _, h := range halves {
		s.masks = append(s.masks, g.load(Mem{Base: window, Disp: 32 * h}))
	}
	return s
}

// loadShort loads the rows of a group that are there, 0 for the others.
func (g *gen) loadShort(s short, half int, m Mem) reg.VecVirtual {
	v := g.vec()
	if g.width == 8 {
		VMOVUPD_Z(m, s.k, v)
	} else {
		VMASKMOVPD(m, s.masks[half], v)
	}
	return v
}

// overGroups writes a loop over whole groups of 8 rows, then what is left.
func (g *gen) overGroups(n reg.GPVirtual, halves []int,
	body func(load func(p reg.GPVirtual, half int) reg.VecVirtual)) {
	row, whole, rest := GP64(), GP64(), GP64()
	XORQ(row, row)
	MOVQ(n, whole)
	MOVQ(n, rest)
	ANDQ(I8(-8), whole)
	ANDQ(U8(7), rest)
	loop, tail, done := label("groups"), label("tail"), label("done")
	CMPQ(whole, U8(0))
	JE(LabelRef(tail))
	Label(loop)
	body(func(p reg.GPVirtual, half int) reg.VecVirtual { return g.load(at(p, row, half*g.width)) })
	ADDQ(U8(lanes), row)
	CMPQ(row, whole)
	JL(LabelRef(loop))
	Label(tail)
	CMPQ(rest, U8(0))
	JE(LabelRef(done))
	s := g.short(rest, 0, 1)
	body(func(p reg.GPVirtual, half int) reg.VecVirtual { return g.loadShort(s, half, at(p, row, half*g.width)) })
	Label(done)
}

// allHalves lists the vectors of a group.
func (g *gen) allHalves() (halves []int) {
	for h := range lanes / g.width {
		halves = append(halves, h)
	}
	return halves
}

// reductions writes the kernels of Sum and Dot.
func (g *gen) reductions() {
	halves := g.allHalves()
	g.begin("sum", "func(a *float64, n int) float64", "returns Σ a over n values.")
	a, n := param("a"), param("n")
	acc := g.zeros()
	g.overGroups(n, halves, func(load func(reg.GPVirtual, int) reg.VecVirtual) {
		for _, h := range halves {
			VADDPD(load(a, h), acc[h], acc[h])
		}
	})
	g.reduce(acc, func(sum reg.VecVirtual) { Store(sum, ReturnIndex(0)) })
	g.end()

	g.begin("dot", "func(a, b *float64, n int) float64", "returns Σ a·b over n values.")
	a, b, n := param("a"), param("b"), param("n")
	acc = g.zeros()
	g.overGroups(n, halves, func(load func(reg.GPVirtual, int) reg.VecVirtual) {
		for _, h := range halves {
			VFMADD231PD(load(b, h), load(a, h), acc[h])
		}
	})
	g.reduce(acc, func(sum reg.VecVirtual) { Store(sum, ReturnIndex(0)) })
	g.end()
}

// cubes writes the kernel of AddCubes for two columns.
func (g *gen) cubes() {
	g.begin("cubes", "func(out, a, b *float64, n int)", "writes Σ a³, Σ a⁴, Σ b³ and Σ b⁴ over n values to out.")
	columns, n := []reg.GPVirtual{param("a"), param("b")}, param("n")
	var acc [4]lane8
	for i := range acc {
		acc[i] = g.zeros()
	}
	halves := g.allHalves()
	g.overGroups(n, halves, func(load func(reg.GPVirtual, int) reg.VecVirtual) {
		for i, column := range columns {
			for _, h := range halves {
				x := load(column, h)
				square := g.mul(x, x)
				VFMADD231PD(x, square, acc[2*i][h])
				VFMADD231PD(square, square, acc[2*i+1][h])
			}
		}
	})
	out := param("out")
	for i, v := range acc {
		g.reduce(v, func(sum reg.VecVirtual) { VMOVSD(sum.AsX(), Mem{Base: out, Disp: 8 * i}) })
	}
	g.end()
}

// tile writes the kernel of the sums of products of 4 rows with 4. Where it takes several turns at them those that are
// beyond the columns of b that are wanted are left out, and there is a kernel of 2 rows with 2.
func (g *gen) tile() {
	const signature, what = "func(out *float64, stride int, a, b *[]float64, n%s int)",
		"adds Σ a_i·b_j over n values to out[i·stride+j], of %s slices from a on and %[1]s from b on%s."
	if g.width == 8 {
		g.begin("tile", fmt.Sprintf(signature, ""), fmt.Sprintf(what, "four", ""))
		g.tileWide()
		g.end()
		return
	}
	g.begin("tile", fmt.Sprintf(signature, ", columns"),
		fmt.Sprintf(what, "four", ", of which the first columns are wanted, one at least"))
	g.tileNarrow()
	g.end()
	g.begin("corner", fmt.Sprintf(signature, ""), fmt.Sprintf(what, "two", ""))
	g.corner()
	g.end()
}

// sliceHeader is the size of a slice, whose first word is where its values are.
const sliceHeader = 24

// values loads where those of some slices are, from a first one on.
func values(of string, first, many int) (p []reg.GPVirtual) {
	from := param(of)
	for i := range many {
		r := GP64()
		MOVQ(Mem{Base: from, Disp: sliceHeader * (first + i)}, r)
		p = append(p, r)
	}
	return p
}

// halves returns the lower halves of a and b and their upper halves.
func (g *gen) halves(a, b Op) (lower, upper reg.VecVirtual) {
	lower, upper = YMM(), YMM()
	if g.width == 8 {
		VSHUFF64X2(U8(0), b, a, lower)
		VSHUFF64X2(U8(3), b, a, upper)
	} else {
		VPERM2F128(U8(0x20), b, a, lower)
		VPERM2F128(U8(0x31), b, a, upper)
	}
	return lower, upper
}

// addHalves returns the lower half of each plus the upper: a's, then b's.
func (g *gen) addHalves(a, b Op) reg.VecVirtual {
	lower, upper := g.halves(a, b)
	VADDPD(upper, lower, lower)
	return lower
}

func (g *gen) tileWide() {
	a, b, n := values("a", 0, 4), values("b", 0, 4), param("n")
	var acc [16]lane8
	for i := range acc {
		acc[i] = g.zeros()
	}
	g.overGroups(n, []int{0}, func(load func(reg.GPVirtual, int) reg.VecVirtual) {
		var left [4]reg.VecVirtual
		for i := range left {
			left[i] = load(a[i], 0)
		}
		for j := range b {
			right := load(b[j], 0)
			for i := range left {
				VFMADD231PD(right, left[i], acc[4*i+j][0])
			}
		}
	})
	out, stride := param("out"), param("stride")
	for i := range 4 {
		var four [4]reg.VecVirtual
		for j := range four {
			four[j] = YMM()
			v := acc[4*i+j][0]
			VEXTRACTF64X4(U8(1), v, four[j])
			VADDPD(four[j], v.AsY(), four[j])
		}
		first, second := g.addHalves(four[0], four[1]), g.addHalves(four[2], four[3])
		even, odd := YMM(), YMM() // sums 0, 2, 1, 3
		VUNPCKLPD(second, first, even)
		VUNPCKHPD(second, first, odd)
		VADDPD(odd, even, even)
		VPERMPD(U8(0xd8), even, even)
		VADDPD(Mem{Base: out}, even, even)
		VMOVUPD(even, Mem{Base: out})
		if i < 3 {
			LEAQ(Mem{Base: out, Index: stride, Scale: 8}, out)
		}
	}
}

// tileNarrow takes two columns and four of the eight lanes at a time: there are 16
// registers.
func (g *gen) tileNarrow() {
	n, a := param("n"), values("a", 0, 4)
	room := AllocLocal(8 * 32)
	done := label("wanted")
	for pair := range 2 {
		if pair == 1 {
			CMPQ(param("columns"), U8(2))
			JLE(LabelRef(done))
		}
		b := values("b", 2*pair, 2)
		for half := range 2 {
			var acc [8]reg.VecVirtual
			for i := range acc {
				acc[i] = g.zero()
			}
			g.overGroups(n, []int{half}, func(load func(reg.GPVirtual, int) reg.VecVirtual) {
				g.products(a, b, half, load, acc[:])
			})
			if half == 0 {
				for i, v := range acc {
					VMOVUPD(v, room.Offset(32*i))
				}
				continue
			}
			for i := range acc {
				VADDPD(room.Offset(32*i), acc[i], acc[i])
			}
			g.addPairs(acc[:], 16*pair)
		}
	}
	Label(done)
}

// corner takes all lanes at once.
func (g *gen) corner() {
	n, a, b := param("n"), values("a", 0, 2), values("b", 0, 2)
	var acc [2][4]reg.VecVirtual
	for half := range acc {
		for i := range acc[half] {
			acc[half][i] = g.zero()
		}
	}
	g.overGroups(n, g.allHalves(), func(load func(reg.GPVirtual, int) reg.VecVirtual) {
		for half := range acc {
			g.products(a, b, half, load, acc[half][:])
		}
	})
	for i, v := range acc[1] {
		VADDPD(acc[0][i], v, v)
	}
	g.addPairs(acc[1][:], 0)
}

// products adds those of the rows of a with two of b to sums.
func (g *gen) products(a, b []reg.GPVirtual, half int, load func(reg.GPVirtual, int) reg.VecVirtual,
	sums []reg.VecVirtual) {
	var right [2]reg.VecVirtual
	for j := range right {
		right[j] = load(b[j], half)
	}
	for i := range a {
		left := load(a[i], half)
		for j := range right {
			VFMADD231PD(right[j], left, sums[2*i+j])
		}
	}
}

// addPairs adds up every four lanes, and adds two sums after the other to a row of out, from so many bytes on.
func (g *gen) addPairs(four []reg.VecVirtual, from int) {
	out, stride := param("out"), param("stride")
	for i := 0; i < len(four); i += 2 {
		two := g.addHalves(four[i], four[i+1])
		odd, upper := YMM(), XMM()
		VPERMILPD(U8(0x5), two, odd)
		VADDPD(odd, two, two)
		VEXTRACTF128(U8(1), two, upper)
		both := XMM()
		VUNPCKLPD(upper, two.AsX(), both)
		VADDPD(Mem{Base: out, Disp: from}, both, both)
		VMOVUPD(both, Mem{Base: out, Disp: from})
		if i+2 < len(four) {
			LEAQ(Mem{Base: out, Index: stride, Scale: 8}, out)
		}
	}
}

// linear writes the kernel of Linear for m rows of coefficients.
func (g *gen) linear(m int) {
	g.begin(fmt.Sprintf("linear%d", m), "func(dst, coef, from, x *float64, n, d, rows int)",
		fmt.Sprintf("writes from_i + Σ_j coef_ij·x_j, of the first rows of columns of n values, a multiple of 16, "+
			"for %d rows of d coefficients.", m))
	dst, coef, from, x, n, d, rows := param("dst"), param("coef"), param("from"), param("x"), param("n"), param("d"),
		param("rows")
	SHLQ(U8(3), n)
	var c [4]reg.GPVirtual
	for i := range m {
		c[i] = GP64()
		if i == 0 {
			MOVQ(coef, c[i])
		} else {
			LEAQ(Mem{Base: c[i-1], Index: d, Scale: 8}, c[i])
		}
	}
	const at2 = 2
	vectors := at2 // of rows at a time
	row := GP64()
	XORQ(row, row)
	loop, done := label("rows"), label("done")
	Label(loop)
	CMPQ(row, rows)
	JGE(LabelRef(done))
	acc := make([][]reg.VecVirtual, m)
	for i := range m {
		acc[i] = make([]reg.VecVirtual, vectors)
		for v := range vectors {
			acc[i][v] = g.broadcast(Mem{Base: from, Disp: 8 * i})
		}
	}
	p, j := GP64(), GP64()
	LEAQ(at(x, row, 0), p)
	XORQ(j, j)
	columns := label("columns")
	Label(columns)
	values := make([]reg.VecVirtual, vectors)
	for v := range vectors {
		values[v] = g.load(Mem{Base: p, Disp: v * g.bytes()})
	}
	for i := range m {
		ci := g.broadcast(at(c[i], j, 0))
		for v := range vectors {
			VFMADD231PD(values[v], ci, acc[i][v])
		}
	}
	ADDQ(n, p)
	INCQ(j)
	CMPQ(j, d)
	JL(LabelRef(columns))
	to := GP64()
	LEAQ(at(dst, row, 0), to)
	for i := range m {
		for v := range vectors {
			VMOVUPD(acc[i][v], Mem{Base: to, Disp: v * g.bytes()})
		}
		if i < m-1 {
			ADDQ(n, to)
		}
	}
	ADDQ(U8(uint64(vectors*g.width)), row)
	JMP(LabelRef(loop))
	Label(done)
	g.end()
}
