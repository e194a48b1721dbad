package problem

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
)

// Weights is what a fit knows of the observations' weights. A row of weight w
// counts as w rows: in the log-likelihood, the information criteria, the
// standard errors and the moment tensors.
type Weights struct {
	Given bool
	Rows  int     // of a weight that is not nothing beside the total
	Total float64 // sum of the weights, the number of rows where there are none
	// Typical is Σ w²/Σ w, what rows weigh in the mean of all they stand for; 1 where there are none.
	Typical float64
	unit    float64 // [weightUnit]
}

func weigh(ctx context.Context, rows model.Rows) (Weights, error) {
	n, _ := rows.Dims()
	w := Weights{Rows: n, Total: float64(n), Typical: 1, unit: 1}
	if n == 0 {
		return w, nil
	}
	first, err := rows.Block(0, new(model.Room))
	if err != nil || first.Role[model.Weights] == nil {
		return w, err
	}
	t, err := model.TotalsOf(rows)
	if err != nil {
		return w, err
	}
	w.Given, w.Rows, w.Total, w.unit = true, 0, t.Weight, weightUnit(t.Weight, n)
	squares := 0.0
	least := w.Total * 0x1p-53 // less changes no digit of a sum
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		given := b.Role[model.Weights]
		w.Rows += floats.Count(func(v float64) bool { return v > least }, given)
		for _, v := range given {
			squares += (v / w.unit) * (v / w.unit)
		}
		return nil
	})
	w.Typical = squares / (w.Total / w.unit) * w.unit
	return w, err
}

// weightUnit is what the weights of n rows are divided by in a fit: a power of two near
// their mean.
func weightUnit(total float64, n int) float64 {
	_, exponent := math.Frexp(total / float64(n))
	return math.Ldexp(1, max(-1000, min(exponent-1, 1000)))
}

// even returns the rows with weights divided by their unit, which changes no
// digit of them: tolerances of a search are meant per row. Features and targets
// in memory are shared.
func (w Weights) even(rows model.Rows) model.Rows {
	if !w.Given || w.unit == 1 {
		return rows
	}
	if data, ok := rows.(*model.Data); ok {
		return reweighted(data, func(i int) []float64 {
			return floats.ScaleTo(make([]float64, data.Blocks[i].N), 1/w.unit, data.Blocks[i].Role[model.Weights])
		})
	}
	_, d := rows.Dims()
	return model.Map(rows, d, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		dst.Role[model.Weights] = floats.ScaleTo(make([]float64, src.N), 1/w.unit, src.Role[model.Weights])
	})
}

// given returns even, which is in these units, with the weights of rows, which are not.
func (w Weights) given(even, rows model.Rows, u *Units) model.Rows {
	if !w.Given || w.unit == 1 {
		return even
	}
	units, inMemory := even.(*model.Data)
	if data, ok := rows.(*model.Data); ok && inMemory {
		return reweighted(units, func(i int) []float64 { return data.Blocks[i].Role[model.Weights] })
	}
	return u.View(rows)
}

func reweighted(data *model.Data, weights func(block int) []float64) *model.Data {
	out := &model.Data{N: data.N, D: data.D, Blocks: make([]model.Block, len(data.Blocks))}
	for i, b := range data.Blocks {
		b.Role[model.Weights] = weights(i)
		out.Blocks[i] = b
	}
	return out
}

// Reported is the sum of the weights for the model file, 0 where there are none.
func (w Weights) Reported() float64 {
	if w.Given {
		return w.Total
	}
	return 0
}

// doubt says that the weights do not look like counts of observations, if they
// do not.
func (w Weights) doubt() string {
	if !w.Given || w.Total >= float64(w.Rows)/2 {
		return ""
	}
	return fmt.Sprintf("the weights of %d rows add up to %.4g: a weight counts observations, so BIC and standard "+
		"errors are those of %.4g observations", w.Rows, w.Total, w.Total)
}
