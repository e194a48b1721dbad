package model

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// Rows is a table of n rows with d features and a target that can be passed
// over in blocks, any number of times and in any order. Every block but the
// last has [BlockRows] rows. A Rows is read-only and safe for concurrent use.
type Rows interface {
	// Dims returns the number of rows and of features.
	Dims() (n, d int)
	// Block returns block i, 0 ≤ i < [Blocks]. Values that are not in memory
	// are written to room, which is the caller's and may be empty; the block is
	// valid until room is used again.
	Block(i int, room *Room) (*Block, error)
}

// Room is where a block is written that is not in memory. The zero value is ready.
type Room struct {
	// Reader is for the rows' own use: what they keep from one block to the next.
	Reader any

	block  Block
	behind *Room // for the block that this one is a view of
}

// Held says whether the blocks of rows are in memory, or made of such: another pass
// then costs no reading, and what is kept for every row is not larger than the rows.
func Held(rows Rows) bool {
	switch r := rows.(type) {
	case *Data:
		return true
	case *part:
		return Held(r.rows)
	case *mapped:
		return Held(r.rows)
	case *without:
		return Held(r.rows)
	}
	return false
}

// Blocks returns the number of blocks of rows.
func Blocks(rows Rows) int {
	n, _ := rows.Dims()
	return (n + BlockRows - 1) / BlockRows
}

// maxChunks bounds the number of partial sums of a pass. Like BlockRows it is a
// constant, so that sums do not depend on the number of processors.
const maxChunks = 16

// Chunks returns the number of chunks in which [Each] visits rows.
func Chunks(rows Rows) int { return min(Blocks(rows), maxChunks) }

// mostWorkers bounds the workers that anybody has a use for.
const mostWorkers = 1 << 10

// Workers returns the number of workers meant by threads: itself, within reason,
// or one per processor if it is 0.
func Workers(threads int) int {
	if threads <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return min(threads, mostWorkers)
}

// Each calls fn once with every block and its index. The blocks are dealt into
// Chunks(rows) runs; fn sees the blocks of one chunk in order and never two of
// them at once, so a sum kept per chunk and added up in the order of the chunks
// is the same at any number of workers. The other arguments of fn are the
// worker, for scratch space, and the chunk, for sums. The first error, by chunk,
// ends the pass.
func Each(ctx context.Context, rows Rows, workers int, fn func(worker, chunk, block int, b *Block) error) error {
	chunks := Chunks(rows)
	workers = max(1, min(workers, chunks))
	if workers == 1 {
		var room Room
		return InTurn(ctx, rows, &room, func(chunk, block int, b *Block) error { return fn(0, chunk, block, b) })
	}
	rooms := make([]Room, workers)
	return Parts(chunks, workers, func(w, c int) error {
		return eachOf(ctx, rows, c, &rooms[w], func(chunk, block int, b *Block) error { return fn(w, chunk, block, b) })
	})
}

