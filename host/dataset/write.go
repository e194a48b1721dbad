package dataset

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/npy"
	"github.com/gatedlearning/moe/internal/tablefile"
)

// Write writes a table to path, as CSV, NPY or a registered [Format] by its extension. CSV has a line
// of names and the shortest decimals that read back as the same float64, NPY
// is version 1.0, little-endian float64, row-major, columns in the order of
// Schema.Columns, Parquet has columns of doubles in pages with checksums; so all
// hold the same numbers to the last bit. The file is
// written beside path and renamed when it is whole. Another extension is a
// *[SelectionError].
func Write(ctx context.Context, path string, src Source) error {
	if _, err := tablefile.ExtensionOf(path); err != nil {
		return &SelectionError{Msg: err.Error()}
	}
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := WriteTo(ctx, f, path, src); err != nil {
		return err
	}
	return f.Commit()
}

// WriteTo writes a table to f, which is to become path, as [Write] does, and leaves
// it to the caller to commit it.
func WriteTo(ctx context.Context, f *atomicfile.File, path string, src Source) error {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		return writeNPY(ctx, f, whole{src})
	}
	if format, registered, found := withExtension(path); registered && format.Write == nil {
		return &SelectionError{Msg: fmt.Sprintf("output %s: %s files are read, not written", path, format.Name)}
	} else if registered {
		return format.Write(ctx, f, whole{src})
	} else if found {
		return &SelectionError{Msg: fmt.Sprintf("output %s: %s", path, format.lacks())}
	}
	return WriteCSV(ctx, f, src)
}

// whole is a source all of whose values are there.
type whole struct{ Source }

func (w whole) Read(ctx context.Context, fn func(*model.Block) error) error {
	rows := 0
	return w.Source.Read(ctx, func(b *model.Block) error {
		for at, v := range b.X {
			if math.IsNaN(v) {
				return &Error{File: w.Schema().Name,
					Msg: fmt.Sprintf("row %d has an empty prediction, which a CSV file can hold and this one cannot: "+
						"name the output .csv", rows+at%b.N+1)}
			}
		}
		rows += b.N
		return fn(b)
	})
}

const writeSize = 256 << 10

// WriteCSV writes a table to a stream as [Write] does to a .csv file.
func WriteCSV(ctx context.Context, out io.Writer, src Source) error {
	w := bufio.NewWriterSize(out, writeSize)
	w.WriteString(headerLine(src.Schema().Columns()))
	var row []byte
	err := src.Read(ctx, func(b *model.Block) error {
		for i := range b.N {
			row = row[:0]
			for j := i; j < len(b.X); j += b.N {
				row = append(appendNumber(row, b.X[j]), ',')
			}
			if b.Y != nil {
				row = append(appendNumber(row, b.Y[i]), ',')
			}
			for _, values := range b.Role {
				if values != nil {
					row = append(appendNumber(row, values[i]), ',')
				}
			}
			row[len(row)-1] = '\n'
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// appendNumber appends the shortest decimal that reads back as v, nothing for a
// missing value.
func appendNumber(dst []byte, v float64) []byte {
	if math.IsNaN(v) {
		return dst
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// headerLine is the first line of a CSV file, names quoted where they need it.
func headerLine(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		if strings.ContainsAny(name, ",\"\n\r") || strings.TrimSpace(name) != name {
			name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
		quoted[i] = name
	}
	return strings.Join(quoted, ",") + "\n"
}

func writeNPY(ctx context.Context, f *atomicfile.File, src Source) error {
	w := bufio.NewWriterSize(f, writeSize)
	w.Write(make([]byte, npy.HeaderSize)) // filled in when the number of rows is known
	rows, cols := 0, len(src.Schema().Columns())
	var buf []byte
	err := src.Read(ctx, func(b *model.Block) error {
		rows += b.N
		buf = buf[:0]
		for i := range b.N {
			for j := i; j < len(b.X); j += b.N {
				buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(b.X[j]))
			}
			if b.Y != nil {
				buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(b.Y[i]))
			}
			for _, values := range b.Role {
				if values != nil {
					buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(values[i]))
				}
			}
		}
		_, err := w.Write(buf)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = f.WriteAt(npy.HeaderOf(rows, cols), 0)
	return err
}
