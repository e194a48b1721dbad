package newton_test

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// TestChangedBetweenPasses: passes that begin without sums of moments keep the digests of
// the first, those that begin with them compare the first pass already; what the fingerprint sees is
// refused among the parts of a pass.
func TestChangedBetweenPasses(t *testing.T) {
	act, ctx := shardtest.Activation(t, sigmoid.Family), t.Context()
	rows, table := shardtest.Table100(t, nil)
	others, other := shardtest.Table100(t, shardtest.Unseen)
	m, err := host.Fit(ctx, act, shardtest.InMemory{Source: rows, Data: part(rows, 20)}, host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	sum := func(rows shardtest.InMemory, table shard.Table, m *fitted.Model, i int) (*newton.Sums, error) {
		n, err := newton.Sum(ctx, rows, table, shard.Place{I: i, N: 3}, m, act, 1)
		if err != nil {
			return nil, err
		}
		data, err := n.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		out := new(newton.Sums)
		return out, out.UnmarshalBinary(data)
	}
	one := func(rows shardtest.InMemory, table shard.Table, m *fitted.Model) []*newton.Sums {
		var parts []*newton.Sums
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
	s, err := newton.Merge(files, one(rows, table, m))
	if err != nil || s.Model.Fit.Prints == nil {
		t.Fatalf("no digests behind the first pass, %v", err)
	}
	if _, err := sum(others, other, s.Model, 2); err != nil {
		t.Errorf("part 2 has no other rows: %v", err)
	}
	_, err = sum(others, other, s.Model, 3)
	shardtest.WantData(t, "second pass", err, "part 3 of 3: its rows 25345 to 25500 are not those that the model was made of")

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
	start, err := host.FitSums(ctx, act, shardtest.Travel(t, first), "first", host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sum(others, other, start, 3)
	shardtest.WantData(t, "first pass behind moments", err, "its rows 25345 to 25500 are not those")
	shorter, fewer := shardtest.Table100(t, func(rows shardtest.InMemory) { rows.Data.N--; cut(rows) })
	_, err = sum(shorter, fewer, start, 1)
	shardtest.WantData(t, "fewer rows", err, "not the rows that the model was made of: 25499 rows, not 25500")

	// Among the parts of a pass.
	seen, third := shardtest.Table100(t, func(rows shardtest.InMemory) { rows.Data.Blocks[50].Y[0] += math.Pi })
	parts := one(rows, table, m)
	if parts[2], err = sum(seen, third, m, 3); err != nil {
		t.Fatal(err)
	}
	_, err = newton.Merge(files, parts)
	shardtest.WantData(t, "parts of a pass", err, "three: it does not go with one: other values in rows behind the first")
}

// part is the first blocks of rows.
func part(rows shardtest.InMemory, blocks int) *model.Data {
	return &model.Data{N: blocks * model.BlockRows, D: rows.Data.D, Blocks: rows.Data.Blocks[:blocks]}
}

// cut takes the last row away.
func cut(rows shardtest.InMemory) {
	last := &rows.Data.Blocks[len(rows.Data.Blocks)-1]
	b := model.Block{N: last.N - 1, Y: last.Y[:last.N-1]}
	for j := range rows.Data.D {
		b.X = append(b.X, last.Col(j)[:b.N]...)
	}
	*last = b
}
