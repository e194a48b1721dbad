// Package shrinkage has penalties on a vector θ of parameters that draw coefficients to 0, or to each other: ridges and
// a group lasso, with their derivatives. What is penalised is given by places in θ.
package shrinkage

import "gonum.org/v1/gonum/mat"

// Penalty is what is taken off the total log-likelihood at θ,
//
//	(τ/2)·Σ_i ‖w_i − w̄‖² + (τ_a/2)·Σ_i ‖a_i‖² + Σ_g weight_g·‖θ_g‖
//
// over all branches of a gate, the last of which is 0, and w̄ their mean, summed over the gates of a tree; over the
// slopes of the experts; and over norms that do not overlap. The zero value is none.
type Penalty struct {
	Gate    float64 // τ; 0 is no ridge
	Experts float64 // τ_a, likewise
	Norms   []Norm  // nil is no lasso

	columns [][]int // see New
	slopes  []int
}

// New returns a penalty of nothing yet. Columns are, of every feature in every gate, the places in θ of its
// coefficients in the branches but the last; slopes those of the experts.
func New(columns [][]int, slopes []int) Penalty { return Penalty{columns: columns, slopes: slopes} }

// branches is how many a gate has whose rows but the last are in column.
func branches(column []int) float64 { return float64(len(column) + 1) }

// Value returns the penalty at θ.
func (p *Penalty) Value(theta []float64) float64 {
	squares := 0.0
	if p.Experts != 0 {
		for _, at := range p.slopes {
			squares += theta[at] * theta[at]
		}
	}
	return p.gateValue(theta) + p.Experts/2*squares + p.normsValue(theta)
}

func (p *Penalty) gateValue(theta []float64) float64 {
	if p.Gate == 0 {
		return 0
	}
	sum := 0.0
	for _, column := range p.columns {
		mean, squares := 0.0, 0.0
		for _, at := range column {
			mean += theta[at] / branches(column)
			squares += theta[at] * theta[at]
		}
		sum += squares - branches(column)*mean*mean
	}
	return p.Gate / 2 * sum
}

// Gradient adds scale times the gradient of the penalty at θ to dst, which is 0 where norms hold coefficients at 0.
func (p *Penalty) Gradient(dst, theta []float64, scale float64) {
	if p.Experts != 0 {
		for _, at := range p.slopes {
			dst[at] += scale * p.Experts * theta[at]
		}
	}
	p.normsGradient(dst, theta, scale)
	if p.Gate == 0 {
		return
	}
	for _, column := range p.columns {
		mean := 0.0
		for _, at := range column {
			mean += theta[at] / branches(column)
		}
		for _, at := range column {
			dst[at] += scale * p.Gate * (theta[at] - mean)
		}
	}
}

// Hessian adds scale times the Hessian of the penalty at θ to h: that of the gate, τ_a for every slope of an expert,
// and that of the norms, which is the row of the identity where they hold coefficients at 0.
func (p *Penalty) Hessian(h *mat.SymDense, theta []float64, scale float64) {
	if p.Experts != 0 {
		for _, at := range p.slopes {
			h.SetSym(at, at, h.At(at, at)+scale*p.Experts)
		}
	}
	p.GateHessian(h, scale, 0)
	p.normsHessian(h, theta, scale)
}

// GateHessian adds scale times the Hessian of the ridge on the gate, τ(δ_ij − 1/k) for every feature of every gate, to
// h, whose first row is that of place from in θ.
func (p *Penalty) GateHessian(h *mat.SymDense, scale float64, from int) {
	if p.Gate == 0 {
		return
	}
	for _, column := range p.columns {
		for i, a := range column {
			for j, b := range column[i:] {
				v := -1 / branches(column)
				if j == 0 {
					v++
				}
				h.SetSym(a-from, b-from, h.At(a-from, b-from)+scale*p.Gate*v)
			}
		}
	}
}

// Diagonal adds the diagonal of the ridges' Hessian, over n, to dst.
func (p *Penalty) Diagonal(dst []float64, n float64) {
	if p.Gate != 0 {
		for _, column := range p.columns {
			for _, at := range column {
				dst[at] += p.Gate * (1 - 1/branches(column)) / n
			}
		}
	}
	if p.Experts != 0 {
		for _, at := range p.slopes {
			dst[at] += p.Experts / n
		}
	}
}
