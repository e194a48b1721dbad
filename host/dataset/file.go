package dataset

import (
	"io"
	"os"
	"sync"
)

// tableFile is the bytes of a table, open for one pass.
type tableFile interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

// diskFile is a file on disk.
type diskFile struct{ *os.File }

func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// section is a part of something that can seek.
type section struct{ *io.SectionReader }

func (section) Close() error           { return nil }
func (s section) Size() (int64, error) { return s.SectionReader.Size(), nil }

// seekable returns what r holds from start, where it stands, or nil where r
// cannot seek: files have the method, pipes and devices among them do not obey
// it, or have no end to seek.
func seekable(r io.Reader) (at io.ReaderAt, start, size int64) {
	s, ok := r.(io.ReadSeeker)
	if !ok {
		return nil, 0, 0
	}
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, 0, 0
		}
	}
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, 0
	}
	end, err := s.Seek(0, io.SeekEnd)
	if _, back := s.Seek(start, io.SeekStart); err != nil || back != nil || end <= start {
		return nil, 0, 0
	}
	if at, ok := r.(io.ReaderAt); ok {
		return at, start, end - start
	}
	return &seeking{r: s}, start, end - start
}

// seeking makes an io.ReaderAt of a reader that can seek.
type seeking struct {
	mu sync.Mutex
	r  io.ReadSeeker
}

func (s *seeking) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.r.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s.r, p)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
