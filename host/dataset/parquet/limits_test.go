package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gatedlearning/moe/host/dataset"
)

// claimed is a file that ends as a Parquet file does and holds zeros before.
type claimed struct {
	dataset.File
	bytes, footer int64
}

func (c claimed) Size() (int64, error) { return c.bytes, nil }

func (c claimed) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fmt.Errorf("read at %d", at)
	}
	if at == c.bytes-tail {
		copy(p, append(binary.LittleEndian.AppendUint32(nil, uint32(c.footer)), magic...))
	}
	return len(p), nil
}

// A footer has what is between the magic and the tail, and at most 16 MiB.
func TestFooterLimits(t *testing.T) {
	const much = maxFooter
	for _, test := range []struct {
		bytes, footer int64
		want          string
	}{
		{11, 0, "the file is cut short"},
		{12, 0, "the metadata are damaged"},
		{12, 1, "a footer of 1 bytes in a file of 12; want at most 16777216"},
		{100, 88, "the metadata are damaged"},
		{100, 89, "a footer of 89 bytes in a file of 100; want at most 16777216"},
		{100, 101, "a footer of 101 bytes in a file of 100; want at most 16777216"},
		{2 * much, much, "the metadata are damaged"},
		{2 * much, much + 1, "a footer of 16777217 bytes in a file of 33554432; want at most 16777216"},
	} {
		if _, err := openFile(claimed{bytes: test.bytes, footer: test.footer}); err == nil || err.Error() != test.want {
			t.Errorf("%d bytes, a footer of %d: error %v, want %s", test.bytes, test.footer, err, test.want)
		}
	}
}

// parquetParts are the pages of a file and its metadata.
func parquetParts(t *testing.T, content []byte) (pages []byte, m *format.FileMetaData) {
	t.Helper()
	n := int(binary.LittleEndian.Uint32(content[len(content)-tail:]))
	m = new(format.FileMetaData)
	if err := thrift.Unmarshal(&thrift.CompactProtocol{}, content[len(content)-tail-n:len(content)-tail], m); err != nil {
		t.Fatal(err)
	}
	return content[:len(content)-tail-n], m
}

