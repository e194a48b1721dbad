package loss

import (
	"math"

	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/mat"
)

// grams are sums of weighted products x·xᵀ of the design's columns.
type grams struct {
	*layout
	tiled []float64 // in tiles, as [kernel.AddTiled] has them
}

func newGrams(o *layout, n int) grams {
	return grams{layout: o, tiled: make([]float64, n*kernel.TiledSize(o.width))}
}

func (s *grams) values() [][]float64 { return [][]float64{s.tiled} }

// gram returns matrix i.
func (s *grams) gram(i int) []float64 {
	q := kernel.TiledSize(s.width)
	return s.tiled[i*q : (i+1)*q]
}

// put writes factor times the rows and columns named of matrix i to the block of
// h whose first entry is (r, c), r ≤ c.
func (s *grams) put(h *mat.SymDense, i, r, c int, rows, cols []int, factor float64) {
	g := s.gram(i)
	for a, j := range rows {
		for b, l := range cols {
			if r == c && b < a {
				continue
			}
			lo, hi := min(j, l), max(j, l)
			h.SetSym(r+a, c+b, factor*g[kernel.TiledAt(s.width, lo, hi)])
		}
	}
}

// relativeRidge keeps a Gram matrix of nearly collinear or nearly unused
// columns invertible; it slows a step there and never moves its fixed point.
const relativeRidge = 1e-10

// solveRidge returns h⁻¹·b with the ridge of factorize; nil if there is none.
func solveRidge(h *mat.SymDense, b []float64) []float64 {
	var chol mat.Cholesky
	if !factorize(&chol, h) {
		return nil
	}
	out := mat.NewVecDense(len(b), nil)
	if chol.SolveVecTo(out, mat.NewVecDense(len(b), b)) != nil {
		return nil
	}
	return out.RawVector().Data
}

// factorize factorises h with the least ridge, from relativeRidge of the mean
// diagonal up, that makes it positive definite; false if none does.
func factorize(chol *mat.Cholesky, h *mat.SymDense) bool {
	n := h.SymmetricDim()
	mean := mat.Trace(h) / float64(n)
	// Where g is saturated g′² may be so small that no ridge is smaller.
	if !(relativeRidge*mean > 0) || math.IsInf(mean, 0) {
		return false
	}
	was := 0.0
	for ridge := relativeRidge * mean; ridge < 1e3*mean; ridge *= 100 {
		for i := range n {
			h.SetSym(i, i, h.At(i, i)+ridge-was)
		}
		was = ridge
		if chol.Factorize(h) && chol.Cond() <= mat.ConditionTolerance {
			return true
		}
	}
	return false
}
