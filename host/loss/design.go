package loss

import (
	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
)

// design is the matrix of a block's rows, features and ones, with their weights.
type design struct {
	weight     []float64   // of the rows; nil: all 1
	cols       [][]float64 // width columns
	ones       []float64
	products   []float64 // x_j·x_l, j ≤ l; nil for wide designs
	multiplied bool      // products are those of cols
	room       []float64
	rows       []int       // whose terms are not 0
	few        [][]float64 // their columns
}

// widest is the number of columns up to which the products of pairs are kept:
// 1 MiB for the rows of a block, which the processor's cache holds.
const widest = 32

func newDesign(width int) design {
	const n = model.BlockRows
	d := design{
		cols: make([][]float64, width), ones: make([]float64, n), room: make([]float64, n),
		rows: make([]int, 0, n), few: columnsOf(width, n),
	}
	for i := range d.ones {
		d.ones[i] = 1
	}
	if width <= widest {
		d.products = make([]float64, width*(width+1)/2*n)
	}
	return d
}

// columnsOf returns room for so many columns of n values.
func columnsOf(columns, n int) [][]float64 {
	out, store := make([][]float64, columns), make([]float64, columns*n)
	for j := range out {
		out[j] = store[j*n : (j+1)*n]
	}
	return out
}

// take points the design at a block of rows with d features.
func (x *design) take(b *model.Block, d int) {
	x.weight, x.multiplied = b.W, false
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
		floats.Mul(terms, x.weight)
	}
}

// sum adds terms of rows, weighted.
func (x *design) sum(terms []float64) float64 {
	if x.weight != nil {
		return floats.Dot(terms, x.weight)
	}
	return floats.Sum(terms)
}

// addWeighted is addColumns with the rows' weights, by which it multiplies w.
func (x *design) addWeighted(dst, w []float64, named []int) {
	x.weigh(w)
	x.addColumns(dst, w, named)
}

// addColumns adds Σ_t w_t·x_t over the columns named to dst.
func (x *design) addColumns(dst, w []float64, named []int) {
	for i, j := range named {
		dst[i] += floats.Dot(w, x.cols[j])
	}
}

// addGram adds Σ_t w_t·x_t·x_tᵀ to dst, the upper triangle in rows, and multiplies
// w by the rows' weights.
func (x *design) addGram(dst, w []float64) {
	x.weigh(w)
	n := len(w)
	switch rows := x.nonzero(w); {
	case 4*len(rows) <= 3*n:
		x.gather(w, rows)
		gramOf(dst, w[:len(rows)], x.few, x.room)
	case x.products == nil:
		gramOf(dst, w, x.cols, x.room)
	default:
		x.multiply(n)
		for q := range dst {
			dst[q] += floats.Dot(w, x.products[q*n:(q+1)*n])
		}
	}
}

// multiply writes the products of all pairs of columns, unless they are there.
func (x *design) multiply(n int) {
	if x.multiplied {
		return
	}
	at := 0
	for j, a := range x.cols {
		for _, b := range x.cols[j:] {
			mulTo(x.products[at:at+n], a, b)
			at += n
		}
	}
	x.multiplied = true
}

// nonzero lists the rows whose terms are not 0. They are often few: a row has
// few experts that could have made it, and posteriors below e⁻⁴⁰ are 0.
func (x *design) nonzero(terms []float64) []int {
	rows := x.rows[:0]
	for t, v := range terms {
		if v != 0 {
			rows = append(rows, t)
		}
	}
	return rows
}

// gather moves the terms of the rows named to the front, and writes those rows'
// columns to x.few.
func (x *design) gather(terms []float64, rows []int) {
	for at, t := range rows {
		terms[at] = terms[t]
	}
	for j, col := range x.cols {
		few := x.few[j][:len(rows)]
		for at, t := range rows {
			few[at] = col[t]
		}
		x.few[j] = few
	}
}

// gramOf is addGram from the columns, with room for as many values as there are
// terms.
func gramOf(dst, terms []float64, cols [][]float64, room []float64) {
	if len(terms) == 0 {
		return
	}
	weighted, at := room[:len(terms)], 0
	for j, a := range cols {
		mulTo(weighted, terms, a)
		for _, b := range cols[j:] {
			dst[at] += floats.Dot(weighted, b)
			at++
		}
	}
}

// mulTo is floats.MulTo four at a time: it takes about a sixth of an EM step.
func mulTo(dst, s, t []float64) {
	n := len(dst)
	s, t = s[:n], t[:n]
	i := 0
	for ; i+4 <= n; i += 4 {
		d, a, b := dst[i:i+4:i+4], s[i:i+4:i+4], t[i:i+4:i+4]
		d[0] = a[0] * b[0]
		d[1] = a[1] * b[1]
		d[2] = a[2] * b[2]
		d[3] = a[3] * b[3]
	}
	for ; i < n; i++ {
		dst[i] = s[i] * t[i]
	}
}
