package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gatedlearning/moe/host/model"
)

// Bounds on what a Parquet file may ask for before its content is seen. Writers
// in use make pages of about 1 MiB and footers of some 100 bytes a column.
const (
	parquetMagic     = "PAR1"
	parquetTail      = 8        // length of the footer, magic
	maxParquetFooter = 16 << 20 // bytes
	maxParquetPage   = 64 << 20 // bytes, uncompressed
	maxPageValues    = 16 << 20
	// Of every column one page is held at a time; together they may take this.
	maxParquetHeld = 1 << 30
	// A table may be this much larger than its file: more than any table whose
	// columns say something.
	maxParquetRatio = 1000
)

// parquetSource is the table in a Parquet file: top-level columns of numbers.
type parquetSource struct {
	layout *layout
	tally
	reopen func() (tableFile, error)
	leaves []parquetLeaf // of the table's columns
}

// parquetLeaf is a column of numbers in a file.
type parquetLeaf struct {
	index, field int // among the leaves, and among all columns
	nullable     bool
	kind         parquet.Kind
	decode       func(parquet.Value) float64
}

func newParquet(name string, reopen func() (tableFile, error), sel Selection) (Source, error) {
	if reopen == nil {
		return nil, &Error{File: name, Msg: "a Parquet file cannot be read from a stream, its index is at the end; write it to a file"}
	}
	f, err := reopen()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := openParquet(f)
	if err != nil {
		return nil, parquetError(name, 0, err)
	}
	lay, err := sel.apply(name, 0, parquetNames(file))
	if err != nil {
		return nil, err
	}
	s := &parquetSource{layout: lay, reopen: reopen}
	if s.leaves, err = parquetLeaves(file, lay); err != nil {
		return nil, parquetError(name, 0, err)
	}
	return s, s.plausible(file)
}

// openParquet reads the footer, after a look at its size and its lists.
func openParquet(f tableFile) (*parquet.File, error) {
	size, err := f.size()
	if err != nil {
		return nil, err
	}
	tail := make([]byte, parquetTail)
	if size < int64(len(parquetMagic)+parquetTail) {
		return nil, fault("the file is cut short")
	}
	if _, err := f.ReadAt(tail, size-parquetTail); err != nil {
		return nil, err
	}
	if string(tail[4:]) != parquetMagic {
		return nil, fault("the file does not end in PAR1: it is cut short, or encrypted")
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if n > size-int64(len(parquetMagic)+parquetTail) || n > maxParquetFooter {
		return nil, faultf("a footer of %d bytes in a file of %d; want at most %d", n, size, maxParquetFooter)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-parquetTail-n); err != nil {
		return nil, err
	}
	if used, err := thriftLength(footer); err != nil || used != len(footer) {
		return nil, errThriftDamaged
	}
	var file *parquet.File
	err = guarded(func() (err error) {
		file, err = parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<16))
		return err
	})
	return file, err
}

// guarded runs a function of the library on a file that may be damaged in ways
// for which it does not look.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = faultf("%v", p)
		}
	}()
	return fn()
}

// parquetError names the file, and the row where it is known, in a fault of the
// content; an error of the file system stays what it is.
func parquetError(name string, line int, err error) error {
	if path := (*fs.PathError)(nil); err == nil || errors.As(err, &path) {
		return err
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return err
	}
	if f := fault(""); errors.As(err, &f) {
		return &Error{File: name, Line: line, Msg: "Parquet: " + string(f)}
	}
	return &Error{File: name, Line: line, Msg: "Parquet: the file is damaged: " + err.Error()}
}

func parquetNames(file *parquet.File) []string {
	var names []string
	for _, c := range file.Root().Columns() {
		names = append(names, c.Name())
	}
	return names
}

// parquetLeaves finds the columns of the table.
func parquetLeaves(file *parquet.File, lay *layout) ([]parquetLeaf, error) {
	leaves := make([]parquetLeaf, len(lay.schema.Columns()))
	for field, c := range file.Root().Columns() {
		column := lay.place[field]
		if column < 0 {
			continue
		}
		decode, err := parquetType(c)
		if err != nil {
			return nil, err
		}
		leaves[column] = parquetLeaf{index: c.Index(), field: field, nullable: c.Optional(), kind: c.Type().Kind(), decode: decode}
	}
	return leaves, nil
}

