package mixture

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// second is what the second derivatives are made of, for any [Density] and any
// [CurvedGate]: the posterior mean of the complete-data information less the posterior
// covariance of the complete-data scores (Louis 1982). Of [Gaussian], with e = (y−m)/σ, f = g′/σ, q = e²−1, r the
// posterior, z_i the expert's linear predictor and η_j the gate's, minus the second derivative of a
// row's log p(y|x) is
//
//	z_i z_i:  r_i·f_i² − r_i(1−r_i)·(e_i f_i)² [− r_i·e_i·g″_i/σ_i]
//	z_i z_j:  r_i r_j·(e_i f_i)(e_j f_j)
//	z_i η_j:  −r_i(c_ij − c̄_j)·e_i f_i                       [CurvedGate.Cross]
//	η_j η_m:  complete information less posterior covariance  [CurvedGate]
//
// and with log σ_m, of own noise for every expert, likewise
//
//	log σ_m, z_i:      r_i r_m·e_i f_i·q_m + δ_im·r_i·e_i f_i·(2 − q_i)
//	log σ_m, η_j:      −r_m(c_mj − c̄_j)·q_m
//	log σ_m, log σ_i:  r_m r_i·q_m q_i + δ_im·r_m·(2e_m² − q_m²)
//
// and their sums over m where the noise is shared. For f(⟨a,x⟩) these are times
// x xᵀ in a. Of any other density e_i f_i is u_i·g′_i, f_i² is −∂²log f_i/∂m_i²·g′_i², e_i/σ_i at g″_i is u_i,
// q_i is ∂log f_i/∂log ψ_i, for every ψ_q, and 2e_i f_i and 2e_i² are minus the second derivatives ([Terms]).
type second struct {
	lever []float64 // f_i, of Gaussian
	score []float64 // e_i·f_i
	q     []float64 // q_i, K rows for every own parameter
	own   []float64 // 2e_i², of Gaussian
	mean  []float64 // Σ_i r_i·q_i, N values for every own parameter, where they are shared
	room  []float64 // N values
}

// Differentiate takes the slopes g′_i of the experts, K rows of N values (nil: the
// experts' means are fixed), after Observe. The mixture must be [Mixture.Curved].
func (r *Posterior) Differentiate(slopes []float64) {
	if r.lever == nil {
		kn, own := len(r.scores), max(1, len(r.Density.Own())) // Times has a mean of its own
		r.second = second{
			lever: make([]float64, kn), score: make([]float64, kn), q: make([]float64, own*kn),
			own:  make([]float64, kn),
			mean: make([]float64, own*model.BlockRows), room: make([]float64, model.BlockRows),
		}
	}
	if !Normal(r.Density) {
		r.differentiateGeneral(slopes)
		return
	}
	if slopes == nil {
		clear(r.lever)
		clear(r.score)
		return
	}
	for i := range r.K {
		inv := 1 / r.P.SigmaOf(i)
		lever, score, e := r.of(r.lever, i), r.of(r.score, i), r.StdOf(i)
		for t, v := range r.of(slopes, i) {
			f := v * inv
			lever[t], score[t] = f, e[t]*f
		}
	}
}

// ExpertExpert writes −∂²log p(y|x)/∂z_i∂z_j to dst, N values. bend is g″_i, or nil
// where the term in it is left out: its mean is 0 at the true parameters.
func (r *Posterior) ExpertExpert(dst []float64, i, j int, bend []float64) {
	ri, si := r.PostOf(i), r.of(r.score, i)
	if i != j && r.Speaks != nil {
		clear(dst)
		return
	}
	if i != j {
		rj, sj := r.PostOf(j), r.of(r.score, j)
		for t, p := range ri {
			dst[t] = p * rj[t] * si[t] * sj[t]
		}
		return
	}
	r.complete(dst, i)
	if r.Speaks == nil {
		for t, p := range ri {
			dst[t] -= p * (1 - p) * si[t] * si[t]
		}
	}
	if bend != nil {
		r.addBend(dst, i, bend)
	}
}

// complete writes r_i·f_i² to dst, or what it is of another density.
func (r *Posterior) complete(dst []float64, i int) {
	post := r.PostOf(i)
	if !Normal(r.Density) {
		kernel.Mul(dst, post, r.of(r.general.info, i))
		return
	}
	fi := r.of(r.lever, i)
	for t, p := range post {
		dst[t] = p * fi[t] * fi[t]
	}
}

// addBend takes r_i·e_i·g″_i/σ_i off dst, or what it is of another density.
func (r *Posterior) addBend(dst []float64, i int, bend []float64) {
	post := r.PostOf(i)
	if !Normal(r.Density) {
		for t, u := range r.terms(i).Score {
			dst[t] -= post[t] * u * bend[t]
		}
		return
	}
	inv, e := 1/r.P.SigmaOf(i), r.StdOf(i)
	for t, p := range post {
		dst[t] -= p * e[t] * bend[t] * inv
	}
}

