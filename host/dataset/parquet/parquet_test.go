package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// parquetFile writes rows with the library's own writer.
func parquetFile[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[T](&out, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// loadParquet reads a file of the given content, column by column.
func loadParquet(t testing.TB, content []byte, sel dataset.Selection) ([][]float64, dataset.Schema, error) {
	t.Helper()
	return loadParquetAt(t, filepath.Join(t.TempDir(), "data.parquet"), content, sel)
}

func loadParquetAt(t testing.TB, path string, content []byte, sel dataset.Selection) ([][]float64, dataset.Schema, error) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	src, err := dataset.Open(path, sel)
	if err != nil {
		return nil, dataset.Schema{}, err
	}
	data, err := dataset.Load(context.Background(), src)
	if err != nil {
		return nil, dataset.Schema{}, err
	}
	columns := make([][]float64, len(src.Schema().Columns()))
	for i := range data.Blocks {
		for j := range columns {
			columns[j] = append(columns[j], blockColumn(&data.Blocks[i], j)...)
		}
	}
	schema := src.Schema()
	schema.Name = ""
	return columns, schema, nil
}

// table is one in memory, and what it is of.
type table struct {
	dataset.Source
	x    *mat.Dense
	y, w []float64
}

// randomTable is a table in memory with names that do not sort as they stand.
func randomTable(n, d int) *table {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y, w := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i], w[i] = rng.NormFloat64(), rng.Float64()
	}
	return &table{dataset.WeightedMatrix(x, y, w), x, y, w}
}

