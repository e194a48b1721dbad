package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/internal/npy"
)

// noted is a file that notes what is read of it.
type noted struct {
	io.ReaderAt
	reads [][2]int64 // place and size
}

func (n *noted) ReadAt(p []byte, at int64) (int, error) {
	n.reads = append(n.reads, [2]int64{at, int64(len(p))})
	return n.ReaderAt.ReadAt(p, at)
}

// Rows in a file are read by quarters of a MiB where they are asked for one after the
// other, by single blocks elsewhere, nothing twice in turn, and the system is asked for
// the 16 reads that follow, nothing of them twice. A row of 10 features and a target
// has 88 bytes, a block 22528, a read 8 blocks.
func TestStoredReads(t *testing.T) {
	const n, d, block = 20*256 - 100, 10, 22528
	const last = n*88 - 16*block // bytes of the last read
	content := make([]byte, n*8*(d+1))
	for r := range n {
		for j := range d + 1 {
			binary.LittleEndian.PutUint64(content[8*(r*(d+1)+j):], math.Float64bits(float64(100*r+j)))
		}
	}
	for _, test := range []struct {
		name   string
		order  []int
		reads  [][2]int64 // in blocks: from, to
		asked  [][2]int64 // in bytes: from, to
		silent bool       // nobody can be asked
	}{
		{"in order", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 19}, [][2]int64{{0, 8}, {8, 16}, {16, 20}}, [][2]int64{{8 * block, 136 * block}, {136 * block, 144 * block}, {16*block + last, 16*block + 17*last}}, false},
		{"nobody asked", []int{0, 7, 8}, [][2]int64{{0, 8}, {8, 16}}, nil, true},
		{"here and there", []int{3, 3, 1, 6}, [][2]int64{{3, 4}, {1, 2}, {6, 7}}, nil, false},
		{"from the middle", []int{3, 4, 5, 7, 8}, [][2]int64{{3, 4}, {4, 8}, {8, 16}}, [][2]int64{{8 * block, 72 * block}, {72 * block, 144 * block}}, false},
		{"back", []int{0, 8, 7, 0}, [][2]int64{{0, 8}, {8, 16}, {7, 8}, {0, 8}}, [][2]int64{{8 * block, 136 * block}, {136 * block, 144 * block}, {8 * block, 136 * block}}, false},
		{"the last", []int{19, 19, 18}, [][2]int64{{19, 20}, {18, 19}}, nil, false},
	} {
		file := &noted{ReaderAt: bytes.NewReader(content)}
		s := newStored(Names(d, true), n, file, 8*(d+1))
		var asked [][2]int64
		if !test.silent {
			s.ahead = func(from, size int64) { asked = append(asked, [2]int64{from, from + size}) }
		}
		s.decode = func(dst []float64, from []byte, rows int) {
			for i := range dst {
				dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(from[8*(i%rows*(d+1)+i/rows):]))
			}
		}
		var room model.Room
		for _, i := range test.order {
			b, err := s.Block(i, &room)
			if err != nil {
				t.Fatal(err)
			}
			if b.N != min(256, n-256*i) || b.X[0] != float64(25600*i) || b.X[len(b.X)-1] != float64(100*(256*i+b.N-1)+9) || b.Y[b.N-1] != float64(100*(256*i+b.N-1)+10) {
				t.Errorf("%s: block %d is of other rows", test.name, i)
			}
		}
		var reads [][2]int64
		for _, p := range test.reads {
			reads = append(reads, [2]int64{p[0] * block, min(p[1]*block, int64(len(content))) - p[0]*block})
		}
		if diff := cmp.Diff(reads, file.reads); diff != "" {
			t.Errorf("%s, reads: %s", test.name, diff)
		}
		if diff := cmp.Diff(test.asked, asked); diff != "" {
			t.Errorf("%s, asked: %s", test.name, diff)
		}
	}
}

