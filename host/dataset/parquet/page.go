package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/gatedlearning/moe/internal/badfile"
)

// The library's decoders make room for whatever a page's bytes claim: a damaged
// LZ4 block is tried in ever larger buffers, a few bytes are a run of two
// thousand million values. So a page is decompressed here first, into the room
// that its header declares and no more, and the lengths in it are held against
// its number of values.

// pageInspector looks into the pages of one column in one row group.
type pageInspector struct {
	codec    format.CompressionCodec
	nullable bool
	kind     parquet.Kind
	body     []byte // room for a page as it stands in the file
	plain    []byte // and decompressed
}

// inspect looks into the page behind a header whose sizes are in bounds.
func (p *pageInspector) inspect(f io.ReaderAt, at int64, h *format.PageHeader) error {
	if n := int64(h.DictionaryPageHeader.V.NumValues); n*p.bits() > 8*int64(h.UncompressedPageSize) {
		return badfile.Faultf("a dictionary of %d values in %d bytes", n, h.UncompressedPageSize)
	}
	if !p.claims(h) {
		return nil
	}
	p.body = room(p.body, int(h.CompressedPageSize))
	if _, err := f.ReadAt(p.body, at); err != nil {
		return badfile.CutShort(err, "the file is cut short")
	}
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(p.body) {
		return fault("checksum mismatch in a page")
	}
	switch h.Type {
	case format.DictionaryPage: // PLAIN, of as many bytes as there are
		_, err := p.decompressed(p.body, h.UncompressedPageSize)
		return err
	case format.DataPage:
		return p.v1(h)
	}
	return p.v2(h)
}

// bits is what a plain value takes.
func (p *pageInspector) bits() int64 {
	switch p.kind {
	case parquet.Boolean:
		return 1
	case parquet.Int32, parquet.Float:
		return 32
	}
	return 64
}

// claims says whether a page can claim more than its declared sizes: without
// compression, plain values cannot.
func (p *pageInspector) claims(h *format.PageHeader) bool {
	plain := func(e format.Encoding) bool { return e == format.Plain || e == format.ByteStreamSplit }
	switch {
	case p.codec != format.Uncompressed:
		return true
	case h.Type == format.DictionaryPage:
		return false
	case h.Type == format.DataPage:
		return p.nullable || !plain(h.DataPageHeader.V.Encoding)
	}
	v2 := &h.DataPageHeaderV2.V
	return p.nullable || !plain(v2.Encoding) || v2.DefinitionLevelsByteLength != 0 || v2.RepetitionLevelsByteLength != 0
}

// v1 inspects levels, behind their length, and values, compressed in one.
func (p *pageInspector) v1(h *format.PageHeader) error {
	head := &h.DataPageHeader.V
	data, err := p.decompressed(p.body, h.UncompressedPageSize)
	if err != nil {
		return err
	}
	if p.nullable {
		levels, rest, ok := cutPrefixed(data)
		if !ok {
			return errPageDamaged
		}
		if err := inspectLevels(levels, head.DefinitionLevelEncoding, head.NumValues); err != nil {
			return err
		}
		data = rest
	}
	return p.values(data, head.Encoding, head.NumValues)
}

// v2 inspects levels, which are not compressed, and values.
func (p *pageInspector) v2(h *format.PageHeader) error {
	head := &h.DataPageHeaderV2.V
	repeated, defined := int(head.RepetitionLevelsByteLength), int(head.DefinitionLevelsByteLength)
	if repeated < 0 || defined < 0 || repeated > len(p.body) || defined > len(p.body)-repeated {
		return errPageDamaged
	}
	levels, data := p.body[repeated:repeated+defined], p.body[repeated+defined:]
	if p.nullable {
		if err := inspectLevels(levels, format.RLE, head.NumValues); err != nil {
			return err
		}
	}
	if !head.IsCompressed.Valid || head.IsCompressed.V {
		var err error
		if data, err = p.decompressed(data, h.UncompressedPageSize); err != nil {
			return err
		}
	}
	return p.values(data, head.Encoding, head.NumValues)
}