// Parts calls fn with so many parts, each once, by so many workers. Of parts that fail it returns the error of one.
func Parts(parts, workers int, fn func(worker, part int) error) error {
	errs := make([]error, parts)
	var next atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for w := range min(workers, parts) {
		wg.Go(func() {
			for {
				c := int(next.Add(1)) - 1
				if c >= parts || failed.Load() {
					return
				}
				if errs[c] = fn(w, c); errs[c] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Parallel runs fn for 0 to n−1, side by side on so many threads, and returns the first error that is not another's
// cancellation.
func Parallel(ctx context.Context, threads, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	slots := make(chan struct{}, Workers(threads))
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = fn(ctx, i); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return firstCause(errs)
}

// firstCause returns the first error that is not another's cancellation, or the
// first if all are.
func firstCause(errs []error) error {
	var first error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if !errors.Is(err, context.Canceled) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// InTurn is [Each] with one worker, in room that the caller has.
func InTurn(ctx context.Context, rows Rows, room *Room, fn func(chunk, block int, b *Block) error) error {
	for c := range Chunks(rows) {
		if err := eachOf(ctx, rows, c, room, fn); err != nil {
			return err
		}
	}
	return nil
}

func eachOf(ctx context.Context, rows Rows, chunk int, room *Room, fn func(chunk, block int, b *Block) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	chunks, n := Chunks(rows), Blocks(rows)
	for i := chunk * n / chunks; i < (chunk+1)*n/chunks; i++ {
		b, err := rows.Block(i, room)
		if err != nil {
			return err
		}
		if err := fn(chunk, i, b); err != nil {
			return err
		}
	}
	return nil
}

// InOrder calls fn with every block in order.
func InOrder(ctx context.Context, rows Rows, fn func(b *Block) error) error {
	var room Room
	for i := range Blocks(rows) {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := rows.Block(i, &room)
		if err != nil {
			return err
		}
		if err := fn(b); err != nil {
			return err
		}
	}
	return nil
}

// Part returns about n of the rows as whole blocks, evenly spaced from the first
// to the last so that sorted rows are all represented; or rows itself if it has
// not many more than n.
func Part(rows Rows, n int) Rows {
	blocks := Spaced(Blocks(rows), n)
	if len(blocks) == Blocks(rows) {
		return rows
	}
	return &part{rows: rows, blocks: blocks}
}

// Spaced returns the blocks of a table of so many that [Part] takes for n rows.
func Spaced(blocks, n int) []int {
	out := make([]int, min((n+BlockRows-1)/BlockRows, blocks))
	for i := range out {
		out[i] = i * blocks / len(out)
	}
	return out
}

// part is some blocks of rows, all of them whole: the last block, which may be short, is
// not among them.
type part struct {
	Memo
	rows   Rows
	blocks []int
}

func (p *part) Dims() (n, d int) {
	_, d = p.rows.Dims()
	return len(p.blocks) * BlockRows, d
}

func (p *part) Block(i int, room *Room) (*Block, error) {
	return p.rows.Block(p.blocks[i], room)
}

// Without returns rows whose row of that number weighs nothing, and what it weighed.
func Without(rows Rows, row int) (_ Rows, weight float64, err error) {
	at := row / BlockRows
	b, err := rows.Block(at, new(Room))
	if err != nil {
		return nil, 0, err
	}
	w := &without{rows: rows, at: at, block: *b}
	weights := make([]float64, b.N)
	for r := range weights {
		weights[r] = b.Weight(r)
	}
	row -= at * BlockRows
	weight, weights[row] = weights[row], 0
	w.block.Role[Weights] = weights
	return w, weight, nil
}

// without is rows of which one block has other weights.
type without struct {
	rows  Rows
	at    int
	block Block
}

// Dims implements [Rows].
func (w *without) Dims() (n, d int) { return w.rows.Dims() }

// Block implements [Rows].
func (w *without) Block(i int, room *Room) (*Block, error) {
	if i == w.at {
		return &w.block, nil
	}
	return w.rows.Block(i, room)
}

// Map returns rows seen through fn, which writes the features of a block, d
// columns, to dst: for a change of units or of coordinates on reading. Targets
// and columns with a role stay, unless fn sets them: dst has those of src.
func Map(rows Rows, d int, fn func(dst, src *Block)) Rows { return &mapped{rows: rows, d: d, fn: fn} }

type mapped struct {
	Memo
	rows Rows
	d    int
	fn   func(dst, src *Block)
}

func (m *mapped) Dims() (n, d int) {
	n, _ = m.rows.Dims()
	return n, m.d
}

func (m *mapped) Block(i int, room *Room) (*Block, error) {
	if room.behind == nil {
		room.behind = new(Room)
	}
	src, err := m.rows.Block(i, room.behind)
	if err != nil {
		return nil, err
	}
	dst := &room.block
	if cap(dst.X) < m.d*src.N {
		dst.X = make([]float64, m.d*BlockRows)
	}
	*dst = Block{N: src.N, X: dst.X[:m.d*src.N], Y: src.Y, Role: src.Role}
	m.fn(dst, src)
	return dst, nil
}

// InMemory returns rows as a table of its own memory, whatever they are.
func InMemory(ctx context.Context, rows Rows, workers int) (*Data, error) {
	n, d := rows.Dims()
	out := &Data{N: n, D: d, Blocks: make([]Block, Blocks(rows))}
	err := Each(ctx, rows, workers, func(_, _, block int, b *Block) error {
		out.Blocks[block] = b.Clone()
		return nil
	})
	return out, err
}

// Where returns the rows of which keep holds, by their places from 0, as a table of its own memory.
func Where(ctx context.Context, rows Rows, keep func(row int) bool) (*Data, error) {
	_, d := rows.Dims()
	out, row := Gathered{D: d}, 0
	err := InOrder(ctx, rows, func(b *Block) error {
		for r := range b.N {
			if keep(row) {
				out.Add(b, r)
			}
			row++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out.Data(), nil
}

// Gathered are single rows of D features, on the way to a table of its own memory.
type Gathered struct {
	D       int
	columns [][]float64
	y       []float64
	role    ByRole[[]float64]
}

// Add adds row r of a block. All have columns of the same roles.
func (g *Gathered) Add(b *Block, r int) {
	if g.columns == nil {
		g.columns = make([][]float64, g.D)
	}
	for j := range g.columns {
		g.columns[j] = append(g.columns[j], b.Col(j)[r])
	}
	g.y = append(g.y, b.Y[r])
	for i, values := range b.Role {
		if values != nil {
			g.role[i] = append(g.role[i], values[r])
		}
	}
}

// Data are the rows added, in their order.
func (g *Gathered) Data() *Data {
	out := &Data{N: len(g.y), D: g.D}
	for at := 0; at < len(g.y); at += BlockRows {
		end := min(at+BlockRows, len(g.y))
		b := Block{N: end - at, Y: g.y[at:end]}
		for _, c := range g.columns {
			b.X = append(b.X, c[at:end]...)
		}
		for i, values := range g.role {
			if values != nil {
				b.Role[i] = values[at:end]
			}
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}
