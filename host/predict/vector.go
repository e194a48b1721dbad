package predict

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// Outputs returns what a model of several targets says of a table, as a table: the
// mean of every target, in a column of its name, where the targets share a gate p1 … pk
// (P(z=i|x)), and where an interval's level is not 0 the
// ends of every target's central prediction interval, in columns of its name after lower_ and
// upper_; all targets have a sigma then. act is the activation of all leaves,
// model.PerExpert where they have several. Rows correspond; a pass over it is a pass over
// src, whose features are the model's by their place.
func Outputs(v *fitted.Vector, act model.Activation, src dataset.Source, interval float64) (dataset.Source, error) {
	mustBeLevel(interval)
	if _, err := v.Shape(); err != nil {
		return nil, err
	}
	return &outputs{v: v, act: act, tables: []dataset.Source{src}, interval: interval}, nil
}

// JointOutputs is [Outputs] of a model whose targets share a gate, for tables of the same rows
// with its features and one of its targets each, in its order. Behind p1 … pk come
// posterior1 … posteriork, P(z=i|x, y_1, …, y_M), NaN where a row lacks a target. It panics
// where the targets have gates of their own, or the tables are not as many.
func JointOutputs(v *fitted.Vector, act model.Activation, tables []dataset.Source,
	interval float64) (dataset.Source, error) {
	if v.SharedGate == nil || len(tables) != len(v.Outputs) {
		panic(fmt.Sprintf("predict: %d tables for the joint density of %d targets", len(tables), len(v.Outputs)))
	}
	mustBeLevel(interval)
	return &outputs{v: v, act: act, tables: tables, joint: true, interval: interval}, nil
}

type outputs struct {
	v      *fitted.Vector
	act    model.Activation
	tables []dataset.Source // one, or where joint is set one of every target
	joint  bool

	interval float64 // 0: none
}

// Schema names the columns; none is a target of the table itself.
func (t *outputs) Schema() dataset.Schema {
	s := dataset.Schema{Name: t.tables[0].Schema().Name}
	for _, o := range t.v.Outputs {
		s.Features = append(s.Features, o.Target)
	}
	if t.v.SharedGate != nil {
		s.Features = append(s.Features, numbered("p", t.v.K)...)
	}
	if t.joint {
		s.Features = append(s.Features, numbered("posterior", t.v.K)...)
	}
	for _, o := range t.v.Outputs {
		if t.interval > 0 {
			s.Features = append(s.Features, "lower_"+o.Target, "upper_"+o.Target)
		}
	}
	return s
}

func (t *outputs) Read(ctx context.Context, fn func(*model.Block) error) error {
	for _, table := range t.tables {
		if err := fits(table.Schema(), t.v.D); err != nil {
			return err
		}
	}
	w := newOutputsWork(t)
	return eachBeside(ctx, t.tables, func(blocks []*model.Block) error {
		b := &model.Block{N: blocks[0].N, X: blocks[0].X}
		if t.joint {
			b.Y = targetsOf(blocks, w.targets)
		}
		out, err := w.block(ctx, b)
		if err != nil {
			return err
		}
		return fn(out)
	})
}

// outputsWork is what a pass of outputs needs.
type outputsWork struct {
	*outputs
	predictors []*Predictor
	posterior  *loss.VectorRows // nil where there is none
	targets    []float64        // room for those of a block
	out        []float64
	columns    int
}

func newOutputsWork(t *outputs) *outputsWork {
	w := &outputsWork{outputs: t, columns: len(t.Schema().Features)}
	for j := range t.v.Outputs {
		predictor := NewPredictor(t.v.Params(j), t.act, t.tables[0].Schema().Name)
		if t.interval > 0 {
			predictor.With(UncertaintyOf(t.v.Model(j)))
		}
		w.predictors = append(w.predictors, predictor)
	}
	if t.joint {
		w.posterior = loss.NewVectorRows(t.act, t.v.VectorParams(), loss.All)
		w.targets = make([]float64, 0, len(t.v.Outputs)*model.BlockRows)
	}
	w.out = make([]float64, w.columns*model.BlockRows)
	return w
}

