package loss

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// ridges are those on the gate and on the experts of a likelihood of n rows. They are embedded in the
// likelihoods that may have one.
type ridges struct {
	of         *layout
	n          float64       // rows, or the sum of their weights
	tau        float64       // of the gate; 0: no ridge
	tauExperts float64       // of the experts; likewise
	norms      []Norm        // a lasso on them; nil: none
	held       gateCurvature // of the gate's M-step, with the ridge
	reuse      bool          // of held
	score      []float64     // room for that of the gate, and the places of a feature in it, see penalised
	column     []int
}

// PenaliseGate adds a ridge on the gate to what is minimised,
//
//	L(θ) + (τ/2n)·Σ_i ‖w_i − w̄‖²
//
// over all k branches of a gate, the last of which is 0, and w̄ their mean, so that it does not
// matter which of them is the last, and summed over the gates of a tree; intercepts are not
// penalised. τ is in units of the
// total log-likelihood and of the features as they are in the rows. It enters
// [Likelihood.Value], Grad, Hessian and EMStep. [Likelihood.LogLikelihood],
// Information and what else is reported stay without it. Where experts are told
// apart with certainty the likelihood alone has no maximum at a finite gate; with the
// ridge it has.
func (l *ridges) PenaliseGate(tau float64) {
	l.tau, l.held.taken = tau, false
}

// PenaliseExperts adds a ridge on the experts to what is minimised,
//
//	L(θ) + (τ/2n)·Σ_i ‖a_i‖²
//
// over all experts, whose intercepts are not penalised. Else it is as [Likelihood.PenaliseGate]. It panics where
// experts share coefficients or have an output.
func (l *ridges) PenaliseExperts(tau float64) {
	if tau > 0 && (l.of.ties != nil || l.of.outputs > 0) {
		panic("loss: a ridge on experts with shared coefficients or outputs")
	}
	l.tauExperts = tau
}

// Ridge says whether there is one on the gate.
func (l *ridges) Ridge() bool { return l.tau > 0 }

// Penalty returns (τ/2)·Σ_i ‖w_i − w̄‖² at θ, and likewise of the experts, with the norms: what is taken off the total
// log-likelihood. It writes the gradient to grad if that is not nil.
func (l *ridges) Penalty(grad, theta []float64) float64 {
	if grad != nil {
		clear(grad)
		l.penaliseGradient(grad, theta, 1)
	}
	squares := 0.0
	l.eachSlope(func(at int) { squares += theta[at] * theta[at] })
	return l.gatePenalty(theta) + l.tauExperts/2*squares + l.normsPenalty(theta)
}

func (l *ridges) gatePenalty(theta []float64) float64 {
	if l.tau == 0 {
		return 0
	}
	sum := 0.0
	l.eachPenalised(func(column []int) {
		mean, squares := 0.0, 0.0
		for _, at := range column {
			mean += theta[at] / branches(column)
			squares += theta[at] * theta[at]
		}
		sum += squares - branches(column)*mean*mean
	})
	return l.tau / 2 * sum
}

// objective is what is minimised at θ, of which the rows' log-likelihood is given.
func (l *ridges) objective(loglik float64, theta []float64) float64 {
	return (l.Penalty(nil, theta) - loglik) / l.n
}

// penaliseGradient adds scale times the gradient of the penalty at θ to dst.
func (l *ridges) penaliseGradient(dst, theta []float64, scale float64) {
	l.eachSlope(func(at int) { dst[at] += scale * l.tauExperts * theta[at] })
	l.normsGradient(dst, theta, scale)
	if l.tau == 0 {
		return
	}
	l.eachPenalised(func(column []int) {
		mean := 0.0
		for _, at := range column {
			mean += theta[at] / branches(column)
		}
		for _, at := range column {
			dst[at] += scale * l.tau * (theta[at] - mean)
		}
	})
}

// penaliseHessian adds scale times the Hessian of the penalty, τ(δ_ij − 1/k) for
// every feature of every gate and τ for every slope of an expert, to h, whose first row is that of place from in θ.
func (l *ridges) penaliseHessian(h *mat.SymDense, scale float64, from int) {
	if from == 0 {
		l.eachSlope(func(at int) { h.SetSym(at, at, h.At(at, at)+scale*l.tauExperts) })
	}
	if l.tau == 0 {
		return
	}
	l.eachPenalised(func(column []int) {
		for i, a := range column {
			for j, b := range column[i:] {
				v := -1 / branches(column)
				if j == 0 {
					v++
				}
				h.SetSym(a-from, b-from, h.At(a-from, b-from)+scale*l.tau*v)
			}
		}
	})
}

// AddPenalty adds the second derivatives of the penalty to h, an information at θ, and takes its gradient off the
// score: both are then those of the log-likelihood less the penalty.
func (l *ridges) AddPenalty(h *mat.SymDense, score, theta []float64) {
	l.penaliseHessian(h, 1, 0)
	l.normsHessian(h, theta, 1)
	l.penaliseGradient(score, theta, -1)
}

// branches is how many a gate has whose rows but the last are in column.
func branches(column []int) float64 { return float64(len(column) + 1) }

// eachSlope calls fn with the place in θ of every expert's free coefficients but the intercepts, if there is a ridge
// on them.
func (l *ridges) eachSlope(fn func(at int)) {
	if l.tauExperts == 0 || !l.of.free.Regressors {
		return
	}
	for i := range l.of.k {
		for _, c := range l.of.slopes {
			fn(l.of.regressor(i) + c)
		}
	}
}

// eachPenalised calls fn with the places in θ of every feature's free coefficients in
// the rows of every gate.
func (l *ridges) eachPenalised(fn func(column []int)) {
	if !l.of.free.Gating {
		return
	}
	for _, rows := range l.of.nodes {
		l.column = append(l.column[:0], rows...)
		column := l.column
		for c, feature := range l.of.gate {
			if feature == l.of.d {
				continue
			}
			for i, j := range rows {
				column[i] = l.of.row(j) + c
			}
			fn(column)
		}
	}
}

// penalised returns the score of the gate's rows, less that of the penalty at θ.
func (l *ridges) penalised(score, theta []float64) []float64 {
	if l.tau == 0 || !l.of.free.Gating {
		return score
	}
	if l.score == nil {
		l.score = make([]float64, len(l.of.parameters))
	}
	clear(l.score)
	l.penaliseGradient(l.score, theta, -1)
	return floats.AddTo(l.of.gating(l.score), l.of.gating(l.score), score)
}

// ReuseCurvature lets EM steps use the curvature of the gating from a step
// before while the gate is near to where it was: its Gram matrices, (k−1)k/2 of
// them, are most of what a step costs where there are many experts. EM then has
// the same fixed points and about the same speed.
func (l *ridges) ReuseCurvature() { l.reuse = true }
