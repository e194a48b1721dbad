package tensor_test

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"hash/crc32"
	"math"
	"runtime"
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

func bytesOf(t testing.TB, s encoding.BinaryMarshaler) []byte {
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

// TestSmallSumsTravel: sums in one dimension, over all dimensions, with no centre and of as many
// rows as an int counts travel too. What is written is a name of 8 bytes, 8 for each size and each
// number and 4 of the checksum, and the bytes are made at once.
func TestSmallSumsTravel(t *testing.T) {
	for _, m := range []int{1, 3} {
		second, fourth := tensor.NewSecond(m), tensor.NewFourth(eye(m), nil)
		second.N, fourth.N = math.MaxInt, math.MaxInt
		s2, f2 := new(tensor.Second), new(tensor.Fourth)
		travel(t, second, s2)
		travel(t, fourth, f2)
		if s2.N != second.N || f2.N != fourth.N || s2.D != m || f2.M != m || !f2.Alike(fourth) {
			t.Errorf("%d and %d rows in %d and %d dimensions are read", s2.N, f2.N, s2.D, f2.M)
		}
		pairs := m * (m + 1) / 2
		size := func(what string, s encoding.BinaryMarshaler, want int) {
			if data := bytesOf(t, s); len(data) != want || cap(data) != want {
				t.Errorf("%s over %d dimensions: %d bytes in room for %d, want %d", what, m, len(data), cap(data), want)
			}
		}
		size("second sums", second, 8+8*2+8*(1+9+3*m+3*pairs+2*m)+4)
		size("fourth sums", fourth, 8+8*3+8*(m*m+m+5+5*pairs+5*len(fourth.Four[0]))+4)
		for _, order := range []int{2, 3, 4} {
			given := tensor.NewTransformed(naive{}, order, m, nil, nil)
			given.N = math.MaxInt
			read := new(tensor.Transformed)
			travel(t, given, read)
			if read.N != given.N || read.M != m || read.Order != order || !read.Alike(given) {
				t.Errorf("order %d over %d dimensions: order %d over %d is read", order, m, read.Order, read.M)
			}
			size("sums of a transform", given, 8+8*5+8*(2+2*len(given.Low[0])+2*len(given.High[0]))+4)
		}
	}
}

// TestSizesThatAreNotThere: a few bytes that claim to be sums of sizes that no such bytes have are
// refused before there is room made for them.
func TestSizesThatAreNotThere(t *testing.T) {
	const numbers, most = 10_000, 1 << 29
	header := func(like encoding.BinaryMarshaler, numbers int, sizes ...uint64) []byte {
		body := bytesOf(t, like)[:8:8]
		for _, size := range sizes {
			body = binary.LittleEndian.AppendUint64(body, size)
		}
		body = append(body, make([]byte, 8*numbers)...)
		return binary.LittleEndian.AppendUint32(body, crc32.ChecksumIEEE(body))
	}
	second, fourth, given := tensor.NewSecond(1), tensor.NewFourth(eye(1), nil), tensor.NewTransformed(naive{}, 2, 1, nil, nil)
	for name, c := range map[string]struct {
		data []byte
		to   encoding.BinaryUnmarshaler
	}{
		"more pairs than there may be":    {header(second, numbers, 7, 23_171), second},
		"a larger basis than may be":      {header(fourth, numbers, 7, most/2+1, 2), fourth},
		"more fours than there may be":    {header(fourth, numbers, 7, 153, 153), fourth},
		"a larger projection than may be": {header(given, numbers, 7, most/2+1, 2, 2, 0), given},
		"more entries than numbers":       {header(given, numbers, 7, 0, 20, 4, 0), given}, // 2·C(23, 4) = 17,710
		"one size of second sums":         {header(second, 0, 7), second},
		"two sizes of fourth sums":        {header(fourth, 0, 7, 1), fourth},
		"four sizes of a transform":       {header(given, 0, 7, 0, 1, 2), given},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.to.UnmarshalBinary(c.data)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; err == nil || made > 1<<16 {
			t.Errorf("%s: error %v after %d bytes of room", name, err, made)
		}
	}
}
