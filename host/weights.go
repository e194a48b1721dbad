package host

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
)

// weighting is what the fit knows of the observations' weights. A row of weight
// w counts as w rows: in the log-likelihood, the information criteria, the
// standard errors and the moment tensors.
type weighting struct {
	given bool
	rows  int     // rows of a weight above 0
	total float64 // sum of the weights, the number of rows where there are none
	scale float64 // a power of two near the mean weight
}

func weigh(data *model.Data) weighting {
	total, _ := model.Weight(data) // in memory
	w := weighting{rows: data.N, total: total, scale: 1}
	if len(data.Blocks) == 0 || data.Blocks[0].W == nil {
		return w
	}
	w.given, w.rows = true, 0
	for i := range data.Blocks {
		w.rows += floats.Count(func(v float64) bool { return v > 0 }, data.Blocks[i].W)
	}
	_, exponent := math.Frexp(w.total / float64(data.N))
	w.scale = math.Ldexp(1, max(-1000, min(exponent-1, 1000)))
	return w
}

// partOf is model.Part of a table in memory.
func partOf(data *model.Data, n int) *model.Data {
	part := model.Part(data, n)
	if part == model.Rows(data) {
		return data
	}
	out := &model.Data{D: data.D}
	for i := range model.Blocks(part) {
		b, _ := part.Block(i, nil)
		out.Blocks = append(out.Blocks, *b)
		out.N += b.N
	}
	return out
}

// even divides the weights of data, which the fit owns, by their scale: the
// search's tolerances are meant per row. uneven takes that back. A power of two
// changes no digit.
func (w weighting) even(data *model.Data)   { w.multiply(data, 1/w.scale) }
func (w weighting) uneven(data *model.Data) { w.multiply(data, w.scale) }

func (w weighting) multiply(data *model.Data, by float64) {
	if !w.given || w.scale == 1 {
		return
	}
	for i := range data.Blocks {
		floats.Scale(by, data.Blocks[i].W)
	}
}

// reported is the sum of the weights for the model file, 0 where there are none.
func (w weighting) reported() float64 {
	if w.given {
		return w.total
	}
	return 0
}

// noteWeights says where the weights do not look like counts of observations.
func (f *fit) noteWeights() {
	if w := f.weight; w.given && w.total < float64(w.rows)/2 {
		f.note(fmt.Sprintf("the weights of %d rows add up to %.4g: a weight counts observations, so BIC and standard errors are those of %.4g observations", w.rows, w.total, w.total))
	}
}
