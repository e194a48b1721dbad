package shard

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard/sealed"
)

// A table is known again in two ways. Its fingerprint, which every part has, is of its rows,
// its columns and wholeBlocks of its blocks, evenly spaced: the parts of a round are of one
// table as far as those tell. And every part has digests of all of its own blocks, which the
// next round or pass is compared with, whatever its parts: what has changed between two readings is
// told by its rows.

const (
	// wholeBlocks of a table are in its fingerprint.
	wholeBlocks = 64
	// mostPrints bounds the digests of a table. Of a table with more blocks a digest is of as many
	// neighbours, a power of two, as make it so many: half a megabyte.
	mostPrints = 1 << 16
)

// The first 64 fractional bits of √2 and √3, odd.
const root2, root3 = 0x6a09e667f3bcc909, 0xbb67ae8584caa73b

// folded takes one value's bits into a hash: by both halves of a product, as wyhash does (Wang
// Yi 2019), since in FNV-1a over values changes of sign cancel each other.
func folded(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^root2, v^root3)
	return hi ^ lo ^ bits.RotateLeft64(h, 23)
}

// digestOf is the digest of block i of a table; −0 and 0 are the same. Four hashes take turns, so
// that no product waits for the one before.
func digestOf(i int, b *model.Block) uint64 {
	h := [4]uint64{folded(uint64(i), uint64(b.N)), 1, 2, 3}
	for i, v := range [][]float64{b.X, b.Y, b.Role[model.Weights], b.Role[model.Groups], b.Role[model.Offsets],
		b.Role[model.Trials]} {
		if i >= 3 && v == nil {
			continue // digests are those of before these were known
		}
		h[0] = folded(h[0], uint64(len(v)))
		for ; len(v) >= 4; v = v[4:] {
			h[0] = folded(h[0], math.Float64bits(v[0]+0))
			h[1] = folded(h[1], math.Float64bits(v[1]+0))
			h[2] = folded(h[2], math.Float64bits(v[2]+0))
			h[3] = folded(h[3], math.Float64bits(v[3]+0))
		}
		for _, last := range v {
			h[0] = folded(h[0], math.Float64bits(last+0))
		}
	}
	return mixed(folded(folded(folded(h[0], h[1]), h[2]), h[3]))
}

// fingerprint is that of a table with these digests of its blocks model.Spaced(t.Blocks(),
// wholeBlocks·model.BlockRows). It is never 0.
func (t Table) fingerprint(digests []uint64) uint64 {
	h := uint64(t.Rows)
	for _, name := range t.Schema("").Columns() {
		h = folded(h, uint64(len(name)))
		for _, c := range []byte(name) {
			h = folded(h, uint64(c))
		}
	}
	for _, d := range digests {
		h = folded(h, d)
	}
	return mixed(h) | 1
}

// wholeBlocks are those in the fingerprint.
func (t Table) wholeBlocks() []int { return model.Spaced(t.Blocks(), wholeBlocks*model.BlockRows) }

// Prints are digests of the blocks from ≤ i < to of a table: sums over 2^level neighbours, so
// that those of two parts that have a run in common add up.
type Prints struct {
	from, to, level int
	sums            []uint64
}

// NewPrints are those of no blocks yet.
func NewPrints(t Table, from, to int) *Prints {
	p := &Prints{from: from, to: to}
	for t.Blocks()>>p.level > mostPrints {
		p.level++
	}
	if from < to {
		p.sums = make([]uint64, p.runs())
	}
	return p
}

// runs is the number of runs of blocks that the prints are of.
func (p *Prints) runs() int {
	if p.from >= p.to {
		return 0
	}
	return (p.to-1)>>p.level - p.from>>p.level + 1
}

// Add adds block i.
func (p *Prints) Add(i int, b *model.Block) { p.sums[i>>p.level-p.from>>p.level] += digestOf(i, b) }

// Merged are those of two neighbouring ranges, the first before the second; nil has none.
func (p *Prints) Merged(o *Prints) *Prints {
	switch {
	case o == nil || o.from == o.to:
		return p
	case p == nil || p.from == p.to:
		return o
	}
	out := &Prints{from: p.from, to: o.to, level: p.level, sums: slices.Clone(p.sums)}
	out.sums = append(out.sums, make([]uint64, out.runs()-len(out.sums))...)
	for i, v := range o.sums {
		out.sums[o.from>>p.level-p.from>>p.level+i] += v
	}
	return out
}

// Changed returns the first rows of the table, counted from 1, that p and all have other
// digests of, where p has all blocks of a run; "" where there are none.
func (p *Prints) Changed(t Table, all *Prints) string {
	if p == nil || all == nil || p.level != all.level {
		return ""
	}
	size := 1 << p.level
	for i, v := range p.sums {
		run := p.from>>p.level + i
		first, last := run*size, min((run+1)*size, t.Blocks())
		at := run - all.from>>all.level
		if first < p.from || last > p.to || first < all.from || last > all.to || at >= len(all.sums) {
			continue
		}
		if v != all.sums[at] {
			return fmt.Sprintf("rows %d to %d", first*model.BlockRows+1, min(last*model.BlockRows, t.Rows))
		}
	}
	return ""
}

// ChangedRows says that rows are not those of a reading before, which the file named given is
// of.
func ChangedRows(rows, given string) string {
	return fmt.Sprintf("its %s are not those that %s was made of: the data have changed between the two", rows, given)
}

// MarshalBinary writes the digests.
func (p *Prints) MarshalBinary() ([]byte, error) { return p.bytes(), nil }

func (p *Prints) bytes() []byte {
	out := make([]byte, 0, 8*len(p.sums))
	for _, v := range p.sums {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return out
}

// LoadPrints reads the digests of the blocks from ≤ i < to.
func LoadPrints(t Table, from, to int, data []byte) (*Prints, error) {
	p := NewPrints(t, from, to)
	if len(data) != 8*len(p.sums) {
		return nil, sealed.ErrDamaged
	}
	for i := range p.sums {
		p.sums[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	return p, nil
}

// Kept is what a model keeps of the digests of all rows; nil for nil.
func (p *Prints) Kept(t Table) *progress.Prints {
	if p == nil || t.Print == 0 {
		return nil
	}
	return &progress.Prints{Rows: t.Rows, Whole: t.Print, Level: p.level, Blocks: p.bytes()}
}

// Recalled is what a model has kept of the rows of a table, nil where it has nothing. why
// says in what its rows are others.
func Recalled(kept *progress.Prints, t Table) (p *Prints, why string) {
	switch {
	case kept == nil:
		return nil, ""
	case kept.Rows != t.Rows:
		return nil, fmt.Sprintf("%d rows, not %d", t.Rows, kept.Rows)
	case kept.Whole != t.Print && t.Print != 0:
		return nil, "other columns or other values"
	}
	if p, err := LoadPrints(t, 0, t.Blocks(), kept.Blocks); err == nil && p.level == kept.Level {
		return p, ""
	}
	return nil, "" // digests of a later version
}
