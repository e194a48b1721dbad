// Package parquet reads and writes tables in Parquet files. Who imports it, by the blank name if
// need be, has [dataset.Open] and [dataset.Write] know them. Files that claim what would take
// gigabytes are refused before any of it is allocated.
package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/badfile"
)

// Bounds on what a Parquet file may ask for before its content is seen. Writers
// in use make pages of about 1 MiB and footers of some 100 bytes a column.
const (
	magic         = "PAR1"
	tail          = 8        // length of the footer, magic
	maxFooter     = 16 << 20 // bytes
	maxPage       = 64 << 20 // bytes, uncompressed
	maxPageValues = 16 << 20
	// Of every column one page is held at a time; together they may take this.
	maxHeld = 1 << 30
	// A table may be this much larger than its file: more than any table whose
	// columns say something.
	maxRatio = 1000
)

// columns are those of an open file: top-level columns of numbers.
type columns struct {
	f    dataset.File
	file *parquet.File
}

// leaf is a column of numbers in a file.
type leaf struct {
	name     string
	index    int // among the leaves
	nullable bool
	kind     parquet.Kind
	decode   func(parquet.Value) float64
}

func init() {
	dataset.Register(dataset.Format{Name: "Parquet", Magic: magic, Extension: ".parquet", Open: open, Write: write})
}

func open(f dataset.File) (dataset.Columns, error) {
	file, err := openFile(f)
	if err != nil {
		return nil, said(err)
	}
	return &columns{f, file}, nil
}

// openFile reads the footer, after a look at its size and its lists.
func openFile(f dataset.File) (*parquet.File, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	end := make([]byte, tail)
	if size < int64(len(magic)+tail) {
		return nil, fault("the file is cut short")
	}
	if _, err := f.ReadAt(end, size-tail); err != nil {
		return nil, err
	}
	if string(end[4:]) != magic {
		return nil, fault("the file does not end in PAR1: it is cut short, or encrypted")
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > size-int64(len(magic)+tail) || n > maxFooter {
		return nil, badfile.Faultf("a footer of %d bytes in a file of %d; want at most %d", n, size, maxFooter)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-tail-n); err != nil {
		return nil, err
	}
	if used, err := thriftLength(footer); err != nil || used != len(footer) {
		return nil, errThriftDamaged
	}
	var file *parquet.File
	err = guarded(func() (err error) {
		file, err = parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
			parquet.ReadBufferSize(1<<16))
		return err
	})
	return file, err
}

// guarded runs a function of the library on a file that may be damaged in ways
// for which it does not look.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = badfile.Faultf("%v", p)
		}
	}()
	return fn()
}

// fault is a message about a file that does not name it yet.
type fault = badfile.Fault

// said returns an error as it is where it is one of ours or of the file system; what the library
// says is a damage.
func said(err error) error {
	if path := (*fs.PathError)(nil); err == nil || errors.As(err, &path) {
		return err
	}
	if f := fault(""); errors.As(err, &f) {
		return f
	}
	return badfile.Faultf("the file is damaged: %v", err)
}

// Names implements [dataset.Columns].
func (c *columns) Names() []string {
	var names []string
	for _, column := range c.file.Root().Columns() {
		names = append(names, column.Name())
	}
	return names
}

// leaves finds columns.
func (c *columns) leaves(fields []int) ([]leaf, error) {
	all := c.file.Root().Columns()
	leaves := make([]leaf, len(fields))
	for j, field := range fields {
		column := all[field]
		decode, err := decoder(column)
		if err != nil {
			return nil, err
		}
		leaves[j] = leaf{name: column.Name(), index: column.Index(), nullable: column.Optional(),
			kind: column.Type().Kind(), decode: decode}
	}
	return leaves, nil
}

// Check implements [dataset.Columns].
func (c *columns) Check(fields []int) error {
	leaves, err := c.leaves(fields)
	if err != nil {
		return said(err)
	}
	return c.plausible(leaves)
}

