package gram

import (
	"math"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Design is the n×d matrix X of a block's rows x_t, with their weights v_t: its columns are the features, and behind
// them one of ones where d is one more than they are. What is summed over rows is terms, n values of them.
type Design struct {
	Weight []float64   // v, n values; nil: all 1
	Cols   [][]float64 // d columns of n values

	ones     []float64 // [model.BlockRows] of them
	n        int
	scaled   [][]float64 // room for a column beside each
	rows     []int       // whose terms are not 0
	few      [][]float64 // their columns
	named    [][]float64 // those that a sum is over
	held     [][]float64 // terms of several matrices; nil where there never were any
	products [][]float64 // of columns
}

// NewDesign returns room for blocks of rows, in d columns.
func NewDesign(d int) Design {
	const n = model.BlockRows
	x := Design{
		Cols: make([][]float64, d), ones: make([]float64, n), rows: make([]int, n),
		scaled: numeric.Columns(d, n), few: numeric.Columns(d, n),
	}
	for i := range x.ones {
		x.ones[i] = 1
	}
	return x
}

// hold sees to room for the terms of matrices: with four products of columns they
// take up most of a core's nearest cache, and no more.
func (x *Design) hold() {
	if x.held == nil {
		x.held, x.products = numeric.Columns(16, model.BlockRows), numeric.Columns(4, model.BlockRows)
	}
}

// Take points the design at a block of rows.
func (x *Design) Take(b *model.Block) {
	x.Weight, x.n = b.Role[model.Weights], b.N
	for j := range x.Cols {
		if j*b.N < len(b.X) {
			x.Cols[j] = b.Col(j)
		} else {
			x.Cols[j] = x.ones[:b.N]
		}
	}
}

// WeighRows multiplies terms by the rows' weights.
func (x *Design) WeighRows(terms []float64) {
	if x.Weight != nil {
		kernel.Mul(terms, terms, x.Weight)
	}
}

// Sum returns Σ_t v_t·w_t of terms w.
func (x *Design) Sum(terms []float64) float64 {
	if x.Weight != nil {
		return kernel.Dot(terms, x.Weight)
	}
	return kernel.Sum(terms)
}

// AddColumns adds Σ_t w_t·x_t over the columns named to dst, for every w of terms, one
// after the other.
func (x *Design) AddColumns(dst []float64, terms [][]float64, named []int) {
	x.named = x.named[:0]
	for _, j := range named {
		x.named = append(x.named, x.Cols[j])
	}
	kernel.AddProducts(dst, terms, x.named)
}

// AddSquares is AddColumns of the squares of the columns.
func (x *Design) AddSquares(dst []float64, terms [][]float64, named []int) {
	squares := x.scaled[:len(named)]
	for i, j := range named {
		squares[i] = squares[i][:len(x.Cols[j])]
		kernel.Mul(squares[i], x.Cols[j], x.Cols[j])
	}
	kernel.AddProducts(dst, terms, squares)
}

// AddWeighted is AddColumns of one w with the rows' weights, by which it multiplies w.
func (x *Design) AddWeighted(dst, w []float64, named []int) {
	x.WeighRows(w)
	terms := [1][]float64{w}
	x.AddColumns(dst, terms[:], named)
}

// addGram adds Σ_t v_t·w_t·x_t·x_tᵀ to dst, a matrix in tiles. It writes over w.
func (x *Design) addGram(dst, w []float64) {
	x.WeighRows(w)
	cols := x.Cols
	if rows := x.nonzero(w); 2*len(rows) <= len(w) {
		w, cols = x.gather(w, rows)
	}
	for j, col := range cols {
		x.scaled[j] = x.scaled[j][:len(w)]
		kernel.Mul(x.scaled[j], w, col)
	}
	kernel.AddTiled(dst, x.scaled, cols)
}

// nonzero lists the rows whose terms are not 0. They are often few: a row has
// few experts that could have made it, and posteriors below e⁻⁴⁰ are 0.
func (x *Design) nonzero(terms []float64) []int {
	rows, n := x.rows[:len(terms)], 0
	for t, v := range terms {
		rows[n] = t
		n += int((-(math.Float64bits(v) << 1) | math.Float64bits(v)<<1) >> 63) // 1 unless v is 0
	}
	return rows[:n]
}

// gather moves the terms of the rows named to the front, and returns them with those
// rows' columns.
func (x *Design) gather(terms []float64, rows []int) ([]float64, [][]float64) {
	for at, t := range rows {
		terms[at] = terms[t]
	}
	for j := range x.few {
		x.few[j] = x.few[j][:len(rows)]
	}
	kernel.Gather(x.few, x.Cols, rows)
	return terms[:len(rows)], x.few
}
