// Package sealed writes and reads files of sums. A file is a line that names its format, the length of a header as a
// uint64, the header in JSON, the bodies that the header lists, and the SHA-256 of all that: little-endian, as are the
// numbers in the bodies.
package sealed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/textfile"
)

// Body is a run of bytes behind the header.
type Body struct {
	Name  string `json:"name"`
	Level int    `json:"level,omitempty"` // of the node of sums
	Index int    `json:"index,omitempty"`
	Bytes int    `json:"bytes"`
	Data  []byte `json:"-"` // these
}

// BodyOf is a body of what knows its bytes.
func BodyOf(name string, level, index int, v encoding.BinaryMarshaler) (Body, error) {
	data, err := v.MarshalBinary()
	return Body{name, level, index, len(data), data}, err
}

// mostHeader bounds the header.
const mostHeader = 64 << 20

// ErrDamaged is the error of a file that is not as it was written.
var ErrDamaged = errors.New("it is damaged or cut short: its checksum does not match")

// Seal writes a file.
func Seal(format string, header any, bodies []Body) ([]byte, error) {
	head, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(format + "\n")
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(head))))
	out.Write(head)
	for _, b := range bodies {
		out.Write(b.Data)
	}
	sum := sha256.Sum256(out.Bytes())
	out.Write(sum[:])
	return out.Bytes(), nil
}

// Open reads the header of a file and returns what follows it.
func Open(data []byte, format string, header any) (rest []byte, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(format+"\n"))
	if !ok {
		return nil, errors.New("it is no file of format " + format)
	}
	if len(rest) < 8+sha256.Size {
		return nil, ErrDamaged
	}
	end := len(data) - sha256.Size
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, ErrDamaged
	}
	rest = rest[:len(rest)-sha256.Size]
	n := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; n > uint64(min(len(rest), mostHeader)) {
		return nil, ErrDamaged
	}
	d := json.NewDecoder(bytes.NewReader(rest[:n]))
	d.DisallowUnknownFields()
	if err := d.Decode(header); err != nil {
		return nil, fmt.Errorf("its header cannot be read: %w", err)
	}
	return rest[n:], nil
}

// Cut gives the bodies of a header their bytes.
func Cut(rest []byte, bodies []Body) error {
	for i := range bodies {
		n := bodies[i].Bytes
		if n < 0 || n > len(rest) {
			return ErrDamaged
		}
		bodies[i].Data, rest = rest[:n], rest[n:]
	}
	if len(rest) > 0 {
		return ErrDamaged
	}
	return nil
}

// read returns what a file holds. What is no regular file of the format is a
// *dataset.Error, one that cannot be opened or read an *fs.PathError.
func read(path, format string) ([]byte, error) {
	f, err := textfile.Regular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, len(format)+1)
	if n, _ := io.ReadFull(f, head); string(head[:n]) != format+"\n" {
		return nil, &dataset.Error{File: path, Msg: "it is no file of format " + format}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := memory.Check(path, 3*float64(info.Size())); err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(f)
	return append(head, rest...), err
}

// Read reads the file of a format as a T. What is none is a *dataset.Error.
func Read[T any, P interface {
	*T
	encoding.BinaryUnmarshaler
}](path, format string) (P, error) {
	data, err := read(path, format)
	if err != nil {
		return nil, err
	}
	v := P(new(T))
	if err := v.UnmarshalBinary(data); err != nil {
		return nil, &dataset.Error{File: path, Msg: err.Error()}
	}
	return v, nil
}

// Numbers reads a body of numbers, all of which must be finite.
func Numbers(data []byte) ([]float64, error) {
	out := make([]float64, len(data)/8)
	numeric.ReadFloats(out, data)
	if !numeric.Finite(out...) {
		return nil, ErrDamaged
	}
	return out, nil
}

// Write writes a file whole or not at all.
func Write(ctx context.Context, path string, data []byte) error {
	return atomicfile.WriteFile(ctx, path, data)
}

// Values are numbers as bytes.
type Values []float64

// MarshalBinary writes them, little-endian.
func (f Values) MarshalBinary() ([]byte, error) {
	return numeric.AppendFloats(make([]byte, 0, 8*len(f)), f), nil
}

// Exactly reads a body of so many numbers.
func Exactly(data []byte, count int) ([]float64, error) {
	if len(data) != 8*count {
		return nil, ErrDamaged
	}
	return Numbers(data)
}
