package gru

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/internal/npy"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/strictjson"
)

// Error is what is wrong with a file of weights.
type Error struct {
	File string
	Err  error
}

func (e *Error) Error() string { return e.Worded(setting.InFile) }

// Worded is the error with its settings in other words.
func (e *Error) Worded(as setting.Words) string { return e.File + ": " + setting.Message(e.Err, as) }

// tensor is an array of numbers, the last index varying fastest.
type tensor struct {
	shape  []int64
	values []float64
}

// tensors are the arrays of a file, by name.
type tensors interface {
	names() []string
	read(name string) (*tensor, error)
}

const (
	maxValues = 1 << 27 // of one array: 1 GiB
	maxHeader = 1 << 24 // of a safetensors file
)

// open tells the format of a file by its content.
func open(f *os.File) (tensors, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	head := make([]byte, 9)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("PK")):
		return openNPZ(f, info.Size())
	case len(head) == 9 && head[8] == '{':
		return openSafetensors(f, info.Size())
	}
	return nil, errors.New("neither a safetensors file nor an .npz archive")
}

// values returns the number of values of a shape, and refuses what is too large.
func values(name string, shape []int64) (int64, error) {
	n := int64(1)
	for _, v := range shape {
		if v < 0 || v > maxValues || n*v > maxValues {
			return 0, fmt.Errorf("%s of shape %s is too large: want at most %d values", name, shapeText(shape),
				maxValues)
		}
		n *= v
	}
	return n, nil
}

func shapeText(shape []int64) string {
	if len(shape) == 0 {
		return "()"
	}
	text := make([]string, len(shape))
	for i, v := range shape {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, "×")
}

// safetensors is a file in the format of that name: the length of a header, 8 bytes,
// the header, a JSON object of arrays, and their values.
type safetensors struct {
	file   io.ReaderAt
	start  int64 // of the values
	size   int64 // of them all, bytes
	arrays map[string]safetensor
}

type safetensor struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

func openSafetensors(f io.ReaderAt, size int64) (*safetensors, error) {
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || n > uint64(size-8) {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d, want at most %d", n, size, maxHeader)
	}
	header := make([]byte, n)
	if _, err := f.ReadAt(header, 8); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	entries := map[string]json.RawMessage{}
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("the header is not the JSON expected: %v", err)
	}
	if _, err := strictjson.Members(header, nil, ""); err != nil {
		return nil, fmt.Errorf("the header is not the JSON expected: %v", err)
	}
	delete(entries, "__metadata__")
	s := &safetensors{file: f, start: 8 + int64(n), size: size - 8 - int64(n), arrays: map[string]safetensor{}}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var a safetensor
		if err := json.Unmarshal(entries[name], &a); err != nil {
			return nil, fmt.Errorf("array %q of the header is not the JSON expected: %v", name, err)
		}
		if _, err := strictjson.Members(entries[name], reflect.TypeOf(a), ""); err != nil {
			return nil, fmt.Errorf("array %q of the header is not the JSON expected: %v", name, err)
		}
		if len(a.Offsets) != 2 {
			return nil, fmt.Errorf("array %q has %d data_offsets, want 2", name, len(a.Offsets))
		}
		s.arrays[name] = a
	}
	return s, s.apart()
}

// apart refuses arrays that share bytes.
func (s *safetensors) apart() error {
	names := slices.SortedFunc(maps.Keys(s.arrays), func(a, b string) int {
		return cmp.Or(slices.Compare(s.arrays[a].Offsets, s.arrays[b].Offsets), cmp.Compare(a, b))
	})
	behind, last := int64(0), ""
	for _, name := range names {
		from, to := s.arrays[name].Offsets[0], s.arrays[name].Offsets[1]
		if 0 <= from && from < to && from < behind {
			return fmt.Errorf("arrays %q and %q overlap: bytes %d to %d belong to both", last, name, from,
				min(to, behind))
		}
		if to > behind {
			behind, last = to, name
		}
	}
	return nil
}

func (s *safetensors) names() []string { return slices.Sorted(maps.Keys(s.arrays)) }

// numberTypes are the types of values that are read: their bytes, and a value.
var numberTypes = map[string]struct {
	size  int64
	value func(b []byte) float64
}{
	"F64": {8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
	"F32": {4, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	"BF16": {2, func(b []byte) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	}},
	"F16": {2, func(b []byte) float64 { return half(binary.LittleEndian.Uint16(b)) }},
}

// half returns a number of IEEE 754's binary16.
func half(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1+fraction/1024, exponent-15)
	switch {
	case exponent == 31 && fraction == 0:
		v = math.Inf(1)
	case exponent == 31:
		v = math.NaN()
	case exponent == 0:
		v = math.Ldexp(fraction, -24)
	}
	if bits>>15 == 1 {
		return -v
	}
	return v
}

func (s *safetensors) read(name string) (*tensor, error) {
	a := s.arrays[name]
	kind, ok := numberTypes[a.DType]
	if !ok {
		return nil, fmt.Errorf("%s has values of type %q, want %s", name, a.DType,
			strings.Join(slices.Sorted(maps.Keys(numberTypes)), ", "))
	}
	n, err := values(name, a.Shape)
	if err != nil {
		return nil, err
	}
	from, to := a.Offsets[0], a.Offsets[1]
	switch {
	case from < 0 || to > s.size || from > to:
		return nil, fmt.Errorf("%s is at bytes %d to %d of %d: the file is cut short or damaged", name, from, to,
			s.size)
	case to-from != n*kind.size:
		return nil, fmt.Errorf("%s of shape %s and type %s has %d bytes, want %d", name, shapeText(a.Shape), a.DType,
			to-from, n*kind.size)
	}
	data := make([]byte, to-from)
	if _, err := s.file.ReadAt(data, s.start+from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	out := &tensor{shape: a.Shape, values: make([]float64, n)}
	for i := range out.values {
		out.values[i] = kind.value(data[int64(i)*kind.size:])
	}
	return out, nil
}

// npz is a ZIP archive of NPY files, as numpy.savez writes it.
type npz struct{ members map[string]*zip.File }

func openNPZ(f io.ReaderAt, size int64) (*npz, error) {
	r, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %v", err)
	}
	a := &npz{members: map[string]*zip.File{}}
	for _, member := range r.File {
		name, ok := strings.CutSuffix(member.Name, ".npy")
		if !ok {
			continue
		}
		if a.members[name] != nil {
			return nil, fmt.Errorf("array %q is in the archive twice", name)
		}
		a.members[name] = member
	}
	return a, nil
}

func (a *npz) names() []string { return slices.Sorted(maps.Keys(a.members)) }

func (a *npz) read(name string) (*tensor, error) {
	r, err := a.members[name].Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	defer r.Close()
	h, err := npy.ReadHeader(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	n, err := values(name, h.Shape)
	if err != nil {
		return nil, err
	}
	if h.Fortran && len(h.Shape) > 1 {
		return nil, fmt.Errorf("%s is in column-major order, want row-major (numpy.ascontiguousarray)", name)
	}
	out := &tensor{shape: h.Shape}
	// As much memory as values have come: what is declared may not be there.
	const piece = 1 << 16
	buffer := make([]byte, piece*h.Size)
	for int64(len(out.values)) < n {
		b := buffer[:min(piece, n-int64(len(out.values)))*h.Size]
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("%s: %d values, want %d: %v", name, len(out.values), n, err)
		}
		for i := int64(0); i < int64(len(b)); i += h.Size {
			out.values = append(out.values, h.Decode(b[i:]))
		}
	}
	return out, nil
}
