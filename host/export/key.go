package export

import (
	"encoding/binary"
	"fmt"
	"math"
)

// key is a text that is the same for equal nodes, whatever they are called.
func (n *node) key() string {
	b := []byte(n.op)
	for _, a := range n.args {
		b = binary.AppendUvarint(append(b, 'a'), uint64(a))
	}
	for _, v := range append([]float64{n.number}, n.numbers...) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	b = fmt.Appendf(b, "%q%q", n.text, n.levels)
	if n.pieces != nil {
		b = fmt.Appendf(b, "%p", n.pieces)
	}
	return string(b)
}
