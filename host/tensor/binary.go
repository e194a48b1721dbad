package tensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/gatedlearning/moe/internal/numeric"
	"gonum.org/v1/gonum/mat"
)

// The sums as bytes, so that parts of a table can be summed where they are and
// merged elsewhere: a name of 8 bytes, the sizes as uint64 and the numbers as
// float64, all little-endian, and the CRC-32 (IEEE) of everything before it.
const (
	secondName = "moesum2\x01"
	fourthName = "moesum4\x01"
	givenName  = "moesumt\x01"
)

var errSums = errors.New("tensor: not sums of this kind, or damaged")

// MarshalBinary writes the sums, to the last bit.
func (s *Second) MarshalBinary() ([]byte, error) {
	return encode(secondName, []int{s.N, s.D}, s.values([]float64{s.W2})), nil
}

// UnmarshalBinary reads sums that [Second.MarshalBinary] wrote. Anything else is
// an error, and s is then as it was.
func (s *Second) UnmarshalBinary(data []byte) error {
	sizes, rest, err := decode(secondName, data, 2)
	if err != nil {
		return err
	}
	d := sizes[1]
	if d < 1 || float64(len(s.XX))*products(d, 2) > float64(len(rest)/8) {
		return errSums
	}
	out, w2 := NewSecond(d), make([]float64, 1)
	out.N = sizes[0]
	if err := fill(rest, out.values(w2)); err != nil {
		return err
	}
	out.W2 = w2[0]
	*s = *out
	return nil
}

// values lists everything that is summed, W2 in the place given.
func (s *Second) values(w2 []float64) [][]float64 {
	out := [][]float64{w2, s.Y[:]}
	for p := range s.X {
		out = append(out, s.X[p], s.XX[p])
	}
	return append(out, s.Cubes, s.Fours)
}

// MarshalBinary writes the sums and the projection that they are over, to the
// last bit.
func (f *Fourth) MarshalBinary() ([]byte, error) {
	d, _ := f.basis.Dims()
	return encode(fourthName, []int{f.N, d, f.M}, f.values()), nil
}

// UnmarshalBinary reads sums that [Fourth.MarshalBinary] wrote. Anything else is
// an error, and f is then as it was.
func (f *Fourth) UnmarshalBinary(data []byte) error {
	sizes, rest, err := decode(fourthName, data, 3)
	if err != nil {
		return err
	}
	d, m := sizes[1], sizes[2]
	if d < 1 || m < 1 || m > d || float64(d)*float64(m) > float64(len(rest)/8) || float64(len(f.Four))*products(m,
		4) > float64(len(rest)/8) {
		return errSums
	}
	out := NewFourth(mat.NewDense(d, m, nil), nil)
	out.N = sizes[0]
	if err := fill(rest, out.values()); err != nil {
		return err
	}
	*f = *out
	return nil
}

// values lists the projection and everything that is summed over it.
func (f *Fourth) values() [][]float64 {
	out := [][]float64{f.basis.RawMatrix().Data, f.shift, f.Y[:]}
	for p := range f.Two {
		out = append(out, f.Two[p], f.Four[p])
	}
	return out
}

// MarshalBinary writes the sums with the order and the projection that they are over,
// to the last bit. The transform of y is not among that: who merges sums knows that it
// is one.
func (s *Transformed) MarshalBinary() ([]byte, error) {
	return encode(givenName, []int{s.N, len(s.projection()[0]) / s.M, s.M, s.Order, len(s.shift)}, s.values()), nil
}

// UnmarshalBinary reads sums that [Transformed.MarshalBinary] wrote, which merge and
// make tensors; rows cannot be added to them. Anything else is an error, and s is then
// as it was.
func (s *Transformed) UnmarshalBinary(data []byte) error {
	sizes, rest, err := decode(givenName, data, 5)
	if err != nil {
		return err
	}
	d, m, order, shift := sizes[1], sizes[2], sizes[3], sizes[4]
	if m < 1 || order < 2 || order > 4 || shift != 0 && shift != m || float64(d)*float64(m) > float64(len(rest)/8) ||
		float64(len(s.High))*products(m, order) > float64(len(rest)/8) {
		return errSums
	}
	out := &Transformed{N: sizes[0], M: m, Order: order}
	if d > 0 {
		out.basis = mat.NewDense(d, m, nil)
	}
	if shift > 0 {
		out.shift = make([]float64, m)
	}
	for p := range out.High {
		out.High[p] = make([]float64, monomials(m, order))
		out.Low[p] = make([]float64, monomials(m, order-2))
	}
	if err := fill(rest, out.values()); err != nil {
		return err
	}
	*s = *out
	return nil
}

// projection lists what the sums are over.
func (s *Transformed) projection() [][]float64 {
	if s.basis == nil {
		return [][]float64{nil, s.shift}
	}
	return [][]float64{s.basis.RawMatrix().Data, s.shift}
}

// values lists the projection and everything that is summed over it.
func (s *Transformed) values() [][]float64 {
	out := append(s.projection(), s.Y[:])
	for p := range s.High {
		out = append(out, s.Low[p], s.High[p])
	}
	return out
}

// Alike says whether sums are over one projection: only those add up.
func (f *Fourth) Alike(o *Fourth) bool {
	return f.M == o.M && mat.Equal(f.basis, o.basis) && slices.Equal(f.shift, o.shift)
}

// Alike says whether sums are of one order over one projection: only those add up.
func (s *Transformed) Alike(o *Transformed) bool {
	return s.M == o.M && s.Order == o.Order && slices.EqualFunc(s.projection(), o.projection(), slices.Equal)
}

func encode(name string, sizes []int, values [][]float64) []byte {
	n := len(name) + 8*len(sizes) + 4
	for _, v := range values {
		n += 8 * len(v)
	}
	out := append(make([]byte, 0, n), name...)
	for _, size := range sizes {
		out = binary.LittleEndian.AppendUint64(out, uint64(size))
	}
	for _, v := range values {
		out = numeric.AppendFloats(out, v)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// decode returns the sizes and the bytes of the numbers.
func decode(name string, data []byte, count int) (sizes []int, rest []byte, err error) {
	head := len(name) + 8*count
	if len(data) < head+4 || string(data[:len(name)]) != name {
		return nil, nil, errSums
	}
	body, sum := data[:len(data)-4], data[len(data)-4:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return nil, nil, fmt.Errorf("%w: the checksum does not match", errSums)
	}
	for i := range count {
		v := binary.LittleEndian.Uint64(body[len(name)+8*i:])
		if v > math.MaxInt32 && i > 0 || v > math.MaxInt64 {
			return nil, nil, errSums
		}
		sizes = append(sizes, int(v))
	}
	return sizes, body[head:], nil
}

// products is how many products of r factors there are among m: what sums of that order have
// at least. It is a float64, in which nothing overflows, for it is held against the
// length of what there is before anything is made.
func products(m, r int) float64 {
	n := 1.0
	for i := range r {
		n *= float64(m+i) / float64(i+1)
	}
	return n
}

// fill reads exactly the given values. Sums that are not finite have no use.
func fill(rest []byte, values [][]float64) error {
	n := 0
	for _, v := range values {
		n += 8 * len(v)
	}
	if n != len(rest) {
		return errSums
	}
	for _, v := range values {
		numeric.ReadFloats(v, rest)
		rest = rest[8*len(v):]
		if !numeric.Finite(v...) {
			return fmt.Errorf("%w: a number is not finite", errSums)
		}
	}
	return nil
}
