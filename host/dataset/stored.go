package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/internal/numeric"
)

// stored is rows that stay in a file, as [model.Rows]. Blocks that are asked for one
// after the other are read together, and the system is asked to read ahead of them.
// Every block has to be what it was when it was first read.
type stored struct {
	model.Memo
	schema Schema
	n      int
	row    int64                                      // bytes of one
	at     io.ReaderAt                                // the rows
	ahead  func(from, size int64)                     // asks the system to read there soon
	decode func(dst []float64, from []byte, rows int) // of a block: all columns, one behind the other
	// check, if set, refuses values that no table has, when they are first read.
	check  func(dst []float64, rows int) error
	run    int          // blocks that are read together
	read   atomic.Int64 // blocks
	follow func(passes float64)
	// of each block, 1<<32 and its CRC-32C; 0 until it has been read; nil where none is read again
	sums []atomic.Uint64
}

func newStored(schema Schema, n int, at io.ReaderAt, row int64) *stored {
	s := &stored{schema: schema, n: n, row: row, at: at, run: max(1, model.Run(len(schema.Features))/4)}
	s.sums = make([]atomic.Uint64, model.Blocks(s))
	return s
}

// Dims implements [model.Rows].
func (s *stored) Dims() (n, d int) { return s.n, len(s.schema.Features) }

// count counts a block, and says now and then how many passes they make.
func (s *stored) count() {
	blocks := int64(len(s.sums))
	if read := s.read.Add(1); s.follow != nil && read%max(1, blocks/100) == 0 {
		s.follow(float64(read) / float64(blocks))
	}
}

// window is the blocks that were last read for one caller.
type window struct {
	of       *stored
	from, to int   // blocks
	last     int   // the block last asked for
	asked    int64 // what the system has been asked to read ends there
	bytes    []byte
	values   []float64
	block    model.Block
}

// Block implements [model.Rows].
func (s *stored) Block(i int, room *model.Room) (*model.Block, error) {
	w, ok := room.Reader.(*window)
	if !ok || w.of != s {
		w = &window{of: s, last: -2}
		room.Reader = w
	}
	if i < w.from || i >= w.to {
		if err := w.read(i); err != nil {
			return nil, err
		}
	}
	w.last = i
	s.count()
	from := w.bytes[int64(i-w.from)*model.BlockRows*s.row:]
	n := min(model.BlockRows, s.n-i*model.BlockRows)
	from = from[:int64(n)*s.row]
	columns := len(s.schema.Columns())
	if cap(w.values) < columns*n {
		w.values = make([]float64, columns*model.BlockRows)
	}
	values := w.values[:columns*n]
	s.decode(values, from, n)
	if err := s.verify(i, from, values, n); err != nil {
		return nil, err
	}
	w.block = model.Block{N: n}
	w.block.X, values = values[:len(s.schema.Features)*n], values[len(s.schema.Features)*n:]
	if s.schema.Target != "" {
		w.block.Y, values = values[:n], values[n:]
	}
	for r, name := range s.schema.Roles {
		if name != "" {
			w.block.Role[r], values = values[:n], values[n:]
		}
	}
	return &w.block, nil
}

// read reads block i, and those behind it where they are likely to be asked for next.
func (w *window) read(i int) error {
	s := w.of
	count := 1
	if i == w.last+1 || i%s.run == 0 {
		count = s.run - i%s.run
	}
	w.from, w.to = 0, 0
	end := min((i+count)*model.BlockRows, s.n)
	start := i * model.BlockRows
	size := int64(end-start) * s.row
	if int64(cap(w.bytes)) < size {
		w.bytes = make([]byte, size)
	}
	w.bytes = w.bytes[:size]
	at := int64(start) * s.row
	if _, err := s.at.ReadAt(w.bytes, at); errors.Is(err, io.EOF) {
		return s.changed(i)
	} else if err != nil {
		return err
	}
	if count > 1 && s.ahead != nil {
		w.askAhead(at+size, at+size+aheadRuns*size)
	}
	w.from, w.to = i, (end+model.BlockRows-1)/model.BlockRows
	return nil
}

