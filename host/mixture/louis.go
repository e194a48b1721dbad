package mixture

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Complete are minus the second derivatives of the log-densities of experts, of each by its P linear predictors z_ia
// and its Q own parameters ψ_il, on a scale without bounds: log ψ of [Density]. Values are of the N rows of the block.
type Complete interface {
	// Predictors writes −r_i·∂²log f_i/∂z_ia∂z_ib, a ≤ b, without the term in g″.
	Predictors(dst []float64, i, a, b int)
	// Bend takes that term, r_i·∂log f_i/∂m_ia·g″, off dst.
	Bend(dst []float64, i, a int, bend []float64)
	// Cross writes r_i·(−∂²log f_i/∂z_ia∂ψ_il − s_ia·v), with v what dst was and s_ia = ∂log f_i/∂z_ia.
	Cross(dst []float64, i, a, l int)
	// OwnScore writes ∂log f_i/∂ψ_il.
	OwnScore(dst []float64, i, l int)
	// Own writes −∂²log f_i/∂ψ_il∂ψ_in, l ≤ n.
	Own(dst []float64, i, l, n int)
}

// second is what the second derivatives are made of, for any density and any [CurvedGate]: the posterior mean of the
// complete-data information less the posterior covariance of the complete-data scores (Louis 1982). With r the
// posterior, s_ia and q_il the derivatives of log f_i by its linear predictors and by its own parameters, [· ·] minus
// its second derivatives, η_j the gate's predictors and c_ij = ∂log P(z=i|x)/∂η_j, minus the second derivative of a
// row's log p(y|x) is
//
//	z_ia z_ib:  r_i·[z_ia z_ib] − r_i(1−r_i)·s_ia·s_ib
//	z_ia z_jb:  r_i r_j·s_ia·s_jb
//	z_ia η_j:   −r_i(c_ij − c̄_j)·s_ia                      [CurvedGate.Cross]
//	η_j η_m:    complete information less posterior covariance  [CurvedGate]
//
// and with ψ_ml, of own noise for every expert, likewise
//
//	ψ_ml, z_ia:  r_i r_m·s_ia·q_ml + δ_im·r_i·([z_ia ψ_il] − s_ia·q_il)
//	ψ_ml, η_j:   −r_m(c_mj − c̄_j)·q_ml
//	ψ_ml, ψ_in:  r_m r_i·q_ml·q_in + δ_im·r_i·([ψ_il ψ_in] − q_il·q_in)
//
// and their sums over m where the noise is shared. For f(⟨a,x⟩) these are times x xᵀ in a. Of rows in groups, whose
// experts [Posterior.Share] has made known, it is the posterior mean alone.
type second struct {
	complete         Complete
	predictors, owns int       // P and Q
	levels           int       // of the noise: one of all experts, or one of each
	score            []float64 // s_ia, K·P rows
	q                []float64 // q_il, K rows for every own parameter
	mean             []float64 // Σ_i r_i·q_il, N values for every own parameter, where they are shared
	room, own        []float64 // N values
	lever            []float64 // of experts with one predictor, g′/σ of Gaussian, −∂²log f_i/∂z² of others, without g″
}

// DifferentiateBy takes s_ia, K·P rows of N values, and what else the second derivatives of log p(y|x) are made of,
// after Infer. The experts have so many predictors and own parameters each, and so many levels of noise, one or K.
func (r *Posterior) DifferentiateBy(of Complete, score []float64, predictors, own, levels int) {
	if n := len(r.logJoint); r.room == nil {
		r.q, r.mean = make([]float64, own*r.K*n), make([]float64, max(1, own)*n) // Times has a mean of its own
		r.room, r.own = make([]float64, n), make([]float64, n)
	}
	r.complete, r.score, r.predictors, r.owns, r.levels = of, score, predictors, own, levels
}

