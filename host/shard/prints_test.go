package shard_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// table100 is a table of 100 blocks, of which 64 are in its fingerprint: the last is not.
func table100(t *testing.T, change func(rows inMemory)) (inMemory, shard.Table) {
	t.Helper()
	rows := drawn(t, sample.Config{Activation: open(t, sigmoid.Family), K: 2, D: 4, N: 25500, Sigma: 0.1, Seed: 8})
	if change != nil {
		change(rows)
	}
	table, err := shard.Open(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	return rows, table
}

// unseen changes a row of a block that is not in the fingerprint: row 25356, of the last block.
func unseen(rows inMemory) { rows.data.Blocks[99].Y[11]++ }

// wantData says whether err is a *dataset.Error with these words.
func wantData(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	var bad *dataset.Error
	if !errors.As(err, &bad) {
		t.Errorf("%s: %v, want an error of the data", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, want %q", what, err, w)
		}
	}
}

// TestFingerprint: parts of tables that differ in a block of the fingerprint, in the number
// of rows, in a column's name or in a sign of every value do not merge, and the part is named. The first rows
// alone see none of the first three; their fingerprint (FNV-1a by values) no even number of signs.
func TestFingerprint(t *testing.T) {
	sum := func(rows inMemory, table shard.Table, i int) *shard.Moments {
		m, err := shard.Sum(t.Context(), rows, table, shard.Place{I: i, N: 3}, shard.Subsample{Seed: 1, Rows: 10})
		if err != nil {
			t.Fatal(err)
		}
		return travel(t, m)
	}
	rows, table := table100(t, nil)
	for what, change := range map[string]func(inMemory){
		"a row in the middle": func(rows inMemory) { rows.data.Blocks[50].Col(1)[7] *= 2 },
		"signs": func(rows inMemory) {
			for _, b := range rows.data.Blocks {
				for i := range b.Y {
					b.Y[i] = -b.Y[i]
				}
			}
		},
		"two rows exchanged": func(rows inMemory) {
			y := rows.data.Blocks[50].Y
			y[3], y[4] = y[4], y[3]
		},
	} {
		others, other := table100(t, change)
		_, err := shard.MergeMoments([]string{"one", "two", "three"}, []*shard.Moments{sum(rows, table, 1), sum(rows, table, 2), sum(others, other, 3)})
		wantData(t, what, err, "three: it does not go with one", "other values in rows behind the first")
	}
	same, again := table100(t, nil)
	if _, err := shard.MergeMoments([]string{"one", "two", "three"}, []*shard.Moments{sum(rows, table, 1), sum(same, again, 2), sum(rows, table, 3)}); err != nil {
		t.Error(err)
	}
}

// TestChangedBetweenRounds: what the fingerprint cannot see in the first round, the second does, whatever
// the numbers of parts, and says which rows: also where a plain sum over all rows would not.
func TestChangedBetweenRounds(t *testing.T) {
	act, ctx := open(t, sigmoid.Family), t.Context()
	rows, table := table100(t, nil)
	others, other := table100(t, unseen)
	if table.Print != other.Print {
		t.Fatal("the fingerprint sees it: the test needs another row")
	}
	for _, mixed := range []bool{false, true} { // the whole of the first round, or its last part, is of other rows
		first := merged(t, 3, func(at shard.Place) (*shard.Moments, error) {
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
					wantData(t, "second round", err, fmt.Sprintf("part %d of %d: its rows 25345 to 25500 are not those that first was made of", i, parts))
				}
			}
		}
	}
}

// TestChangedBetweenPasses: passes that begin without sums of moments keep the digests of
// the first, those that begin with them compare the first pass already; what the fingerprint sees is
// refused among the parts of a pass.
func TestChangedBetweenPasses(t *testing.T) {
	act, ctx := open(t, sigmoid.Family), t.Context()
	rows, table := table100(t, nil)
	others, other := table100(t, unseen)
	m, err := host.Fit(ctx, act, inMemory{rows, part(rows, 20)}, host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	sum := func(rows inMemory, table shard.Table, m *fitted.Model, i int) (*shard.Newton, error) {
		n, err := shard.SumNewton(ctx, rows, table, shard.Place{I: i, N: 3}, m, act, 1)
		if err != nil {
			return nil, err
		}
		data, err := n.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		out := new(shard.Newton)
		return out, out.UnmarshalBinary(data)
	}
	one := func(rows inMemory, table shard.Table, m *fitted.Model) []*shard.Newton {
		var parts []*shard.Newton
		for i := 1; i <= 3; i++ {
			p, err := sum(rows, table, m, i)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, p)
		}
		return parts
	}
	files := []string{"one", "two", "three"}
	s, err := shard.MergeNewton(files, one(rows, table, m))
	if err != nil || s.Model.Fit.Prints == nil {
		t.Fatalf("no digests behind the first pass, %v", err)
	}
	if _, err := sum(others, other, s.Model, 2); err != nil {
		t.Errorf("part 2 has no other rows: %v", err)
	}
	_, err = sum(others, other, s.Model, 3)
	wantData(t, "second pass", err, "part 3 of 3: its rows 25345 to 25500 are not those that the model was made of")

	// Digests of the moments, as moe fit --moments keeps them.
	first, err := shard.MergeMoments([]string{"a"}, []*shard.Moments{func() *shard.Moments {
		m, err := shard.Sum(ctx, rows, table, shard.Place{I: 1, N: 1}, shard.Subsample{Seed: 1, Rows: 3000})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}()})
	if err != nil {
		t.Fatal(err)
	}
	start, err := host.FitSums(ctx, act, travel(t, first), "first", host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sum(others, other, start, 3)
	wantData(t, "first pass behind moments", err, "its rows 25345 to 25500 are not those")
	shorter, fewer := table100(t, func(rows inMemory) { rows.data.N--; cut(rows) })
	_, err = sum(shorter, fewer, start, 1)
	wantData(t, "fewer rows", err, "not the rows that the model was made of: 25499 rows, not 25500")

	// Among the parts of a pass.
	seen, third := table100(t, func(rows inMemory) { rows.data.Blocks[50].Y[0] += math.Pi })
	parts := one(rows, table, m)
	if parts[2], err = sum(seen, third, m, 3); err != nil {
		t.Fatal(err)
	}
	_, err = shard.MergeNewton(files, parts)
	wantData(t, "parts of a pass", err, "three: it does not go with one: other values in rows behind the first")
}

// part is the first blocks of rows.
func part(rows inMemory, blocks int) *model.Data {
	return &model.Data{N: blocks * model.BlockRows, D: rows.data.D, Blocks: rows.data.Blocks[:blocks]}
}

// cut takes the last row away.
func cut(rows inMemory) {
	last := &rows.data.Blocks[len(rows.data.Blocks)-1]
	b := model.Block{N: last.N - 1, Y: last.Y[:last.N-1]}
	for j := range rows.data.D {
		b.X = append(b.X, last.Col(j)[:b.N]...)
	}
	*last = b
}
