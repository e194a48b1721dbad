package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/npy"
)

// A Format is a format of tables that a package of its own reads and writes. [Open] and
// [Write] know it in programs that import that package, as package image knows the formats
// of pictures: host/dataset/parquet and host/dataset/npz are two.
type Format struct {
	Name      string // as errors call it
	Magic     string // with which its files begin
	Extension string // of their names, in lower case
	// Open reads what says which columns there are. Its errors, and those of what it returns, are
	// messages without the file's name, or *fs.PathError.
	Open func(f File) (Columns, error)
	// Write writes a table, all of whose values are there; nil of a format that is read alone.
	Write func(ctx context.Context, out io.Writer, src Source) error
}

// File is the bytes of a table, open for one pass.
type File interface {
	io.ReaderAt
	Size() (int64, error)
}

// Columns are those of an open file.
type Columns interface {
	Names() []string
	// Check returns an error unless each of these columns, numbers in Names, has a number, or
	// none, in every row, as far as that is declared.
	Check(fields []int) error
	// Read calls fn with the next n ≤ model.BlockRows rows of these columns, in order: n
	// values of each, and which of them are none. An error of fn ends it, and is returned as it is.
	Read(fields []int, fn func(n int, values [][]float64, none [][]bool) error) error
}

// formats are those that were registered.
var formats []Format

// Register makes a format known. It is for the init of the package that reads it.
func Register(f Format) { formats = append(formats, f) }

// unregistered are the formats for which a program may lack the package.
var unregistered = []Format{{Name: "Parquet", Magic: "PAR1", Extension: ".parquet"}}

// known returns the format, registered or not, for which is says so.
func known(is func(Format) bool) (f Format, registered, found bool) {
	for i, list := range [][]Format{formats, unregistered} {
		if at := slices.IndexFunc(list, is); at >= 0 {
			return list[at], i == 0, true
		}
	}
	return f, false, false
}

// withMagic returns the format of files that begin with head.
func withMagic(head []byte) (f Format, registered, found bool) {
	return known(func(f Format) bool { return strings.HasPrefix(string(head), f.Magic) })
}

// MagicSize is how many bytes of a table tell its format.
const MagicSize = len(npy.Magic)

// Indexed says whether a table that begins with head has its index at the end, as Parquet files and archives of numpy
// have: it cannot be read as it comes.
func Indexed(head []byte) bool {
	_, registered, _ := withMagic(head)
	return registered
}

// withExtension returns the format of files of this name.
func withExtension(name string) (f Format, registered, found bool) {
	return known(func(f Format) bool { return strings.EqualFold(filepath.Ext(name), f.Extension) })
}

// lacks says that the program was built without a format.
func (f Format) lacks() string {
	return fmt.Sprintf("this program was built without %s: import the package host/dataset/%s in it, or use CSV or NPY",
		f.Name, strings.ToLower(f.Name))
}

// formatSource is the table in a file of a [Format].
type formatSource struct {
	format Format
	layout *layout
	tally
	reopen func() (tableFile, error)
	fields []int // of the table's columns
}

func newFormat(f Format, name string, reopen func() (tableFile, error), sel Selection) (Source, error) {
	if reopen == nil {
		return nil, &Error{File: name,
			Msg: fmt.Sprintf("a %s file cannot be read from a stream, its index is at the end; write it to a file",
				f.Name)}
	}
	file, err := reopen()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	columns, err := f.Open(file)
	if err != nil {
		return nil, f.fault(name, 0, err)
	}
	lay, err := sel.apply(name, 0, columns.Names())
	if err != nil {
		return nil, err
	}
	s := &formatSource{format: f, layout: lay, reopen: reopen, fields: make([]int, len(lay.schema.Columns()))}
	for field, column := range lay.place {
		if column >= 0 {
			s.fields[column] = field
		}
	}
	return s, f.fault(name, 0, columns.Check(s.fields))
}

// fault names the file, and the row where it is known, in an error of the content; one of the
// file system stays what it is.
func (f Format) fault(name string, line int, err error) error {
	if path := (*fs.PathError)(nil); err == nil || errors.As(err, &path) {
		return err
	}
	return &Error{File: name, Line: line, Msg: f.Name + ": " + err.Error()}
}

func (s *formatSource) Schema() Schema { return s.layout.schema }

func (s *formatSource) Read(ctx context.Context, fn func(*model.Block) error) error {
	file, err := s.reopen()
	if err != nil {
		return err
	}
	defer file.Close()
	name := s.layout.schema.Name
	columns, err := s.format.Open(file)
	if err != nil {
		return s.format.fault(name, 0, err)
	}
	if !slices.Equal(columns.Names(), s.layout.names) {
		return &Error{File: name, Msg: "the columns have changed since the file was opened"}
	}
	if err := columns.Check(s.fields); err != nil {
		return s.format.fault(name, 0, err)
	}
	out := s.layout.blocks(fn)
	var ended error // by fn, or by ctx
	err = columns.Read(s.fields, func(n int, values [][]float64, none [][]bool) error {
		ended = s.rows(ctx, out, n, values, none)
		return ended
	})
	switch {
	case ended != nil:
		return ended
	case err != nil:
		return s.format.fault(name, out.total+1, err)
	}
	if err := out.flush(ctx); err != nil {
		return err
	}
	s.dropped = out.dropped
	return nil
}

func (s *formatSource) rows(ctx context.Context, out *blocks, n int, values [][]float64, none [][]bool) error {
	for r := range n {
		for j, field := range s.fields {
			switch v := values[j][r]; {
			case none[j][r]:
				out.none(out.total+1, field, j, "null")
			case !out.accepts(j, v):
				out.refuse(out.total+1, field, j, v)
			default:
				out.set(j, v)
			}
		}
		if err := out.next(ctx); err != nil {
			return err
		}
	}
	return nil
}