// ExpertExpert writes −∂²log p(y|x)/∂z_i∂z_j to dst, N values, i ≤ j counting predictors of all experts. bend is g″ at
// z_i, or nil where the term in it is left out: its mean is 0 at the true parameters.
func (r *Posterior) ExpertExpert(dst []float64, i, j int, bend []float64) {
	e, o := i/r.predictors, j/r.predictors
	re, si, sj := r.PostOf(e), r.LinearScore(i), r.LinearScore(j)
	if e != o && r.Speaks != nil {
		clear(dst)
		return
	}
	if e != o {
		ro := r.PostOf(o)
		for t, p := range re {
			dst[t] = p * ro[t] * si[t] * sj[t]
		}
		return
	}
	r.complete.Predictors(dst, e, i%r.predictors, j%r.predictors)
	if r.Speaks == nil {
		for t, p := range re {
			dst[t] -= p * (1 - p) * si[t] * sj[t]
		}
	}
	if i == j && bend != nil {
		r.complete.Bend(dst, e, i%r.predictors, bend)
	}
}

// ExpertGate writes −∂²log p(y|x)/∂z_i∂η_j to dst, N values, i counting predictors of all experts.
func (r *Posterior) ExpertGate(dst []float64, i, j int) {
	if r.Speaks != nil {
		clear(dst)
		return
	}
	r.Gate.(CurvedGate).Cross(dst, i/r.predictors, j, r.LinearScore(i), r)
}

// GateComplete writes the complete-data information of η_j and η_m, j ≤ m, to dst,
// N values: the curvature of EM's M-step of the gate.
func (r *Posterior) GateComplete(dst []float64, j, m int) {
	r.Gate.(CurvedGate).Complete(dst, j, m, r)
	r.speak(dst)
}

// GateGate writes −∂²log p(y|x)/∂η_j∂η_m, j ≤ m, to dst, N values.
func (r *Posterior) GateGate(dst []float64, j, m int) {
	if r.Speaks != nil {
		r.GateComplete(dst, j, m)
		return
	}
	gate, missing := r.Gate.(CurvedGate), r.room[:r.N]
	gate.Complete(dst, j, m, r)
	gate.Missing(missing, j, m, r)
	floats.Sub(dst, missing)
}

// DifferentiateNoise readies the derivatives by ψ, after Differentiate or DifferentiateBy.
func (r *Posterior) DifferentiateNoise() {
	for l := range r.owns {
		mean := r.meanOf(l)
		clear(mean)
		for i := range r.K {
			q := r.OwnScoreOf(i, l)
			r.complete.OwnScore(q, i, l)
			for t, p := range r.PostOf(i) {
				mean[t] += p * q[t]
			}
		}
	}
}

// LinearScore returns s_i, ∂log f/∂z_i of the expert whose predictor i is, of the N rows, after Differentiate or
// DifferentiateBy.
func (r *Posterior) LinearScore(i int) []float64 { return r.of(r.score, i) }

// OwnScoreOf returns q_il of the N rows, after DifferentiateNoise.
func (r *Posterior) OwnScoreOf(i, l int) []float64 { return r.of(r.q, l*r.K+i) }

// meanOf returns Σ_i r_i·q_il of the N rows, likewise.
func (r *Posterior) meanOf(l int) []float64 { return r.of(r.mean, l) }

// NoiseExpert writes −∂²log p(y|x)/∂ψ_ml∂z_i to dst, N values, m a level of noise and i counting predictors of all
// experts.
func (r *Posterior) NoiseExpert(dst []float64, m, l, i int) {
	e, a := i/r.predictors, i%r.predictors
	shared := r.levels == 1
	switch {
	case r.Speaks != nil:
		clear(dst)
	case shared:
		kernel.Sub(dst, r.OwnScoreOf(e, l), r.meanOf(l))
	default:
		copy(dst, r.OwnScoreOf(m, l))
	}
	if shared || e == m {
		r.complete.Cross(dst, e, a, l)
	} else {
		clear(dst)
	}
	if shared || r.Speaks != nil {
		return
	}
	re, s, rm, q := r.PostOf(e), r.LinearScore(i), r.PostOf(m), r.OwnScoreOf(m, l)
	for t, p := range re {
		dst[t] += p * s[t] * rm[t] * q[t]
	}
}

