package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gatedlearning/moe/internal/npy"
)

// Bounds on what a compressed file may grow to. Tables of numbers compress to a
// third or a tenth; what grows by more than maxGrowth beyond freeGrowth is a bomb.
const (
	maxGrowth  = 100
	freeGrowth = 64 << 20 // bytes
	maxWindow  = 64 << 20 // bytes of memory that a zstd frame may ask for
)

// compressions are the formats that a CSV file may be compressed with, by the bytes
// with which they begin.
var compressions = map[string]struct {
	name string
	open func(io.Reader) (io.ReadCloser, error)
}{
	"\x1f\x8b": {"gzip", func(r io.Reader) (io.ReadCloser, error) { return openGzip(r) }},
	"\x28\xb5\x2f\xfd": {"zstd", func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
}

// gzipped reads a gzip file's members one after another, as gzip itself does: zeros behind the
// last, with which tapes and blocks are filled up, are passed over.
type gzipped struct {
	*gzip.Reader
	in *bufio.Reader
}

func openGzip(r io.Reader) (*gzipped, error) {
	in := bufio.NewReader(r) // of which no member reads more than is its own
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &gzipped{z, in}, nil
}

func (g *gzipped) Read(p []byte) (int, error) {
	for {
		n, err := g.Reader.Read(p)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil // and again at the next call
		}
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := g.next(); err != nil {
			return 0, err
		}
	}
}

// next goes on to the next member, io.EOF where there is none.
func (g *gzipped) next() error {
	for {
		b, err := g.in.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			break
		}
	}
	if err := g.in.UnreadByte(); err != nil {
		return err
	}
	if err := g.Reader.Reset(g.in); err != nil {
		return err
	}
	g.Reader.Multistream(false)
	return nil
}

// compression is the name of the format that begins with these bytes, or "".
func compression(head []byte) (magic string) {
	for magic := range compressions {
		if bytes.HasPrefix(head, []byte(magic)) {
			return magic
		}
	}
	return ""
}

// decompress reads what r, which begins with magic, holds.
func decompress(name, magic string, r io.Reader) (io.ReadCloser, error) {
	c := compressions[magic]
	d := &decompressor{name: name, format: c.name, in: &counter{r: r}}
	var err error
	if d.ReadCloser, err = c.open(d.in); err != nil {
		return nil, d.fault(err)
	}
	return d, nil
}

// decompressor is a stream that says of faults what they are, and ends where a file
// grows too much.
type decompressor struct {
	io.ReadCloser
	name, format string
	in           *counter
	out          int64
}

func (d *decompressor) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.out += int64(n)
	if d.out > freeGrowth && d.out/maxGrowth > d.in.n {
		return 0, &Error{File: d.name,
			Msg: fmt.Sprintf("%s: %d bytes have grown to more than %d times as many; decompress it first if it is a "+
				"table", d.format, d.in.n, maxGrowth)}
	}
	return n, d.fault(err)
}

func (d *decompressor) fault(err error) error {
	if path := (*fs.PathError)(nil); err == nil || err == io.EOF || errors.As(err, &path) {
		return err
	}
	msg := "the file is damaged: " + err.Error()
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		msg = "the file is cut short"
	}
	return &Error{File: d.name, Msg: d.format + ": " + msg}
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// expanded is a compressed file, open for one pass over what it holds.
type expanded struct {
	io.ReadCloser
	file tableFile
}

func (expanded) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }
func (expanded) Size() (int64, error)              { return 0, errors.ErrUnsupported }

func (e expanded) Close() error {
	e.ReadCloser.Close()
	return e.file.Close()
}

// newCompressed opens a CSV file that is compressed.
func newCompressed(name, magic string, r io.Reader, reopen func() (tableFile, error), sel Selection) (Source, error) {
	plain, err := decompress(name, magic, r)
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(npy.Magic))
	n, err := io.ReadFull(plain, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	head = head[:n]
	if _, _, binary := withMagic(head); binary || string(head) == npy.Magic || compression(head) != "" {
		return nil, &Error{File: name, Msg: compressions[magic].name + ": it holds no CSV file; decompress it first"}
	}
	again := reopen
	if reopen != nil {
		plain := reopen
		again = func() (tableFile, error) {
			f, err := plain()
			if err != nil {
				return nil, err
			}
			d, err := decompress(name, magic, f)
			if err != nil {
				f.Close()
				return nil, err
			}
			return expanded{d, f}, nil
		}
	}
	return newCSV(name, io.MultiReader(bytes.NewReader(head), plain), again, sel)
}
