package model

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Sums are sums over rows. They add up, and may be used again.
type Sums[T any] interface {
	Merge(T) // adds those of other rows
	Reset()  // makes them those of no rows
}

// Node names the blocks Index·2^Level … (Index+1)·2^Level − 1 of a table.
type Node struct{ Level, Index int }

// First is the first of the node's blocks.
func (n Node) First() int { return n.Index << n.Level }

// Tree adds up the sums of single blocks by pairs, pairs of pairs and so on: those of
// a node are those of its left half plus those of its right half. Which blocks are
// added by whom and when changes no bit of them, be it by several workers or in
// parts of a table on several machines. It is safe for concurrent use.
type Tree[T Sums[T]] struct {
	empty func() T

	mu    sync.Mutex
	nodes map[Node]T // no two of them are halves of one
	free  []T
}

// NewTree returns a tree without blocks, for sums that empty makes room for.
func NewTree[T Sums[T]](empty func() T) *Tree[T] {
	return &Tree[T]{empty: empty, nodes: make(map[Node]T)}
}

// Empty returns sums of no rows.
func (t *Tree[T]) Empty() T {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.free)
	if n == 0 {
		return t.empty()
	}
	s := t.free[n-1]
	t.free = t.free[:n-1]
	s.Reset()
	return s
}

// Put adds the sums of a node, which are the tree's from then on. No block may
// be put twice.
func (t *Tree[T]) Put(at Node, s T) {
	for {
		half, ok := t.take(Node{at.Level, at.Index ^ 1}, at, s)
		if !ok {
			return
		}
		left, right := s, half
		if at.Index&1 == 1 {
			left, right = half, s
		}
		left.Merge(right)
		t.mu.Lock()
		t.free = append(t.free, right)
		t.mu.Unlock()
		s, at = left, Node{at.Level + 1, at.Index >> 1}
	}
}

// take takes a node's other half out of the tree; where that is not there it leaves s.
func (t *Tree[T]) take(other, at Node, s T) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	half, ok := t.nodes[other]
	if ok {
		delete(t.nodes, other)
	} else {
		t.nodes[at] = s
	}
	return half, ok
}

// Each calls fn with every node in the order of the blocks: of the nodes that these
// blocks make, each is as large as can be.
func (t *Tree[T]) Each(fn func(at Node, s T)) {
	var all []Node
	for at := range t.nodes {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.First(), b.First()) })
	for _, at := range all {
		fn(at, t.nodes[at])
	}
}

// Total returns the sums of all blocks, the nodes' in the order of the blocks.
func (t *Tree[T]) Total() T {
	total := t.empty()
	t.Each(func(_ Node, s T) { total.Merge(s) })
	return total
}

// Run is how many blocks of a table of d features are worth reading together from a
// file: about a MiB, at least one and at most 32, a power of two.
func Run(d int) int {
	run := 1
	for run < 32 && 2*run*BlockRows*(d+1)*8 <= 1<<20 {
		run *= 2
	}
	return run
}

// Sum returns the sums of all blocks of rows, by [Tree]: add adds a block to sums, and
// is not called by one worker twice at once. The error is the first by block.
func Sum[T Sums[T]](ctx context.Context, rows Rows, workers int, empty func() T,
	add func(worker int, to T, b *Block) error) (T, error) {
	n := Blocks(rows)
	tree := NewTree(empty)
	errs := make([]error, max(1, min(Workers(workers), n)))
	at := make([]int, len(errs)) // the block of each worker's error
	_, d := rows.Dims()
	run := max(1, min(Run(d), n/(8*len(errs)))) // a worker's blocks at a time: files are read that way
	var next atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			var room Room
			for !failed.Load() {
				end := int(next.Add(int64(run)))
				for i := end - run; i < min(end, n); i++ {
					if errs[w] = sumBlock(ctx, tree, rows, i, &room,
						func(to T, b *Block) error { return add(w, to, b) }); errs[w] != nil {
						at[w] = i
						failed.Store(true)
						return
					}
				}
				if end >= n {
					return
				}
			}
		})
	}
	wg.Wait()
	var err error
	first := n
	for w, e := range errs {
		if e != nil && at[w] < first {
			first, err = at[w], e
		}
	}
	if err != nil {
		return empty(), err
	}
	return tree.Total(), nil
}

func sumBlock[T Sums[T]](ctx context.Context, tree *Tree[T], rows Rows, i int, room *Room,
	add func(to T, b *Block) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := rows.Block(i, room)
	if err != nil {
		return err
	}
	s := tree.Empty()
	if err := add(s, b); err != nil {
		return err
	}
	tree.Put(Node{0, i}, s)
	return nil
}
