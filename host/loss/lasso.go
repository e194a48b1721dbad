package loss

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Norm is slopes of an expert, by their places in θ, whose norm costs Weight times itself of the total log-likelihood.
type Norm struct {
	At     []int
	Weight float64
}

// ExpertNorms are, of every expert, the free slopes of each of these sets of features, of weight √m for m of them.
func (l *ridges) ExpertNorms(sets [][]int) (out []Norm) {
	if !l.of.free.Regressors {
		return nil
	}
	for i := range l.of.k {
		for _, features := range sets {
			var at []int
			for _, feature := range features {
				for _, c := range l.of.slopes {
					if l.of.expert[c] == feature {
						at = append(at, l.of.regressor(i)+c)
					}
				}
			}
			if len(at) > 0 {
				out = append(out, Norm{at, math.Sqrt(float64(len(at)))})
			}
		}
	}
	return out
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

// PenaliseNorms adds a group lasso on the experts to what is minimised,
//
//	L(θ) + (1/n)·Σ_g weight_g·‖θ_g‖
//
// over norms that do not overlap; nil is none. It enters [Likelihood.Value], Grad and Hessian as what it is where norms
// are not 0. Slopes that are 0 are held there: they have no gradient, and the row of the identity in the Hessian. So
// these are of the likelihood of the slopes that are left, and what moves slopes to 0 and away from it is
// optim.Proximal on the likelihood without. It panics where experts share coefficients or have an output, and EMStep
// and HessianTimes panic under it.
func (l *ridges) PenaliseNorms(norms []Norm) {
	if norms != nil && (l.of.ties != nil || l.of.outputs > 0) {
		panic("loss: a lasso on experts with shared coefficients or outputs")
	}
	l.norms = norms
}

// Norms are those that are penalised.
func (l *ridges) Norms() []Norm { return l.norms }

// noNorms panics where there are norms, for what does not know them.
func (l *ridges) noNorms() {
	if l.norms != nil {
		panic("loss: a step that knows no lasso")
	}
}

// size is the norm of the slopes at θ.
func (n Norm) size(theta []float64) (size float64) {
	for _, at := range n.At {
		size = math.Hypot(size, theta[at])
	}
	return size
}

// AtZero says of every place of θ whether a lasso holds it at 0 there.
func (l *ridges) AtZero(theta []float64) []bool {
	out := make([]bool, len(l.of.parameters))
	for _, n := range l.norms {
		for _, at := range n.At {
			out[at] = n.size(theta) == 0
		}
	}
	return out
}

// normsPenalty is Σ weight·‖θ_g‖.
func (l *ridges) normsPenalty(theta []float64) (sum float64) {
	for _, n := range l.norms {
		sum += n.Weight * n.size(theta)
	}
	return sum
}

// normsGradient adds scale times the gradient of the norms at θ to dst, which is 0 where they hold slopes.
func (l *ridges) normsGradient(dst, theta []float64, scale float64) {
	for _, n := range l.norms {
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
func (l *ridges) normsHessian(h *mat.SymDense, theta []float64, scale float64) {
	for _, n := range l.norms {
		size := n.size(theta)
		for i, a := range n.At {
			if size == 0 {
				for j := range l.of.parameters {
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
