package tensor_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/gatedlearning/moe/host/tensor"
)

// FuzzSums: whatever stands before a right checksum is sums of one of the three kinds, or an
// error; nothing is made of sizes that are not there.
func FuzzSums(f *testing.F) {
	second, fourth, given := tensor.NewSecond(2), tensor.NewFourth(eye(2), nil), tensor.NewTransformed(naive{}, 3, 2, nil, nil)
	for _, data := range [][]byte{bytesOf(f, second), bytesOf(f, fourth), bytesOf(f, given)} {
		f.Add(data[:len(data)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data := binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.ChecksumIEEE(body))
		a, b, c := new(tensor.Second), new(tensor.Fourth), new(tensor.Transformed)
		read := 0
		if a.UnmarshalBinary(data) == nil {
			read++
			a.Merge(a)
		}
		if b.UnmarshalBinary(data) == nil {
			read++
			b.Merge(b)
		}
		if c.UnmarshalBinary(data) == nil {
			read++
			c.Merge(c)
		}
		if read > 1 {
			t.Errorf("read as %d kinds of sums", read)
		}
	})
}
