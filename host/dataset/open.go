package dataset

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatedlearning/moe/internal/npy"
)

// Open opens a CSV or NPY file, or one of a registered [Format], told apart by content: NPY files begin
// with "\x93NUMPY". A CSV file may be compressed, by gzip
// or zstd, and its fields parted by commas, semicolons or tabs. The columns of an NPY file are
// called x1 … xd, y. Names, shapes and sizes are checked here, cells when they
// are read.
//
// A pipe or a device can be read once; a regular file is opened anew for every
// pass. Faults of the content are *[Error], a contradictory selection is a
// *[SelectionError], a file that cannot be opened or read an *fs.PathError.
func Open(path string, sel Selection) (Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return NewReader(path, f, sel)
	}
	defer f.Close()
	reopen := func() (tableFile, error) {
		f, err := os.Open(path)
		return diskFile{f}, err
	}
	return open(path, f, reopen, info.Size(), sel)
}

// NewReader reads a table from r, from where it stands. name is what errors call
// it. Where r is an io.Seeker, such as an os.File or a bytes.Reader, every pass
// begins there, and all formats are read; the caller does not use r meanwhile.
// Any other reader allows one pass, and Parquet files and column-major arrays
// none: a second Read is an *[Error] that says so. [Load] keeps what one pass
// brings.
func NewReader(name string, r io.Reader, sel Selection) (Source, error) {
	at, start, size := seekable(r)
	if at == nil {
		return open(name, r, nil, -1, sel)
	}
	reopen := func() (tableFile, error) { return section{io.NewSectionReader(at, start, size)}, nil }
	return open(name, io.NewSectionReader(at, start, size), reopen, size, sel)
}

// open tells the formats apart. size is −1 where it is not known.
func open(name string, r io.Reader, reopen func() (tableFile, error), size int64, sel Selection) (Source, error) {
	head := make([]byte, MagicSize)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	head = head[:n]
	r = io.MultiReader(bytes.NewReader(head), r)
	if f, registered, found := withMagic(head); registered {
		return newFormat(f, name, reopen, sel)
	} else if found {
		return nil, &Error{File: name, Msg: f.lacks()}
	}
	switch {
	case string(head) == npy.Magic:
		return newNPY(name, r, reopen, size, sel)
	case strings.EqualFold(filepath.Ext(name), ".npy"):
		return nil, &Error{File: name, Msg: "not an NPY file: it does not begin with \\x93NUMPY"}
	}
	if f, _, found := withExtension(name); found {
		return nil, &Error{File: name, Msg: fmt.Sprintf("not a %s file: it does not begin with %s", f.Name, f.Magic)}
	}
	if magic := compression(head); magic != "" {
		return newCompressed(name, magic, r, reopen, sel)
	}
	for magic, format := range map[string]string{"PARE": "encrypted Parquet", "PK\x03\x04": "zip or xlsx",
		"BZh": "bzip2", "\xfd7zXZ": "xz"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, &Error{File: name, Msg: fmt.Sprintf("a %s file; convert it to CSV, NPY or plain Parquet",
				format)}
		}
	}
	return newCSV(name, r, reopen, sel)
}

func errOnePass(name string) error {
	return &Error{File: name, Msg: "a stream can be read only once; write it to a file"}
}
