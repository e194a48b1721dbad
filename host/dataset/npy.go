package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/badfile"
	"github.com/gatedlearning/moe/internal/npy"
)

// A column-major file is read in as many places as it has columns at a
// time: larger pieces than elsewhere keep the reads long.
const columnReadSize = 4 << 20

// npyHeader describes the array of an NPY file.
type npyHeader struct {
	offset     int64 // of the first value in the file
	rows, cols int64
	fields     []string // of an array of records
	fortran    bool
	size       int64 // bytes of a value
	native     bool  // values are little-endian float64
	decode     func(b []byte) float64
}

// bytes is the size of the array.
func (h *npyHeader) bytes() int64 { return h.rows * h.cols * h.size }

// parseNPYHeader reads the header of a table in an NPY file. Errors are messages
// without the file's name.
func parseNPYHeader(r io.Reader) (*npyHeader, error) {
	array, err := npy.ReadHeader(r)
	if err != nil {
		return nil, err
	}
	h := &npyHeader{offset: array.Offset, fields: array.Fields, fortran: array.Fortran, size: array.Size,
		native: array.Native, decode: array.Decode}
	if err := h.setShape(array.Shape); err != nil {
		return nil, err
	}
	return h, nil
}

// fault is a message about a file that does not name it yet.
type fault = badfile.Fault

// setShape takes that of a table and refuses what overflows.
func (h *npyHeader) setShape(dims []int64) error {
	if len(dims) != 2 {
		return badfile.Faultf("an array of %d dimensions, want rows × columns", len(dims))
	}
	h.rows, h.cols = dims[0], dims[1]
	const most = math.MaxInt64 / 8
	if h.rows == 0 || h.cols == 0 {
		return badfile.Faultf("an array of %d rows and %d columns", h.rows, h.cols)
	}
	if h.cols > MaxColumns || h.rows > most/h.cols {
		return badfile.Faultf("an array of %d rows and %d columns is too large; want at most %d columns", h.rows,
			h.cols, MaxColumns)
	}
	return nil
}

// npySource is the table in an NPY file.
type npySource struct {
	layout *layout
	tally
	header *npyHeader
	random bool // the array can be read at any place
	// open starts a pass: the array's bytes in order, and the same at random
	// where the file allows it.
	open func() (io.Reader, io.ReaderAt, io.Closer, error)
}

func newNPY(name string, r io.Reader, reopen func() (tableFile, error), size int64, sel Selection) (Source, error) {
	s, err := openNPY(name, r, size, sel)
	if f := fault(""); errors.As(err, &f) {
		return nil, &Error{File: name, Msg: string(f)}
	}
	if err != nil {
		return nil, err
	}
	if s.random = reopen != nil; s.random {
		s.open = func() (io.Reader, io.ReaderAt, io.Closer, error) {
			f, err := reopen()
			if err != nil {
				return nil, nil, nil, err
			}
			array := io.NewSectionReader(f, s.header.offset, s.header.bytes())
			return array, array, f, nil
		}
		return s, nil
	}
	s.open = func() (io.Reader, io.ReaderAt, io.Closer, error) {
		if r == nil {
			return nil, nil, nil, errOnePass(name)
		}
		first := r
		r = nil
		return first, nil, io.NopCloser(nil), nil
	}
	return s, nil
}

func openNPY(name string, r io.Reader, size int64, sel Selection) (*npySource, error) {
	h, err := parseNPYHeader(r)
	if err != nil {
		return nil, err
	}
	if want := h.offset + h.bytes(); size >= 0 && size != want {
		return nil, badfile.Faultf("%d bytes, want %d for %d rows and %d columns: the file is cut short or has "+
			"something behind the array",
			size, want, h.rows, h.cols)
	}
	if size < 0 && h.fortran {
		return nil, fault("a column-major array cannot be read from a stream; write it to a file")
	}
	lay, err := sel.apply(name, 0, h.names(sel))
	if err != nil {
		return nil, err
	}
	return &npySource{layout: lay, header: h}, nil
}

// names are those of an array of records, and of another x1 … xd, y. One with just the selected features' number of
// columns has no target where the selection can do without.
func (h *npyHeader) names(sel Selection) []string {
	if h.fields != nil {
		return h.fields
	}
	if d := int(h.cols); sel.Optional && d == len(sel.Features) {
		return Names(d, false).Columns()
	}
	return Names(int(h.cols)-1, true).Columns()
}

func (s *npySource) Schema() Schema { return s.layout.schema }

// rows is the number of rows that the header declares.
func (s *npySource) rows() int64 { return s.header.rows }