// parquetType returns the reader of a column's values.
func parquetType(c *parquet.Column) (func(parquet.Value) float64, error) {
	if !c.Leaf() || c.Repeated() {
		return nil, faultf("column %q holds lists or records, want one number in every row; drop it", c.Name())
	}
	t := c.Type()
	signed := true
	if l := t.LogicalType(); l != nil && l.Value != nil {
		integer, ok := l.Value.(*format.IntType)
		if !ok {
			return nil, faultf("column %q is of type %s, want float, double, integer or boolean; drop or convert it", c.Name(), t)
		}
		signed = integer.IsSigned
	} else if ct := t.ConvertedType(); ct != nil {
		return nil, faultf("column %q is of type %s, want float, double, integer or boolean; drop or convert it", c.Name(), t)
	}
	switch kind := t.Kind(); {
	case kind == parquet.Double:
		return parquet.Value.Double, nil
	case kind == parquet.Float:
		return func(v parquet.Value) float64 { return float64(v.Float()) }, nil
	case kind == parquet.Boolean:
		return func(v parquet.Value) float64 {
			if v.Boolean() {
				return 1
			}
			return 0
		}, nil
	case kind == parquet.Int32 && signed:
		return func(v parquet.Value) float64 { return float64(v.Int32()) }, nil
	case kind == parquet.Int32:
		return func(v parquet.Value) float64 { return float64(v.Uint32()) }, nil
	case kind == parquet.Int64 && signed:
		return func(v parquet.Value) float64 { return float64(v.Int64()) }, nil
	case kind == parquet.Int64:
		return func(v parquet.Value) float64 { return float64(v.Uint64()) }, nil
	}
	return nil, faultf("column %q is of type %s, want float, double, integer or boolean; drop or convert it", c.Name(), t)
}

// plausible holds the declared numbers of rows and values against each other
// and against the file's size.
func (s *parquetSource) plausible(file *parquet.File) error {
	name := s.layout.schema.Name
	rows := int64(0)
	for _, g := range file.Metadata().RowGroups {
		if g.NumRows < 0 || rows+g.NumRows < rows {
			return parquetError(name, 0, errThriftDamaged)
		}
		rows += g.NumRows
		for _, leaf := range s.leaves {
			if leaf.index >= len(g.Columns) || g.Columns[leaf.index].MetaData.NumValues != g.NumRows {
				return parquetError(name, 0, faultf("column %q does not have a value for each of the %d rows of a row group", s.layout.names[leaf.field], g.NumRows))
			}
		}
	}
	if rows != file.NumRows() {
		return parquetError(name, 0, faultf("%d rows declared, %d in the row groups", file.NumRows(), rows))
	}
	if rows > maxParquetRatio*(file.Size()+1<<16)/int64(8*len(s.leaves)) {
		return parquetError(name, 0, faultf("%d rows and %d columns in %d bytes: the table would be more than %d times as large as its file", rows, len(s.leaves), file.Size(), maxParquetRatio))
	}
	return nil
}

func (s *parquetSource) Schema() Schema { return s.layout.schema }

func (s *parquetSource) Read(ctx context.Context, fn func(*model.Block) error) error {
	f, err := s.reopen()
	if err != nil {
		return err
	}
	defer f.Close()
	name := s.layout.schema.Name
	file, err := openParquet(f)
	if err != nil {
		return parquetError(name, 0, err)
	}
	if !slices.Equal(parquetNames(file), s.layout.names) {
		return &Error{File: name, Msg: "the columns have changed since the file was opened"}
	}
	if _, err := parquetLeaves(file, s.layout); err != nil {
		return parquetError(name, 0, err)
	}
	if err := s.plausible(file); err != nil {
		return err
	}
	p := &parquetPass{source: s, file: file, f: f, out: s.layout.blocks(fn)}
	for i := range file.RowGroups() {
		if err := p.rowGroup(ctx, i); err != nil {
			return err
		}
	}
	if err := p.out.flush(ctx); err != nil {
		return err
	}
	s.dropped = p.out.dropped
	return nil
}

// parquetPass is one reading of a file.
type parquetPass struct {
	source *parquetSource
	file   *parquet.File
	f      tableFile
	out    *blocks
}

