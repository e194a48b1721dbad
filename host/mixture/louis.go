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
	cross   []float64 // −∂²log f/∂z∂log s, after DifferentiateNoise
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
		r.Density.LogDensity(r.PostOf(i), r.of(r.Scores, i), y, r.of(mean, i), r.P.SigmaOf(i))
	}
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
			r.general.room[i] = NewTerms(r.Density.Own())
		}
	}
	for i := range r.K {
		r.general.of[i] = r.general.room[i].First(r.N)
		t := r.general.of[i]
		r.Density.Derive(t, r.general.y, r.of(r.general.mean, i), r.P.SigmaOf(i))
		for at, u := range t.Score {
			r.general.working[i*r.N+at] = u / t.Expected[at]
		}
	}
	r.general.derived = true
}

// differentiateGeneral is Differentiate of a density other than [Gaussian].
func (r *Posterior) differentiateGeneral(slopes []float64) {
	if r.general.info == nil {
		r.general.info, r.general.cross = make([]float64, len(r.scores)), make([]float64, len(r.scores))
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
		if terms.Cross != nil {
			kernel.Mul(r.of(r.general.cross, i), terms.Cross, slope)
		}
	}
}

// differentiateOwn writes ∂log f_i/∂log s_i and minus its second derivative.
func (r *Posterior) differentiateOwn() {
	for i := range r.K {
		copy(r.of(r.q, i), r.terms(i).OwnScore)
		copy(r.of(r.own, i), r.terms(i).OwnInformation)
	}
}

// ownExpert is NoiseExpert: with c_i = −∂²log f_i/∂log s_i∂z_i, s̃_i = ∂log f_i/∂z_i,
//
//	r_i·(c_i − s̃_i(q_i − q̄)) where s is shared, r_i r_m·s̃_i q_m + δ_im·r_i·(c_i − s̃_i q_i) where it is not.
func (r *Posterior) ownExpert(dst []float64, m, i int) {
	score, cross := r.of(r.score, i), r.of(r.general.cross, i)
	if len(r.P.Sigma) == 1 {
		q, mean := r.of(r.q, i), r.mean[:r.N]
		for t, p := range r.PostOf(i) {
			dst[t] = p * (cross[t] - score[t]*(q[t]-mean[t]))
		}
		return
	}
	rm, qm := r.PostOf(m), r.of(r.q, m)
	for t, p := range r.PostOf(i) {
		dst[t] = p * score[t] * rm[t] * qm[t]
		if i == m {
			dst[t] += p * (cross[t] - score[t]*qm[t])
		}
	}
}

// timesGeneral is Times of a density other than [Gaussian]: with t_i = s̃_i·u_i + q_i + s_i·∂log f_i/∂log s_i,
//
//	z_i:      r_i·(ι_i·u_i + c_i·s_i) − r_i(t_i − t̄)·s̃_i
//	η_i:      p_i(q_i − q̄) − r_i(t_i − t̄)
//	log s_i:  r_i·(c_i·u_i + o_i·s_i) − r_i(t_i − t̄)·∂log f_i/∂log s_i
//
// ι_i, c_i and o_i minus the second derivatives of log f_i by z_i, by z_i and log s_i, and by log s_i.
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
		if len(noise) > 0 {
			s := noise[min(i, len(noise)-1)]
			for t, own := range r.terms(i).OwnScore {
				along[t] += s * own
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
		if len(noise) > 0 {
			m := min(i, len(noise)-1)
			s, level, terms, cross := noise[m], levels[m*n:(m+1)*n], r.terms(i), r.of(r.general.cross, i)
			for t, missing := range along {
				dst[t] += post[t] * cross[t] * s
				level[t] += post[t]*(cross[t]*ui[t]+terms.OwnInformation[t]*s) - missing*terms.OwnScore[t]
			}
		}
		for t, missing := range along {
			along[t] = prior[t]*(qi[t]-drift[t]) - missing
		}
	}
}