// decoder returns the reader of a column's values.
func decoder(c *parquet.Column) (func(parquet.Value) float64, error) {
	if !c.Leaf() || c.Repeated() {
		return nil, badfile.Faultf("column %q holds lists or records, want one number in every row; drop it", c.Name())
	}
	t := c.Type()
	signed := true
	if l := t.LogicalType(); l != nil && l.Value != nil {
		integer, ok := l.Value.(*format.IntType)
		if !ok {
			return nil, badfile.Faultf("column %q is of type %s, want float, double, integer or boolean; drop or "+
				"convert it", c.Name(), t)
		}
		signed = integer.IsSigned
	} else if ct := t.ConvertedType(); ct != nil {
		return nil, badfile.Faultf(
			"column %q is of type %s, want float, double, integer or boolean; drop or convert it", c.Name(), t)
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
	return nil, badfile.Faultf("column %q is of type %s, want float, double, integer or boolean; drop or convert it",
		c.Name(), t)
}

// plausible holds the declared numbers of rows and values against each other
// and against the file's size.
func (c *columns) plausible(leaves []leaf) error {
	rows := int64(0)
	for _, g := range c.file.Metadata().RowGroups {
		if g.NumRows < 0 || rows+g.NumRows < rows {
			return errThriftDamaged
		}
		rows += g.NumRows
		for _, l := range leaves {
			if l.index >= len(g.Columns) || g.Columns[l.index].MetaData.NumValues != g.NumRows {
				return badfile.Faultf("column %q does not have a value for each of the %d rows of a row group", l.name,
					g.NumRows)
			}
		}
	}
	if rows != c.file.NumRows() {
		return badfile.Faultf("%d rows declared, %d in the row groups", c.file.NumRows(), rows)
	}
	if rows > maxRatio*(c.file.Size()+1<<16)/int64(8*len(leaves)) {
		return badfile.Faultf("%d rows and %d columns in %d bytes: the table would be more than %d times as large as "+
			"its file", rows, len(leaves), c.file.Size(), maxRatio)
	}
	return nil
}

// Read implements [dataset.Columns].
func (c *columns) Read(fields []int, fn func(n int, values [][]float64, none [][]bool) error) error {
	leaves, err := c.leaves(fields)
	if err != nil {
		return said(err)
	}
	for i := range c.file.RowGroups() {
		if err := c.rowGroup(i, leaves, fn); err != nil {
			return err
		}
	}
	return nil
}

// rowGroup reads one row group, all columns side by side, so that no more than
// a page of each is held.
func (c *columns) rowGroup(group int, leaves []leaf, fn func(n int, values [][]float64, none [][]bool) error) error {
	chunks := c.file.RowGroups()[group].ColumnChunks()
	read := make([]column, len(leaves))
	defer func() {
		for i := range read {
			read[i].close()
		}
	}()
	held, in := int64(0), new(pageInspector)
	for i, l := range leaves {
		meta := &c.file.Metadata().RowGroups[group].Columns[l.index]
		in.codec, in.nullable, in.kind = meta.MetaData.Codec, l.nullable, l.kind
		room, err := checkPages(c.f, c.file.Size(), meta, in)
		if err != nil {
			return l.damaged(err)
		}
		if held += room; held > maxHeld {
			return l.damaged(badfile.Faultf("its page and those of the columns before it take %d bytes side by side, "+
				"want at most %d; write it with smaller pages, or drop columns", held, maxHeld))
		}
		read[i] = column{leaf: l, pages: chunks[l.index].Pages()}
	}
	values, none := make([][]float64, len(read)), make([][]bool, len(read))
	for left := c.file.Metadata().RowGroups[group].NumRows; left > 0; {
		n := int(min(left, model.BlockRows))
		for i := range read {
			if err := read[i].fill(n); err != nil {
				return read[i].leaf.damaged(err)
			}
			values[i], none[i] = read[i].values[:n], read[i].null[:n]
		}
		if err := fn(n, values, none); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

func (l leaf) damaged(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return err
	}
	return badfile.Faultf("column %q: %v", l.name, err)
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
	if chunk.FilePath != "" || at < int64(len(magic)) || end < at || end > size-tail {
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
		return 0, badfile.Faultf("pages of %d values, want %d", values, meta.NumValues)
	}
	return dictionary + largest, nil
}

// checkPage holds the sizes in a page's header against the bytes that are left
// and against bounds, and returns the number of values in a page of data.
func checkPage(h *format.PageHeader, left int64) (values int32, err error) {
	if c := h.CompressedPageSize; c < 0 || int64(c) > left {
		return 0, badfile.Faultf("a page of %d bytes where %d are left", c, left)
	}
	for _, u := range []int32{h.UncompressedPageSize, h.CompressedPageSize} {
		if u < 0 || u > maxPage {
			return 0, badfile.Faultf("a page of %d bytes, want at most %d; write it with smaller pages", u, maxPage)
		}
	}
	for _, n := range []int32{h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues,
		h.DictionaryPageHeader.V.NumValues} {
		if n < 0 || n > maxPageValues {
			return 0, badfile.Faultf("a page of %d values, want at most %d; write it with smaller pages", n,
				maxPageValues)
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
			return nil, 0, badfile.CutShort(err, "the file is cut short")
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

// column reads the values of one column in one row group.
type column struct {
	leaf   leaf
	pages  parquet.Pages
	page   parquet.Page
	reader parquet.ValueReader // of page
	values [model.BlockRows]float64
	null   [model.BlockRows]bool
	raw    [model.BlockRows]parquet.Value
}

// fill reads the next n values.
func (c *column) fill(n int) error {
	return guarded(func() error {
		for have := 0; have < n; {
			if c.page == nil {
				page, err := c.pages.ReadPage()
				if err != nil {
					return badfile.CutShort(err, "its pages end too early")
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

func (c *column) read(from, to int) (int, error) {
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

func (c *column) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages != nil {
		c.pages.Close()
	}
}