func written(t testing.TB, src dataset.Source) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.parquet")
	if err := dataset.Write(context.Background(), path, src); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{1, 256, 257, 1000} {
		src := randomTable(n, 12)
		got, schema, err := loadParquet(t, written(t, src), dataset.Selection{Target: "y", Roles: dataset.Roles{model.Weights: "weight"}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(schema.Columns(), src.Schema().Columns()) {
			t.Errorf("columns %q", schema.Columns())
		}
		for j := range 12 {
			if !slices.Equal(got[j], mat.Col(nil, j, src.x)) {
				t.Errorf("%d rows: column %d differs", n, j)
			}
		}
		if !slices.Equal(got[12], src.y) || !slices.Equal(got[13], src.w) {
			t.Errorf("%d rows: target or weights differ", n)
		}
	}
}

// Several row groups of a writer's whose sizes are no multiple of a block's, and
// compressed columns of every type, nullable ones and dictionaries among them.
func TestTypes(t *testing.T) {
	type row struct {
		F64  float64  `parquet:"f64,snappy"`
		F32  float32  `parquet:"f32,zstd"`
		I32  int32    `parquet:"i32,delta"`
		I64  int64    `parquet:"i64,dict"`
		U32  uint32   `parquet:"u32"`
		U64  uint64   `parquet:"u64,gzip"`
		I8   int8     `parquet:"i8"`
		Bool bool     `parquet:"bool"`
		Opt  *float64 `parquet:"opt,optional"`
		OptI *int32   `parquet:"opti,optional,dict"`
		Text string   `parquet:"text"`
		List []int32  `parquet:"list,list"`
		Y    float64  `parquet:"y,dict"`
	}
	const n = 700
	rows := make([]row, n)
	want := make([][]float64, 11)
	for i := range rows {
		opt, opti := math.Sin(float64(i)), int32(i%7-3)
		rows[i] = row{float64(i) / 3, float32(i) / 3, int32(-i), int64(i % 5), math.MaxUint32 - uint32(i), uint64(i), int8(i % 100), i%3 == 0, &opt, &opti, "text", []int32{1, 2}, float64(i % 4)}
		flag := 0.0
		if i%3 == 0 {
			flag = 1
		}
		for j, v := range []float64{float64(i) / 3, float64(float32(i) / 3), -float64(i), float64(i % 5), math.MaxUint32 - float64(i), float64(i), float64(i % 100), flag, opt, float64(opti), float64(i % 4)} {
			want[j] = append(want[j], v)
		}
	}
	for _, version := range []int{1, 2} {
		content := parquetFile(t, rows, parquet.MaxRowsPerRowGroup(123), parquet.PageBufferSize(256), parquet.DataPageVersion(version))
		got, _, err := loadParquet(t, content, dataset.Selection{Drop: []string{"text", "list"}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("data pages of version %d:\n%s", version, diff)
		}
		for _, name := range []string{"text", "list"} {
			_, _, err := loadParquet(t, content, dataset.Selection{Features: []string{name}})
			wantError(t, name, err, `^.*data.parquet: Parquet: column "`+name+`" .*drop`)
		}
	}
}

func wantError(t *testing.T, name string, err error, pattern string) {
	t.Helper()
	var e *dataset.Error
	if !errors.As(err, &e) || !regexp.MustCompile(pattern).MatchString(err.Error()) {
		t.Errorf("%s: error %v (%T), want a dataset error that matches %s", name, err, err, pattern)
	}
}

func TestCells(t *testing.T) {
	type row struct {
		X *float64 `parquet:"x,optional"`
		W float64  `parquet:"w"`
		Y float64  `parquet:"y"`
	}
	one := 1.0
	rows := []row{{&one, 1, 1}, {nil, 1, 2}, {&one, -2, math.NaN()}, {&one, 1, math.Inf(1)}}
	_, _, err := loadParquet(t, parquetFile(t, rows), dataset.Selection{Roles: dataset.Roles{model.Weights: "w"}})
	wantError(t, "cells", err, `data.parquet:2:1: null in column "x" is not .*; 4 such cells: 2:1 null, 3:3 NaN, 3:2 -2, 4:3 Inf;`)
	type date struct {
		X float64 `parquet:"x"`
		D int64   `parquet:"d,timestamp"`
		Y float64 `parquet:"y"`
	}
	_, _, err = loadParquet(t, parquetFile(t, []date{{1, 2, 3}}), dataset.Selection{})
	wantError(t, "timestamp", err, `column "d" is of type .*TIMESTAMP`)
	_, _, err = loadParquet(t, parquetFile(t, []row{}), dataset.Selection{})
	wantError(t, "no rows", err, `data.parquet: no rows`)
	src, err := dataset.NewReader("stdin", bytes.NewBuffer(parquetFile(t, rows)), dataset.Selection{})
	wantError(t, "stream", err, `stdin: a Parquet file cannot be read from a stream`)
	if src != nil {
		t.Error("a source beside an error")
	}
}

// Whatever way a table is read by, it has the rows of the table that was written: from what can
// be rewound, from where it stood; by ranges of blocks; for passes over its rows.
func TestWays(t *testing.T) {
	const before = "what the caller has read"
	src := randomTable(768, 3)
	all := append([]byte(before), written(t, src)...)
	sel := dataset.Selection{Target: "y", Roles: dataset.Roles{model.Weights: "weight"}}
	for kind, r := range map[string]io.ReadSeeker{
		"bytes.Reader": bytes.NewReader(all),
		"seeker":       struct{ io.ReadSeeker }{bytes.NewReader(all)}, // and no io.ReaderAt
	} {
		if _, err := io.CopyN(io.Discard, r, int64(len(before))); err != nil {
			t.Fatal(err)
		}
		got, err := dataset.NewReader("data", r, sel)
		if err != nil {
			t.Fatal(err)
		}
		for pass := range 2 {
			i := 0
			err := got.Read(t.Context(), func(b *model.Block) error {
				for r := range b.N {
					if b.Y[r] != src.y[i] || b.Role[model.Weights][r] != src.w[i] || b.X[2*b.N+r] != src.x.At(i, 2) {
						return fmt.Errorf("row %d differs", i)
					}
					i++
				}
				return nil
			})
			if err != nil || i != 768 {
				t.Errorf("%s, pass %d: %d rows, error %v", kind, pass, i, err)
			}
		}
		err = dataset.ReadRange(t.Context(), got, 1, 3, func(i int, b *model.Block) error {
			if b.N != 256 || b.Y[5] != src.y[256*i+5] {
				return fmt.Errorf("block %d differs", i)
			}
			return nil
		})
		if n, errCount := dataset.Count(t.Context(), got); err != nil || errCount != nil || n != 768 {
			t.Errorf("%s: a range: error %v; %d rows, error %v", kind, err, n, errCount)
		}
		kept, err := dataset.Rows(t.Context(), got, dataset.Room(1), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		var room model.Room
		b, err := kept.Rows.Block(2, &room)
		if err != nil || model.Held(kept.Rows) || b.Y[7] != src.y[519] {
			t.Errorf("%s: rows that are kept elsewhere: error %v", kind, err)
		}
	}
}

// Cut anywhere, a file is refused.
func TestCutShort(t *testing.T) {
	content, path := written(t, randomTable(20, 2)), filepath.Join(t.TempDir(), "data.parquet")
	for n := len(magic); n < len(content); n += 3 { // shorter, it is no Parquet file
		if _, _, err := loadParquetAt(t, path, content[:n], dataset.Selection{}); !is[*dataset.Error](err) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(content), err)
		}
	}
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// A flipped bit, one in every byte: in a page it is found by its checksum; in the
// headers or the footer, which have none, it gives an error, another table or
// nothing that matters, but never a crash nor an error without a place.
func TestFlippedBits(t *testing.T) {
	content, path := written(t, randomTable(8, 1)), filepath.Join(t.TempDir(), "data.parquet")
	good, schema, err := loadParquet(t, content, dataset.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	inPage := func(at int) bool {
		for _, c := range file.Metadata().RowGroups[0].Columns {
			m := c.MetaData
			_, n, err := pageHeader(bytes.NewReader(content), m.DataPageOffset, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			if int64(at) >= m.DataPageOffset+n && int64(at) < m.DataPageOffset+m.TotalCompressedSize {
				return true
			}
		}
		return false
	}
	found, others := 0, 0
	for at := len(magic); at < len(content); at++ {
		bit := at % 8
		damaged := slices.Clone(content)
		damaged[at] ^= 1 << bit
		got, gotSchema, err := loadParquetAt(t, path, damaged, dataset.Selection{})
		switch {
		case err != nil && !is[*dataset.Error](err):
			t.Fatalf("bit %d of byte %d: %v (%T)", bit, at, err, err)
		case err != nil:
			found++
		case inPage(at):
			t.Fatalf("bit %d of byte %d, in a page: not found", bit, at)
		case !cmp.Equal(got, good) || !reflect.DeepEqual(gotSchema, schema):
			others++
		}
	}
	t.Logf("of %d flips %d are errors and %d give another table", len(content)-len(magic), found, others)
}

// withFooter is a file with these bytes of pages and this footer.
func withFooter(pages, footer []byte) []byte {
	out := append(slices.Clone(pages), footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, magic...)
}

// Files that declare what would take gigabytes are refused before any of it is
// allocated.
func TestBombs(t *testing.T) {
	content := written(t, randomTable(20, 2))
	n := int(binary.LittleEndian.Uint32(content[len(content)-tail:]))
	pages, footer := content[:len(content)-tail-n], content[len(content)-tail-n:len(content)-tail]
	protocol := &thrift.CompactProtocol{}
	edited := func(edit func(m *format.FileMetaData)) []byte {
		var m format.FileMetaData
		if err := thrift.Unmarshal(protocol, footer, &m); err != nil {
			t.Fatal(err)
		}
		edit(&m)
		b, err := thrift.Marshal(protocol, &m)
		if err != nil {
			t.Fatal(err)
		}
		return withFooter(pages, b)
	}
	rows := func(n int64) func(*format.FileMetaData) {
		return func(m *format.FileMetaData) {
			m.NumRows, m.RowGroups[0].NumRows = n, n
			for j := range m.RowGroups[0].Columns {
				m.RowGroups[0].Columns[j].MetaData.NumValues = n
			}
		}
	}
	// One page that claims 2 GiB, and one that claims as many values.
	claim := func(edit func(h *format.PageHeader)) []byte {
		h, length, err := pageHeader(bytes.NewReader(pages), 4, int64(len(pages)))
		if err != nil {
			t.Fatal(err)
		}
		body := pages[4+length : 4+length+int64(h.CompressedPageSize)]
		edit(h)
		b, err := thrift.Marshal(protocol, h)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(len(pages))
		file := edited(func(m *format.FileMetaData) {
			c := &m.RowGroups[0].Columns[0].MetaData
			c.DataPageOffset, c.TotalCompressedSize = at, int64(len(b)+len(body))
		})
		return slices.Concat(pages, b, body, file[len(pages):])
	}
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"footer of 4 GiB":      {slices.Concat(content[:len(content)-tail], []byte{0xff, 0xff, 0xff, 0xff}, []byte(magic)), "a footer of 4294967295 bytes"},
		"list of 2 Gi structs": {withFooter(pages, []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07}), "the metadata are damaged"},
		"nested without end":   {withFooter(pages, bytes.Repeat([]byte{0x1c}, 1<<20)), "the metadata are damaged"},
		"4e9 rows":             {edited(rows(4e9)), "4000000000 rows and 3 columns in [0-9]+ bytes: the table would be more than 1000 times"},
		"negative rows":        {edited(rows(-1)), "damaged"},
		"rows that are not":    {edited(rows(21)), `column "x1": pages of 20 values, want 21`},
		"pages elsewhere":      {edited(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.DataPageOffset = 1 << 40 }), `column "x1": its pages are not in the file`},
		"page of 2 GiB":        {claim(func(h *format.PageHeader) { h.UncompressedPageSize = math.MaxInt32 }), "a page of 2147483647 bytes, want at most"},
		"page beyond the file": {claim(func(h *format.PageHeader) { h.CompressedPageSize = math.MaxInt32 }), "a page of 2147483647 bytes where"},
		"page of 2 Gi values":  {claim(func(h *format.PageHeader) { h.DataPageHeaderV2.V.NumValues = math.MaxInt32 }), "a page of 2147483647 values, want at most"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := loadParquet(t, test.content, dataset.Selection{Target: "y", Drop: []string{"weight"}})
		runtime.ReadMemStats(&after)
		wantError(t, name, err, "data.parquet(:[0-9]+)?: Parquet: .*"+test.want)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
			t.Errorf("%s: %d MiB allocated", name, got>>20)
		}
	}
}

// repaged is a file of one column with its last page in another form, and the
// header that edit makes of it, without a checksum.
func repaged(t *testing.T, content []byte, edit func(h *format.PageHeader, body []byte) []byte) []byte {
	t.Helper()
	protocol := &thrift.CompactProtocol{}
	n := int(binary.LittleEndian.Uint32(content[len(content)-tail:]))
	pages, footer := content[:len(content)-tail-n], content[len(content)-tail-n:len(content)-tail]
	var m format.FileMetaData
	if err := thrift.Unmarshal(protocol, footer, &m); err != nil {
		t.Fatal(err)
	}
	c := &m.RowGroups[0].Columns[0].MetaData
	h, length, err := pageHeader(bytes.NewReader(pages), c.DataPageOffset, int64(len(pages)))
	if err != nil {
		t.Fatal(err)
	}
	body := slices.Clone(pages[c.DataPageOffset+length:][:h.CompressedPageSize])
	first := c.DataPageOffset
	if c.DictionaryPageOffset != 0 {
		first = c.DictionaryPageOffset
	}
	before := slices.Clone(pages[first:c.DataPageOffset])
	body = edit(h, body)
	h.CRC, h.CompressedPageSize = 0, int32(len(body))
	head, err := thrift.Marshal(protocol, h)
	if err != nil {
		t.Fatal(err)
	}
	moved := int64(len(pages)) - first
	c.DataPageOffset += moved
	if c.DictionaryPageOffset != 0 {
		c.DictionaryPageOffset += moved
	}
	c.TotalCompressedSize = int64(len(before) + len(head) + len(body))
	if footer, err = thrift.Marshal(protocol, &m); err != nil {
		t.Fatal(err)
	}
	return withFooter(slices.Concat(pages, before, head, body), footer)
}

// A page holds no more than its header declares, whatever its compression and
// its encoding: a few hundred bytes that claim gigabytes are refused before any
// of it is allocated, and a page that cannot be decompressed is tried once.
func TestPageBombs(t *testing.T) {
	const n = 1000
	file := func(codec compress.Codec, values encoding.Encoding, kind parquet.Node) []byte {
		var out bytes.Buffer
		node := parquet.Compressed(parquet.Encoded(kind, values), codec)
		w := parquet.NewGenericWriter[any](&out, parquet.NewSchema("t", parquet.Group{"x": node}))
		rows := make([]parquet.Value, n)
		for i := range rows {
			switch node.Type().Kind() {
			case parquet.Double:
				rows[i] = parquet.DoubleValue(float64(i % 7))
			case parquet.Int64:
				rows[i] = parquet.Int64Value(int64(i * i))
			case parquet.Boolean:
				rows[i] = parquet.BooleanValue(i%3 == 0)
			}
			level := 0
			if node.Optional() {
				level = 1
			}
			rows[i] = rows[i].Level(0, level, 0)
		}
		if _, err := w.ColumnWriters()[0].WriteRowValues(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	double, integer := parquet.Leaf(parquet.DoubleType), parquet.Leaf(parquet.Int64Type)
	zeros := make([]byte, 100<<20)
	large := func(codec compress.Codec) func(*format.PageHeader, []byte) []byte {
		return func(_ *format.PageHeader, _ []byte) []byte {
			body, err := codec.Encode(nil, zeros)
			if err != nil {
				t.Fatal(err)
			}
			return body
		}
	}
	damaged := func(_ *format.PageHeader, body []byte) []byte {
		for i := range body {
			body[i] = 0xff
		}
		return body
	}
	// A frame that declares 16 GiB and is cut short.
	declares := func(_ *format.PageHeader, _ []byte) []byte {
		return binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, 16<<30)
	}
	run := func(prefix ...byte) func(*format.PageHeader, []byte) []byte {
		return func(h *format.PageHeader, _ []byte) []byte {
			body := binary.AppendUvarint(slices.Clone(prefix), 2*(1<<31-1))
			body = append(body, 1, 0, 0, 0)
			h.UncompressedPageSize = int32(len(body))
			return body
		}
	}
	for name, test := range map[string]struct {
		good []byte
		edit func(*format.PageHeader, []byte) []byte
		want string
	}{
		"damaged LZ4":     {file(&parquet.Lz4Raw, &parquet.Plain, double), damaged, "cannot be decompressed"},
		"damaged snappy":  {file(&parquet.Snappy, &parquet.Plain, double), damaged, "cannot be decompressed|larger than"},
		"damaged gzip":    {file(&parquet.Gzip, &parquet.Plain, double), damaged, "cannot be decompressed"},
		"damaged zstd":    {file(&parquet.Zstd, &parquet.Plain, double), damaged, "cannot be decompressed"},
		"damaged brotli":  {file(&parquet.Brotli, &parquet.Plain, double), damaged, "cannot be decompressed"},
		"large LZ4":       {file(&parquet.Lz4Raw, &parquet.Plain, double), large(&parquet.Lz4Raw), "cannot be decompressed"},
		"large snappy":    {file(&parquet.Snappy, &parquet.Plain, double), large(&parquet.Snappy), "larger than the 8000 bytes"},
		"large gzip":      {file(&parquet.Gzip, &parquet.Plain, double), large(&parquet.Gzip), "larger than the 8000 bytes"},
		"large zstd":      {file(&parquet.Zstd, &parquet.Plain, double), large(&parquet.Zstd), "larger than the 8000 bytes"},
		"large brotli":    {file(&parquet.Brotli, &parquet.Plain, double), large(&parquet.Brotli), "larger than the 8000 bytes"},
		"zstd frame":      {file(&parquet.Zstd, &parquet.Plain, double), declares, "cannot be decompressed|larger than"},
		"nothing":         {file(&parquet.Uncompressed, &parquet.Plain, double), func(_ *format.PageHeader, body []byte) []byte { return body }, ""},
		"run of indexes":  {file(&parquet.Uncompressed, &parquet.RLEDictionary, double), run(1), "holds more than its 1000 values"},
		"run of booleans": {file(&parquet.Uncompressed, &parquet.RLE, parquet.Leaf(parquet.BooleanType)), run(9, 0, 0, 0), "holds more than its 1000 values"},
		"run of levels":   {file(&parquet.Uncompressed, &parquet.Plain, parquet.Optional(double)), func(h *format.PageHeader, body []byte) []byte { return runOfLevels(h, body) }, "holds more than its 1000 values"},
		"count of deltas": {file(&parquet.Uncompressed, &parquet.DeltaBinaryPacked, integer), run(0x80, 1, 4), "holds more than its 1000 values"},
		"other encoding": {file(&parquet.Uncompressed, &parquet.Plain, double), func(h *format.PageHeader, body []byte) []byte {
			h.DataPageHeaderV2.V.Encoding = format.DeltaByteArray
			return body
		}, "values in the encoding DELTA_BYTE_ARRAY"},
		"two kinds of pages": {file(&parquet.Uncompressed, &parquet.Plain, double), func(h *format.PageHeader, body []byte) []byte {
			h.DataPageHeader.Valid, h.DataPageHeader.V.NumValues = true, math.MaxInt32
			h.DataPageHeaderV2.V.NumValues -= math.MaxInt32
			return body
		}, "a page of 2147483647 values"},
	} {
		sel := dataset.Selection{Features: []string{"x"}, Target: "z", Optional: true}
		if _, _, err := loadParquet(t, test.good, sel); err != nil {
			t.Errorf("%s, before it: %v", name, err)
		}
		content := repaged(t, test.good, test.edit)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := loadParquet(t, content, sel)
		runtime.ReadMemStats(&after)
		if test.want == "" { // the edit alone does no harm
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantError(t, name, err, `data.parquet:1: Parquet: column "x": .*(`+test.want+`)`)
		if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
			t.Errorf("%s: %d MiB allocated", name, got>>20)
		}
	}
}

// runOfLevels puts a run of two thousand million levels before the values.
func runOfLevels(h *format.PageHeader, body []byte) []byte {
	v2 := &h.DataPageHeaderV2.V
	levels := append(binary.AppendUvarint(nil, 2*(1<<31-1)), 1)
	body = append(levels, body[v2.DefinitionLevelsByteLength:]...)
	v2.DefinitionLevelsByteLength = int32(len(levels))
	h.UncompressedPageSize = int32(len(body))
	return body
}

// FuzzParquet looks for content on which reading panics or forgets the file's
// name.
func FuzzParquet(f *testing.F) {
	f.Add(written(f, randomTable(3, 1)))
	f.Add(parquetFile(f, []struct {
		X *int32  `parquet:"x,optional,dict"`
		Y float32 `parquet:"y,snappy"`
	}{{nil, 1}}))
	f.Add(parquetFile(f, []struct {
		A float64 `parquet:"a,lz4"`
		B int64   `parquet:"b,delta,zstd"`
		C bool    `parquet:"c,gzip"`
		D float64 `parquet:"d,brotli,dict"`
	}{{1, 2, true, 3}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) < 4 {
			return
		}
		content = append([]byte(magic), content[4:]...)
		if _, _, err := loadParquet(t, content, dataset.Selection{}); err != nil && !is[*dataset.Error](err) && !is[*dataset.SelectionError](err) && err != io.EOF {
			t.Errorf("%v (%T)", err, err)
		}
	})
}
