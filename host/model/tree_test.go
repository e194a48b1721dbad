package model

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// one is a sum that depends on the order of summation.
type one struct{ v float64 }

func (s *one) Merge(o *one) { s.v += o.v }
func (s *one) Reset()       { s.v = 0 }

// byPairs is the definition: a run of 2^l values is half of them plus the other half,
// and the runs of n values, as long as can be, are added in order.
func byPairs(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	run := 1 << (bits.Len(uint(len(v))) - 1)
	var half func(v []float64) float64
	half = func(v []float64) float64 {
		if len(v) == 1 {
			return v[0]
		}
		return half(v[:len(v)/2]) + half(v[len(v)/2:])
	}
	total := 0.0
	for len(v) > 0 {
		for run > len(v) {
			run /= 2
		}
		total += half(v[:run])
		v = v[run:]
	}
	return total
}

func uneven(n int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64() * math.Exp(10*rng.NormFloat64())
	}
	return v
}

// TestTree: values that are put in any order, in parts that are cut anywhere and put
// together afterwards, add up to the bits of the definition.
func TestTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	empty := func() *one { return new(one) }
	differs := false
	for n := range 70 {
		v := uneven(n, uint64(n))
		want := byPairs(v)
		plain := 0.0
		for _, x := range v {
			plain += x
		}
		differs = differs || plain != want
		for range 20 {
			parts := make([]*Tree[*one], 1+rng.IntN(5))
			for p := range parts {
				parts[p] = NewTree(empty)
			}
			cut := rng.IntN(2) == 0
			for _, i := range rng.Perm(n) {
				p := rng.IntN(len(parts))
				if cut { // ranges
					p = i * len(parts) / n
				}
				s := parts[p].Empty()
				s.v += v[i]
				parts[p].Put(Node{0, i}, s)
			}
			whole := NewTree(empty)
			for _, p := range rng.Perm(len(parts)) {
				parts[p].Each(func(at Node, s *one) { whole.Put(at, &one{s.v}) })
			}
			if got := whole.Total().v; got != want {
				t.Fatalf("%d values in %d parts: %v, want %v", n, len(parts), got, want)
			}
		}
	}
	if !differs {
		t.Error("in order the sums are the same: the test says nothing")
	}
}

// inOrder is the blocks that were merged, in the order in which they were.
type inOrder struct{ blocks []int }

func (s *inOrder) Merge(o *inOrder) { s.blocks = append(s.blocks, o.blocks...) }
func (s *inOrder) Reset()           { s.blocks = nil }

// TestTreeMergesLeftToRight: sums that are not the same in another order of their halves
// have theirs, in whatever order the blocks come.
func TestTreeMergesLeftToRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 5))
	for n := range 20 {
		tree := NewTree(func() *inOrder { return new(inOrder) })
		want := make([]int, n)
		for _, i := range rng.Perm(n) {
			want[i] = i
			tree.Put(Node{0, i}, &inOrder{[]int{i}})
		}
		if got := tree.Total().blocks; !slices.Equal(got, want) {
			t.Errorf("%d blocks are merged as %v", n, got)
		}
	}
}

// TestRun: as many blocks as go into a MiB with their targets, in powers of two, from one
// to 32.
func TestRun(t *testing.T) {
	for d := range 2000 {
		want := 32
		for want > 1 && want*BlockRows*(d+1)*8 > 1<<20 {
			want /= 2
		}
		if got := Run(d); got != want {
			t.Errorf("%d features: %d blocks, want %d", d, got, want)
		}
	}
}

// TestSum: every block is added once, the same at any number of workers, and the error
// is that of the first block that has one.
func TestSum(t *testing.T) {
	d := blocks(37*BlockRows + 11)
	v := uneven(len(d.Blocks), 3)
	for i := range d.Blocks {
		d.Blocks[i].X[0] = v[i]
	}
	for _, workers := range []int{0, 1, 2, 7, 100} {
		got, err := Sum(t.Context(), d, workers, func() *one { return new(one) }, func(_ int, to *one, b *Block) error {
			to.v += b.X[0]
			return nil
		})
		if err != nil || got.v != byPairs(v) {
			t.Errorf("%d workers: %v, %v; want %v", workers, got.v, err, byPairs(v))
		}
		bad := errors.New("bad")
		_, err = Sum(t.Context(), d, workers, func() *one { return new(one) }, func(_ int, _ *one, b *Block) error {
			for i, x := range v[10:] {
				if b.X[0] == x {
					return errors.Join(bad, errAt(i+10))
				}
			}
			return nil
		})
		var at errAt
		if !errors.As(err, &at) || at != 10 {
			t.Errorf("%d workers: %v, want the error of block 10", workers, err)
		}
	}
}

type errAt int

func (errAt) Error() string { return "at a block" }
