package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
)

// Scaled is src with h(y) for its targets. A target of which there is no h(y) is an [*Error] that names the row and the
// column; a missing one stays missing. A source that has the scale already comes back as it is.
// It panics if src has another, or if there is no such scale.
func Scaled(src Source, s scaling.Scale) Source {
	switch was := src.Schema().Scale; {
	case !s.Known():
		panic(fmt.Sprintf("dataset: no scale %q", s))
	case s == was:
		return src
	case was != "":
		panic(fmt.Sprintf("dataset: the scale %s of targets that have the scale %s", s, was))
	}
	return &scaled{src: src, scale: s}
}

type scaled struct {
	src    Source
	scale  scaling.Scale
	digest string
}

// Schema implements [Source].
func (s *scaled) Schema() Schema {
	schema := s.src.Schema()
	schema.Scale = s.scale
	return schema
}

// Watched is the same table, which shows the raw columns of src to see where src does, before the block is read; nil
// where it does not.
func (s *scaled) Watched(see func(raw *model.Block)) Source {
	w, ok := s.src.(interface {
		Watched(see func(raw *model.Block)) Source
	})
	if !ok {
		return nil
	}
	return &scaled{src: w.Watched(see), scale: s.scale}
}

// Dropped returns how many rows with missing cells the last pass left out.
func (s *scaled) Dropped() int { return Dropped(s.src) }

// Read implements [Source].
func (s *scaled) Read(ctx context.Context, fn func(*model.Block) error) error {
	schema, rows := s.src.Schema(), 0
	sum := NewDigest()
	y := make([]float64, 0, model.BlockRows)
	err := s.src.Read(ctx, func(b *model.Block) error {
		sum.Add(b)
		out := *b
		if b.Y != nil {
			out.Y = y[:b.N]
		}
		for r, v := range b.Y {
			if !math.IsNaN(v) && !s.scale.Holds(v) {
				return s.outside(schema, rows+r+1, v)
			}
			out.Y[r] = s.scale.Of(v)
		}
		rows += b.N
		return fn(&out)
	})
	if err == nil {
		s.digest = sum.String()
	}
	return err
}

// outside is the error of a target that the scale has no place for.
func (s *scaled) outside(schema Schema, row int, y float64) error {
	of := ""
	if Dropped(s.src) > 0 {
		of = " of those without missing cells"
	}
	return &Error{File: schema.Name,
		Msg: fmt.Sprintf("row %d%s: column %q is %v, and %s needs values above 0; leave such rows out, or fit "+
			"another side of the formula",
			row, of, schema.Target, y, s.scale.Title(schema.Target))}
}

// Digest is the SHA-256 of targets and roles but ids, as the weights, in the rows' order.
type Digest struct {
	sum    hash.Hash
	buffer []byte
}

// NewDigest is that of no rows.
func NewDigest() *Digest { return &Digest{sum: sha256.New()} }

// Add adds the rows of a block.
func (d *Digest) Add(b *model.Block) {
	d.buffer = d.buffer[:0]
	for t, y := range b.Y {
		d.buffer = binary.LittleEndian.AppendUint64(d.buffer, math.Float64bits(y))
		for role, values := range b.Role {
			if values != nil && !rules[role].ids {
				d.buffer = binary.LittleEndian.AppendUint64(d.buffer, math.Float64bits(values[t]))
			}
		}
	}
	d.sum.Write(d.buffer)
}

// String is the digest in hexadecimal digits.
func (d *Digest) String() string { return hex.EncodeToString(d.sum.Sum(nil)) }

// DigestOf is that of the targets of src as they were before they were [Scaled], in the last whole pass; "" where they
// are as they came.
func DigestOf(src Source) string {
	if s, ok := src.(*scaled); ok {
		return s.digest
	}
	return ""
}
