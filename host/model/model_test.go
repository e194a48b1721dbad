package model

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
)

// TestSoftmax against the definition, and at logits that overflow exp.
func TestSoftmax(t *testing.T) {
	for _, c := range []struct{ logits, want []float64 }{
		{[]float64{0, 0}, []float64{0.5, 0.5}},
		{[]float64{1, 2, 3}, []float64{0.09003057317038046, 0.24472847105479767, 0.6652409557748219}},
		{[]float64{800, -800, 0}, []float64{1, 0, 0}},
		{[]float64{-800, -800, -801}, []float64{0.42231879825, 0.42231879825, 0.1553624035}},
		{[]float64{1e308, -1e308, 0}, []float64{1, 0, 0}},
	} {
		got, lse := make([]float64, len(c.logits)), make([]float64, 1)
		Softmax(got, lse, c.logits, 1)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-11 {
				t.Errorf("softmax of %v = %v, want %v", c.logits, got, c.want)
			}
		}
		top := slices.Max(c.logits)
		sum := 0.0
		for _, v := range c.logits {
			sum += math.Exp(v - top)
		}
		if want := top + math.Log(sum); math.Abs(lse[0]-want) > 1e-12*math.Abs(want) {
			t.Errorf("log-sum-exp of %v = %v, want %v", c.logits, lse[0], want)
		}
	}
}

func blocks(n int) *Data {
	d := &Data{D: 1}
	for d.N < n {
		m := min(BlockRows, n-d.N)
		b := Block{N: m, X: make([]float64, m), Y: make([]float64, m)}
		for i := range m {
			b.X[i] = float64(d.N + i)
		}
		d.Blocks = append(d.Blocks, b)
		d.N += m
	}
	return d
}

func TestPartIsSpreadOverTheData(t *testing.T) {
	d := blocks(100 * BlockRows)
	p := Part(d, 10*BlockRows)
	if n, _ := p.Dims(); n != 10*BlockRows || Blocks(p) != 10 {
		t.Fatalf("part has %d rows in %d blocks", n, Blocks(p))
	}
	for i := range Blocks(p) {
		b, err := p.Block(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := float64(10 * i * BlockRows); b.X[0] != want {
			t.Errorf("block %d begins at row %v, want %v", i, b.X[0], want)
		}
	}
	if all := Part(d, 1<<30); all != Rows(d) {
		t.Error("a part as large as the data is not the data")
	}
}

// TestEach: every block once, those of a chunk in order, the first error wins.
func TestEach(t *testing.T) {
	d := blocks(50*BlockRows + 7)
	for _, workers := range []int{1, 2, 16, 99} {
		var seen atomic.Int64
		last := make([]int, Chunks(d))
		err := Each(t.Context(), d, workers, func(worker, chunk, block int, b *Block) error {
			if worker >= workers || block < last[chunk] {
				t.Errorf("worker %d, chunk %d: block %d after %d", worker, chunk, block, last[chunk])
			}
			last[chunk] = block
			seen.Add(int64(b.N))
			return nil
		})
		if err != nil || int(seen.Load()) != d.N {
			t.Errorf("%d workers saw %d of %d rows, error %v", workers, seen.Load(), d.N, err)
		}
	}
	bad := errors.New("bad block")
	if err := Each(t.Context(), d, 2, func(_, _, block int, _ *Block) error {
		if block == 30 {
			return bad
		}
		return nil
	}); err != bad {
		t.Errorf("error %v, want %v", err, bad)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Each(ctx, d, 2, func(_, _, _ int, _ *Block) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after cancel", err)
	}
}
