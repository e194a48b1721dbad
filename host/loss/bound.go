package loss

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Where a gate separates rows its likelihood has its supremum at infinity, and no step knows
// where to stop. Logits of 1e18 are rounded to hundreds. So the gate is bounded: with
//
//	r(W) = max_j Σ_c |w_jc|·max_rows|x_c|,
//
// which no logit of the rows, nor any part of its sum, is beyond, the likelihood at θ is that of
// the gate scaled to r ≤ B, node by node. Rows stay on their sides of its boundaries. B is where
// the rounding of a logit reaches logitRounding.

// logitRounding bounds the rounding of the logits of a gate's rows.
const logitRounding = 1e-6

// gateBound is the bound on the gates of a layout.
type gateBound struct {
	of      *layout
	largest []float64 // of every feature in the rows, in size, then 1; nil for no bound
	times   float64   // how much larger than B it is
	outward []outward // where the last gradient was
}

// outward is a gate at its bound that the likelihood pulls outwards.
type outward struct {
	at    []int     // the places of its coefficients in θ
	w, dr []float64 // the gate and ∇r there
}

func newGateBound(o *layout, largest []float64) gateBound {
	return gateBound{of: o, largest: append(slices.Clone(largest), 1), times: 1}
}

// on returns the same bound on the gates of another layout, so many times as large.
func (b *gateBound) on(o *layout, times float64) gateBound {
	return gateBound{of: o, largest: b.largest, times: times * b.times}
}

// most returns B: sums of so many terms are rounded by B·2⁻⁵³ each at most.
func (b *gateBound) most() float64 { return b.times * logitRounding / (0x1p-53 * float64(b.of.dw)) }

// eachBeyond calls fn with every gate of θ for which r(W) is above so many times B, and with that
// r and the row that has it.
func (b *gateBound) eachBeyond(theta []float64, times float64, fn func(rows []int, row int, r float64)) {
	o := b.of
	if b.largest == nil || !o.free.Gating {
		return
	}
	for _, rows := range o.nodes {
		most, row := 0.0, -1
		for _, j := range rows {
			r := 0.0
			for c, w := range theta[o.row(j) : o.row(j)+o.dw] {
				r += math.Abs(w) * b.largest[o.gate[c]]
			}
			if r > most {
				most, row = r, j
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
func (b *gateBound) Project(theta []float64) {
	o := b.of
	b.eachBeyond(theta, 1+edge, func(rows []int, _ int, r float64) {
		for _, j := range rows {
			floats.Scale(b.most()/r, theta[o.row(j):o.row(j)+o.dw])
		}
	})
}

// within returns θ with its gates within their bounds: θ itself where they are.
func (b *gateBound) within(theta []float64) []float64 {
	beyond := false
	b.eachBeyond(theta, 1+edge, func([]int, int, float64) { beyond = true })
	if beyond {
		theta = slices.Clone(theta)
		b.Project(theta)
	}
	return theta
}

// boundGradient makes of the gradient at the gates within their bounds that at θ, by the chain rule:
// for a gate W beyond its bound, W′ = s·W with s = B/r, it is s·(G − ⟨W′,G⟩/B·∇r). One at its
// bound that is pulled outwards, ⟨W,G⟩ < 0, is beyond it.
func (b *gateBound) boundGradient(grad, theta []float64) {
	o := b.of
	b.outward = b.outward[:0]
	b.eachBeyond(theta, 1-edge, func(rows []int, row int, r float64) {
		var h outward
		s := min(1, b.most()/r)
		pull := 0.0
		for _, j := range rows {
			for c := range o.dw {
				at, dr := o.row(j)+c, 0.0
				if j == row {
					dr = math.Copysign(b.largest[o.gate[c]], theta[at])
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

// boundHessian takes what points outwards out of a Newton step from where the last gradient
// was: with J = I − W·∇rᵀ/B it writes JᵀHJ + c·∇r·∇rᵀ to h.
func (b *gateBound) boundHessian(h *mat.SymDense) {
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

// boundTimes writes J·v to dst, for a product with a Hessian where the last gradient was.
func (b *gateBound) boundTimes(dst, v []float64) {
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

// boundProduct makes Jᵀ·p + c·∇r·⟨∇r,v⟩ of a product p = H·J·v.
func (b *gateBound) boundProduct(p, v []float64) {
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

func (b *gateBound) atBound(theta []float64) (at bool) {
	b.eachBeyond(theta, 1-2*edge, func([]int, int, float64) { at = true })
	return at
}