// block returns the predictions of a block, valid until the next.
func (w *outputsWork) block(ctx context.Context, b *model.Block) (*model.Block, error) {
	whole, lacks := complete(b)
	n, m, k := b.N, len(w.predictors), w.v.K
	out := &model.Block{N: n, X: w.out[:w.columns*n]}
	ends := m // where the intervals begin
	if w.v.SharedGate != nil {
		ends += k
	}
	if w.joint {
		if err := w.posterior.Observe(ctx, whole); err != nil {
			return nil, err
		}
		for i := range k {
			copy(out.Col(ends+i), w.posterior.Posterior(i))
		}
		ends += k
	}
	for j, predictor := range w.predictors {
		p, err := predictor.Predict(ctx, &model.Block{N: n, X: whole.X})
		if err == nil && w.interval > 0 {
			err = predictor.Intervals(out.Col(ends+2*j), out.Col(ends+2*j+1), p, w.interval)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.v.Outputs[j].Target, err)
		}
		copy(out.Col(j), p.Mean)
		if j == 0 && w.v.SharedGate != nil {
			copy(out.X[m*n:], p.Gate)
		}
	}
	w.blank(out, lacks)
	return out, nil
}

// blank makes NaN of what cannot be predicted: all of a row without a feature, the posteriors
// of one without a target.
func (w *outputsWork) blank(out *model.Block, lacks []lack) {
	for r, l := range lacks {
		from, to := 0, w.columns
		switch l {
		case nothing:
			continue
		case target:
			from = len(w.predictors) + w.v.K
			to = from + w.v.K
		}
		for j := from; j < to; j++ {
			out.Col(j)[r] = math.NaN()
		}
	}
}

// targetsOf are those of blocks side by side, column by column, in the room given.
func targetsOf(blocks []*model.Block, room []float64) []float64 {
	room = room[:0]
	for _, b := range blocks {
		room = append(room, b.Y...)
	}
	return room
}

// JointPosteriors calls fn with the blocks of tables of the same rows, one of every target of a
// model whose targets share a gate, in its order, and with P(z=i|x, y_1, …, y_M) of their
// rows: K rows of N values, which are valid until fn returns. All rows have all targets.
func JointPosteriors(ctx context.Context, v *fitted.Vector, act model.Activation, tables []dataset.Source,
	fn func(blocks []*model.Block, posterior []float64) error) error {
	posterior := make([]float64, 0, v.K*model.BlockRows)
	return eachObserved(ctx, v, act, tables, func(blocks []*model.Block, rows *loss.VectorRows) error {
		posterior = posterior[:0]
		for i := range v.K {
			posterior = append(posterior, rows.Posterior(i)...)
		}
		return fn(blocks, posterior)
	})
}

// JointDensities is [JointPosteriors] with log p(y_1, …, y_M|x) of the rows.
func JointDensities(ctx context.Context, v *fitted.Vector, act model.Activation, tables []dataset.Source,
	fn func(blocks []*model.Block, logDensity []float64) error) error {
	return eachObserved(ctx, v, act, tables, func(blocks []*model.Block, rows *loss.VectorRows) error {
		return fn(blocks, rows.LogDensity())
	})
}

// eachObserved calls fn with the blocks of tables of the same rows, and with what a model says of them.
func eachObserved(ctx context.Context, v *fitted.Vector, act model.Activation, tables []dataset.Source,
	fn func([]*model.Block, *loss.VectorRows) error) error {
	rows := loss.NewVectorRows(act, v.VectorParams(), loss.All)
	targets := make([]float64, 0, len(tables)*model.BlockRows)
	return eachBeside(ctx, tables, func(blocks []*model.Block) error {
		if err := rows.Observe(ctx, &model.Block{N: blocks[0].N, X: blocks[0].X,
			Y: targetsOf(blocks, targets)}); err != nil {
			return err
		}
		return fn(blocks, rows)
	})
}

// errLeft ends the pass of a table that is not read to its end.
var errLeft = errors.New("left")

// eachBeside calls fn with the blocks of tables of the same rows, side by side.
func eachBeside(ctx context.Context, tables []dataset.Source, fn func([]*model.Block) error) error {
	blocks, faults := make([]*model.Block, len(tables)), make([]error, len(tables))
	var others []func() (*model.Block, bool)
	for i, table := range tables[1:] {
		next, stop := iter.Pull(func(yield func(*model.Block) bool) {
			faults[i+1] = table.Read(ctx, func(b *model.Block) error {
				if !yield(b) {
					return errLeft
				}
				return nil
			})
		})
		defer stop()
		others = append(others, next)
	}
	return tables[0].Read(ctx, func(b *model.Block) error {
		blocks[0] = b
		for i, next := range others {
			var more bool
			if blocks[i+1], more = next(); !more || blocks[i+1].N != b.N {
				if err := faults[i+1]; err != nil {
					return err
				}
				s := tables[i+1].Schema()
				return &dataset.Error{File: s.Name, Msg: fmt.Sprintf("it has other rows for target %s than for %s",
					s.Target, tables[0].Schema().Target)}
			}
		}
		return fn(blocks)
	})
}
