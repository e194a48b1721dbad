package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/model"
)

const (
	npyMagic     = "\x93NUMPY"
	maxNPYHeader = 1 << 20 // numpy itself writes a few hundred bytes at most
	// A column-major file is read in as many places as it has columns at a
	// time: larger pieces than elsewhere keep the reads long.
	columnReadSize = 4 << 20
)

// npyHeader describes the array of an NPY file.
type npyHeader struct {
	offset     int64 // of the first value in the file
	rows, cols int64
	fortran    bool
	size       int64 // bytes of a value
	decode     func(b []byte) float64
}

// bytes is the size of the array.
func (h *npyHeader) bytes() int64 { return h.rows * h.cols * h.size }

// parseNPYHeader reads the magic, version, length and dictionary of an NPY
// file, versions 1 to 3. Errors are messages without the file's name.
func parseNPYHeader(r io.Reader) (*npyHeader, error) {
	fixed, err := readHeaderBytes(r, 8)
	if err != nil {
		return nil, err
	}
	lengthSize := int64(4)
	switch major := fixed[6]; major {
	case 1:
		lengthSize = 2
	case 2, 3:
	default:
		return nil, faultf("NPY version %d, want 1, 2 or 3", major)
	}
	length, err := readHeaderBytes(r, lengthSize)
	if err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(append(length, 0, 0)))
	if n > maxNPYHeader {
		return nil, faultf("a header of %d bytes, want at most %d", n, maxNPYHeader)
	}
	text, err := readHeaderBytes(r, n)
	if err != nil {
		return nil, err
	}
	h, err := parseNPYDict(string(text))
	if err != nil {
		return nil, err
	}
	h.offset = 8 + lengthSize + n
	return h, nil
}

func readHeaderBytes(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, cutShort(err, "the header is cut short")
	}
	return b, nil
}

// fault is a message about a file that does not name it yet.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }

// cutShort is msg where the stream ended and the stream's own error elsewhere.
func cutShort(err error, msg string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault(msg)
	}
	return err
}

// The header is a Python dictionary with three keys in any order.
var (
	npyDescr   = regexp.MustCompile(`['"]descr['"]\s*:\s*(?:'([^']*)'|"([^"]*)"|([\[(]))`)
	npyFortran = regexp.MustCompile(`['"]fortran_order['"]\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`['"]shape['"]\s*:\s*\(([0-9L,\s]*)\)`)
)

func parseNPYDict(text string) (*npyHeader, error) {
	descr := npyDescr.FindStringSubmatch(text)
	fortran := npyFortran.FindStringSubmatch(text)
	shape := npyShape.FindStringSubmatch(text)
	switch {
	case descr == nil || fortran == nil || shape == nil:
		return nil, faultf("the header lacks descr, fortran_order or shape: %s", quoteCell([]byte(text)))
	case descr[3] != "":
		return nil, faultf("an array of records, want one number type for all columns")
	}
	h := &npyHeader{fortran: fortran[1] == "True"}
	var err error
	if h.size, h.decode, err = npyType(descr[1] + descr[2]); err != nil {
		return nil, err
	}
	if err := h.setShape(shape[1]); err != nil {
		return nil, err
	}
	return h, nil
}

// setShape reads "n, d" and refuses what overflows.
func (h *npyHeader) setShape(text string) error {
	var dims []int64
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSuffix(strings.TrimSpace(part), "L")
		if part == "" {
			continue
		}
		v, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return faultf("shape (%s) is out of range", text)
		}
		dims = append(dims, v)
	}
	if len(dims) != 2 {
		return faultf("an array of %d dimensions, want rows × columns", len(dims))
	}
	h.rows, h.cols = dims[0], dims[1]
	const most = math.MaxInt64 / 8
	if h.rows == 0 || h.cols == 0 {
		return faultf("an array of %d rows and %d columns", h.rows, h.cols)
	}
	if h.cols > MaxColumns || h.rows > most/h.cols {
		return faultf("an array of %d rows and %d columns is too large; want at most %d columns", h.rows, h.cols, MaxColumns)
	}
	return nil
}