// NoiseGate writes −∂²log p(y|x)/∂ψ_ml∂η_j to dst, N values, m a level of noise.
func (r *Posterior) NoiseGate(dst []float64, m, l, j int) {
	gate := r.Gate.(CurvedGate)
	switch {
	case r.Speaks != nil:
		clear(dst)
	case r.levels == 1:
		gate.Across(dst, j, r.q[l*r.K*r.N:(l+1)*r.K*r.N], r.meanOf(l), r)
	default:
		gate.Cross(dst, m, j, r.OwnScoreOf(m, l), r)
	}
}

// NoiseNoise writes −∂²log p(y|x)/∂ψ_ml∂ψ_on to dst, N values, m and o levels of noise.
func (r *Posterior) NoiseNoise(dst []float64, m, l, o, n int) {
	clear(dst)
	if r.levels > 1 {
		if r.Speaks == nil {
			rm, q, p := r.PostOf(m), r.OwnScoreOf(m, l), r.OwnScoreOf(o, n)
			for t, post := range r.PostOf(o) {
				dst[t] = rm[t] * q[t] * post * p[t]
			}
		}
		if m == o {
			r.addOwn(dst, m, l, n)
		}
		return
	}
	for i := range r.K {
		r.addOwn(dst, i, l, n)
	}
	if r.Speaks == nil {
		mean := r.meanOf(n)
		for t, m := range r.meanOf(l) {
			dst[t] += m * mean[t]
		}
	}
}

// addOwn adds r_i·([ψ_il ψ_in] − q_il·q_in) to dst.
func (r *Posterior) addOwn(dst []float64, i, l, n int) {
	own, q, p := r.own[:r.N], r.OwnScoreOf(i, l), r.OwnScoreOf(i, n)
	r.complete.Own(own, i, min(l, n), max(l, n))
	for t, post := range r.PostOf(i) {
		if r.Speaks == nil {
			own[t] -= q[t] * p[t]
		}
		dst[t] += post * own[t]
	}
}

// TakeMissing takes off h, an information of complete data, what not knowing z takes off it: their scores' posterior
// covariance, Σ_i r_i·(s_i − s̄)·(s_i − s̄)ᵀ with s̄ = Σ_i r_i·s_i, times weight. The scores and mean are used up.
func TakeMissing(h *mat.SymDense, weight float64, post []float64, scores []*mat.VecDense, mean *mat.VecDense) {
	mean.Zero()
	for i, s := range scores {
		mean.AddScaledVec(mean, post[i], s)
	}
	for i, s := range scores {
		if post[i] > 0 {
			s.SubVec(s, mean)
			h.SymRankOne(h, -weight*post[i], s)
		}
	}
}

// Argument is one of those that log p(y|x) is differentiated by: predictor Index of the experts or of the gate, or own
// parameter Own at level Index of the noise.
type Argument struct {
	Part       model.ParamPart
	Index, Own int
}

// By writes ∂log p(y|x)/∂a to dst, N values, after DifferentiateNoise.
func (r *Posterior) By(dst []float64, a Argument) {
	switch a.Part {
	case model.Expert:
		kernel.Mul(dst, r.PostOf(a.Index/r.predictors), r.LinearScore(a.Index))
	case model.Gate:
		r.GateScore(dst, a.Index)
	default:
		if r.levels == 1 {
			copy(dst, r.meanOf(a.Own))
			return
		}
		kernel.Mul(dst, r.PostOf(a.Index), r.OwnScoreOf(a.Index, a.Own))
	}
}

// ByBoth writes −∂²log p(y|x)/∂a∂b to dst, N values, likewise, b not before a: experts, gate, noise. bend is as of
// ExpertExpert.
func (r *Posterior) ByBoth(dst []float64, a, b Argument, bend []float64) {
	switch {
	case b.Part == model.Expert:
		r.ExpertExpert(dst, a.Index, b.Index, bend)
	case b.Part == model.Gate && a.Part == model.Expert:
		r.ExpertGate(dst, a.Index, b.Index)
	case b.Part == model.Gate:
		r.GateGate(dst, a.Index, b.Index)
	case a.Part == model.Expert:
		r.NoiseExpert(dst, b.Index, b.Own, a.Index)
	case a.Part == model.Gate:
		r.NoiseGate(dst, b.Index, b.Own, a.Index)
	default:
		r.NoiseNoise(dst, a.Index, a.Own, b.Index, b.Own)
	}
}
