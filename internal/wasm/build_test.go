package wasm_test

import (
	"encoding/binary"
	"math"
	"slices"
)

// guest is a module in the making: what a compiler would write, byte by byte, so that no compiler is
// needed and any fault can be had. The zero value with a description is the identity.
type guest struct {
	info    string
	value   []byte // leaves g(z) on the stack, z being local 5; nil is z
	slope   []byte // the same of g′; nil is 1
	before  []byte // of moe_eval, with locals order, p and n
	buffer  []byte // of moe_buffer; nil returns 1024
	at      uint64 // what moe_info returns; 0 is where the description stands
	start   []byte // a start function; nil is none
	pages   uint64 // of memory; 0 is 17
	imports [][2]string
	without string // an export that is left out
	moments []float64
}

const room = 1024 // the buffer's address

// The instructions that the guests are made of.
var (
	getZ  = []byte{0x20, 5} // local.get 5
	f64s  = func(v float64) []byte { return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(v)) }
	i32s  = func(v int64) []byte { return append([]byte{0x41}, signed(v)...) }
	param = slices.Concat(i32s(room), []byte{0x2b, 3, 0}) // the first parameter
	trap  = []byte{0x00}
	loop  = []byte{0x03, 0x40, 0x0c, 0, 0x0b}
)

func unsigned(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func signed(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func sized(parts ...[]byte) []byte {
	all := slices.Concat(parts...)
	return append(unsigned(uint64(len(all))), all...)
}

func named(s string) []byte { return sized([]byte(s)) }

func vector(entries ...[]byte) []byte {
	return append(unsigned(uint64(len(entries))), slices.Concat(entries...)...)
}

// module is the guest as a file.
func (g guest) module() []byte {
	section := func(id byte, entries ...[]byte) []byte { return append([]byte{id}, sized(vector(entries...))...) }
	const i32, i64 = 0x7f, 0x7e
	types := [][]byte{
		{0x60, 1, i32, 1, i32}, {0x60, 1, i32, 1, i64}, {0x60, 3, i32, i32, i32, 1, i32}, {0x60, 0, 0},
	}
	const info = 600_000 // behind the buffer's 65,536 values
	at := g.at
	if at == 0 {
		at = info<<32 | uint64(len(g.info))
	}
	value, slope, buffer := g.value, g.slope, g.buffer
	if value == nil {
		value = getZ
	}
	if slope == nil {
		slope = f64s(1)
	}
	if buffer == nil {
		buffer = i32s(room)
	}
	// local 3 runs from the first value's address to local 4, and local 5 is z.
	eval := slices.Concat(vector([]byte{2, i32}, []byte{1, 0x7c}), g.before,
		i32s(room), []byte{0x20, 1}, i32s(8), []byte{0x6c, 0x6a, 0x21, 3},
		[]byte{0x20, 3, 0x20, 2}, i32s(8), []byte{0x6c, 0x6a, 0x21, 4},
		[]byte{0x02, 0x40, 0x03, 0x40, 0x20, 3, 0x20, 4, 0x4f, 0x0d, 1},
		[]byte{0x20, 3, 0x2b, 3, 0, 0x21, 5, 0x20, 3}, // z = memory[at]; at
		[]byte{0x20, 0, 0x04, 0x7c}, slope, []byte{0x05}, value, []byte{0x0b},
		[]byte{0x39, 3, 0, 0x20, 3}, i32s(8), []byte{0x6a, 0x21, 3, 0x0c, 0, 0x0b, 0x0b}, i32s(0))
	body := func(locals []byte, code ...[]byte) []byte { return sized(locals, slices.Concat(code...), []byte{0x0b}) }
	functions, codes := [][]byte{{0}, {1}, {2}}, [][]byte{
		body([]byte{0}, buffer), body([]byte{0}, []byte{0x42}, signed(int64(at))), body(nil, eval),
	}
	exported := []string{"moe_buffer", "moe_info", "moe_eval"}
	if g.moments != nil {
		copies := []byte{}
		for i, v := range g.moments {
			copies = slices.Concat(copies, i32s(room), []byte{0x20, 0}, i32s(8), []byte{0x6c, 0x6a}, f64s(v), []byte{0x39, 3}, unsigned(uint64(8*i)))
		}
		functions, codes, exported = append(functions, []byte{0}), append(codes, body([]byte{0}, copies, i32s(0))), append(exported, "moe_moments")
	}
	before := uint64(len(g.imports))
	exports := [][]byte{append(named("memory"), 2, 0)}
	for i, name := range exported {
		exports = append(exports, slices.Concat(named(name), []byte{0}, unsigned(before+uint64(i))))
	}
	exports = slices.DeleteFunc(exports, func(e []byte) bool { return g.without != "" && string(e[1:1+e[0]]) == g.without })
	if g.start != nil {
		functions, codes = append(functions, []byte{3}), append(codes, body([]byte{0}, g.start))
	}
	var imports [][]byte
	for _, i := range g.imports {
		imports = append(imports, slices.Concat(named(i[0]), named(i[1]), []byte{0, 3}))
	}
	pages := g.pages
	if pages == 0 {
		pages = 17
	}
	out := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, types...), section(2, imports...), section(3, functions...),
		section(5, append([]byte{0}, unsigned(pages)...)), section(7, exports...))
	if g.start != nil {
		out = slices.Concat(out, []byte{8}, sized(unsigned(before+uint64(len(functions)-1))))
	}
	return slices.Concat(out, section(10, codes...), section(11, slices.Concat([]byte{0}, i32s(info), []byte{0x0b}, named(g.info))))
}