// npyType returns the size and the reader of a dtype such as "<f8".
func npyType(descr string) (int64, func([]byte) float64, error) {
	kind := strings.TrimLeft(descr, "<>|=")
	var order binary.ByteOrder = binary.LittleEndian
	if strings.HasPrefix(descr, ">") {
		order = binary.BigEndian
	}
	switch kind {
	case "f8":
		return 8, func(b []byte) float64 { return math.Float64frombits(order.Uint64(b)) }, nil
	case "f4":
		return 4, func(b []byte) float64 { return float64(math.Float32frombits(order.Uint32(b))) }, nil
	case "i8":
		return 8, func(b []byte) float64 { return float64(int64(order.Uint64(b))) }, nil
	case "i4":
		return 4, func(b []byte) float64 { return float64(int32(order.Uint32(b))) }, nil
	case "i2":
		return 2, func(b []byte) float64 { return float64(int16(order.Uint16(b))) }, nil
	case "i1":
		return 1, func(b []byte) float64 { return float64(int8(b[0])) }, nil
	case "u8":
		return 8, func(b []byte) float64 { return float64(order.Uint64(b)) }, nil
	case "u4":
		return 4, func(b []byte) float64 { return float64(order.Uint32(b)) }, nil
	case "u2":
		return 2, func(b []byte) float64 { return float64(order.Uint16(b)) }, nil
	case "u1", "b1":
		return 1, func(b []byte) float64 { return float64(b[0]) }, nil
	}
	return 0, nil, faultf("values of type %q, want float64, float32, integers or bool", descr)
}

// npySource is the table in an NPY file.
type npySource struct {
	layout *layout
	header *npyHeader
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
	if reopen != nil {
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
		return nil, faultf("%d bytes, want %d for %d rows and %d columns: the file is cut short or has something behind the array",
			size, want, h.rows, h.cols)
	}
	if size < 0 && h.fortran {
		return nil, fault("a column-major array cannot be read from a stream; write it to a file")
	}
	lay, err := sel.apply(name, 0, h.names(sel).Columns())
	if err != nil {
		return nil, err
	}
	return &npySource{layout: lay, header: h}, nil
}

// names are x1 … xd, y. An array with just the selected features' number of
// columns has no target where the selection can do without.
func (h *npyHeader) names(sel Selection) Schema {
	if d := int(h.cols); sel.Optional && d == len(sel.Features) {
		return Names(d, false)
	}
	return Names(int(h.cols)-1, true)
}

func (s *npySource) Schema() Schema { return s.layout.schema }

// rows is the number of rows that the header declares.
func (s *npySource) rows() int64 { return s.header.rows }

func (s *npySource) Read(ctx context.Context, fn func(*model.Block) error) error {
	r, at, closer, err := s.open()
	if err != nil {
		return err
	}
	defer closer.Close()
	pass := &npyPass{h: s.header, layout: s.layout, out: newBlocks(s.layout.schema, fn), chunk: readSize}
	if s.header.fortran {
		pass.chunk = columnReadSize
	}
	return pass.read(ctx, r, at)
}

// npyPass is one reading of an array.
type npyPass struct {
	h      *npyHeader
	layout *layout
	out    *blocks
	chunk  int64 // bytes to hold at a time, more only where one row is larger
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

// held is the number of rows to hold at a time.
func (p *npyPass) held() int64 { return max(1, min(p.h.rows, p.chunk/(p.h.cols*p.h.size))) }

// byRow reads a row-major array, whole rows at a time.
func (p *npyPass) byRow(ctx context.Context, r io.Reader) error {
	width := p.h.cols * p.h.size
	rows := p.held()
	buf := make([]byte, rows*width)
	for row := int64(0); row < p.h.rows; row += rows {
		rows = min(rows, p.h.rows-row)
		n, err := io.ReadFull(r, buf[:rows*width])
		if err != nil {
			return p.short(err, row+int64(n)/width)
		}
		for i := range rows {
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
	for row := int64(0); row < p.h.rows; row += rows {
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
	err = cutShort(err, fmt.Sprintf("the file ends in row %d of %d", row+1, p.h.rows))
	if f := fault(""); errors.As(err, &f) {
		return &Error{File: p.layout.schema.Name, Line: int(row) + 1, Msg: string(f)}
	}
	return err
}
