package constraint

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// logitRounding bounds the rounding of the logits of a gate's rows.
const logitRounding = 1e-6

// Bound is on the size of gates. Where a gate separates rows its likelihood has its supremum at infinity, and no step
// knows where to stop. Logits of 1e18 are rounded to hundreds. So the gate is bounded: with
//
//	r(W) = max_j Σ_c |w_jc|·max_rows|x_c|,
//
// which no logit of the rows, nor any part of its sum, is beyond, the likelihood at θ is that of
// the gate scaled to r ≤ B, gate by gate of a tree. Rows stay on their sides of its boundaries. B is where
// the rounding of a logit reaches 1e−6. The zero value is no bound.
type Bound struct {
	gates   [][]int   // of every gate where in θ its rows begin, one coefficient after the other
	largest []float64 // max_rows|x_c| of every coefficient of a row
	times   float64   // how much larger than B it is
	outward []outward // where the last gradient was
}

// outward is a gate at its bound that the likelihood pulls outwards.
type outward struct {
	at    []int     // the places of its coefficients in θ
	w, dr []float64 // the gate and ∇r there
}

// NewBound returns the bound on gates, so many times as large as B: of every gate it is given where in θ its rows
// begin, and of every coefficient of a row max_rows|x_c|.
func NewBound(gates [][]int, largest []float64, times float64) Bound {
	return Bound{gates: gates, largest: largest, times: times}
}

// most returns B: sums of so many terms are rounded by B·2⁻⁵³ each at most.
func (b *Bound) most() float64 { return b.times * logitRounding / (0x1p-53 * float64(len(b.largest))) }

// rowAt returns the row of a gate that begins at a place of θ.
func (b *Bound) rowAt(theta []float64, at int) []float64 { return theta[at : at+len(b.largest)] }

// eachBeyond calls fn with every gate of θ for which r(W) is above so many times B, and with that
// r and the row that has it.
func (b *Bound) eachBeyond(theta []float64, times float64, fn func(rows []int, row int, r float64)) {
	for _, rows := range b.gates {
		most, row := 0.0, -1
		for _, at := range rows {
			r := 0.0
			for c, w := range b.rowAt(theta, at) {
				r += math.Abs(w) * b.largest[c]
			}
			if r > most {
				most, row = r, at
			}
		}
		if most > times*b.most() {
			fn(rows, row, most)
		}
	}
}

// edge is how near to B a gate is at its bound: more than what rounding leaves of a scaling.
const edge = 1e-9

// Project scales the gates of θ that are beyond their bound back to it, in place: the
// likelihood is the same there.
func (b *Bound) Project(theta []float64) {
	b.eachBeyond(theta, 1+edge, func(rows []int, _ int, r float64) {
		for _, at := range rows {
			floats.Scale(b.most()/r, b.rowAt(theta, at))
		}
	})
}

// Projected returns θ with its gates within their bounds: θ itself where they are.
func (b *Bound) Projected(theta []float64) []float64 {
	beyond := false
	b.eachBeyond(theta, 1+edge, func([]int, int, float64) { beyond = true })
	if beyond {
		theta = slices.Clone(theta)
		b.Project(theta)
	}
	return theta
}

// Gradient makes of the gradient at the gates within their bounds that at θ, by the chain rule:
// for a gate W beyond its bound, W′ = s·W with s = B/r, it is s·(G − ⟨W′,G⟩/B·∇r). One at its
// bound that is pulled outwards, ⟨W,G⟩ < 0, is beyond it.
func (b *Bound) Gradient(grad, theta []float64) {
	b.outward = b.outward[:0]
	b.eachBeyond(theta, 1-edge, func(rows []int, row int, r float64) {
		var h outward
		s := min(1, b.most()/r)
		pull := 0.0
		for _, first := range rows {
			for c, largest := range b.largest {
				at, dr := first+c, 0.0
				if first == row {
					dr = math.Copysign(largest, theta[at])
				}
				h.at, h.w, h.dr = append(h.at, at), append(h.w, s*theta[at]), append(h.dr, dr)
				pull += s * theta[at] * grad[at]
			}
		}
		if s > 1-edge && pull >= 0 {
			return
		}
		for i, at := range h.at {
			grad[at] = s * (grad[at] - pull/b.most()*h.dr[i])
		}
		b.outward = append(b.outward, h)
	})
}

// Outward says whether a gate was pulled outwards at its bound where the last gradient was.
func (b *Bound) Outward() bool { return len(b.outward) > 0 }

// Hessian takes what points outwards out of a Newton step from where the last gradient
// was: with J = I − W·∇rᵀ/B it writes JᵀHJ + c·∇r·∇rᵀ to h.
func (b *Bound) Hessian(h *mat.SymDense) {
	n, _ := h.Dims()
	column := make([]float64, n)
	for _, out := range b.outward {
		times := func() float64 { // H·W/B, and WᵀHW/B²
			square := 0.0
			for i := range n {
				column[i] = 0
				for l, at := range out.at {
					column[i] += h.At(i, at) * out.w[l] / b.most()
				}
			}
			for l, at := range out.at {
				square += column[at] * out.w[l] / b.most()
			}
			return square
		}
		square, dr, size := times(), make([]float64, n), 0.0
		for l, at := range out.at {
			dr[at] = out.dr[l]
			size = max(size, math.Abs(h.At(at, at)))
		}
		if size == 0 {
			size = 1
		}
		norm := floats.Dot(dr, dr)
		for i := range n {
			for j := i; j < n; j++ {
				h.SetSym(i, j, h.At(i, j)-dr[i]*column[j]-column[i]*dr[j]+(square+size/norm)*dr[i]*dr[j])
			}
		}
	}
}

// Times writes J·v to dst, for a product with a Hessian where the last gradient was.
func (b *Bound) Times(dst, v []float64) {
	copy(dst, v)
	for _, out := range b.outward {
		along := 0.0
		for l, at := range out.at {
			along += out.dr[l] * v[at]
		}
		for l, at := range out.at {
			dst[at] -= out.w[l] * along / b.most()
		}
	}
}

// Product makes Jᵀ·p + c·∇r·⟨∇r,v⟩ of a product p = H·J·v.
func (b *Bound) Product(p, v []float64) {
	for _, out := range b.outward {
		pull, along, norm := 0.0, 0.0, 0.0
		for l, at := range out.at {
			pull += out.w[l] * p[at] / b.most()
			along += out.dr[l] * v[at]
			norm += out.dr[l] * out.dr[l]
		}
		for l, at := range out.at {
			p[at] += out.dr[l] * (along/norm - pull)
		}
	}
}

// At says whether a gate of θ is at its bound.
func (b *Bound) At(theta []float64) (at bool) {
	b.eachBeyond(theta, 1-2*edge, func([]int, int, float64) { at = true })
	return at
}
