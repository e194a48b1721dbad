package dataset

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Room is how many bytes of memory the rows of a table may take; 0: half of what is
// free, if the system says how much that is.
type Room float64

// bytes is the room in bytes.
func (r Room) bytes() float64 {
	if r > 0 {
		return float64(r)
	}
	return memory.Free() / 2
}

// Kept is the rows of a source, kept for any number of passes: in memory, or in a file.
type Kept struct {
	Rows model.Rows
	file io.Closer // that they are read from; nil where they are in memory
	temp string    // its name, where it has to be removed
}

// Follow has fn called, a hundred times a pass, with the number of passes that have been
// made over rows in a file. It may be called from several goroutines at once.
func (k *Kept) Follow(fn func(passes float64)) {
	if s, ok := k.Rows.(*stored); ok {
		s.follow = fn
	}
}

// Close lets go of the rows.
func (k *Kept) Close() {
	if k.file == nil {
		return
	}
	k.file.Close()
	if k.temp != "" {
		os.Remove(k.temp)
	}
}

// SpoolError says that rows for which there is not the memory could not be written to a
// temporary file.
type SpoolError struct {
	Name string // of the table
	Dir  string // of temporary files
	Err  error
}

func (e *SpoolError) Error() string {
	return fmt.Sprintf("the rows of %s do not fit in memory and could not be kept in %s: %v; make room there, or let "+
		"TMPDIR name another directory", e.Name, e.Dir, e.Err)
}

func (e *SpoolError) Unwrap() error { return e.Err }

// Rows reads src for passes over its rows. Those that do not fit in the room stay in
// their file where that is a row-major array, and are elsewhere written once to a
// temporary file, which has no name where the system allows that. Passes over them give
// the same blocks as in memory. A file that changes between passes is an *[Error], and a
// lack of room for the temporary one a *[SpoolError]. Workers read such an array side by
// side where it is to be in memory.
func Rows(ctx context.Context, src Source, room Room, workers int) (*Kept, error) {
	most := room.bytes()
	if s, ok := src.(*npySource); ok && s.direct() {
		if 8*float64(s.rows())*float64(len(s.layout.schema.Columns())) > most {
			return s.inPlace(ctx)
		}
		if rows := s.inMemory(ctx, workers); rows != nil {
			return &Kept{Rows: rows}, nil
		}
	}
	s := &spool{data: &model.Data{D: len(src.Schema().Features)}, schema: src.Schema(), most: most}
	if err := src.Read(ctx, s.add); err != nil {
		s.kept.Close()
		return nil, err
	}
	return s.end()
}

// spool keeps blocks in memory until they are too many, then in a file.
type spool struct {
	kept   Kept
	schema Schema
	data   *model.Data // of the blocks in memory
	most   float64     // bytes
	asked  float64     // bytes in memory that there is room for, see [Load]

	n   int // rows written
	f   *os.File
	out *bufio.Writer
	buf []byte
}

func (s *spool) add(b *model.Block) error {
	if s.out != nil {
		return s.write(b)
	}
	size := 8 * float64(len(s.schema.Columns())) * float64(s.data.N+b.N)
	if size <= s.most {
		if size > max(s.asked, loadStep) {
			if err := memory.Check(fmt.Sprintf("the rows of %s from row %d on", s.schema.Name, s.data.N+1),
				loadStep); err != nil {
				return err
			}
			s.asked = max(s.asked, loadStep) + loadStep
		}
		s.data.Blocks = append(s.data.Blocks, b.Clone())
		s.data.N += b.N
		return nil
	}
	f, err := os.CreateTemp("", "moe-rows-*")
	if err != nil {
		return s.failed(err)
	}
	s.f, s.kept.file = f, f
	if os.Remove(f.Name()) != nil { // Windows refuses; Close does it there
		s.kept.temp = f.Name()
	}
	s.out = bufio.NewWriterSize(f, readSize)
	for i := range s.data.Blocks {
		if err := s.write(&s.data.Blocks[i]); err != nil {
			return err
		}
	}
	s.data = nil
	return s.write(b)
}

func (s *spool) failed(err error) error {
	return &SpoolError{Name: s.schema.Name, Dir: os.TempDir(), Err: err}
}

// write appends a block to the file: its columns, in the order of Schema.Columns, in
// little-endian float64.
func (s *spool) write(b *model.Block) error {
	s.buf = s.buf[:0]
	for values := range b.Values() {
		s.buf = numeric.AppendFloats(s.buf, values)
	}
	s.n += b.N
	if _, err := s.out.Write(s.buf); err != nil {
		return s.failed(err)
	}
	return nil
}

func (s *spool) end() (*Kept, error) {
	if s.out == nil {
		return &Kept{Rows: s.data}, nil
	}
	if err := s.out.Flush(); err != nil {
		s.kept.Close()
		return nil, s.failed(err)
	}
	rows := newStored(s.schema, s.n, s.f, 8*int64(len(s.schema.Columns())))
	rows.ahead = func(from, size int64) { readAhead(s.f, from, size) }
	rows.decode = func(dst []float64, from []byte, _ int) { numeric.ReadFloats(dst, from) }
	s.kept.Rows = rows
	return &s.kept, nil
}