// ExpertGate writes −∂²log p(y|x)/∂z_i∂η_j to dst, N values.
func (r *Posterior) ExpertGate(dst []float64, i, j int) {
	if r.Speaks != nil {
		clear(dst)
		return
	}
	r.Gate.(CurvedGate).Cross(dst, i, j, r.of(r.score, i), r)
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

// Times writes minus the second derivatives of log p(y|x) times a direction, under the gate
// [Flat] and without the terms in g″, after Differentiate: in a number of steps that grows as K where that of their
// pairs grows as K². With u_i, q_i and s_i the direction's z_i, η_i (0 for the last) and log σ_i,
// t_i = e_i f_i·u_i + q_i + s_i·(e_i²−1) the directional score of the complete data, t̄ its
// posterior mean and q̄ the prior mean of q, they are
//
//	z_i:      r_i·f_i·(f_i·u_i + 2e_i·s_i) − r_i(t_i − t̄)·e_i f_i
//	η_i:      p_i(q_i − q̄) − r_i(t_i − t̄)
//	log σ_i:  r_i·2e_i·(f_i·u_i + e_i·s_i) − r_i(t_i − t̄)·(e_i²−1)
//
// the last summed over i where the noise is shared. expert, gates, u and q are K rows of N values,
// levels as many as noise has.
func (r *Posterior) Times(expert, gates, levels, u, q, noise []float64) {
	if !Normal(r.Density) {
		r.timesGeneral(expert, gates, levels, u, q, noise)
		return
	}
	n := r.N
	mean, drift := r.mean[:n], r.room[:n]
	clear(mean)
	clear(drift)
	clear(levels[:len(noise)*n])
	for i := range r.K {
		s := noise[min(i, len(noise)-1)]
		along, post, prior := r.of(gates, i), r.PostOf(i), r.PriorOf(i)
		score, e, ui, qi := r.of(r.score, i), r.StdOf(i), r.of(u, i), r.of(q, i)
		for t := range along {
			v := score[t]*ui[t] + qi[t] + s*(e[t]*e[t]-1)
			along[t] = v
			mean[t] += post[t] * v
			drift[t] += prior[t] * qi[t]
		}
	}
	for i := range r.K {
		m := min(i, len(noise)-1)
		s, level := noise[m], levels[m*n:(m+1)*n]
		along, post, prior := r.of(gates, i), r.PostOf(i), r.PriorOf(i)
		score, lever, e, ui, qi := r.of(r.score, i), r.of(r.lever, i), r.StdOf(i), r.of(u, i), r.of(q, i)
		dst := r.of(expert, i)
		for t, f := range lever {
			missing := post[t] * (along[t] - mean[t])
			dst[t] = post[t]*f*(f*ui[t]+2*e[t]*s) - missing*score[t]
			level[t] += post[t]*2*e[t]*(f*ui[t]+e[t]*s) - missing*(e[t]*e[t]-1)
			along[t] = prior[t]*(qi[t]-drift[t]) - missing
		}
	}
}

// ownScoreOf returns ∂log f_i/∂log ψ_iq of the N rows, after DifferentiateNoise.
func (r *Posterior) ownScoreOf(i, q int) []float64 { return r.of(r.q, q*r.K+i) }

// ownInformationOf returns −∂²log f_i/∂log ψ_iq∂log ψ_ip of the N rows, likewise.
func (r *Posterior) ownInformationOf(i, q, p int) []float64 {
	if Normal(r.Density) {
		return r.of(r.own, i)
	}
	return r.terms(i).OwnInformation[OwnAt(q, p)]
}

// meanOf returns Σ_i r_i·∂log f_i/∂log ψ_iq of the N rows, likewise.
func (r *Posterior) meanOf(q int) []float64 { return r.of(r.mean, q) }

// DifferentiateNoise readies the derivatives by log ψ, after Differentiate.
func (r *Posterior) DifferentiateNoise() {
	owns := len(r.Density.Own())
	if Normal(r.Density) {
		q, own := r.q[:r.K*r.N], r.own[:r.K*r.N]
		for t, e := range r.Std {
			q[t], own[t] = e*e-1, 2*(e*e)
		}
	} else {
		for q := range owns {
			for i := range r.K {
				copy(r.ownScoreOf(i, q), r.terms(i).OwnScore[q])
			}
		}
	}
	for q := range owns {
		mean := r.meanOf(q)
		clear(mean)
		for i := range r.K {
			qi := r.ownScoreOf(i, q)
			for t, p := range r.PostOf(i) {
				mean[t] += p * qi[t]
			}
		}
	}
}

// NoiseExpert writes −∂²log p(y|x)/∂log ψ_m∂z_i to dst, N values, m a place as of [Posterior.NoiseScore].
func (r *Posterior) NoiseExpert(dst []float64, m, i int) {
	if r.Speaks != nil {
		r.completeNoiseExpert(dst, m, i)
		return
	}
	if !Normal(r.Density) {
		r.ownExpert(dst, m, i)
		return
	}
	si, qi := r.of(r.score, i), r.of(r.q, i)
	if len(r.P.Sigma) == 1 {
		mean := r.mean[:r.N]
		for t, p := range r.PostOf(i) {
			dst[t] = p * si[t] * (2 - (qi[t] - mean[t]))
		}
		return
	}
	rm, qm := r.PostOf(m), r.of(r.q, m)
	for t, p := range r.PostOf(i) {
		dst[t] = p * si[t] * rm[t] * qm[t]
		if i == m {
			dst[t] += p * si[t] * (2 - qm[t])
		}
	}
}

// NoiseGate writes −∂²log p(y|x)/∂log ψ_m∂η_j to dst, N values.
func (r *Posterior) NoiseGate(dst []float64, m, j int) {
	if r.Speaks != nil {
		clear(dst)
		return
	}
	gate := r.Gate.(CurvedGate)
	q, whose := r.level(m)
	if len(r.P.Sigma) == 1 {
		gate.Across(dst, j, r.q[q*r.K*r.N:(q+1)*r.K*r.N], r.meanOf(q), r)
		return
	}
	gate.Cross(dst, whose, j, r.ownScoreOf(whose, q), r)
}

// NoiseNoise writes −∂²log p(y|x)/∂log ψ_a∂log ψ_b to dst, N values.
func (r *Posterior) NoiseNoise(dst []float64, a, b int) {
	if r.Speaks != nil {
		r.completeNoiseNoise(dst, a, b)
		return
	}
	q, m := r.level(a)
	p, i := r.level(b)
	if len(r.P.Sigma) == 1 {
		r.sharedNoise(dst, q, p)
		return
	}
	rm, own, qm, pm, pi := r.PostOf(m), r.ownInformationOf(m, q, p), r.ownScoreOf(m, q), r.ownScoreOf(m, p),
		r.ownScoreOf(i, p)
	for t, post := range r.PostOf(i) {
		q := qm[t]
		dst[t] = rm[t] * q * post * pi[t]
		if i == m {
			dst[t] += post * (own[t] - q*pm[t])
		}
	}
}

// sharedNoise is NoiseNoise summed over all experts.
func (r *Posterior) sharedNoise(dst []float64, q, p int) {
	clear(dst)
	for i := range r.K {
		own, qi, pi := r.ownInformationOf(i, q, p), r.ownScoreOf(i, q), r.ownScoreOf(i, p)
		for t, post := range r.PostOf(i) {
			dst[t] += post * (own[t] - qi[t]*pi[t])
		}
	}
	mq, mp := r.meanOf(q), r.meanOf(p)
	for t, m := range mq {
		dst[t] += m * mp[t]
	}
}

// LinearScore returns ∂log f_i/∂z_i of the N rows, after Differentiate.
func (r *Posterior) LinearScore(i int) []float64 { return r.of(r.score, i) }

// OwnScoreOf returns ∂log f_i/∂log ψ_iq of the N rows, after DifferentiateNoise.
func (r *Posterior) OwnScoreOf(i, q int) []float64 { return r.ownScoreOf(i, q) }

// completeNoiseExpert writes −r_i·∂²log f_i/∂log ψ_m∂z_i to dst, 0 where ψ_m is not expert i's.
func (r *Posterior) completeNoiseExpert(dst []float64, m, i int) {
	q, whose := r.level(m)
	if len(r.P.Sigma) > 1 && i != whose {
		clear(dst)
		return
	}
	post := r.PostOf(i)
	if !Normal(r.Density) {
		kernel.Mul(dst, post, r.crossOf(i, q))
		return
	}
	for t, s := range r.of(r.score, i) {
		dst[t] = 2 * post[t] * s
	}
}

// completeNoiseNoise writes −Σ_i r_i·∂²log f_i/∂log ψ_a∂log ψ_b to dst, over the experts that have both.
func (r *Posterior) completeNoiseNoise(dst []float64, a, b int) {
	clear(dst)
	q, m := r.level(a)
	p, o := r.level(b)
	if m != o {
		return
	}
	for i := range r.K {
		if len(r.P.Sigma) > 1 && i != m {
			continue
		}
		own := r.ownInformationOf(i, q, p)
		for t, post := range r.PostOf(i) {
			dst[t] += post * own[t]
		}
	}
}
