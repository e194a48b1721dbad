package loss

import (
	"math"

	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// grams are sums of weighted products x·xᵀ of the design's columns, a matrix for every
// weight.
type grams struct {
	*layout
	n    int
	full bool      // hardly any weight is 0
	sums []float64 // in rows of upper triangles where once says so, else in tiles, as [kernel.AddTiled] has them
}

func newGrams(o *layout, n int) grams { return grams{layout: o, n: n}.withRoom() }

func newFullGrams(o *layout, n int) grams { return grams{layout: o, n: n, full: true}.withRoom() }

func (s grams) withRoom() grams {
	s.sums = make([]float64, s.n*s.size())
	return s
}

// Up to so many columns, and from so many matrices on, the products of columns are made
// once for all matrices: each then costs less than looking for its rows that are not 0.
// With twice as many matrices whose weights are hardly ever 0 it does up to more columns.
const (
	fewColumns   = 12
	someColumns  = 32
	manyMatrices = 6
)

func (s *grams) once() bool {
	return s.n >= manyMatrices && s.width <= fewColumns || s.full && s.n >= 2*manyMatrices && s.width <= someColumns
}

// size is the number of values of a matrix.
func (s *grams) size() int {
	if s.once() {
		return s.width * (s.width + 1) / 2
	}
	return kernel.TiledSize(s.width)
}

func (s *grams) values() [][]float64 { return [][]float64{s.sums} }

// gram returns the values of matrix i.
func (s *grams) gram(i int) []float64 {
	q := s.size()
	return s.sums[i*q : (i+1)*q]
}

// entry returns that of columns j and l of matrix i.
func (s *grams) entry(i, j, l int) float64 { return s.gram(i)[s.place(s.once(), j, l)] }

// place returns where that of columns j and l is in a matrix in rows, or in tiles.
func (s *grams) place(inRows bool, j, l int) int {
	j, l = min(j, l), max(j, l)
	if inRows {
		return j*s.width - j*(j+1)/2 + l
	}
	return kernel.TiledAt(s.width, j, l)
}

// gramTerms are the weights of a block's rows in one matrix after the other.
type gramTerms struct {
	terms []float64 // of the matrix that comes next
	to    *grams
	x     *design
	at    int // of that matrix
	held  int // whose weights wait
}

// begin readies the weights of the first matrix of a block of n rows.
func (s *grams) begin(x *design, n int) gramTerms {
	x.hold()
	return gramTerms{terms: x.held[0][:n], to: s, x: x}
}

// next adds Σ_t w_t·x_t·x_tᵀ, w the terms times the rows' weights, to their matrix, at the
// latest with the last matrix, and turns to the one behind it.
func (g *gramTerms) next() {
	n := len(g.terms)
	if g.at++; !g.to.once() {
		g.x.addGram(g.to.gram(g.at-1), g.terms)
		return
	}
	g.x.weigh(g.terms)
	if g.held++; g.held == len(g.x.held) || g.at == g.to.n {
		q := g.to.size()
		for i := range g.x.held {
			g.x.held[i] = g.x.held[i][:n]
		}
		kernel.AddGrams(g.to.sums[(g.at-g.held)*q:g.at*q], g.x.held[:g.held], g.x.cols, g.x.products)
		g.held = 0
	}
	g.terms = g.x.held[g.held][:n]
}

// put writes factor times the rows and columns named of matrix i to the block of
// h whose first entry is (r, c), r ≤ c.
func (s *grams) put(h *mat.SymDense, i, r, c int, rows, cols []int, factor float64) {
	gram, inRows, to := s.gram(i), s.once(), h.RawSymmetric()
	for a, j := range rows {
		row := to.Data[(r+a)*to.Stride+c:][:len(cols)]
		for b, l := range cols {
			if r == c && b < a {
				continue
			}
			row[b] = factor * gram[s.place(inRows, j, l)]
		}
	}
}

// relativeRidge keeps a Gram matrix of nearly collinear or nearly unused
// columns invertible; it slows a step there and never moves its fixed point.
const relativeRidge = 1e-10

// system is a symmetric system of linear equations, solved by a Cholesky factorisation
// in room that is used again: [mat.Cholesky] allocates, and estimates a condition number
// that costs more than the rest where the system is small.
type system struct {
	h     *mat.SymDense
	upper blas64.Triangular // of h = UᵀU, after factorize
	room  []float64
}

func newSystem(n int) *system {
	return &system{
		h:     mat.NewSymDense(n, nil),
		upper: blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)},
		room:  make([]float64, n),
	}
}

// factorize factorises h with the least ridge, from relativeRidge of the mean
// diagonal up, that makes it positive definite; false if none does. With that ridge its
// condition number is at most n/relativeRidge.
func (s *system) factorize() bool {
	h, n := s.h.RawSymmetric(), s.upper.N
	mean := mat.Trace(s.h) / float64(n)
	// Where g is saturated g′² may be so small that no ridge is smaller.
	const leastNormal = 0x1p-1022
	if !(relativeRidge*mean > leastNormal) || math.IsInf(mean, 0) {
		return false
	}
	for ridge := relativeRidge * mean; ridge < 1e3*mean; ridge *= 100 {
		copy(s.upper.Data, h.Data)
		for i := range n {
			s.upper.Data[i*n+i] += ridge
		}
		if _, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: s.upper.Data}); ok {
			return true
		}
	}
	return false
}

// solve returns h⁻¹·b after factorize, in room that is used again.
func (s *system) solve(b []float64) []float64 {
	copy(s.room, b)
	return numeric.SolveCholesky(s.upper, s.room)
}

// square returns xᵀ·h·x after factorize.
func (s *system) square(x []float64) float64 {
	copy(s.room, x)
	v := blas64.Vector{N: len(x), Inc: 1, Data: s.room}
	blas64.Trmv(blas.NoTrans, s.upper, v)
	return blas64.Dot(v, v)
}
