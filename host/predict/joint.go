package predict

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// JointLogLikelihood returns Σ log p(y_1, …, y_M|x) of a model whose targets share a gate,
// over the rows of tables of its features with one of its targets each, in its order. Where
// they have not the same rows the error is a *dataset.Error. It panics where the targets have
// gates of their own.
func JointLogLikelihood(ctx context.Context, v *fitted.Vector, act model.Activation,
	tables []dataset.Source) (float64, error) {
	p := v.VectorParams()
	var rows []model.Rows
	for j, src := range tables {
		s := src.Schema()
		if err := fits(s, v.D); err != nil {
			return 0, err
		}
		table, err := dataset.Rows(ctx, src, 0, 1)
		if err != nil {
			return 0, err
		}
		defer table.Close()
		rows = append(rows, table.Rows)
		same, err := model.SameFeatures(rows[0], table.Rows)
		if err != nil {
			return 0, err
		}
		if !same {
			return 0, &dataset.Error{File: s.Name,
				Msg: fmt.Sprintf("the rows with all cells are others for target %s than for %s, and the targets' "+
					"joint density is of whole rows", v.Outputs[j].Target, v.Outputs[0].Target)}
		}
	}
	return loss.NewVector(model.Beside(rows), act, p, loss.All, 0).LogLikelihood(ctx, p)
}