func marshalled(t *testing.T, v any) []byte {
	t.Helper()
	b, err := thrift.Marshal(&thrift.CompactProtocol{}, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A table may be a thousand times as large as its file and 64 KiB, and a row group empty.
func TestRowLimits(t *testing.T) {
	pages, m := parquetParts(t, written(t, randomTable(20, 2)))
	declares := func(n int64) []byte {
		m.NumRows, m.RowGroups[0].NumRows = n, n
		for j := range m.RowGroups[0].Columns {
			m.RowGroups[0].Columns[j].MetaData.NumValues = n
		}
		return withFooter(pages, marshalled(t, m))
	}
	sel := dataset.Selection{Target: "y", Drop: []string{"weight"}}
	most := int64(1000 * (len(declares(3e6)) + 1<<16) / 24) // the number takes as many bytes
	_, _, err := loadParquet(t, declares(most), sel)
	wantError(t, "most rows", err, fmt.Sprintf(`column "x1": pages of 20 values, want %d$`, most))
	_, _, err = loadParquet(t, declares(most+1), sel)
	wantError(t, "one more", err, fmt.Sprintf("%d rows and 3 columns in .* the table would be more than 1000 times as large", most+1))

	declares(20)
	none := m.RowGroups[0]
	none.NumRows = 0
	none.Columns = slices.Clone(none.Columns)
	for j := range none.Columns {
		none.Columns[j].MetaData.NumValues, none.Columns[j].MetaData.TotalCompressedSize = 0, 0
	}
	m.RowGroups = append(m.RowGroups, none)
	got, _, err := loadParquet(t, withFooter(pages, marshalled(t, m)), sel)
	if err != nil || len(got[0]) != 20 {
		t.Errorf("an empty row group: error %v", err)
	}
	type row struct {
		X int64   `parquet:"x"`
		Y float64 `parquet:"y"`
	}
	got, _, err = loadParquet(t, parquetFile(t, []row{{-3, 1}, {math.MinInt64, 2}}), dataset.Selection{})
	if err != nil || !slices.Equal(got[0], []float64{-3, math.MinInt64}) {
		t.Errorf("integers below 0: %v, error %v", got, err)
	}
}

// A column's pages are where its metadata say, and the largest of them and its dictionary
// are what it holds.
func TestCheckPages(t *testing.T) {
	check := func(content []byte, chunk format.ColumnChunk, size int64) (int64, error) {
		return checkPages(bytes.NewReader(content), size, &chunk, &pageInspector{kind: parquet.Double})
	}
	var chunk format.ColumnChunk
	chunk.MetaData.DataPageOffset = 4
	if held, err := check(nil, chunk, 12); held != 0 || err != nil {
		t.Errorf("no pages: %d bytes, error %v", held, err)
	}
	if _, err := check(make([]byte, 100), chunk, 11); err != fault("its pages are not in the file") {
		t.Errorf("no pages behind the tail: error %v", err)
	}
	type row struct {
		X float64 `parquet:"x,dict"`
	}
	rows := make([]row, 1000)
	for i := range rows {
		rows[i].X = float64(i % 8)
	}
	content := parquetFile(t, rows)
	_, m := parquetParts(t, content)
	chunk = m.RowGroups[0].Columns[0]
	size := int64(len(content))
	// The dictionary's 8 numbers take 64 bytes.
	h, _, err := pageHeader(bytes.NewReader(content), chunk.MetaData.DataPageOffset, size)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := check(content, chunk, size); held != 64+int64(h.UncompressedPageSize) || err != nil {
		t.Errorf("%d bytes held, want 64 + %d, error %v", held, h.UncompressedPageSize, err)
	}
	chunk.MetaData.TotalCompressedSize--
	if _, err := check(content, chunk, size); err == nil || err.Error() != fmt.Sprintf("a page of %d bytes where %d are left", h.CompressedPageSize, h.CompressedPageSize-1) {
		t.Errorf("one byte less: error %v", err)
	}
	// Headers are read whole, whatever statistics they have, and cut short they are damaged.
	for _, length := range []int{10, 3000, 100000} {
		h.DataPageHeaderV2.V.Statistics.MinValue = bytes.Repeat([]byte{7}, length)
		b := marshalled(t, h)
		got, n, err := pageHeader(bytes.NewReader(append(b, 0)), 0, int64(len(b)+1))
		if err != nil || n != int64(len(b)) || len(got.DataPageHeaderV2.V.Statistics.MinValue) != length {
			t.Errorf("a header of %d bytes: %d, error %v", len(b), n, err)
		}
		if _, _, err := pageHeader(bytes.NewReader(b), 0, int64(len(b)-1)); err != fault("a page's header is damaged") {
			t.Errorf("a header of %d bytes, one less: error %v", len(b), err)
		}
	}
}

// The sizes and numbers that a page's header may declare, and one more.
func TestCheckPageLimits(t *testing.T) {
	head := func(edit func(h *format.PageHeader)) (int32, error) {
		h := &format.PageHeader{Type: format.DataPage}
		h.DataPageHeader.Valid = true
		edit(h)
		return checkPage(h, 100<<20)
	}
	for name, test := range map[string]struct {
		edit func(h *format.PageHeader)
		good bool
	}{
		"nothing":         {func(*format.PageHeader) {}, true},
		"largest":         {func(h *format.PageHeader) { h.UncompressedPageSize = 64 << 20 }, true},
		"larger":          {func(h *format.PageHeader) { h.UncompressedPageSize = 64<<20 + 1 }, false},
		"larger as it is": {func(h *format.PageHeader) { h.CompressedPageSize = 64<<20 + 1 }, false},
		"negative":        {func(h *format.PageHeader) { h.UncompressedPageSize = -1 }, false},
		"negative as is":  {func(h *format.PageHeader) { h.CompressedPageSize = -1 }, false},
		"negative number": {func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = -1 }, false},
		"more values":     {func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 16<<20 + 1 }, false},
		"other header":    {func(h *format.PageHeader) { h.Type = format.DataPageV2 }, false},
	} {
		if _, err := head(test.edit); (err == nil) != test.good {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if n, err := head(func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = 16 << 20 }); n != 16<<20 || err != nil {
		t.Errorf("%d values, error %v", n, err)
	}
}

// What a page may claim, to the last value.
func TestInspectLimits(t *testing.T) {
	const tooMany = fault("a page holds more than its 10000 values")
	same := func(name string, got, want error) {
		t.Helper()
		if got != want {
			t.Errorf("%s: error %v, want %v", name, got, want)
		}
	}
	run := func(count uint64) []byte { return append(binary.AppendUvarint(nil, 2*count), 1) }
	const most = 2*10000 + 1024
	same("the longest run", inspectRuns(run(most), 1, 10000), nil)
	same("one more", inspectRuns(run(most+1), 1, 10000), tooMany)
	same("two runs", inspectRuns(append(run(most), run(1)...), 1, 10000), tooMany)
	same("groups", inspectRuns(append(binary.AppendUvarint(nil, 2*2+1), 7, 7), 1, 10000), nil)
	same("groups cut short", inspectRuns(append(binary.AppendUvarint(nil, 2*3+1), 7, 7), 1, 10000), errPageDamaged)
	same("no length", inspectRuns([]byte{0x80}, 1, 10000), errPageDamaged)
	same("32 bits", inspectRuns([]byte{2, 1, 2, 3, 4}, 32, 10000), nil)
	same("33 bits", inspectRuns([]byte{2, 1, 2, 3, 4, 5}, 33, 10000), errPageDamaged)
	same("deltas", inspectDelta(binary.AppendUvarint([]byte{1, 1}, 10000), 10000), nil)
	same("one delta more", inspectDelta(binary.AppendUvarint([]byte{1, 1}, 10001), 10000), fault("a page holds more than its 10000 values"))
	same("deltas without a number", inspectDelta([]byte{1, 1}, 10000), errPageDamaged)
	same("deltas without sizes", inspectDelta([]byte{0x80}, 10000), errPageDamaged)
	if part, rest, ok := cutPrefixed([]byte{0, 0, 0, 0}); !ok || len(part)+len(rest) != 0 {
		t.Error("a part of no bytes")
	}
	if _, _, ok := cutPrefixed([]byte{1, 0, 0, 0}); ok {
		t.Error("a part of a byte that is not there")
	}
	dictionary := func(n int32) error {
		h := &format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: 800}
		h.DictionaryPageHeader.V.NumValues = n
		return (&pageInspector{kind: parquet.Double}).inspect(nil, 0, h)
	}
	same("a dictionary", dictionary(100), nil)
	same("one value more", dictionary(101), fault("a dictionary of 101 values in 800 bytes"))

	v2 := func(size, repeated, defined int32) error {
		h := new(format.PageHeader)
		h.DataPageHeaderV2.V = format.DataPageHeaderV2{NumValues: 1, RepetitionLevelsByteLength: repeated, DefinitionLevelsByteLength: defined}
		return (&pageInspector{kind: parquet.Double, body: make([]byte, size, 100)}).v2(h)
	}
	same("all bytes repeat", v2(8, 8, 0), nil)
	same("all bytes define", v2(8, 0, 8), nil)
	same("both", v2(8, 4, 4), nil)
	same("too many", v2(8, 4, 5), errPageDamaged)
	same("too many repeat", v2(8, 9, 0), errPageDamaged)
	same("negative", v2(8, -1, 0), errPageDamaged)
	for lengths, want := range map[[2]int32]bool{{0, 0}: false, {1, 0}: true, {0, 1}: true} {
		h := &format.PageHeader{Type: format.DataPageV2}
		h.DataPageHeaderV2.V.RepetitionLevelsByteLength, h.DataPageHeaderV2.V.DefinitionLevelsByteLength = lengths[0], lengths[1]
		if got := new(pageInspector).claims(h); got != want {
			t.Errorf("levels of %v bytes: claims %v", lengths, got)
		}
	}
	v1 := func(p pageInspector, encoding format.Encoding) error {
		h := &format.PageHeader{Type: format.DataPage, UncompressedPageSize: 100}
		h.DataPageHeader.V = format.DataPageHeader{NumValues: 10000, Encoding: encoding, DefinitionLevelEncoding: format.RLE}
		return p.v1(h)
	}
	err := v1(pageInspector{codec: format.Gzip, kind: parquet.Double, body: []byte("no gzip")}, format.Plain)
	wantFault := "a page cannot be decompressed: "
	if err == nil || len(err.Error()) < len(wantFault) || err.Error()[:len(wantFault)] != wantFault {
		t.Errorf("no gzip: error %v", err)
	}
	prefixed := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	levels := func(count uint64, rest ...byte) pageInspector {
		return pageInspector{nullable: true, kind: parquet.Int64, body: append(prefixed(run(count)), rest...)}
	}
	same("levels", v1(levels(most), format.Plain), nil)
	same("too many levels", v1(levels(most+1), format.Plain), tooMany)
	same("values behind levels", v1(levels(10000, 0x80), format.DeltaBinaryPacked), errPageDamaged)
	if n, err := readWhole(make([]byte, 3), io.MultiReader(bytes.NewReader([]byte{1, 2}), bytes.NewReader([]byte{3}))); n != 3 || err != nil {
		t.Errorf("%d bytes, error %v", n, err)
	}
}

