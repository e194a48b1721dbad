// Package gram holds sums over the rows of a design X with weights, which the likelihood of a mixture and the steps up
// it are made of: Gram matrices Xᵀ·diag(w)·X for many weights w, and systems of linear equations of such matrices.
package gram

import (
	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/mat"
)

// Matrices are n Gram matrices of the d columns of designs,
//
//	G_i = Σ_t v_t·w_it·x_t·x_tᵀ,  i < n
//
// with v_t the weights of the rows and w_i those of the matrix.
type Matrices struct {
	Sums []float64 // of all, which add up over parts of the rows

	d, n   int
	inRows bool  // a matrix is an upper triangle in rows, else in tiles, as [kernel.AddTiled] has them
	size   int   // values of a matrix
	places []int // of all d² entries, for [Matrices.Put]; nil before
}

// Up to so many columns, and from so many matrices on, the products of columns are made
// once for all matrices: each then costs less than looking for its rows that are not 0.
// With twice as many matrices whose weights are hardly ever 0 it does up to more columns.
const (
	fewColumns   = 12
	someColumns  = 32
	manyMatrices = 6
)

// New returns n matrices of d columns, 0.
func New(d, n int) Matrices { return newMatrices(d, n, n >= manyMatrices && d <= fewColumns) }

// NewFull is New of weights of which hardly any is 0. It is faster then, and else slower.
func NewFull(d, n int) Matrices {
	if n >= 2*manyMatrices {
		return newMatrices(d, n, d <= someColumns)
	}
	return New(d, n)
}

func newMatrices(d, n int, inRows bool) Matrices {
	m := Matrices{d: d, n: n, inRows: inRows, size: kernel.TiledSize(d)}
	if inRows {
		m.size = d * (d + 1) / 2
	}
	m.Sums = make([]float64, n*m.size)
	return m
}

// of returns the values of matrix i.
func (m *Matrices) of(i int) []float64 { return m.Sums[i*m.size : (i+1)*m.size] }

// place returns where entry (j, l) is in a matrix.
func (m *Matrices) place(j, l int) int {
	j, l = min(j, l), max(j, l)
	if m.inRows {
		return j*m.d - j*(j+1)/2 + l
	}
	return kernel.TiledAt(m.d, j, l)
}

// At returns entry (j, l) of matrix i.
func (m *Matrices) At(i, j, l int) float64 { return m.of(i)[m.place(j, l)] }

// Put writes factor times the rows and columns named of matrix i to the block of
// h whose first entry is (r, c), r ≤ c. Of one on the diagonal, r = c, rows and columns are the same.
func (m *Matrices) Put(h *mat.SymDense, i, r, c int, rows, cols []int, factor float64) {
	from, to := m.of(i), h.RawSymmetric()
	if m.places == nil {
		m.places = make([]int, m.d*m.d)
		for at := range m.places {
			m.places[at] = m.place(at/m.d, at%m.d)
		}
	}
	for a, j := range rows {
		row := to.Data[(r+a)*to.Stride+c:][:len(cols)]
		first := 0
		if r == c {
			first = a
		}
		places := m.places[j*m.d:][:m.d]
		for b, l := range cols[first:] {
			row[first+b] = factor * from[places[l]]
		}
	}
}

// Adder adds a block's rows to one matrix after the other:
//
//	a := m.Begin(x)
//	for i := range n {
//		// write w_i to a.Terms
//		a.Next()
//	}
type Adder struct {
	Terms []float64 // a value for every row: w of the matrix that comes next

	to   *Matrices
	x    *Design
	at   int // of that matrix
	held int // whose weights wait
}

// Begin readies the weights of the first matrix, of the block that x is at.
func (m *Matrices) Begin(x *Design) Adder {
	x.hold()
	return Adder{Terms: x.held[0][:x.n], to: m, x: x}
}

// Next adds Σ_t v_t·w_t·x_t·x_tᵀ, w the terms, to their matrix, at the latest with the last matrix, and turns to the
// one behind it, whose terms are to be written whole: the room is used again.
func (a *Adder) Next() {
	m, x, n := a.to, a.x, len(a.Terms)
	if a.at++; !m.inRows {
		x.addGram(m.of(a.at-1), a.Terms)
		return
	}
	x.WeighRows(a.Terms)
	if a.held++; a.held == len(x.held) || a.at == m.n {
		for i := range x.held {
			x.held[i] = x.held[i][:n]
		}
		kernel.AddGrams(m.Sums[(a.at-a.held)*m.size:a.at*m.size], x.held[:a.held], x.Cols, x.products)
		a.held = 0
	}
	a.Terms = x.held[a.held][:n]
}
