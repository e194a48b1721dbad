package npy

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// HeaderSize is what [HeaderOf] takes: room for matrices of any number of rows.
const HeaderSize = 128

// HeaderOf is the version 1.0 header of a row-major array of little-endian float64 with
// this shape, of one or two dimensions, padded with blanks and ended by a newline.
func HeaderOf(shape ...int) []byte {
	head := make([]byte, HeaderSize)
	for i := range head {
		head[i] = ' '
	}
	sizes := make([]string, len(shape))
	for i, n := range shape {
		sizes[i] = fmt.Sprint(n)
	}
	text := strings.Join(sizes, ", ")
	if len(shape) == 1 {
		text += "," // a tuple of one
	}
	copy(head, Magic+"\x01\x00")
	binary.LittleEndian.PutUint16(head[8:], HeaderSize-10)
	copy(head[10:], fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }", text))
	head[HeaderSize-1] = '\n'
	return head
}