// The metadata's structure: its length, and how deep it may be.
func TestThriftLimits(t *testing.T) {
	nested := func(n int) []byte {
		return append(bytes.Repeat([]byte{0x1c}, n), make([]byte, n+1)...)
	}
	lists := func(n int) []byte { // n lists, the last of one structure
		return append(append(bytes.Repeat([]byte{0x19}, n), 0x1c), 0, 0)
	}
	maps := func(n int) []byte { // n maps of one pair, a byte and what follows; the last of a structure
		b := []byte{0x1b}
		for i := range n {
			types := byte(0x3b)
			if i == n-1 {
				types = 0x3c
			}
			b = append(b, 1, types, 7)
		}
		return append(b, 0, 0)
	}
	for name, test := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":            {[]byte{0}, nil},
		"32 structures":      {nested(32), nil},
		"33 structures":      {nested(33), errThriftDamaged},
		"31 lists":           {lists(31), nil},
		"32 lists":           {lists(32), errThriftDamaged},
		"31 maps":            {maps(31), nil},
		"32 maps":            {maps(32), errThriftDamaged},
		"an empty map":       {[]byte{0x1b, 0, 0}, nil},
		"a map of two":       {[]byte{0x1b, 2, 0x33, 1, 2, 3, 4, 0}, nil},
		"a map cut short":    {[]byte{0x1b, 3, 0x33, 1, 2, 3, 4, 0}, errThriftShort},
		"two bytes":          {[]byte{0x19, 0x23, 1, 2, 0}, nil},
		"a list cut short":   {[]byte{0x19, 0x53, 1, 2, 0}, errThriftShort},
		"a number cut short": {[]byte{0x15, 0x80}, errThriftShort},
		"a number too long":  {append(append([]byte{0x15}, bytes.Repeat([]byte{0xff}, 10)...), 1, 0), errThriftDamaged},
	} {
		n, err := thriftLength(test.b)
		if err != test.want || err == nil && n != len(test.b) {
			t.Errorf("%s: %d of %d bytes, error %v, want %v", name, n, len(test.b), err, test.want)
		}
	}
	w := thriftWalk{b: []byte{0x23, 1, 2}}
	if w.list(0); w.err != nil || w.at != 3 {
		t.Errorf("a list that ends with its bytes: %d, error %v", w.at, w.err)
	}
}
