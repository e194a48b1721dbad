package fitted

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// predictions is the table of what a model says of another table.
type predictions struct {
	params *model.Params
	act    Evaluator
	src    dataset.Source
}

// Predictions returns the predictions for a table as a table: columns mean,
// p1 … pk (P(z=i|x)) and, where src has a target, posterior1 … posteriork
// (P(z=i|x,y)). Rows correspond; a pass over it is a pass over src.
func Predictions(p *model.Params, act Evaluator, src dataset.Source) dataset.Source {
	return &predictions{params: p, act: act, src: src}
}

// Schema names the columns; none of them is a target.
func (t *predictions) Schema() dataset.Schema {
	names := append([]string{"mean"}, numbered("p", t.params.K)...)
	if t.src.Schema().Target != "" {
		names = append(names, numbered("posterior", t.params.K)...)
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
		return fn(&model.Block{N: b.N, X: x})
	})
}
