// Package npz reads tables in NPZ files, the archives of arrays that numpy's savez and savez_compressed write. Who
// imports it, by the blank name if need be, has [dataset.Open] know them. An array of one dimension is a column of its
// name, and one of d columns named x is x1 … xd; an array of records has the names of its fields. What is no column of
// numbers is refused where it is asked for.
package npz

import (
	"archive/zip"
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/badfile"
	"github.com/gatedlearning/moe/internal/npy"
)

func init() {
	dataset.Register(dataset.Format{Name: "NPZ", Magic: "PK\x03\x04", Extension: ".npz", Open: open})
}

// array is one of an archive: rows of so many columns, or what is wrong with it, which matters to who asks for it.
type array struct {
	name   string
	entry  *zip.File
	header *npy.Header
	rows   int64
	cols   int
	names  []string // of its columns
	fault  error
}

// archive is the table of an open file.
type archive struct {
	f      dataset.File
	arrays []*array
	names  []string
}

func open(f dataset.File) (dataset.Columns, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, badfile.Faultf("the archive cannot be read: %v", err)
	}
	t := &archive{f: f}
	for _, entry := range z.File {
		name, is := strings.CutSuffix(entry.Name, ".npy")
		if !is {
			return nil, badfile.Faultf("%s in the archive is no array of numpy; convert the file to CSV, NPY or "+
				"plain Parquet", entry.Name)
		}
		a, err := openArray(name, entry)
		if err != nil {
			a = &array{name: name, cols: 1, names: []string{name}, fault: badfile.Faultf("array %s: %v", name, err)}
		} else if first := t.first(); first != nil && a.rows != first.rows {
			a.fault = badfile.Faultf("array %s has %d rows, where %s has %d", name, a.rows, first.name, first.rows)
		}
		if t.names = append(t.names, a.names...); len(t.names) > dataset.MaxColumns {
			return nil, badfile.Faultf("more than %d columns", dataset.MaxColumns)
		}
		t.arrays = append(t.arrays, a)
	}
	if len(t.arrays) == 0 {
		return nil, badfile.Fault("an archive of no arrays")
	}
	return t, nil
}

// first is the first array of the archive with which nothing is wrong; nil where there is none.
func (t *archive) first() *array {
	for _, a := range t.arrays {
		if a.fault == nil {
			return a
		}
	}
	return nil
}

// openArray reads the header of an array. Errors do not name it.
func openArray(name string, entry *zip.File) (*array, error) {
	const encrypted = 1
	if entry.Flags&encrypted != 0 {
		return nil, badfile.Fault("it is encrypted")
	}
	r, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	a := &array{name: name, entry: entry, cols: 1}
	if a.header, err = npy.ReadHeader(r); err != nil {
		return nil, err
	}
	shape := a.header.Shape
	switch len(shape) {
	case 1:
		a.names = []string{name}
	case 2:
		if shape[1] < 1 || shape[1] > dataset.MaxColumns {
			return nil, badfile.Faultf("%d columns, want 1 to %d", shape[1], dataset.MaxColumns)
		}
		a.cols, a.names = int(shape[1]), a.header.Fields
	default:
		return nil, badfile.Faultf("%d dimensions, want 1, or 2 for rows × columns", len(shape))
	}
	for c := 1; len(a.names) < a.cols; c++ {
		a.names = append(a.names, numbered(name, c))
	}
	if a.rows = shape[0]; a.rows < 1 {
		return nil, badfile.Fault("no rows")
	}
	// The quotient keeps rows × columns from overflowing.
	held := int64(entry.UncompressedSize64) - a.header.Offset
	if width := int64(a.cols) * a.header.Size; held%width != 0 || held/width != a.rows {
		return nil, badfile.Faultf("%d bytes, want %d rows of %d numbers", held, a.rows, a.cols)
	}
	if a.byColumn() && entry.Method != zip.Store {
		return nil, badfile.Fault("it is compressed column by column; save it by savez, or in rows, by " +
			"numpy.ascontiguousarray")
	}
	return a, nil
}

// numbered is the name of column c, from 1, of an array: x1 of x, and arr_0_1 of arr_0.
func numbered(name string, c int) string {
	if last := name[max(len(name)-1, 0):]; last >= "0" && last <= "9" {
		name += "_"
	}
	return name + strconv.Itoa(c)
}

