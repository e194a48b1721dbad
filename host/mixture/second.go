package mixture

import (
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// single are the derivatives of experts with one predictor each. With e = (y−m)/σ and f = g′/σ they are of [Gaussian]
//
//	z:  s = e·f,  [z z] = f²[ − e·g″/σ]    log σ:  q = e²−1,  [z log σ] = 2e·f,  [log σ log σ] = 2e²
//
// and of any other density s = u·g′, [z z] = −∂²log f/∂m²·g′²[ − u·g″], and so on, of its [Terms].
type single struct{ *Posterior }

// Single are the derivatives of experts with one predictor each.
func (r *Posterior) Single() Complete { return single{r} }

// Differentiate takes the slopes g′_i of the experts, K rows of N values (nil: the
// experts' means are fixed), after Observe. The mixture must be [Mixture.Curved].
func (r *Posterior) Differentiate(slopes []float64) {
	if r.lever == nil {
		r.lever, r.score = make([]float64, len(r.std)), make([]float64, len(r.std))
	}
	if !Normal(r.Density) && r.general.cross == nil {
		r.general.cross = make([]float64, len(r.Density.Own())*len(r.scores))
	}
	r.DifferentiateBy(single{r}, r.score, 1, len(r.Density.Own()), max(1, len(r.P.Sigma)))
	if slopes == nil {
		clear(r.lever)
		clear(r.score)
		clear(r.general.cross)
		return
	}
	if !Normal(r.Density) {
		r.differentiateGeneral(slopes)
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

// Predictors implements [Complete].
func (r single) Predictors(dst []float64, i, _, _ int) {
	post, fi := r.PostOf(i), r.of(r.lever, i)
	if !Normal(r.Density) {
		kernel.Mul(dst, post, fi)
		return
	}
	for t, p := range post {
		dst[t] = p * fi[t] * fi[t]
	}
}

// Bend implements [Complete].
func (r single) Bend(dst []float64, i, _ int, bend []float64) {
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

// Cross implements [Complete].
func (r single) Cross(dst []float64, i, _, l int) {
	post, score := r.PostOf(i), r.LinearScore(i)
	if Normal(r.Density) {
		for t, v := range dst {
			dst[t] = post[t] * score[t] * (2 - v)
		}
		return
	}
	cross := r.crossOf(i, l)
	for t, v := range dst {
		dst[t] = post[t] * (cross[t] - score[t]*v)
	}
}

// OwnScore implements [Complete].
func (r single) OwnScore(dst []float64, i, l int) {
	if !Normal(r.Density) {
		copy(dst, r.terms(i).OwnScore[l])
		return
	}
	for t, e := range r.StdOf(i) {
		dst[t] = e*e - 1
	}
}

// Own implements [Complete].
func (r single) Own(dst []float64, i, l, n int) {
	if !Normal(r.Density) {
		copy(dst, r.terms(i).OwnInformation[OwnAt(l, n)])
		return
	}
	for t, e := range r.StdOf(i) {
		dst[t] = 2 * (e * e)
	}
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

// general is what a density other than [Gaussian] says of a block, K rows of N values each.
type general struct {
	y, mean []float64 // of the block
	derived bool      // whether what follows is that of the block
	of      []Terms   // of every expert, N values
	room    []Terms   // BlockRows values
	working []float64 // u/E[−∂²log f/∂m²]
	cross   []float64 // −∂²log f/∂z∂log ψ_q, Q times as many, after Differentiate
}

// ObserveMeans takes targets y, N values, and the means m_i(x), K rows of N values: Observe, for
// any density.
func (r *Posterior) ObserveMeans(y, mean []float64) {
	n := r.N
	if Normal(r.Density) {
		if r.residuals == nil {
			r.residuals = make([]float64, r.K*model.BlockRows)
		}
		res := r.residuals[:r.K*n]
		for i := range r.K {
			for t, v := range y {
				res[i*n+t] = v - mean[i*n+t]
			}
		}
		r.Observe(res, 0)
		return
	}
	r.general.y, r.general.mean, r.general.derived = y, mean, false
	for i := range r.K {
		r.Density.LogDensity(r.PostOf(i), r.of(r.Scores, i), y, r.of(mean, i), r.psi[i])
	}
	r.zero(y)
	r.Infer(func(i, t int) float64 { return y[t] - mean[i*n+t] })
}

// terms returns the derivatives of expert i's density in the block.
func (r *Posterior) terms(i int) *Terms {
	if !r.general.derived {
		r.derive()
	}
	return &r.general.of[i]
}

func (r *Posterior) derive() {
	if r.general.room == nil {
		r.general.room, r.general.of = make([]Terms, r.K), make([]Terms, r.K)
		r.general.working = make([]float64, len(r.scores))
		for i := range r.K {
			r.general.room[i] = NewTerms(len(r.Density.Own()))
		}
	}
	for i := range r.K {
		r.general.of[i] = r.general.room[i].First(r.N)
		t := r.general.of[i]
		r.Density.Derive(t, r.general.y, r.of(r.general.mean, i), r.psi[i])
		for at, u := range t.Score {
			r.general.working[i*r.N+at] = u / t.Expected[at]
		}
	}
	r.general.derived = true
}

// differentiateGeneral is Differentiate of a density other than [Gaussian].
func (r *Posterior) differentiateGeneral(slopes []float64) {
	for i := range r.K {
		terms, slope := r.terms(i), r.of(slopes, i)
		kernel.Mul(r.of(r.score, i), terms.Score, slope)
		kernel.MulSquare(r.of(r.lever, i), terms.Information, slope)
		for q, cross := range terms.Cross {
			kernel.Mul(r.crossOf(i, q), cross, slope)
		}
	}
}

// crossOf returns −∂²log f_i/∂z_i∂log ψ_iq of the N rows.
func (r *Posterior) crossOf(i, q int) []float64 { return r.of(r.general.cross, q*r.K+i) }

// timesGeneral is Times of a density other than [Gaussian]: with t_i = s̃_i·u_i + q_i + ⟨s_i, ∂log f_i/∂log ψ_i⟩,
//
//	z_i:      r_i·(ι_i·u_i + ⟨c_i,s_i⟩) − r_i(t_i − t̄)·s̃_i
//	η_i:      p_i(q_i − q̄) − r_i(t_i − t̄)
//	log ψ_i:  r_i·(c_i·u_i + O_i·s_i) − r_i(t_i − t̄)·∂log f_i/∂log ψ_i
//
// ι_i, c_i and O_i minus the second derivatives of log f_i by z_i, by z_i and log ψ_i, and by log ψ_i.
func (r *Posterior) timesGeneral(expert, gates, levels, u, q, noise []float64) {
	n := r.N
	mean, drift := r.mean[:n], r.room[:n]
	clear(mean)
	clear(drift)
	clear(levels[:len(noise)*n])
	for i := range r.K {
		along, post, prior := r.of(gates, i), r.PostOf(i), r.PriorOf(i)
		score, ui, qi := r.of(r.score, i), r.of(u, i), r.of(q, i)
		for t := range along {
			along[t] = score[t]*ui[t] + qi[t]
		}
		for own := range len(noise) / r.levels {
			s := noise[own*r.levels+min(i, r.levels-1)]
			for t, score := range r.terms(i).OwnScore[own] {
				along[t] += s * score
			}
		}
		for t, v := range along {
			mean[t] += post[t] * v
			drift[t] += prior[t] * qi[t]
		}
	}
	for i := range r.K {
		along, post, prior := r.of(gates, i), r.PostOf(i), r.PriorOf(i)
		score, info, ui, qi := r.of(r.score, i), r.of(r.lever, i), r.of(u, i), r.of(q, i)
		dst := r.of(expert, i)
		for t, f := range info {
			missing := post[t] * (along[t] - mean[t])
			dst[t] = post[t]*f*ui[t] - missing*score[t]
			along[t] = missing
		}
		for own := range len(noise) / r.levels {
			m := own*r.levels + min(i, r.levels-1)
			s := noise[m]
			level, cross, scores := r.of(levels, m), r.crossOf(i, own), r.terms(i).OwnScore[own]
			for t, missing := range along {
				dst[t] += post[t] * cross[t] * s
				level[t] += post[t]*cross[t]*ui[t] - missing*scores[t]
			}
			r.addOwnTimes(level, i, own, noise)
		}
		for t, missing := range along {
			along[t] = prior[t]*(qi[t]-drift[t]) - missing
		}
	}
}

// addOwnTimes adds r_i·Σ_p o_iqp·s_ip to dst.
func (r *Posterior) addOwnTimes(dst []float64, i, q int, noise []float64) {
	post := r.PostOf(i)
	for p := range len(noise) / r.levels {
		s := noise[p*r.levels+min(i, r.levels-1)]
		for t, information := range r.terms(i).OwnInformation[OwnAt(q, p)] {
			dst[t] += post[t] * information * s
		}
	}
}
