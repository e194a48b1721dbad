package shardtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/sdk"
)

// Merged makes a round in parts, which travel as bytes and are merged in random order.
func Merged(t *testing.T, parts int, sum func(shard.Place) (*shard.Moments, error)) *shard.Moments {
	t.Helper()
	files, list := make([]string, parts), make([]*shard.Moments, parts)
	for at, i := range rand.New(rand.NewPCG(1, uint64(parts))).Perm(parts) {
		part, err := sum(shard.Place{I: i + 1, N: parts})
		if err != nil {
			t.Fatal(err)
		}
		files[at], list[at] = fmt.Sprint(i+1), Travel(t, part)
	}
	m, err := shard.MergeMoments(files, list)
	if err != nil {
		t.Fatal(err)
	}
	return Travel(t, m)
}

// Travel writes sums and reads them again.
func Travel(t *testing.T, m *shard.Moments) *shard.Moments {
	t.Helper()
	data, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	out := new(shard.Moments)
	if err := out.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	again, err := out.MarshalBinary()
	if err != nil || !bytes.Equal(again, data) {
		t.Fatalf("written again the bytes are others, %v", err)
	}
	return out
}

// Later makes the rounds behind the first.
func Later(t *testing.T, src dataset.Source, table shard.Table, parts int, act sdk.Activation, first *shard.Moments,
	asked shard.Asked) *shard.Moments {
	t.Helper()
	last := Merged(t, parts+1, func(at shard.Place) (*shard.Moments, error) {
		return shard.SumSpan(t.Context(), src, table, at, "first", first, act, asked)
	})
	if last.Rounds() == 3 {
		second := last
		last = Merged(t, parts+2, func(at shard.Place) (*shard.Moments, error) {
			return shard.SumSpan(t.Context(), src, table, at, "second", second, act, asked)
		})
	}
	if last.Round() != last.Rounds() {
		t.Fatalf("round %d of %d is the last", last.Round(), last.Rounds())
	}
	return last
}
