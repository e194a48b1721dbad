package dataset

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// benchTable is 100,000 rows of 10 features and a target, drawn in testing.
func benchTable() Source {
	x, y := numbers(100_000, 10)
	for i, v := range x.RawMatrix().Data {
		if v != 0 && (v > 10 || v < -10 || v*v < 1e-8) { // ordinary numbers only
			x.RawMatrix().Data[i] = y[i%len(y)]
		}
	}
	return Matrix(x, y)
}

func benchmarkRead(b *testing.B, name string) {
	path := filepath.Join(b.TempDir(), name)
	if err := Write(context.Background(), path, benchTable()); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		src, err := Open(path, Selection{})
		if err != nil {
			b.Fatal(err)
		}
		if err := src.Read(context.Background(), func(*model.Block) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadCSV(b *testing.B) { benchmarkRead(b, "data.csv") }
func BenchmarkReadNPY(b *testing.B) { benchmarkRead(b, "data.npy") }

func benchmarkWrite(b *testing.B, name string) {
	src := benchTable()
	path := filepath.Join(b.TempDir(), name)
	for b.Loop() {
		if err := Write(context.Background(), path, src); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
}

func BenchmarkWriteCSV(b *testing.B) { benchmarkWrite(b, "data.csv") }
func BenchmarkWriteNPY(b *testing.B) { benchmarkWrite(b, "data.npy") }
