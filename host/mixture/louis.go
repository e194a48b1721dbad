package mixture

import (
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// general is what a density other than [Gaussian] says of a block, K rows of N values each.
type general struct {
	y, mean []float64 // of the block
	derived bool      // whether what follows is that of the block
	of      []Terms   // of every expert, N values
	room    []Terms   // BlockRows values
	working []float64 // u/E[−∂²log f/∂m²]
	info    []float64 // −∂²log f/∂z², without the term in g″; after Differentiate
	cross   []float64 // −∂²log f/∂z∂log ψ_q, Q times as many; likewise
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
	if r.general.info == nil {
		r.general.info, r.general.cross = make([]float64, len(r.scores)),
			make([]float64, len(r.Density.Own())*len(r.scores))
	}
	if slopes == nil {
		clear(r.score)
		clear(r.general.info)
		clear(r.general.cross)
		return
	}
	for i := range r.K {
		terms, slope := r.terms(i), r.of(slopes, i)
		kernel.Mul(r.of(r.score, i), terms.Score, slope)
		kernel.MulSquare(r.of(r.general.info, i), terms.Information, slope)
		for q, cross := range terms.Cross {
			kernel.Mul(r.crossOf(i, q), cross, slope)
		}
	}
}

// crossOf returns −∂²log f_i/∂z_i∂log ψ_iq of the N rows.
func (r *Posterior) crossOf(i, q int) []float64 { return r.of(r.general.cross, q*r.K+i) }

// ownExpert is NoiseExpert: with c_i = −∂²log f_i/∂log ψ_i∂z_i, s̃_i = ∂log f_i/∂z_i,
//
//	r_i·(c_i − s̃_i(q_i − q̄)) where ψ is shared, r_i r_m·s̃_i q_m + δ_im·r_i·(c_i − s̃_i q_i) where it is not.
func (r *Posterior) ownExpert(dst []float64, at, i int) {
	own, m := r.level(at)
	score, cross := r.of(r.score, i), r.crossOf(i, own)
	if len(r.P.Sigma) == 1 {
		q, mean := r.ownScoreOf(i, own), r.meanOf(own)
		for t, p := range r.PostOf(i) {
			dst[t] = p * (cross[t] - score[t]*(q[t]-mean[t]))
		}
		return
	}
	rm, qm := r.PostOf(m), r.ownScoreOf(m, own)
	for t, p := range r.PostOf(i) {
		dst[t] = p * score[t] * rm[t] * qm[t]
		if i == m {
			dst[t] += p * (cross[t] - score[t]*qm[t])
		}
	}
}

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
		for m, s := range noise {
			if own, whose := r.level(m); whose == min(i, len(r.P.Sigma)-1) {
				for t, score := range r.terms(i).OwnScore[own] {
					along[t] += s * score
				}
			}
		}
		for t, v := range along {
			mean[t] += post[t] * v
			drift[t] += prior[t] * qi[t]
		}
	}
	for i := range r.K {
		along, post, prior := r.of(gates, i), r.PostOf(i), r.PriorOf(i)
		score, info, ui, qi := r.of(r.score, i), r.of(r.general.info, i), r.of(u, i), r.of(q, i)
		dst := r.of(expert, i)
		for t, f := range info {
			missing := post[t] * (along[t] - mean[t])
			dst[t] = post[t]*f*ui[t] - missing*score[t]
			along[t] = missing
		}
		for m, s := range noise {
			own, whose := r.level(m)
			if whose != min(i, len(r.P.Sigma)-1) {
				continue
			}
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
	post, levels := r.PostOf(i), len(r.P.Sigma)
	for p := range len(noise) / levels {
		s := noise[p*levels+min(i, levels-1)]
		for t, information := range r.ownInformationOf(i, q, p) {
			dst[t] += post[t] * information * s
		}
	}
}