// askAhead asks the system to read from there to there soon, but for what it has been
// asked already: it looks up every page again, which costs a third of reading them.
func (w *window) askAhead(from, to int64) {
	if w.asked > from && w.asked <= to {
		from = w.asked
	}
	w.of.ahead(from, to-from)
	w.asked = to
}

// aheadRuns is how many reads, of a quarter of a MiB, the system is asked to be ahead: what
// is read has to stay in a processor's own cache until it is decoded.
const aheadRuns = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verify compares a block with what it was when it was first read; then it checks it.
func (s *stored) verify(i int, from []byte, values []float64, n int) error {
	if s.sums == nil {
		return s.check(values, n)
	}
	sum := 1<<32 | uint64(crc32.Checksum(from, castagnoli))
	was := s.sums[i].Load()
	if was == sum {
		return nil
	}
	if was == 0 {
		if s.check != nil {
			if err := s.check(values, n); err != nil {
				return err
			}
		}
		if s.sums[i].CompareAndSwap(0, sum) || s.sums[i].Load() == sum {
			return nil
		}
	}
	return s.changed(i)
}

func (s *stored) changed(block int) error {
	from := block * model.BlockRows
	return &Error{File: s.schema.Name,
		Msg: fmt.Sprintf("rows %d to %d are not what they were: the file was changed while it was read; start again "+
			"when nothing writes to it", from+1, min(from+model.BlockRows, s.n))}
}

// direct says whether rows can be read where they stand: from any on, and all of them.
func (s *npySource) direct() bool {
	return s.random && !s.header.fortran && s.layout.absent == Refuse && !s.layout.optional
}

// inPlace returns the rows where they stand.
func (s *npySource) inPlace(ctx context.Context) (*Kept, error) {
	_, at, f, err := s.open()
	if err != nil {
		return nil, err
	}
	rows := newStored(s.layout.schema, int(s.header.rows), at, s.header.cols*s.header.size)
	if disk, ok := f.(diskFile); ok {
		rows.ahead = func(from, size int64) { readAhead(disk.File, s.header.offset+from, size) }
	}
	rows.decode = s.columns
	if s.header.native && s.layout.inOrder() {
		columns := int(s.header.cols)
		rows.decode = func(dst []float64, from []byte, rows int) { kernel.Columns(dst, from, rows, columns) }
	}
	out := s.layout.blocks(nil)
	rows.check = func(values []float64, n int) error {
		if out.plain == out.columns && numeric.Finite(kernel.Sum(values)) { // so is each then
			return nil
		}
		for at, v := range values {
			if !out.accepts(at/n, v) {
				// Reading all of it counts the bad cells.
				if err := s.Read(ctx, func(*model.Block) error { return nil }); err != nil {
					return err
				}
				return rows.changed(0)
			}
		}
		return nil
	}
	if s.layout.schema.Roles != (Roles{}) { // their sums have bounds
		if err := s.Read(ctx, func(*model.Block) error { return nil }); err != nil {
			f.Close()
			return nil, err
		}
	}
	return &Kept{Rows: rows, file: f}, nil
}

// inMemory returns the rows in memory; nil where there is not the room, or something is
// wrong with them: reading them in order says what. The sum of a column with a role is one in order.
func (s *npySource) inMemory(ctx context.Context, workers int) *model.Data {
	size := 8 * float64(s.rows()) * float64(len(s.layout.schema.Columns()))
	if s.layout.schema.Roles != (Roles{}) || memory.Check("rows", size) != nil {
		return nil
	}
	kept, err := s.inPlace(ctx)
	if err != nil {
		return nil
	}
	defer kept.Close()
	rows := kept.Rows.(*stored)
	rows.sums = nil // they are read once
	data, err := model.InMemory(ctx, rows, workers)
	if err != nil {
		return nil
	}
	return data
}

// columns writes rows of the file to the columns of a block.
func (s *npySource) columns(dst []float64, from []byte, rows int) {
	for r := range rows {
		for _, column := range s.layout.place {
			if column >= 0 {
				dst[column*rows+r] = s.header.decode(from)
			}
			from = from[s.header.size:]
		}
	}
}
