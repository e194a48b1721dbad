package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/shrinkage"
)

// newPenalty returns a penalty of nothing yet on the free coefficients but the intercepts.
func (o *layout) newPenalty() shrinkage.Penalty {
	var columns [][]int
	for _, rows := range o.nodes {
		for c, feature := range o.gate {
			if feature == o.d || !o.free.Gating {
				continue
			}
			column := make([]int, len(rows))
			for i, j := range rows {
				column[i] = o.row(j) + c
			}
			columns = append(columns, column)
		}
	}
	var slopes []int
	if o.free.Regressors {
		for i := range o.k {
			for _, c := range o.slopes {
				slopes = append(slopes, o.regressor(i)+c)
			}
		}
	}
	return shrinkage.New(columns, slopes)
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
func (l *surface[P]) PenaliseGate(tau float64) {
	l.penalty.Gate, l.held.taken = tau, false
}

// PenaliseExperts adds a ridge on the experts to what is minimised,
//
//	L(θ) + (τ/2n)·Σ_i ‖a_i‖²
//
// over all experts, whose intercepts are not penalised. Else it is as [Likelihood.PenaliseGate]. It panics where
// experts share coefficients or have an output.
func (l *surface[P]) PenaliseExperts(tau float64) {
	if tau > 0 && (l.ties != nil || l.outputs > 0) {
		panic("loss: a ridge on experts with shared coefficients or outputs")
	}
	l.penalty.Experts = tau
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
func (l *surface[P]) PenaliseNorms(norms []shrinkage.Norm) {
	if norms != nil && (l.ties != nil || l.outputs > 0) {
		panic("loss: a lasso on experts with shared coefficients or outputs")
	}
	l.penalty.Norms = norms
}

// noNorms panics where there are norms, for what does not know them.
func (l *surface[P]) noNorms() {
	if l.penalty.Norms != nil {
		panic("loss: a step that knows no lasso")
	}
}

// Norms are those that are penalised.
func (l *surface[P]) Norms() []shrinkage.Norm { return l.penalty.Norms }

// ExpertNorms are, of every expert, the free slopes of each of these sets of features, of weight √m for m of them.
func (l *surface[P]) ExpertNorms(sets [][]int) (out []shrinkage.Norm) {
	if !l.free.Regressors {
		return nil
	}
	for i := range l.k {
		for _, features := range sets {
			var at []int
			for _, feature := range features {
				for _, c := range l.layout.slopes {
					if l.expert[c] == feature {
						at = append(at, l.regressor(i)+c)
					}
				}
			}
			if len(at) > 0 {
				out = append(out, shrinkage.Norm{At: at, Weight: math.Sqrt(float64(len(at)))})
			}
		}
	}
	return out
}

// AtZero says of every place of θ whether a lasso holds it at 0 there.
func (l *surface[P]) AtZero(theta []float64) []bool { return l.penalty.AtZero(theta) }

// Ridge says whether there is one on the gate.
func (l *surface[P]) Ridge() bool { return l.penalty.Gate > 0 }

// Penalty returns (τ/2)·Σ_i ‖w_i − w̄‖² at θ, and likewise of the experts, with the norms: what is taken off the total
// log-likelihood. It writes the gradient to grad if that is not nil.
func (l *surface[P]) Penalty(grad, theta []float64) float64 {
	if grad != nil {
		clear(grad)
		l.penalty.Gradient(grad, theta, 1)
	}
	return l.penalty.Value(theta)
}

// objective is what is minimised at θ, of which the rows' log-likelihood is given.
func (l *surface[P]) objective(loglik float64, theta []float64) float64 {
	return (l.penalty.Value(theta) - loglik) / l.n
}

// AddPenalty adds the second derivatives of the penalty to h, an information at θ, and takes its gradient off the
// score: both are then those of the log-likelihood less the penalty.
func (l *surface[P]) AddPenalty(h *mat.SymDense, score, theta []float64) {
	l.penalty.Hessian(h, theta, 1)
	l.penalty.Gradient(score, theta, -1)
}

// penalised returns the score of the gate's rows, less that of the penalty at θ.
func (l *surface[P]) penalised(score, theta []float64) []float64 {
	if l.penalty.Gate == 0 || !l.free.Gating {
		return score
	}
	if l.score == nil {
		l.score = make([]float64, len(l.parameters))
	}
	clear(l.score)
	l.penalty.Gradient(l.score, theta, -1)
	return floats.AddTo(l.gating(l.score), l.gating(l.score), score)
}

// ReuseCurvature lets EM steps use the curvature of the gating from a step
// before while the gate is near to where it was: its Gram matrices, (k−1)k/2 of
// them, are most of what a step costs where there are many experts. EM then has
// the same fixed points and about the same speed.
func (l *surface[P]) ReuseCurvature() { l.reuse = true }
