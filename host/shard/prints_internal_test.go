package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// TestRunsOfBlocks: of a table with more blocks than there are digests a digest is of several; those of two
// parts that have a run in common add up to those of one part, and a change is found by the
// part that has the run, or where the parts come together.
func TestRunsOfBlocks(t *testing.T) {
	const blocks = 3*mostPrints - 5
	table := Table{Rows: blocks*model.BlockRows - 7}
	rng := rand.New(rand.NewPCG(1, 1))
	digests := make([]uint64, blocks)
	for i := range digests {
		digests[i] = rng.Uint64()
	}
	made := func(from, to int) *Prints {
		p := NewPrints(table, from, to)
		for i := from; i < to; i++ {
			p.sums[i>>p.level-from>>p.level] += digests[i]
		}
		return p
	}
	whole := made(0, blocks)
	if whole.level != 2 || len(whole.sums) > mostPrints {
		t.Fatalf("%d digests of level %d", len(whole.sums), whole.level)
	}
	if whole.Changed(table, whole) != "" {
		t.Error("a table is another than itself")
	}
	cuts := []int{0, 1001, 1002, 1003, 50000, 50000, blocks}
	var all *Prints
	for i := 1; i < len(cuts); i++ {
		p := made(cuts[i-1], cuts[i])
		data, _ := p.MarshalBinary()
		read, err := LoadPrints(table, cuts[i-1], cuts[i], data)
		if err != nil {
			t.Fatal(err)
		}
		if read.Changed(table, whole) != "" {
			t.Errorf("part %d is another", i)
		}
		all = all.Merged(read)
	}
	if len(all.sums) != len(whole.sums) || all.Changed(table, whole) != "" || whole.Changed(table, all) != "" {
		t.Error("the parts do not add up")
	}
	digests[60000]++
	if got := made(50000, blocks).Changed(table, whole); got != "rows 15360001 to 15361024" {
		t.Errorf("changed: %q", got)
	}
	if got := made(0, 60001).Changed(table, whole); got != "" { // the run is not all there
		t.Errorf("of half a run: %q", got)
	}
	digests[60000]--
	digests[blocks-1]++
	if got := made(50000, blocks).Changed(table, whole); got != "rows 50329601 to 50330361" {
		t.Errorf("the last run: %q", got)
	}
	if _, err := LoadPrints(table, 0, 9, make([]byte, 8)); err == nil {
		t.Error("too few digests are read")
	}
}

// TestChangedBlocks: of a table with a digest of every block a change of any is found by a part that has it, and
// by no other.
func TestChangedBlocks(t *testing.T) {
	const blocks = 9
	table := Table{Rows: blocks*model.BlockRows - 100}
	rng := rand.New(rand.NewPCG(2, 1))
	made := func(from, to int, digests []uint64) *Prints {
		p := NewPrints(table, from, to)
		copy(p.sums, digests[from:to])
		return p
	}
	digests := make([]uint64, blocks)
	for i := range digests {
		digests[i] = rng.Uint64()
	}
	for i := range digests {
		other := slices.Clone(digests)
		other[i]++
		for from := range blocks {
			for to := from + 1; to <= blocks; to++ {
				want := ""
				if i >= from && i < to {
					want = fmt.Sprintf("rows %d to %d", i*model.BlockRows+1, min((i+1)*model.BlockRows, table.Rows))
				}
				part := made(from, to, other)
				if got := part.Changed(table, made(0, blocks, digests)); got != want {
					t.Errorf("block %d, part %d to %d: %q, want %q", i, from, to, got, want)
				}
				if got := made(0, blocks, digests).Changed(table, part); got != want {
					t.Errorf("block %d, against part %d to %d: %q, want %q", i, from, to, got, want)
				}
			}
		}
	}
}

