package predict

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
)

// Outputs returns what a model of several targets says of a table, as a table: the
// mean of every target, in a column of its name, and where an interval's level is not 0 the
// ends of every target's central prediction interval, in columns of its name after lower_ and
// upper_; all targets have a sigma then. act is the activation of all leaves,
// model.PerExpert where they have several. Rows correspond; a pass over it is a pass over
// src, whose features are the model's by their place.
func Outputs(v *fitted.Vector, act model.Activation, src dataset.Source, interval float64) (dataset.Source, error) {
	mustBeLevel(interval)
	if _, err := v.Shape(); err != nil {
		return nil, err
	}
	return &outputs{v, act, src, interval}, nil
}

type outputs struct {
	v   *fitted.Vector
	act model.Activation
	src dataset.Source

	interval float64 // 0: none
}

// Schema names the targets; none is one of the table itself.
func (t *outputs) Schema() dataset.Schema {
	s := dataset.Schema{Name: t.src.Schema().Name}
	for _, o := range t.v.Outputs {
		s.Features = append(s.Features, o.Target)
	}
	for _, o := range t.v.Outputs {
		if t.interval > 0 {
			s.Features = append(s.Features, "lower_"+o.Target, "upper_"+o.Target)
		}
	}
	return s
}

func (t *outputs) Read(ctx context.Context, fn func(*model.Block) error) error {
	s := t.src.Schema()
	if err := fits(s, t.v.D); err != nil {
		return err
	}
	predictors := make([]*Predictor, len(t.v.Outputs))
	for j := range predictors {
		predictors[j] = NewPredictor(t.v.Params(j), t.act, s.Name)
	}
	columns := len(t.Schema().Features)
	out := make([]float64, columns*model.BlockRows)
	return t.src.Read(ctx, func(b *model.Block) error {
		x, lacks := complete(&model.Block{N: b.N, X: b.X})
		column := func(j int) []float64 { return out[j*b.N : (j+1)*b.N] }
		for j, predictor := range predictors {
			p, err := predictor.Predict(ctx, x)
			if err == nil && t.interval > 0 {
				at := len(predictors) + 2*j
				err = predictor.Intervals(column(at), column(at+1), p, t.interval)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", t.v.Outputs[j].Target, err)
			}
			copy(column(j), p.Mean)
		}
		for r, l := range lacks {
			if l == nothing {
				continue
			}
			for j := range columns {
				column(j)[r] = math.NaN()
			}
		}
		return fn(&model.Block{N: b.N, X: out[:columns*b.N]})
	})
}
