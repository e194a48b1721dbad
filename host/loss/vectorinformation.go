package loss

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// vectorDerivatives are the weights of the observed information of several targets, minus the second derivatives
// of log p(y|x). With e = diag(s)⁻¹·U·t of the residuals t, Λ = Σ⁻¹, r the posterior, z_ia
// the experts' linear predictors and φ_i, ψ_i the derivatives of log f_i by z_i and by the
// noise,
//
//	φ_ia = g′_a(Λt)_a,   ψ_i of log s_c = e_c² − 1,   ψ_i of u_cb = −e_c·t_b/s_c
//
// it is, as in [mixture.Posterior] for one coordinate, the posterior mean of
//
//	z_a z_b:          g′_a·g′_b·Λ_ab [− δ_ab·g″_a·(Λt)_a]
//	z_a, log s_c:     2·g′_a·e_c·U_ca/s_c
//	z_a, u_cb:        −g′_a·(U_ca·t_b/s_c² + δ_ab·e_c/s_c)
//	log s_c, log s_c: 2·e_c²,   log s_c, u_cb: −2·e_c·t_b/s_c,   u_cb, u_cd: t_b·t_d/s_c²
//
// and of the gate's, less the posterior covariance of the complete-data scores.
type vectorDerivatives struct {
	*work
	o *layout
}

// ExpertExpert writes −∂²log p/∂z_p∂z_q to dst, p ≤ q counting means.
func (w *vectorDerivatives) ExpertExpert(dst []float64, p, q int, bend []float64) {
	m := w.o.m
	i, j := p/m, q/m
	ri, sp, sq := w.PostOf(i), w.row(w.score, p), w.row(w.score, q)
	if i != j {
		rj := w.PostOf(j)
		for t, r := range ri {
			dst[t] = r * rj[t] * sp[t] * sq[t]
		}
		return
	}
	precision := w.factorOf(i).precision[p%m*m+q%m]
	gp, gq := w.row(w.dg, p), w.row(w.dg, q)
	for t, r := range ri {
		dst[t] = r*precision*gp[t]*gq[t] - r*(1-r)*sp[t]*sq[t]
	}
	if p == q && bend != nil {
		pull := w.row(w.pull, p)
		for t, r := range ri {
			dst[t] -= r * bend[t] * pull[t]
		}
	}
}

// ExpertGate writes minus the second derivative by the predictors of mean p and of row j of the gate to dst.
func (w *vectorDerivatives) ExpertGate(dst []float64, p, j int) {
	w.Gate.(mixture.CurvedGate).Cross(dst, p/w.o.m, j, w.row(w.score, p), w.Posterior)
}

// DifferentiateNoise sets w.noise and w.mean.
func (w *vectorDerivatives) DifferentiateNoise() {
	o := w.o
	if w.noise == nil {
		w.noise = numeric.Columns(o.own, o.k*len(w.more))
		w.mean = numeric.Columns(o.levels*o.own, len(w.more))
	}
	for l := range o.own {
		for i := range o.k {
			psi, scale := w.row(w.noise[l], i), w.factorOf(i).Scale
			if l < o.m {
				for t, e := range w.row(w.std, i*o.m+l) {
					psi[t] = e*e - 1
				}
				continue
			}
			c, b := o.pairOf(l)
			kernel.Mul(psi, w.row(w.std, i*o.m+c), w.row(w.res, i*o.m+b))
			floats.Scale(-1/scale[c], psi)
		}
		for level := range o.levels {
			mean := w.mean[level*o.own+l][:w.N]
			clear(mean)
			w.eachOf(level, func(i int) {
				psi := w.row(w.noise[l], i)
				for t, r := range w.PostOf(i) {
					mean[t] += r * psi[t]
				}
			})
		}
	}
}

// eachOf calls fn with the experts of a noise level.
func (w *vectorDerivatives) eachOf(level int, fn func(i int)) {
	if w.o.levels > 1 {
		fn(level)
		return
	}
	for i := range w.o.k {
		fn(i)
	}
}

// has says whether expert i has that noise level.
func (w *vectorDerivatives) has(level, i int) bool { return w.o.levels == 1 || level == i }

