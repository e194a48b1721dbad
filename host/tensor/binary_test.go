package tensor_test

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/relu"
)

// TestSumsTravel: sums of the parts of a table, written, read and merged, are the
// sums of the table: the tensors agree to the rounding of another order of
// summation, and a copy of the whole agrees to the last bit.
func TestSumsTravel(t *testing.T) {
	p := draw(t, relu.Family, 2, 6, 5*model.BlockRows+17, 3)
	u := p.basis(t, 2)
	halves := []*model.Data{
		{N: 2 * model.BlockRows, D: 6, Blocks: p.data.Blocks[:2]},
		{N: 3*model.BlockRows + 17, D: 6, Blocks: p.data.Blocks[2:]},
	}
	second, fourth := tensor.NewSecond(6), tensor.NewFourth(u, p.centre())
	for _, half := range halves {
		s, err := tensor.SumSecond(t.Context(), half, 1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := tensor.SumFourth(t.Context(), half, u, p.centre(), 1)
		if err != nil {
			t.Fatal(err)
		}
		s2, f2 := new(tensor.Second), new(tensor.Fourth)
		travel(t, s, s2)
		travel(t, f, f2)
		second.Merge(s2)
		fourth.Merge(f2)
	}
	whole, err := tensor.SumFourth(t.Context(), p.data, u, p.centre(), 1)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want []float64) {
		t.Helper()
		for i, v := range want {
			if math.Abs(got[i]-v) > 1e-9*(1+math.Abs(v)) {
				t.Fatalf("%s: entry %d is %v, of the whole table %v", what, i, got[i], v)
			}
		}
	}
	near("T2", second.T2(p.transform.Delta, p.centre()).RawSymmetric().Data, p.second.T2(p.transform.Delta, p.centre()).RawSymmetric().Data)
	near("T4", fourth.T4(p.transform).Data, whole.T4(p.transform).Data)
	if second.N != p.data.N || fourth.N != p.data.N {
		t.Errorf("%d and %d rows of %d", second.N, fourth.N, p.data.N)
	}
	// So do sums for a transform that stands before the pass.
	for order, u := range map[int]*mat.Dense{2: nil, 3: u, 4: u} {
		s, err := tensor.SumTransformed(t.Context(), p.data, p.transform, order, u, p.centre(), 1)
		if err != nil {
			t.Fatal(err)
		}
		read := new(tensor.Transformed)
		travel(t, s, read)
		if !read.Alike(s) {
			t.Errorf("order %d: other sums than those that were written", order)
		}
		if data := bytesOf(t, s); new(tensor.Transformed).UnmarshalBinary(data[:len(data)-8]) == nil || new(tensor.Fourth).UnmarshalBinary(data) == nil {
			t.Errorf("order %d: damaged sums are read", order)
		}
	}
	// Sums that were read go on adding rows over the projection that they came with.
	again := new(tensor.Fourth)
	travel(t, whole, again)
	var room tensor.Scratch
	whole.Add(&p.data.Blocks[0], &room)
	again.Add(&p.data.Blocks[0], &room)
	if a, b := bytesOf(t, whole), bytesOf(t, again); !bytes.Equal(a, b) {
		t.Error("sums that were read add rows in another way")
	}
}

type codec interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

func bytesOf(t *testing.T, s encoding.BinaryMarshaler) []byte {
	t.Helper()
	data, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// travel copies from to to through bytes, which must come out the same again.
func travel(t *testing.T, from, to codec) {
	t.Helper()
	data := bytesOf(t, from)
	if err := to.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, bytesOf(t, to)) {
		t.Error("written again the bytes are others")
	}
}

// TestDamagedSums: bytes that are cut, flipped, of the other kind, of another
// size or not finite are refused, and what they were read into stays.
func TestDamagedSums(t *testing.T) {
	p := draw(t, relu.Family, 2, 4, 300, 3)
	good := bytesOf(t, p.second)
	signed := func(body []byte) []byte {
		return binary.LittleEndian.AppendUint32(body, crc32.ChecksumIEEE(body))
	}
	body := func() []byte { return bytes.Clone(good[:len(good)-4]) }
	for name, data := range map[string][]byte{
		"empty":       nil,
		"cut":         good[:len(good)-8],
		"other kind":  bytesOf(t, p.fourth),
		"longer":      signed(append(body(), make([]byte, 8)...)),
		"no features": signed(binary.LittleEndian.AppendUint64(body()[:16:16], 0)),
		"too many":    signed(append(binary.LittleEndian.AppendUint64(body()[:16:16], 1<<40), body()[24:]...)),
		"another d":   signed(append(binary.LittleEndian.AppendUint64(body()[:16:16], 5), body()[24:]...)),
		"NaN":         signed(binary.LittleEndian.AppendUint64(body()[:len(good)-12], math.Float64bits(math.NaN()))),
	} {
		s := tensor.NewSecond(2)
		s.N = 7
		if err := s.UnmarshalBinary(data); err == nil || s.N != 7 || s.D != 2 {
			t.Errorf("%s: error %v, n = %d", name, err, s.N)
		}
		if err := new(tensor.Fourth).UnmarshalBinary(data); err == nil && name != "other kind" {
			t.Errorf("%s: read as fourth sums", name)
		}
	}
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 0x10
		if new(tensor.Second).UnmarshalBinary(flipped) == nil {
			t.Fatalf("a bit of byte %d is flipped, and the sums are read", i)
		}
	}
}

// basis returns m orthonormal columns.
func (p *problem) basis(t *testing.T, m int) *mat.Dense {
	t.Helper()
	var qr mat.QR
	qr.Factorize(mat.DenseCopyOf(mat.NewDense(p.truth.K, p.truth.D, p.truth.Regressors).T()))
	var q mat.Dense
	qr.QTo(&q)
	return mat.DenseCopyOf(q.Slice(0, p.truth.D, 0, m))
}

// centre is some point to take the moments about.
func (p *problem) centre() []float64 {
	c := make([]float64, p.truth.D)
	for j := range c {
		c[j] = 0.1 * float64(j)
	}
	return c
}
