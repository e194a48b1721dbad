package sample

import (
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// TestBatchesAreFresh: the rows are those of Read, then ones it has not had.
func TestBatchesAreFresh(t *testing.T) {
	s, err := New(Config{Activation: relu{}, K: 2, D: 4, N: 3 * model.BlockRows, Sigma: 0.1, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []float64
	if err := s.Read(t.Context(), func(b *model.Block) error { want = append(want, b.Y...); return nil }); err != nil {
		t.Fatal(err)
	}
	batches := s.Batches(2 * model.BlockRows)
	for range 3 {
		data, err := batches.Next(t.Context())
		if err != nil || data.N != 2*model.BlockRows {
			t.Fatal(data.N, err)
		}
		for _, b := range data.Blocks {
			got = append(got, b.Y...)
		}
	}
	if !slices.Equal(got[:len(want)], want) {
		t.Error("the first rows are not those of Read")
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != 6*model.BlockRows {
		t.Error("a batch repeats rows")
	}
}

// BenchmarkBatches is a fresh mini-batch of the papers' experiments.
func BenchmarkBatches(b *testing.B) {
	s, err := New(Config{Activation: relu{}, K: 2, D: 10, N: 1, Sigma: 0.05, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	batches := s.Batches(1024)
	for b.Loop() {
		if _, err := batches.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
