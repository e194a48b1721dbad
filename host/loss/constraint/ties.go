package constraint

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Ties are places in θ of coefficients that are one parameter. θ has it in all its places, and a function at θ is that
// at Pθ, P the projector that puts into every place the mean of all places of its parameter. So the gradient is P·∇L,
// the Hessian P·∇²L·P, and Newton's method, EM and all others stay in the range of P from wherever they begin.
type Ties [][]int

// Project writes Pθ to θ.
func (t Ties) Project(theta []float64) {
	for _, places := range t {
		mean := 0.0
		for _, at := range places {
			mean += theta[at]
		}
		mean /= float64(len(places))
		for _, at := range places {
			theta[at] = mean
		}
	}
}

// Projected returns Pθ: θ itself where nothing is tied.
func (t Ties) Projected(theta []float64) []float64 {
	if t == nil {
		return theta
	}
	theta = slices.Clone(theta)
	t.Project(theta)
	return theta
}

// Hessian writes P·h·P + c·(I − P) to h, with c the mean size of the diagonal at the places of a coefficient: its
// inverse leads from the range of P nowhere else.
func (t Ties) Hessian(h *mat.SymDense) {
	n := h.SymmetricDim()
	for _, places := range t {
		scale, each := 0.0, 1/float64(len(places))
		for _, at := range places {
			scale += each * math.Abs(h.At(at, at))
		}
		// Rows and columns in turn: of the places themselves the mean of all their pairs.
		inner := 0.0
		for _, a := range places {
			for _, b := range places {
				inner += each * each * h.At(a, b)
			}
		}
		for j := range n {
			if slices.Contains(places, j) {
				continue
			}
			mean := 0.0
			for _, at := range places {
				mean += each * h.At(at, j)
			}
			for _, at := range places {
				h.SetSym(at, j, mean)
			}
		}
		for a, at := range places {
			for _, other := range places[a:] {
				v := inner - scale*each
				if at == other {
					v += scale
				}
				h.SetSym(at, other, v)
			}
		}
	}
}