// rowGroup reads one row group, all columns side by side, so that no more than
// a page of each is held.
func (p *parquetPass) rowGroup(ctx context.Context, group int) error {
	chunks := p.file.RowGroups()[group].ColumnChunks()
	columns := make([]parquetColumn, len(p.source.leaves))
	defer func() {
		for i := range columns {
			columns[i].close()
		}
	}()
	held, in := int64(0), new(pageInspector)
	for i, leaf := range p.source.leaves {
		meta := &p.file.Metadata().RowGroups[group].Columns[leaf.index]
		in.codec, in.nullable, in.kind = meta.MetaData.Codec, leaf.nullable, leaf.kind
		room, err := checkPages(p.f, p.file.Size(), meta, in)
		if err != nil {
			return p.damaged(leaf, err)
		}
		if held += room; held > maxParquetHeld {
			return p.damaged(leaf, faultf("its page and those of the columns before it take %d bytes side by side, want at most %d; write it with smaller pages, or drop columns", held, maxParquetHeld))
		}
		columns[i] = parquetColumn{leaf: leaf, pages: chunks[leaf.index].Pages()}
	}
	for left := p.file.Metadata().RowGroups[group].NumRows; left > 0; {
		n := int(min(left, model.BlockRows))
		for i := range columns {
			if err := columns[i].fill(n); err != nil {
				return p.damaged(columns[i].leaf, err)
			}
		}
		if err := p.rows(ctx, columns, n); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

func (p *parquetPass) damaged(leaf parquetLeaf, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return err
	}
	return parquetError(p.source.layout.schema.Name, p.out.total+1, faultf("column %q: %v", p.source.layout.names[leaf.field], err))
}

func (p *parquetPass) rows(ctx context.Context, columns []parquetColumn, n int) error {
	for r := range n {
		for j := range columns {
			c := &columns[j]
			switch v := c.values[r]; {
			case c.null[r]:
				p.out.none(p.out.total+1, c.leaf.field, j, "null")
			case !p.out.accepts(j, v):
				p.out.refuse(p.out.total+1, c.leaf.field, j, v)
			default:
				p.out.set(j, v)
			}
		}
		if err := p.out.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkPages walks over a column's pages, all that the library may read: their
// headers, which is where sizes are declared, and with in what they hold. It
// returns the bytes of a dictionary and the largest page of data.
func checkPages(f io.ReaderAt, size int64, chunk *format.ColumnChunk, in *pageInspector) (held int64, err error) {
	meta := &chunk.MetaData
	at := meta.DataPageOffset
	if dict := meta.DictionaryPageOffset; dict != 0 {
		at = dict
	}
	end := at + meta.TotalCompressedSize
	if chunk.FilePath != "" || at < int64(len(parquetMagic)) || end < at || end > size-parquetTail {
		return 0, fault("its pages are not in the file")
	}
	var values, dictionary, largest int64
	for at < end {
		h, n, err := pageHeader(f, at, end)
		if err != nil {
			return 0, err
		}
		at += n
		count, err := checkPage(h, end-at)
		if err != nil {
			return 0, err
		}
		if err := in.inspect(f, at, h); err != nil {
			return 0, err
		}
		at += int64(h.CompressedPageSize)
		values += int64(count)
		if room := int64(max(h.UncompressedPageSize, h.CompressedPageSize)); h.Type == format.DictionaryPage {
			dictionary = max(dictionary, room)
		} else {
			largest = max(largest, room)
		}
	}
	if values != meta.NumValues {
		return 0, faultf("pages of %d values, want %d", values, meta.NumValues)
	}
	return dictionary + largest, nil
}

// checkPage holds the sizes in a page's header against the bytes that are left
// and against bounds, and returns the number of values in a page of data.
func checkPage(h *format.PageHeader, left int64) (values int32, err error) {
	if c := h.CompressedPageSize; c < 0 || int64(c) > left {
		return 0, faultf("a page of %d bytes where %d are left", c, left)
	}
	for _, u := range []int32{h.UncompressedPageSize, h.CompressedPageSize} {
		if u < 0 || u > maxParquetPage {
			return 0, faultf("a page of %d bytes, want at most %d; write it with smaller pages", u, maxParquetPage)
		}
	}
	for _, n := range []int32{h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues} {
		if n < 0 || n > maxPageValues {
			return 0, faultf("a page of %d values, want at most %d; write it with smaller pages", n, maxPageValues)
		}
	}
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		return h.DataPageHeader.V.NumValues, nil
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		return h.DataPageHeaderV2.V.NumValues, nil
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		return 0, nil
	}
	return 0, fault("a page's header is damaged")
}

// pageHeader reads the header at a place of the file, and its length.
func pageHeader(f io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	for room := int64(512); ; room *= 16 {
		b := make([]byte, min(room, end-at))
		if _, err := f.ReadAt(b, at); err != nil {
			return nil, 0, cutShort(err, "the file is cut short")
		}
		n, err := thriftLength(b)
		if err == errThriftShort && room < 1<<20 && room < end-at {
			continue
		}
		if err != nil {
			return nil, 0, fault("a page's header is damaged")
		}
		h := new(format.PageHeader)
		err = guarded(func() error { return thrift.Unmarshal(&thrift.CompactProtocol{}, b[:n], h) })
		return h, int64(n), err
	}
}

// parquetColumn reads the values of one column in one row group.
type parquetColumn struct {
	leaf   parquetLeaf
	pages  parquet.Pages
	page   parquet.Page
	reader parquet.ValueReader // of page
	values [model.BlockRows]float64
	null   [model.BlockRows]bool
	raw    [model.BlockRows]parquet.Value
}

// fill reads the next n values.
func (c *parquetColumn) fill(n int) error {
	return guarded(func() error {
		for have := 0; have < n; {
			if c.page == nil {
				page, err := c.pages.ReadPage()
				if err != nil {
					return cutShort(err, "its pages end too early")
				}
				c.page, c.reader = page, page.Values()
			}
			read, err := c.read(have, n)
			have += read
			if err == io.EOF || err == nil && read == 0 {
				parquet.Release(c.page)
				c.page = nil
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *parquetColumn) read(from, to int) (int, error) {
	if r, ok := c.reader.(parquet.DoubleReader); ok {
		clear(c.null[from:to])
		return r.ReadDoubles(c.values[from:to])
	}
	n, err := c.reader.ReadValues(c.raw[from:to])
	for i, v := range c.raw[from : from+n] {
		if c.null[from+i] = v.IsNull(); !v.IsNull() {
			c.values[from+i] = c.leaf.decode(v)
		}
	}
	return n, err
}

func (c *parquetColumn) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages != nil {
		c.pages.Close()
	}
}
