package sample

import (
	"context"

	"github.com/gatedlearning/moe/host/model"
)

// Batches are fresh mini-batches without end, all from the sampler's
// parameters. They are drawn block by block, as [Sampler.Read] does; the N of
// the sampler does not bound them.
type Batches struct {
	d     *draw
	at    int // rows drawn so far, in whole blocks
	batch *model.Data
}

// Batches returns fresh batches of size rows, the same for the same seed.
func (s *Sampler) Batches(size int) *Batches {
	b := &Batches{d: newDraw(s), batch: &model.Data{N: size, D: s.cfg.D}}
	for left := size; left > 0; left -= model.BlockRows {
		n := min(left, model.BlockRows)
		b.batch.Blocks = append(b.batch.Blocks, model.Block{N: n, X: make([]float64, n*s.cfg.D), Y: make([]float64, n)})
	}
	return b
}

// Next draws the next batch, which is valid until the next call.
func (b *Batches) Next(ctx context.Context) (*model.Data, error) {
	for t := range b.batch.Blocks {
		to := &b.batch.Blocks[t]
		if err := b.d.block(ctx, b.at, to.N); err != nil {
			return nil, err
		}
		copy(to.X, b.d.b.X)
		copy(to.Y, b.d.b.Y)
		b.at += model.BlockRows
	}
	return b.batch, nil
}