// TestRecalled: what a model keeps of its rows is known again, and says in what other rows differ.
func TestRecalled(t *testing.T) {
	table := Table{Rows: 700, Print: 5}
	p := NewPrints(table, 0, 3)
	copy(p.sums, []uint64{1, 2, 3})
	kept := p.Kept(table)
	if got, why := Recalled(kept, table); why != "" || got == nil || !slices.Equal(got.sums, p.sums) || got.from != 0 || got.to != 3 {
		t.Errorf("%+v, %q", got, why)
	}
	for name, c := range map[string]struct {
		kept  *progress.Prints
		table Table
		why   string
	}{
		"nothing kept": {nil, table, ""}, "more rows": {kept, Table{Rows: 701, Print: 5}, "701 rows, not 700"}, "other values": {kept, Table{Rows: 700, Print: 6}, "other columns or other values"},
		"an old table": {kept, Table{Rows: 700}, "known"}, "another level": {&progress.Prints{Rows: 700, Whole: 5, Level: 1, Blocks: kept.Blocks}, table, ""}, "too few": {&progress.Prints{Rows: 700, Whole: 5, Blocks: kept.Blocks[8:]}, table, ""},
	} {
		got, why := Recalled(c.kept, c.table)
		if c.why == "known" {
			if got == nil || why != "" {
				t.Errorf("%s: %+v, %q", name, got, why)
			}
		} else if got != nil || why != c.why {
			t.Errorf("%s: %+v, %q, want %q", name, got, why, c.why)
		}
	}
	if p.Kept(Table{Rows: 700}) != nil || (*Prints)(nil).Kept(table) != nil {
		t.Error("what has no fingerprint is kept")
	}
}

// TestBlocksOfTables: as many as rows in steps of a block's; of a sample of all rows each is taken.
func TestBlocksOfTables(t *testing.T) {
	for rows := 1; rows < 3*model.BlockRows; rows++ {
		want := 0
		for at := 0; at < rows; at += model.BlockRows {
			want++
		}
		if got := (Table{Rows: rows}).Blocks(); got != want {
			t.Fatalf("%d rows are %d blocks, want %d", rows, got, want)
		}
	}
	for i := range 100 {
		if !(Subsample{Seed: 3, Rows: 100}).takes(i, 100) || !(Subsample{Seed: 3, Rows: 101}).takes(i, 100) {
			t.Fatalf("row %d of all is not taken", i)
		}
	}
}

// TestDigests: the digest of a block is that of its rows as numbers, −0 being 0, and of its place; the least change of
// any value, and the exchange of any two, makes another.
func TestDigests(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for n := 1; n <= 6; n++ {
		b := &model.Block{N: n, X: make([]float64, 2*n), Y: make([]float64, n), Role: model.ByRole[[]float64]{model.Weights: make([]float64, n)}}
		columns := [][]float64{b.X, b.Y, b.Role[model.Weights]}
		for i := range b.X {
			b.X[i] = math.Copysign(0, -1)
		}
		minus := digestOf(7, b)
		clear(b.X)
		if digestOf(7, b) != minus {
			t.Errorf("%d rows: −0 is not 0", n)
		}
		var values []*float64
		for _, col := range columns {
			for i := range col {
				col[i] = rng.NormFloat64()
				values = append(values, &col[i])
			}
		}
		seen := map[uint64]bool{digestOf(7, b): true, digestOf(8, b): true}
		for i, v := range values {
			was := *v
			*v = math.Nextafter(was, 9)
			seen[digestOf(7, b)] = true
			*v = was
			for _, w := range values[:i] {
				*v, *w = *w, *v
				seen[digestOf(7, b)] = true
				*v, *w = *w, *v
			}
		}
		if want := 2 + len(values)*(len(values)+1)/2; len(seen) != want {
			t.Errorf("%d rows: %d digests, want %d", n, len(seen), want)
		}
	}
}

// TestSamplesOfFiles: the rows of a sample are whole.
func TestSamplesOfFiles(t *testing.T) {
	for weights, width := range map[string]int{"": 3, "w": 4} {
		m := &Moments{momentsHeader: momentsHeader{Table: Table{Features: []string{"a", "b"}, Target: "y", Weights: weights, Rows: 700}, Sample: Subsample{Rows: 50}}}
		for n := range 4*width + 1 {
			err := m.loadSample(numeric.AppendFloats(nil, slices.Repeat([]float64{0.5}, n)))
			if whole := n%width == 0; (err == nil) != whole || whole && len(m.sample) != n {
				t.Errorf("%d numbers of rows of %d: %v", n, width, err)
			}
		}
	}
}