// What is kept is in memory up to the room there is, to the byte; an array is read where
// it stands, and a text is written to a file that is gone afterwards.
func TestRoomForRows(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	for _, name := range []string{"table.npy", "table.csv"} {
		const n, size = 600, 600 * 4 * 8
		path := randomFile(t, name, n, 3, false)
		for room, held := range map[Room]bool{0: true, size: true, size - 1: false} {
			src, err := Open(path, Selection{})
			if err != nil {
				t.Fatal(err)
			}
			kept, err := Rows(t.Context(), src, room, 1)
			if err != nil {
				t.Fatal(err)
			}
			if model.Held(kept.Rows) != held {
				t.Errorf("%s, room for %v of %d bytes: in memory %v", name, room, size, !held)
			}
			_, inPlace := kept.file.(diskFile)
			if inPlace != (!held && name == "table.npy") {
				t.Errorf("%s, room for %v of %d bytes: where it stands %v", name, room, size, inPlace)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "moe-rows-*"))
			if (kept.temp != "") != (len(files) > 0) {
				t.Errorf("%s: %q is to be removed, there are %q", name, kept.temp, files)
			}
			kept.Close()
			if files, _ := filepath.Glob(filepath.Join(dir, "moe-rows-*")); len(files) > 0 {
				t.Errorf("%s: %q are left", name, files)
			}
		}
	}
	f, err := os.CreateTemp(dir, "named-*")
	if err != nil {
		t.Fatal(err)
	}
	(&Kept{file: f, temp: f.Name()}).Close()
	if _, err := os.Stat(f.Name()); !os.IsNotExist(err) {
		t.Errorf("a file with a name is not removed: error %v", err)
	}
	// The system is asked from the first row on that is beyond 256 MiB.
	schema := Names(1, true)
	b := &model.Block{N: 256, X: make([]float64, 256), Y: make([]float64, 256)}
	s := &spool{data: &model.Data{D: 1, N: loadStep/16 - 256}, schema: schema, most: 1e18}
	for _, want := range []float64{0, 2 * loadStep} {
		if err := s.add(b); is[*memory.Error](err) {
			t.Skip(err) // this machine has not that much free, which is what was asked
		} else if err != nil || s.asked != want {
			t.Errorf("asked for %v bytes, want %v, error %v", s.asked, want, err)
		}
	}
}

// The rows that have changed are named.
func TestRowsChangedAreNamed(t *testing.T) {
	for _, test := range []struct {
		row  int
		want string
	}{
		{0, "rows 1 to 256 are"}, {255, "rows 1 to 256 are"}, {256, "rows 257 to 512 are"}, {1999, "rows 1793 to 2000 are"},
	} {
		path, err := passedAgain(t, func(f *os.File) error {
			_, err := f.WriteAt(make([]byte, 8), npy.HeaderSize+32*int64(test.row))
			return err
		})
		if err == nil || !strings.HasPrefix(err.Error(), path+": "+test.want+" not what they were: ") {
			t.Errorf("row %d: error %v, want %s…", test.row, err, test.want)
		}
	}
}

// Values below 0 are no fault of the columns beside the weights.
func TestNegativeBesideWeights(t *testing.T) {
	for n := 1; n < 6; n++ {
		x, y, w := mat.NewDense(n, 1, nil), make([]float64, n), make([]float64, n)
		for i := range n {
			x.Set(i, 0, -1)
			y[i], w[i] = -2, float64(i+1)
		}
		path := filepath.Join(t.TempDir(), "table.npy")
		if err := Write(t.Context(), path, WeightedMatrix(x, y, w)); err != nil {
			t.Fatal(err)
		}
		src, err := Open(path, Selection{Target: "x2", Roles: Roles{model.Weights: "y"}})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := Rows(t.Context(), src, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var room model.Room
		b, err := kept.Rows.Block(0, &room)
		if err != nil || b.X[n-1] != -1 || b.Y[0] != -2 || b.Role[model.Weights][n-1] != float64(n) {
			t.Errorf("%d rows: %v, error %v", n, b, err)
		}
		kept.Close()
	}
	if got := fmt.Sprint(Room(7).bytes()); got != "7" {
		t.Errorf("room of %s bytes", got)
	}
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
