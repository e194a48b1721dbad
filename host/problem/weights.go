package problem

import (
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
	unit  float64 // a power of two near the mean weight
}

func weigh(data *model.Data) (Weights, error) {
	total, err := model.Weight(data)
	w := Weights{Rows: data.N, Total: total, unit: 1}
	if err != nil || len(data.Blocks) == 0 || data.Blocks[0].W == nil {
		return w, err
	}
	w.Given, w.Rows = true, 0
	least := w.Total * 0x1p-53 // less changes no digit of a sum
	for i := range data.Blocks {
		w.Rows += floats.Count(func(v float64) bool { return v > least }, data.Blocks[i].W)
	}
	_, exponent := math.Frexp(w.Total / float64(data.N))
	w.unit = math.Ldexp(1, max(-1000, min(exponent-1, 1000)))
	return w, nil
}

// even returns the data with weights divided by their unit, which changes no
// digit of them: tolerances of a search are meant per row. Features and targets
// are shared.
func (w Weights) even(data *model.Data) *model.Data {
	if !w.Given || w.unit == 1 {
		return data
	}
	return reweighted(data, func(i int) []float64 {
		return floats.ScaleTo(make([]float64, data.Blocks[i].N), 1/w.unit, data.Blocks[i].W)
	})
}

// given returns even with the weights of data.
func (w Weights) given(even, data *model.Data) *model.Data {
	if !w.Given || w.unit == 1 {
		return even
	}
	return reweighted(even, func(i int) []float64 { return data.Blocks[i].W })
}

func reweighted(data *model.Data, weights func(block int) []float64) *model.Data {
	out := &model.Data{N: data.N, D: data.D, Blocks: make([]model.Block, len(data.Blocks))}
	for i, b := range data.Blocks {
		b.W = weights(i)
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
	return fmt.Sprintf("the weights of %d rows add up to %.4g: a weight counts observations, so BIC and standard errors are those of %.4g observations", w.Rows, w.Total, w.Total)
}
