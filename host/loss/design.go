package loss

import (
	"math"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// design is the matrix of a block's rows, features and ones, with their weights.
type design struct {
	weight   []float64   // of the rows; nil: all 1
	cols     [][]float64 // width columns
	ones     []float64
	weighted [][]float64 // columns times terms
	rows     []int       // whose terms are not 0
	few      [][]float64 // their columns
	named    [][]float64 // those that a sum is over
	held     [][]float64 // terms of several matrices; nil where there never were any
	products [][]float64 // of columns
}

func newDesign(width int) design {
	const n = model.BlockRows
	d := design{
		cols: make([][]float64, width), ones: make([]float64, n), rows: make([]int, n),
		weighted: numeric.Columns(width, n), few: numeric.Columns(width, n),
	}
	for i := range d.ones {
		d.ones[i] = 1
	}
	return d
}

// hold sees to room for the terms of matrices: with four products of columns they
// take up most of a core's nearest cache, and no more.
func (x *design) hold() {
	if x.held == nil {
		x.held, x.products = numeric.Columns(16, model.BlockRows), numeric.Columns(4, model.BlockRows)
	}
}

// take points the design at a block of rows with d features.
func (x *design) take(b *model.Block, d int) {
	x.weight = b.Role[model.Weights]
	for j := range d {
		x.cols[j] = b.Col(j)
	}
	if len(x.cols) > d {
		x.cols[d] = x.ones[:b.N]
	}
}

// weigh multiplies terms of rows by the rows' weights.
func (x *design) weigh(terms []float64) {
	if x.weight != nil {
		kernel.Mul(terms, terms, x.weight)
	}
}

// sum adds terms of rows, weighted.
func (x *design) sum(terms []float64) float64 {
	if x.weight != nil {
		return kernel.Dot(terms, x.weight)
	}
	return kernel.Sum(terms)
}

// addColumns adds Σ_t w_t·x_t over the columns named to dst, for every w of terms, one
// after the other.
func (x *design) addColumns(dst []float64, terms [][]float64, named []int) {
	x.named = x.named[:0]
	for _, j := range named {
		x.named = append(x.named, x.cols[j])
	}
	kernel.AddProducts(dst, terms, x.named)
}

// addWeighted is addColumns of one w with the rows' weights, by which it multiplies w.
func (x *design) addWeighted(dst, w []float64, named []int) {
	x.weigh(w)
	terms := [1][]float64{w}
	x.addColumns(dst, terms[:], named)
}

// addGram adds Σ_t w_t·x_t·x_tᵀ to dst, a matrix in tiles, and multiplies
// w by the rows' weights.
func (x *design) addGram(dst, w []float64) {
	x.weigh(w)
	cols := x.cols
	if rows := x.nonzero(w); 2*len(rows) <= len(w) {
		w, cols = x.gather(w, rows)
	}
	for j, col := range cols {
		x.weighted[j] = x.weighted[j][:len(w)]
		kernel.Mul(x.weighted[j], w, col)
	}
	kernel.AddTiled(dst, x.weighted, cols)
}

// nonzero lists the rows whose terms are not 0. They are often few: a row has
// few experts that could have made it, and posteriors below e⁻⁴⁰ are 0.
func (x *design) nonzero(terms []float64) []int {
	rows, n := x.rows[:len(terms)], 0
	for t, v := range terms {
		rows[n] = t
		n += int((-(math.Float64bits(v) << 1) | math.Float64bits(v)<<1) >> 63) // 1 unless v is 0
	}
	return rows[:n]
}

// gather moves the terms of the rows named to the front, and returns them with those
// rows' columns.
func (x *design) gather(terms []float64, rows []int) ([]float64, [][]float64) {
	for at, t := range rows {
		terms[at] = terms[t]
	}
	for j := range x.few {
		x.few[j] = x.few[j][:len(rows)]
	}
	kernel.Gather(x.few, x.cols, rows)
	return terms[:len(rows)], x.few
}
