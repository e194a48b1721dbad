package problem

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
)

// Weights is what a fit knows of the observations' weights. A row of weight w
// counts as w rows: in the log-likelihood, the information criteria, the
// standard errors and the moment tensors.
type Weights struct {
	Given bool
	Rows  int     // of a weight that is not nothing beside the total: that changes a digit of a sum
	Total float64 // sum of the weights, the number of rows where there are none
	// Typical is Σ w²/Σ w, what rows weigh in the mean of all they stand for; 1 where there are none.
	Typical float64
	// Doubt says that the weights are not counts of rows, if they are not: their sum is less than half of the rows that
	// have one, or more than twice as many and not of whole numbers.
	Doubt bool
	unit  float64 // what they are divided by in a search, 1 of counts
}

// mostCounted is the most rows that a table counts as in a search: with more, what matters there would be rounding.
const mostCounted = 1 << 30

// WeightsOf returns what is to be known of the weights of rows.
func WeightsOf(ctx context.Context, rows model.Rows) (Weights, error) {
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
	w.Given, w.Rows, w.Total = true, 0, t.Weight
	near, squares, whole, least := weightUnit(t.Weight/float64(n)), 0.0, true, w.Total*0x1p-53
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		given := b.Role[model.Weights]
		w.Rows += floats.Count(func(v float64) bool { return v > least }, given)
		for _, v := range given {
			squares += (v / near) * (v / near)
			whole = whole && v == math.Trunc(v)
		}
		return nil
	})
	w.Typical = squares / (w.Total / near) * near
	count := min(w.Total, mostCounted)
	if n := float64(w.Rows); w.Light() || w.Total > 2*n && (!whole || w.Total > 1<<53) {
		count, w.Doubt = n, true
	}
	w.unit = weightUnit(w.Total / count)
	return w, err
}

// weightUnit is the power of two at v or next below it.
func weightUnit(v float64) float64 {
	return math.Ldexp(1, max(-1000, min(math.Ilogb(v), 1000)))
}

// even returns the rows with weights divided by their unit, which changes no
// digit of them. Features and targets in memory are shared.
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

// Light says that the sum is less than half of the rows that have a weight: counts are 1 or more.
func (w Weights) Light() bool { return w.Total < float64(w.Rows)/2 }

// Reported is the sum of the weights for the model file, 0 where there are none.
func (w Weights) Reported() float64 {
	if w.Given {
		return w.Total
	}
	return 0
}