// values inspects a page's values, at most n.
func (p *pageInspector) values(data []byte, encoding format.Encoding, n int32) error {
	switch encoding {
	case format.Plain, format.ByteStreamSplit:
		return nil
	//lint:ignore SA1019 files of before 2014 have it, and so do those of some writers today
	case format.PlainDictionary, format.RLEDictionary:
		if len(data) == 0 {
			return nil
		}
		return inspectRuns(data[1:], int(data[0]), n)
	case format.RLE:
		runs, _, ok := cutPrefixed(data)
		if !ok || p.kind != parquet.Boolean {
			return errPageDamaged
		}
		return inspectRuns(runs, 1, n)
	case format.DeltaBinaryPacked:
		return inspectDelta(data, n)
	}
	return badfile.Faultf("values in the encoding %s, which no column of numbers has", encoding)
}

const errPageDamaged = fault("a page is damaged")

// cutPrefixed cuts off the bytes whose length stands before them.
func cutPrefixed(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; n > int64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// inspectLevels looks at the definition levels, 0 or 1, of n values.
func inspectLevels(b []byte, encoding format.Encoding, n int32) error {
	if encoding == format.BitPacked { // eight to a byte
		return nil
	}
	return inspectRuns(b, 1, n)
}

// inspectRuns walks over the hybrid of runs and bit-packed groups of eight, which
// may hold n values and what fills the last group up.
func inspectRuns(b []byte, width int, n int32) error {
	if width > 32 {
		return errPageDamaged
	}
	// Writers that fill up every group of theirs are let through.
	for most := 2*int64(n) + 1024; len(b) > 0; {
		head, length := binary.Uvarint(b)
		if length <= 0 {
			return errPageDamaged
		}
		b = b[length:]
		count, size := int64(head>>1), int64((width+7)/8)
		if count > most {
			return errTooManyValues(n)
		}
		if head&1 == 1 {
			size = count * int64(width)
			count *= 8
		}
		if size > int64(len(b)) {
			return errPageDamaged
		}
		if most -= count; most < 0 {
			return errTooManyValues(n)
		}
		b = b[size:]
	}
	return nil
}

// inspectDelta looks at the number of values that a block of differences begins
// with, behind the sizes of its blocks.
func inspectDelta(b []byte, n int32) error {
	for range 2 {
		_, length := binary.Uvarint(b)
		if length <= 0 {
			return errPageDamaged
		}
		b = b[length:]
	}
	total, length := binary.Uvarint(b)
	if length <= 0 {
		return errPageDamaged
	}
	if total > uint64(n) {
		return errTooManyValues(n)
	}
	return nil
}

func errTooManyValues(n int32) error {
	return badfile.Faultf("a page holds more than its %d values", n)
}

// decompressed returns what a page decompresses to: no more than its declared
// size.
func (p *pageInspector) decompressed(b []byte, declared int32) ([]byte, error) {
	if p.codec == format.Uncompressed {
		return b, nil
	}
	p.plain = room(p.plain, int(declared))
	n, err := p.decompress(p.plain, b)
	switch {
	case errors.Is(err, errLonger):
		return nil, badfile.Faultf("a page is larger than the %d bytes that it declares", declared)
	case err != nil:
		return nil, badfile.Faultf("a page cannot be decompressed: %v", err)
	}
	return p.plain[:n], nil
}

// errLonger says that something does not fit where it should.
var errLonger = errors.New("longer than declared")

// decompress decompresses src into dst, which never grows.
func (p *pageInspector) decompress(dst, src []byte) (int, error) {
	switch p.codec {
	case format.Snappy:
		if n, err := snappy.DecodedLen(src); err != nil || n > len(dst) {
			return 0, errors.Join(err, errLonger)
		}
		out, err := snappy.Decode(dst, src)
		return len(out), err
	case format.Lz4Raw:
		n, err := lz4.UncompressBlock(src, dst)
		return n, err
	case format.Zstd:
		// A frame declares its own size, which the cap on dst holds down.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return 0, err
		}
		defer d.Close()
		out, err := d.DecodeAll(src, dst[:0:len(dst)])
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			err = errLonger
		}
		return len(out), err
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return 0, err
		}
		return readWhole(dst, r)
	case format.Brotli:
		return readWhole(dst, brotli.NewReader(bytes.NewReader(src)))
	}
	return 0, errors.New("its compression is not supported: want snappy, gzip, brotli, zstd, LZ4_RAW or none")
}

// readWhole reads a stream to its end, which must fit.
func readWhole(dst []byte, r io.Reader) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	switch _, err := io.ReadFull(r, make([]byte, 1)); err {
	case nil:
		return n, errLonger
	case io.EOF:
		return n, nil
	default:
		return n, err
	}
}

// room returns n bytes, of b where they fit.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
