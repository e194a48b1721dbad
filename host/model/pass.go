package model

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxChunks bounds the number of partial sums of a pass. Like BlockRows it is a
// constant, so that sums do not depend on the number of processors.
const maxChunks = 16

// Chunks returns the number of chunks in which [Data.Each] visits the data.
func (d *Data) Chunks() int { return min(len(d.Blocks), maxChunks) }

// Part returns about n rows of the data as whole blocks, evenly spaced from
// the first to the last so that sorted rows are all represented; or all of it
// if there are not many more than n. It shares memory with d.
func (d *Data) Part(n int) *Data {
	take := (n + BlockRows - 1) / BlockRows
	have := len(d.Blocks)
	if take >= have {
		return d
	}
	p := &Data{D: d.D, Blocks: make([]Block, take)}
	for i := range p.Blocks {
		p.Blocks[i] = d.Blocks[i*have/take]
		p.N += p.Blocks[i].N
	}
	return p
}

// Workers returns the number of workers meant by threads: itself, or one per
// processor if it is 0.
func Workers(threads int) int {
	if threads <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return threads
}

// Each calls fn once with the index of every block. The blocks are dealt into
// Chunks() runs; fn sees the blocks of one chunk in order and never two of them
// at once, so a sum kept per chunk and added up in the order of the chunks is
// the same at any number of workers. The other arguments of fn are the worker,
// for scratch space, and the chunk, for sums. The first error, by chunk, ends
// the pass.
func (d *Data) Each(ctx context.Context, workers int, fn func(worker, chunk, block int) error) error {
	chunks := d.Chunks()
	workers = max(1, min(workers, chunks))
	if workers == 1 {
		for c := range chunks {
			if err := d.eachOf(ctx, 0, c, fn); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, chunks)
	var next atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				c := int(next.Add(1)) - 1
				if c >= chunks || failed.Load() {
					return
				}
				if errs[c] = d.eachOf(ctx, w, c, fn); errs[c] != nil {
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

func (d *Data) eachOf(ctx context.Context, worker, chunk int, fn func(worker, chunk, block int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	chunks, n := d.Chunks(), len(d.Blocks)
	for i := chunk * n / chunks; i < (chunk+1)*n/chunks; i++ {
		if err := fn(worker, chunk, i); err != nil {
			return err
		}
	}
	return nil
}
