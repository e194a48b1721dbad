// Package textfile reads the files of text that the program has written itself or
// takes for such: models, truths, checkpoints. What is none, whatever its size and
// whether or not it ever ends, is refused at once.
package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// headSize is how much of a file is looked at before the rest is read.
const headSize = 512

// readSize is how much is read before it is looked at again.
const readSize = 1 << 20

var (
	// ErrTooLarge says that a file has more bytes than it may.
	ErrTooLarge = errors.New("it is too large")
	// ErrNotText says that a byte 0 stands in a file, as in one with holes.
	ErrNotText = errors.New("it is no text: it has bytes of 0")
)

// Open opens path without waiting: a pipe that nobody writes to is empty. Errors
// are *fs.PathError.
func Open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|nonBlocking, 0) }

// Regular opens path as Open does, and refuses what is no regular file.
func Regular(path string) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns what f holds, at most most bytes, without the mark that some editors begin a file with. The first
// of them, as many as there are up to 512, are shown to begins before more is read; its error is
// returned as it is. Other errors: [ErrTooLarge], [ErrNotText], those of f.
func Read(f io.Reader, most int64, begins func(head []byte) error) ([]byte, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = bytes.TrimPrefix(head[:n], []byte("\ufeff"))
	if err := begins(head); err != nil {
		return nil, err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return nil, ErrNotText
	}
	var out bytes.Buffer
	if file, ok := f.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			if info.Size() > most {
				return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLarge, info.Size(), most)
			}
		}
	}
	out.Write(head)
	for {
		at := out.Len()
		n, err := out.ReadFrom(io.LimitReader(f, readSize))
		if bytes.IndexByte(out.Bytes()[at:], 0) >= 0 {
			return nil, ErrNotText
		}
		if int64(out.Len()) > most {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, most)
		}
		if err != nil || n < readSize {
			return out.Bytes(), err
		}
	}
}