// NoiseExpert writes minus the second derivative by place at of ψ and by the predictor of mean p to dst.
func (w *vectorDerivatives) NoiseExpert(dst []float64, at, p int) {
	m := w.o.m
	i, a := p/m, p%m
	level, l := w.o.levelOf(at)
	r, score, mean := w.PostOf(i), w.row(w.score, p), w.mean[at][:w.N]
	for t := range dst {
		dst[t] = r[t] * score[t] * mean[t]
	}
	if !w.has(level, i) {
		return
	}
	psi, dg, f := w.row(w.noise[l], i), w.row(w.dg, p), w.factorOf(i)
	for t := range dst {
		dst[t] -= r[t] * score[t] * psi[t]
	}
	if l < m {
		e, by := w.row(w.std, i*m+l), 2*f.unit[l*m+a]/f.Scale[l]
		for t := range dst {
			dst[t] += r[t] * by * dg[t] * e[t]
		}
		return
	}
	c, b := w.o.pairOf(l)
	res, by := w.row(w.res, i*m+b), f.unit[c*m+a]/f.Scale[c]/f.Scale[c]
	for t := range dst {
		dst[t] -= r[t] * by * dg[t] * res[t]
	}
	if a == b {
		e, inv := w.row(w.std, i*m+c), 1/f.Scale[c]
		for t := range dst {
			dst[t] -= r[t] * inv * dg[t] * e[t]
		}
	}
}

// NoiseGate writes minus the second derivative by place at of ψ and by row j of the gate to dst.
func (w *vectorDerivatives) NoiseGate(dst []float64, at, j int) {
	gate := w.Gate.(mixture.CurvedGate)
	level, l := w.o.levelOf(at)
	if w.o.levels == 1 {
		gate.Across(dst, j, w.noise[l], w.mean[l][:w.N], w.Posterior)
		return
	}
	gate.Cross(dst, level, j, w.row(w.noise[l], level), w.Posterior)
}

// NoiseNoise writes minus the second derivative by two places of ψ to dst.
func (w *vectorDerivatives) NoiseNoise(dst []float64, one, two int) {
	level, l := w.o.levelOf(one)
	other, n := w.o.levelOf(two)
	kernel.Mul(dst, w.mean[one][:w.N], w.mean[two][:w.N])
	w.eachOf(level, func(i int) {
		if !w.has(other, i) {
			return
		}
		r, psi, psi2 := w.PostOf(i), w.row(w.noise[l], i), w.row(w.noise[n], i)
		for t := range dst {
			dst[t] -= r[t] * psi[t] * psi2[t]
		}
		w.noiseComplete(dst, i, min(l, n), max(l, n))
	})
}

// noiseComplete adds r_i times minus the second derivative of log f_i by parameters l ≤ n of
// its noise to dst.
func (w *vectorDerivatives) noiseComplete(dst []float64, i, l, n int) {
	m := w.o.m
	r, f := w.PostOf(i), w.factorOf(i)
	add := func(by float64, a, b []float64) {
		for t := range dst {
			dst[t] += r[t] * by * a[t] * b[t]
		}
	}
	if l < m {
		e := w.row(w.std, i*m+l)
		if n == l {
			add(2, e, e)
		}
		if n < m {
			return
		}
		if c, b := w.o.pairOf(n); c == l {
			add(-2/f.Scale[c], e, w.row(w.res, i*m+b))
		}
		return
	}
	c, b := w.o.pairOf(l)
	if c2, b2 := w.o.pairOf(n); c == c2 {
		add(1/f.Scale[c]/f.Scale[c], w.row(w.res, i*m+b), w.row(w.res, i*m+b2))
	}
}

// scores writes the scores of the rows to dst, N values for every parameter.
func (w *vectorDerivatives) scores(dst [][]float64) {
	w.DifferentiateNoise()
	for at, q := range w.o.parameters {
		to := dst[at][:w.N]
		switch q.Part {
		case model.Expert:
			kernel.Mul(to, w.PostOf(q.Index/w.o.m), w.row(w.score, q.Index))
			kernel.Mul(to, to, w.Cols[q.Feature])
		case model.Gate:
			w.GateScore(to, q.Index)
			kernel.Mul(to, to, w.Cols[q.Feature])
		case model.Noise:
			copy(to, w.mean[q.Index][:w.N])
		}
	}
}
