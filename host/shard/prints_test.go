package shard_test

import (
	"fmt"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// TestFingerprint: parts of tables that differ in a block of the fingerprint, in the number
// of rows, in a column's name or in a sign of every value do not merge, and the part is named. The first rows
// alone see none of the first three; their fingerprint (FNV-1a by values) no even number of signs.
func TestFingerprint(t *testing.T) {
	sum := func(rows shardtest.InMemory, table shard.Table, i int) *shard.Moments {
		m, err := shard.Sum(t.Context(), rows, table, shard.Place{I: i, N: 3}, shard.Subsample{Seed: 1, Rows: 10})
		if err != nil {
			t.Fatal(err)
		}
		return shardtest.Travel(t, m)
	}
	rows, table := shardtest.Table100(t, nil)
	for what, change := range map[string]func(shardtest.InMemory){
		"a row in the middle": func(rows shardtest.InMemory) { rows.Data.Blocks[50].Col(1)[7] *= 2 },
		"signs": func(rows shardtest.InMemory) {
			for _, b := range rows.Data.Blocks {
				for i := range b.Y {
					b.Y[i] = -b.Y[i]
				}
			}
		},
		"two rows exchanged": func(rows shardtest.InMemory) {
			y := rows.Data.Blocks[50].Y
			y[3], y[4] = y[4], y[3]
		},
	} {
		others, other := shardtest.Table100(t, change)
		_, err := shard.MergeMoments([]string{"one", "two", "three"}, []*shard.Moments{sum(rows, table, 1), sum(rows, table, 2), sum(others, other, 3)})
		shardtest.WantData(t, what, err, "three: it does not go with one", "other values in rows behind the first")
	}
	same, again := shardtest.Table100(t, nil)
	if _, err := shard.MergeMoments([]string{"one", "two", "three"}, []*shard.Moments{sum(rows, table, 1), sum(same, again, 2), sum(rows, table, 3)}); err != nil {
		t.Error(err)
	}
}

// TestChangedBetweenRounds: what the fingerprint cannot see in the first round, the second does, whatever
// the numbers of parts, and says which rows: also where a plain sum over all rows would not.
func TestChangedBetweenRounds(t *testing.T) {
	act, ctx := shardtest.Activation(t, sigmoid.Family), t.Context()
	rows, table := shardtest.Table100(t, nil)
	others, other := shardtest.Table100(t, shardtest.Unseen)
	if table.Print != other.Print {
		t.Fatal("the fingerprint sees it: the test needs another row")
	}
	for _, mixed := range []bool{false, true} { // the whole of the first round, or its last part, is of other rows
		first := shardtest.Merged(t, 3, func(at shard.Place) (*shard.Moments, error) {
			if mixed && at.I < 3 {
				return shard.Sum(ctx, rows, table, at, shard.Subsample{Seed: 1, Rows: 10})
			}
			return shard.Sum(ctx, others, other, at, shard.Subsample{Seed: 1, Rows: 10})
		})
		for parts := 1; parts <= 7; parts += 3 {
			for i := 1; i <= parts; i++ {
				_, err := shard.SumSpan(ctx, rows, table, shard.Place{I: i, N: parts}, "first", first, act, shard.Asked{K: 2, Transform: host.Polynomial})
				if i < parts && err != nil {
					t.Errorf("part %d of %d: %v", i, parts, err)
				}
				if i == parts {
					shardtest.WantData(t, "second round", err, fmt.Sprintf("part %d of %d: its rows 25345 to 25500 are not those that first was made of", i, parts))
				}
			}
		}
	}
}