// byColumn says whether the columns of an array lie one behind the other.
func (a *array) byColumn() bool { return a.header.Fortran && a.cols > 1 }

func (t *archive) Names() []string { return t.names }

// Check implements [dataset.Columns]: of an array that is no column of the table.
func (t *archive) Check(fields []int) error {
	at := 0
	for _, a := range t.arrays {
		for _, field := range fields {
			if a.fault != nil && field >= at && field < at+a.cols {
				return a.fault
			}
		}
		at += a.cols
	}
	return nil
}

// Read implements [dataset.Columns].
func (t *archive) Read(fields []int, fn func(n int, values [][]float64, none [][]bool) error) error {
	values, none := make([][]float64, len(fields)), make([][]bool, len(fields))
	to := map[int]int{} // of a column its place among fields
	for j, field := range fields {
		values[j], none[j] = make([]float64, model.BlockRows), make([]bool, model.BlockRows)
		to[field] = j
	}
	var streams []*stream
	defer func() {
		for _, s := range streams {
			s.close()
		}
	}()
	at := 0
	for _, a := range t.arrays {
		places, wanted := make([]int, a.cols), false
		for c := range places {
			j, ok := to[at+c]
			if places[c] = -1; ok {
				places[c], wanted = j, true
			}
		}
		if at += a.cols; !wanted {
			continue
		}
		opened, err := t.streams(a, places)
		streams = append(streams, opened...)
		if err != nil {
			return badfile.Faultf("array %s: %v", a.name, err)
		}
	}
	whole := t.first()
	if whole == nil {
		return badfile.Fault("an archive of no columns")
	}
	for row := int64(0); row < whole.rows; {
		n := min(model.BlockRows, int(whole.rows-row))
		for _, s := range streams {
			if err := s.read(n, values); err != nil {
				return badfile.Faultf("array %s ends in row %d: %v", s.of.name, row+1, err)
			}
		}
		if err := fn(n, values, none); err != nil {
			return err
		}
		row += int64(n)
	}
	for _, s := range streams {
		if err := s.end(); err != nil {
			return badfile.Faultf("array %s: %v", s.of.name, err)
		}
	}
	return nil
}

// stream is numbers of an array on their way: row by row of all its columns, or of one.
type stream struct {
	of     *array
	r      *bufio.Reader
	closer io.Closer
	places []int // where the numbers of a row go; −1 of a column that nobody reads
	room   []byte
}

// streams are those of an array whose columns go to these places.
func (t *archive) streams(a *array, places []int) (out []*stream, err error) {
	if !a.byColumn() {
		r, err := a.entry.Open()
		if err != nil {
			return nil, err
		}
		_, err = io.CopyN(io.Discard, r, a.header.Offset)
		return []*stream{newStream(a, r, r, places)}, err
	}
	at, err := a.entry.DataOffset()
	if err != nil {
		return nil, err
	}
	length := a.rows * a.header.Size
	for c, j := range places {
		if j >= 0 {
			r := io.NewSectionReader(t.f, at+a.header.Offset+int64(c)*length, length)
			out = append(out, newStream(a, r, nil, []int{j}))
		}
	}
	return out, nil
}

func newStream(a *array, r io.Reader, closer io.Closer, places []int) *stream {
	return &stream{of: a, r: bufio.NewReaderSize(r, 64<<10), closer: closer, places: places,
		room: make([]byte, model.BlockRows*len(places)*int(a.header.Size))}
}

// read takes the next n rows to their places.
func (s *stream) read(n int, values [][]float64) error {
	size := int(s.of.header.Size)
	room := s.room[:n*len(s.places)*size]
	if _, err := io.ReadFull(s.r, room); err != nil {
		return badfile.CutShort(err, "the file is cut short")
	}
	for i := range n {
		for c, j := range s.places {
			if j >= 0 {
				values[j][i] = s.of.header.Decode(room[(i*len(s.places)+c)*size:])
			}
		}
	}
	return nil
}

// end looks whether the archive's checksum, which stands behind the numbers, is theirs.
func (s *stream) end() error {
	if s.closer == nil {
		return nil
	}
	if _, err := s.r.ReadByte(); err != io.EOF {
		return fmt.Errorf("its numbers are not those that were written: %w", err)
	}
	return nil
}

func (s *stream) close() {
	if s.closer != nil {
		s.closer.Close()
	}
}
