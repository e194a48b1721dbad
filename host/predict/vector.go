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
// mean of every target, in a column of its name. act is the activation of all leaves,
// model.PerExpert where they have several. Rows correspond; a pass over it is a pass over
// src, whose features are the model's by their place.
func Outputs(v *fitted.Vector, act model.Activation, src dataset.Source) (dataset.Source, error) {
	if _, err := v.Shape(); err != nil {
		return nil, err
	}
	return &outputs{v, act, src}, nil
}

type outputs struct {
	v   *fitted.Vector
	act model.Activation
	src dataset.Source
}

// Schema names the targets; none is one of the table itself.
func (t *outputs) Schema() dataset.Schema {
	s := dataset.Schema{Name: t.src.Schema().Name}
	for _, o := range t.v.Outputs {
		s.Features = append(s.Features, o.Target)
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
	var means []float64
	return t.src.Read(ctx, func(b *model.Block) error {
		x, lacks := complete(&model.Block{N: b.N, X: b.X})
		means = means[:0]
		for j, predictor := range predictors {
			p, err := predictor.Predict(ctx, x)
			if err != nil {
				return fmt.Errorf("%s: %w", t.v.Outputs[j].Target, err)
			}
			means = append(means, p.Mean...)
		}
		for r, l := range lacks {
			if l == nothing {
				continue
			}
			for j := range predictors {
				means[j*b.N+r] = math.NaN()
			}
		}
		return fn(&model.Block{N: b.N, X: means})
	})
}
