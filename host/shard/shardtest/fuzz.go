package shardtest

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// parts of a file: its header and what follows, without the checksum. A file that fuzzing
// makes of them has the right one: else it would go no further.
func unsealed(f *testing.F, format string, data []byte) (header, bodies []byte) {
	f.Helper()
	rest, ok := bytes.CutPrefix(data, []byte(format+"\n"))
	if !ok {
		f.Fatalf("no file of format %s", format)
	}
	n := binary.LittleEndian.Uint64(rest)
	return rest[8 : 8+n], rest[8+n : len(rest)-sha256.Size]
}

func sealed(format string, header, bodies []byte) []byte {
	out := binary.LittleEndian.AppendUint64([]byte(format+"\n"), uint64(len(header)))
	out = append(append(out, header...), bodies...)
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

// FuzzParts fuzzes the files of a format, from those in testdata and from what is given. What is
// read is written again as it was read.
func FuzzParts(f *testing.F, format, pattern string, empty func() encoding.BinaryUnmarshaler,
	given ...encoding.BinaryMarshaler) {
	old, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(old) == 0 {
		f.Fatal("no files", err)
	}
	for _, path := range old {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(unsealed(f, format, data))
	}
	for _, part := range given {
		data, err := part.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(unsealed(f, format, data))
	}
	f.Fuzz(func(t *testing.T, header, bodies []byte) {
		read := empty()
		if read.UnmarshalBinary(sealed(format, header, bodies)) != nil {
			return
		}
		first, err := read.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		again := empty()
		if err := again.UnmarshalBinary(first); err != nil {
			t.Fatalf("written and not read: %v", err)
		}
		if second, err := again.(encoding.BinaryMarshaler).MarshalBinary(); err != nil || !bytes.Equal(first, second) {
			t.Errorf("another file the second time: %v", err)
		}
	})
}

// Few is a small table.
func Few(f *testing.F) *sample.Sampler {
	f.Helper()
	act, err := sigmoid.Family.Activation(nil)
	if err != nil {
		f.Fatal(err)
	}
	src, err := sample.New(sample.Config{Activation: act, K: 2, D: 4, N: 300, Sigma: 0.1, Seed: 8,
		Design: sample.Random})
	if err != nil {
		f.Fatal(err)
	}
	return src
}
