package states

import (
	"context"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/model"
)

// Record is the table of states of a layer that [Learn] reads, drawn as it is read.
func Record(l *gru.Layer, r gru.Recording) dataset.Source { return &record{l, r} }

type record struct {
	layer *gru.Layer
	how   gru.Recording
}

// Schema implements [dataset.Source]: all columns but the last are features.
func (r *record) Schema() dataset.Schema {
	features, next := Names(r.layer.Inputs(), r.layer.Hidden())
	all := append(features, next...)
	return dataset.Schema{Features: all[:len(all)-1], Target: all[len(all)-1]}
}

// Read implements [dataset.Source].
func (r *record) Read(ctx context.Context, fn func(*model.Block) error) error {
	d := r.layer.Inputs() + 2*r.layer.Hidden() - 1
	var rows [][]float64
	flush := func() error {
		b := &model.Block{N: len(rows), X: make([]float64, d*len(rows)), Y: make([]float64, len(rows))}
		for i, row := range rows {
			for f, v := range row[:d] {
				b.X[f*b.N+i] = v
			}
			b.Y[i] = row[d]
		}
		rows = rows[:0]
		return fn(b)
	}
	err := gru.Record(ctx, r.layer, r.how, func(row []float64) error {
		rows = append(rows, append([]float64(nil), row...))
		if len(rows) < model.BlockRows {
			return nil
		}
		return flush()
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	return flush()
}
