package predict

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// predictions is the table of what a model says of another table.
type predictions struct {
	params *model.Params
	act    model.Activation
	src    dataset.Source
	extras Extras
}

// Extras are columns of predictions that are there where they are asked for.
type Extras struct {
	Experts  bool    // mean1 … meank: g(⟨a_i,x⟩), the mean of y under each expert
	Interval float64 // lower, upper: the central prediction interval of this level; 0: none
}

// Predictions returns the predictions for a table as a table: columns mean,
// p1 … pk (P(z=i|x)) and, where src has a target, posterior1 … posteriork
// (P(z=i|x,y)), then the extras. Rows correspond; a pass over it is a pass over
// src, and an error if src has another number of features than the model. It panics
// if extras has an interval's level outside [0, 1).
func Predictions(p *model.Params, act model.Activation, src dataset.Source, extras Extras) dataset.Source {
	mustBeLevel(extras.Interval)
	return &predictions{params: p, act: act, src: src, extras: extras}
}

// mustBeLevel panics unless level is 0 or that of an interval.
func mustBeLevel(level float64) {
	if !(level >= 0 && level < 1) {
		panic(fmt.Sprintf("predict: prediction interval of level %v, want 0 for none or one between 0 and 1", level))
	}
}

// fits returns an error if a table has another number of features than the model.
func fits(s dataset.Schema, features int) error {
	if n := len(s.Features); n != features {
		return &dataset.Error{File: s.Name, Msg: count(n, "feature") + ", the model has " + fmt.Sprint(features)}
	}
	return nil
}

// Schema names the columns; none of them is a target.
func (t *predictions) Schema() dataset.Schema {
	names := append([]string{"mean"}, numbered("p", t.params.K)...)
	if t.src.Schema().Target != "" {
		names = append(names, numbered("posterior", t.params.K)...)
	}
	if t.extras.Experts {
		names = append(names, numbered("mean", t.params.K)...)
	}
	if t.extras.Interval > 0 {
		names = append(names, "lower", "upper")
	}
	return dataset.Schema{Name: t.src.Schema().Name, Features: names}
}

func numbered(prefix string, k int) []string {
	names := make([]string, k)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return names
}

func (t *predictions) Read(ctx context.Context, fn func(*model.Block) error) error {
	if err := fits(t.src.Schema(), t.params.D); err != nil {
		return err
	}
	predictor := NewPredictor(t.params, t.act, t.src.Schema().Name)
	var x []float64
	return t.src.Read(ctx, func(b *model.Block) error {
		p, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		x = append(x[:0], p.Mean...)
		x = append(x, p.Gate...)
		x = append(x, p.Posterior...)
		if t.extras.Experts {
			x = append(x, p.Experts...)
		}
		if level := t.extras.Interval; level > 0 {
			at := len(x)
			x = append(x, make([]float64, 2*b.N)...)
			if err := predictor.Intervals(x[at:at+b.N], x[at+b.N:], p, level); err != nil {
				return err
			}
		}
		return fn(&model.Block{N: b.N, X: x})
	})
}
