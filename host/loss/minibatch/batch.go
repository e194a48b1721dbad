// Package minibatch holds losses that are descended on mini-batches of rows: L4 for the
// regressors (002 Eq. 7), L_log for the gate (002 Eq. 9), and the mean squared error that
// the papers compare with.
package minibatch

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/model"
)

// Loss is a loss that can be evaluated on any rows: GradOn writes its
// gradient at θ, over the rows, to dst and returns its value there.
type Loss interface {
	Dim() int
	GradOn(ctx context.Context, dst, theta []float64, rows model.Rows) (float64, error)
}

// Batches gives mini-batches without end. A batch is valid until the next call.
type Batches interface {
	Next(ctx context.Context) (*model.Data, error)
}

// Batched is a loss on mini-batches, for optim.SGD and optim.Adam.
type Batched struct {
	Loss    Loss
	Batches Batches
}

// Dim returns the number of parameters.
func (b Batched) Dim() int { return b.Loss.Dim() }

// NextGrad writes the gradient at θ over the next batch to dst.
func (b Batched) NextGrad(ctx context.Context, dst, theta []float64) (float64, error) {
	data, err := b.Batches.Next(ctx)
	if err != nil {
		return 0, err
	}
	return b.Loss.GradOn(ctx, dst, theta, data)
}

// Whole is a loss on all rows of a table, as an objective.
type Whole struct {
	Loss Loss
	Rows model.Rows
	grad []float64
}

// Dim returns the number of parameters.
func (w *Whole) Dim() int { return w.Loss.Dim() }

// Value returns the loss at θ.
func (w *Whole) Value(ctx context.Context, theta []float64) (float64, error) {
	if w.grad == nil {
		w.grad = make([]float64, w.Dim())
	}
	return w.Grad(ctx, w.grad, theta)
}

// Grad writes the gradient at θ to dst and returns the loss.
func (w *Whole) Grad(ctx context.Context, dst, theta []float64) (float64, error) {
	return w.Loss.GradOn(ctx, dst, theta, w.Rows)
}

// Epochs are the mini-batches of a table: every epoch visits its rows once, in
// a new random order, in batches of Size (the rows left over wait for another
// epoch).
type Epochs struct {
	rows  model.Rows
	room  model.Room
	rng   *rand.Rand
	order []int
	at    int
	batch *model.Data
}

// NewEpochs returns batches of size rows, 1 ≤ size ≤ N, in an order drawn from
// rng.
func NewEpochs(rows model.Rows, size int, rng *rand.Rand) *Epochs {
	n, d := rows.Dims()
	if size < 1 || size > n {
		panic(fmt.Sprintf("minibatch: batches of %d of %d rows", size, n))
	}
	e := &Epochs{rows: rows, rng: rng, order: make([]int, n), batch: NewBatch(size, d)}
	for i := range e.order {
		e.order[i] = i
	}
	e.at = n
	return e
}

// Steps returns the number of batches in an epoch.
func (e *Epochs) Steps() int { return len(e.order) / e.batch.N }

// NewBatch returns a table of n rows of zeros over d features.
func NewBatch(n, d int) *model.Data {
	batch := &model.Data{N: n, D: d}
	for left := n; left > 0; left -= model.BlockRows {
		m := min(left, model.BlockRows)
		batch.Blocks = append(batch.Blocks, model.Block{N: m, X: make([]float64, m*d), Y: make([]float64, m)})
	}
	return batch
}

// Next returns the next batch.
func (e *Epochs) Next(context.Context) (*model.Data, error) {
	if e.at+e.batch.N > len(e.order) {
		e.rng.Shuffle(len(e.order), func(i, j int) { e.order[i], e.order[j] = e.order[j], e.order[i] })
		e.at = 0
	}
	rows := e.order[e.at : e.at+e.batch.N]
	e.at += e.batch.N
	for t := range e.batch.Blocks {
		to := &e.batch.Blocks[t]
		for i := range to.N {
			row := rows[t*model.BlockRows+i]
			from, err := e.rows.Block(row/model.BlockRows, &e.room)
			if err != nil {
				return nil, err
			}
			at := row % model.BlockRows
			to.Y[i] = from.Y[at]
			for j := range e.batch.D {
				to.X[j*to.N+i] = from.X[j*from.N+at]
			}
		}
	}
	return e.batch, nil
}