// count implements counted.
func (s *npySource) count() (int, bool) { return int(s.header.rows), s.layout.absent != Drop }

// readFrom implements counted.
func (s *npySource) readFrom(ctx context.Context, row int, fn func(*model.Block) error) error {
	return s.pass(ctx, int64(row), fn)
}

func (s *npySource) Read(ctx context.Context, fn func(*model.Block) error) error {
	return s.pass(ctx, 0, fn)
}

// pass reads the rows from one on; a stream's from the first.
func (s *npySource) pass(ctx context.Context, first int64, fn func(*model.Block) error) error {
	r, at, closer, err := s.open()
	if err != nil {
		return err
	}
	defer closer.Close()
	pass := &npyPass{h: s.header, layout: s.layout, out: s.layout.blocks(fn), chunk: readSize, first: first}
	if first > 0 {
		if at == nil {
			return errOnePass(s.layout.schema.Name)
		}
		skipped := first * s.header.cols * s.header.size
		r = io.NewSectionReader(at, skipped, s.header.bytes()-skipped)
		pass.out.total, pass.out.partial = int(first), true
	}
	if s.header.fortran {
		pass.chunk = columnReadSize
	}
	if err := pass.read(ctx, r, at); err != nil {
		return err
	}
	s.dropped = pass.out.dropped
	return nil
}

// npyPass is one reading of an array.
type npyPass struct {
	h      *npyHeader
	layout *layout
	out    *blocks
	chunk  int64 // bytes to hold at a time, more only where one row is larger
	first  int64 // row to begin at
}

func (p *npyPass) read(ctx context.Context, r io.Reader, at io.ReaderAt) error {
	var err error
	if p.h.fortran {
		err = p.byColumn(ctx, at)
	} else {
		err = p.byRow(ctx, r)
	}
	if err != nil {
		return err
	}
	return p.out.flush(ctx)
}

// held is the number of rows to hold at a time: whole blocks, where there is room for one.
func (p *npyPass) held() int64 {
	rows := max(1, min(p.h.rows, p.chunk/(p.h.cols*p.h.size)))
	if rows > model.BlockRows {
		rows -= rows % model.BlockRows
	}
	return rows
}

// byRow reads a row-major array, whole rows at a time.
func (p *npyPass) byRow(ctx context.Context, r io.Reader) error {
	width := p.h.cols * p.h.size
	rows := p.held()
	whole := p.h.native && p.layout.inOrder()
	buf := make([]byte, rows*width)
	for row := p.first; row < p.h.rows; row += rows {
		rows = min(rows, p.h.rows-row)
		n, err := io.ReadFull(r, buf[:rows*width])
		if err != nil {
			return p.short(err, row+int64(n)/width)
		}
		for i := int64(0); i < rows; i++ {
			if whole && rows-i >= model.BlockRows && p.out.whole(buf[i*width:]) {
				if err := p.out.emit(ctx); err != nil {
					return err
				}
				i += model.BlockRows - 1
				continue
			}
			for c := range p.h.cols {
				p.value(buf[i*width+c*p.h.size:], row+i, c)
			}
			if err := p.out.next(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// byColumn reads a column-major array: of every column the same run of rows.
func (p *npyPass) byColumn(ctx context.Context, at io.ReaderAt) error {
	rows := p.held()
	run := rows * p.h.size
	buf := make([]byte, p.h.cols*run)
	for row := p.first; row < p.h.rows; row += rows {
		rows = min(rows, p.h.rows-row)
		for c := range p.h.cols {
			if p.layout.place[c] < 0 {
				continue
			}
			part := buf[c*run : c*run+rows*p.h.size]
			if _, err := at.ReadAt(part, (c*p.h.rows+row)*p.h.size); err != nil {
				return p.short(err, row)
			}
		}
		for i := range rows {
			for c := range p.h.cols {
				p.value(buf[c*run+i*p.h.size:], row+i, c)
			}
			if err := p.out.next(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *npyPass) value(b []byte, row, col int64) {
	column := p.layout.place[col]
	if column < 0 {
		return
	}
	v := p.h.decode(b)
	if !p.out.accepts(column, v) {
		p.out.refuse(int(row)+1, int(col), column, v)
		return
	}
	p.out.set(column, v)
}

func (p *npyPass) short(err error, row int64) error {
	err = badfile.CutShort(err, fmt.Sprintf("the file ends in row %d of %d", row+1, p.h.rows))
	if f := fault(""); errors.As(err, &f) {
		return &Error{File: p.layout.schema.Name, Line: int(row) + 1, Msg: string(f)}
	}
	return err
}
