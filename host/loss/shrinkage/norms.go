package shrinkage

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Norm is coefficients, by their places in θ, whose norm costs Weight times itself of the total log-likelihood.
type Norm struct {
	At     []int
	Weight float64
}

// Times are norms with so many times their weight; nil for 0.
func Times(norms []Norm, factor float64) (out []Norm) {
	if factor == 0 {
		return nil
	}
	for _, n := range norms {
		out = append(out, Norm{n.At, factor * n.Weight})
	}
	return out
}

// size is the norm of the slopes at θ.
func (n Norm) size(theta []float64) (size float64) {
	for _, at := range n.At {
		size = math.Hypot(size, theta[at])
	}
	return size
}

// AtZero says of every place of θ whether a norm holds it at 0 there.
func (p *Penalty) AtZero(theta []float64) []bool {
	out := make([]bool, len(theta))
	for _, n := range p.Norms {
		for _, at := range n.At {
			out[at] = n.size(theta) == 0
		}
	}
	return out
}

// normsValue is Σ weight·‖θ_g‖.
func (p *Penalty) normsValue(theta []float64) (sum float64) {
	for _, n := range p.Norms {
		sum += n.Weight * n.size(theta)
	}
	return sum
}

// normsGradient adds scale times the gradient of the norms at θ to dst, which is 0 where they hold slopes.
func (p *Penalty) normsGradient(dst, theta []float64, scale float64) {
	for _, n := range p.Norms {
		size := n.size(theta)
		for _, at := range n.At {
			if size == 0 {
				dst[at] = 0
			} else {
				dst[at] += scale * n.Weight * theta[at] / size
			}
		}
	}
}

// normsHessian adds scale times the Hessian of the norms at θ, weight/‖θ_g‖·(I − uuᵀ) with u = θ_g/‖θ_g‖, to h.
func (p *Penalty) normsHessian(h *mat.SymDense, theta []float64, scale float64) {
	for _, n := range p.Norms {
		size := n.size(theta)
		for i, a := range n.At {
			if size == 0 {
				for j := range h.SymmetricDim() {
					h.SetSym(a, j, 0)
				}
				h.SetSym(a, a, 1)
				continue
			}
			for j, b := range n.At[i:] {
				v := -theta[a] / size * theta[b] / size
				if j == 0 {
					v++
				}
				h.SetSym(a, b, h.At(a, b)+scale*n.Weight/size*v)
			}
		}
	}
}
