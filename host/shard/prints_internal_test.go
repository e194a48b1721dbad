package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
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
	made := func(from, to int) *prints {
		p := newPrints(table, from, to)
		for i := from; i < to; i++ {
			p.sums[i>>p.level-from>>p.level] += digests[i]
		}
		return p
	}
	whole := made(0, blocks)
	if whole.level != 2 || len(whole.sums) > mostPrints {
		t.Fatalf("%d digests of level %d", len(whole.sums), whole.level)
	}
	if whole.changed(table, whole) != "" {
		t.Error("a table is another than itself")
	}
	cuts := []int{0, 1001, 1002, 1003, 50000, 50000, blocks}
	var all *prints
	for i := 1; i < len(cuts); i++ {
		p := made(cuts[i-1], cuts[i])
		data, _ := p.MarshalBinary()
		read, err := loadPrints(table, cuts[i-1], cuts[i], data)
		if err != nil {
			t.Fatal(err)
		}
		if read.changed(table, whole) != "" {
			t.Errorf("part %d is another", i)
		}
		all = all.merged(read)
	}
	if len(all.sums) != len(whole.sums) || all.changed(table, whole) != "" || whole.changed(table, all) != "" {
		t.Error("the parts do not add up")
	}
	digests[60000]++
	if got := made(50000, blocks).changed(table, whole); got != "rows 15360001 to 15361024" {
		t.Errorf("changed: %q", got)
	}
	if got := made(0, 60001).changed(table, whole); got != "" { // the run is not all there
		t.Errorf("of half a run: %q", got)
	}
	digests[60000]--
	digests[blocks-1]++
	if got := made(50000, blocks).changed(table, whole); got != "rows 50329601 to 50330361" {
		t.Errorf("the last run: %q", got)
	}
	if _, err := loadPrints(table, 0, 9, make([]byte, 8)); err == nil {
		t.Error("too few digests are read")
	}
}
