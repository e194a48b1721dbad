package parquet

import "encoding/binary"

// Parquet's metadata are structures in Thrift's compact protocol. Decoders make
// room for a list or a text as soon as they have read its length, and a few bytes
// can claim any: so lengths are held against the bytes that are there first.

// Types of the compact protocol, as fields and lists name them.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

const maxThriftDepth = 32 // Parquet's own structures are 8 deep at most

// thriftLength returns the length of the structure at the start of b; short
// where b ends before it does. Lists that claim more items than bytes follow, and
// what is no structure, are damaged.
func thriftLength(b []byte) (n int, fault error) {
	w := thriftWalk{b: b}
	w.structure(0)
	return w.at, w.err
}

const (
	errThriftShort   = fault("the metadata are cut short")
	errThriftDamaged = fault("the metadata are damaged")
)

type thriftWalk struct {
	b   []byte
	at  int
	err error
}

func (w *thriftWalk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *thriftWalk) skip(n uint64) {
	if n > uint64(len(w.b)-w.at) {
		w.fail(errThriftShort)
		return
	}
	w.at += int(n)
}

func (w *thriftWalk) byte() byte {
	w.skip(1)
	if w.err != nil {
		return 0
	}
	return w.b[w.at-1]
}

func (w *thriftWalk) uvarint() uint64 {
	v, n := binary.Uvarint(w.b[w.at:])
	switch {
	case n == 0:
		w.fail(errThriftShort)
	case n < 0:
		w.fail(errThriftDamaged)
	default:
		w.at += n
	}
	return v
}

func (w *thriftWalk) structure(depth int) {
	if depth > maxThriftDepth {
		w.fail(errThriftDamaged)
	}
	for w.err == nil {
		head := w.byte()
		if head == thriftStop {
			return
		}
		if head>>4 == 0 { // the field's number does not follow from the last
			w.uvarint()
		}
		if t := head & 15; t != thriftTrue && t != thriftFalse {
			w.value(t, depth)
		}
	}
}

// value skips a value that is not a field's boolean.
func (w *thriftWalk) value(t byte, depth int) {
	switch t {
	case thriftTrue, thriftFalse, thriftByte:
		w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		w.uvarint()
	case thriftDouble:
		w.skip(8)
	case thriftBinary:
		w.skip(w.uvarint())
	case thriftList, thriftSet:
		w.list(depth)
	case thriftMap:
		w.pairs(depth)
	case thriftStruct:
		w.structure(depth + 1)
	default:
		w.fail(errThriftDamaged)
	}
}

func (w *thriftWalk) list(depth int) {
	head := w.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = w.uvarint()
	}
	w.items(n, 1, head&15, head&15, depth)
}

func (w *thriftWalk) pairs(depth int) {
	n := w.uvarint()
	if n == 0 {
		return
	}
	types := w.byte()
	w.items(n, 2, types>>4, types&15, depth)
}

// items skips n values, or pairs of them, each of at least one byte.
func (w *thriftWalk) items(n, size uint64, first, second byte, depth int) {
	if w.err == nil && n > uint64(len(w.b)-w.at)/size {
		w.fail(errThriftShort)
	}
	for ; n > 0 && w.err == nil; n-- {
		w.value(first, depth+1)
		if size == 2 {
			w.value(second, depth+1)
		}
	}
}
