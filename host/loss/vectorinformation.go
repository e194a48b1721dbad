package loss

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// vectorInformation are the sums of the observed information, minus the second derivatives
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
type vectorInformation struct {
	grams      // of the pairs p ≤ q of the rows of coefficients: k·m of the experts, then the gate's
	o          *vectorLayout
	noiseCoef  []float64 // every noise parameter with every coefficient
	noiseNoise []float64 // every noise parameter with every one
}

func newVectorInformation(o *vectorLayout) *vectorInformation {
	rows, noises := o.k*o.m+o.gates, o.levels*o.own
	return &vectorInformation{
		grams: newGrams(o.layout, rows*(rows+1)/2), o: o,
		noiseCoef: make([]float64, noises*o.atNoise), noiseNoise: make([]float64, noises*noises),
	}
}

func (s *vectorInformation) values() [][]float64 {
	return append(s.grams.values(), s.noiseCoef, s.noiseNoise)
}

func (s *vectorInformation) block(w *vectorWork) {
	w.Differentiate(nil) // for the gate's second derivatives
	g := s.begin(&w.design, w.N)
	km := s.k * s.o.m
	for p := range km {
		for q := p; q < km; q++ {
			s.expertExpert(w, g.terms, p, q)
			g.next()
		}
		for j := range s.gates {
			w.Gate.(mixture.CurvedGate).Cross(g.terms, p/s.o.m, j, w.row(w.score, p), w.Posterior)
			g.next()
		}
	}
	for j := range s.gates {
		for l := j; l < s.gates; l++ {
			w.GateGate(g.terms, j, l)
			g.next()
		}
	}
	s.noiseBlock(w, w.terms[:w.N])
}

// expertExpert writes −∂²log p/∂z_p∂z_q to dst, p ≤ q counting coordinates of experts.
func (s *vectorInformation) expertExpert(w *vectorWork, dst []float64, p, q int) {
	m := s.o.m
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
	if p == q && w.bend != nil {
		bend, pull := w.row(w.bend, p), w.row(w.pull, p)
		for t, r := range ri {
			dst[t] -= r * bend[t] * pull[t]
		}
	}
}

// noiseBlock adds the rows of the information that belong to the noise.
func (s *vectorInformation) noiseBlock(w *vectorWork, wt []float64) {
	o := s.o
	o.noiseScores(w)
	for level := range s.levels {
		for l := range o.own {
			row := level*o.own + l
			coef := s.noiseCoef[row*o.atNoise : (row+1)*o.atNoise]
			for p := range s.k * o.m {
				s.noiseExpert(w, wt, level, l, p)
				w.addWeighted(coef[p*s.da:(p+1)*s.da], wt, s.expert)
			}
			for j := range s.gates {
				s.noiseGate(w, wt, level, l, j)
				w.addWeighted(coef[o.row(j):o.row(j)+s.dw], wt, s.gate)
			}
			for other := range s.levels {
				for n := range o.own {
					s.noiseTerms(w, wt, level, l, other, n)
					s.noiseNoise[row*s.levels*o.own+other*o.own+n] += w.sum(wt)
				}
			}
		}
	}
}

// noiseScores sets w.noise and w.mean.
func (o *vectorLayout) noiseScores(w *vectorWork) {
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
			o.eachOf(level, func(i int) {
				psi := w.row(w.noise[l], i)
				for t, r := range w.PostOf(i) {
					mean[t] += r * psi[t]
				}
			})
		}
	}
}

// eachOf calls fn with the experts of a noise level.
func (o *vectorLayout) eachOf(level int, fn func(i int)) {
	if o.levels > 1 {
		fn(level)
		return
	}
	for i := range o.k {
		fn(i)
	}
}

// has says whether expert i has that noise level.
func (s *vectorInformation) has(level, i int) bool { return s.levels == 1 || level == i }

// noiseExpert writes minus the second derivative by parameter l of a noise level and by the
// predictor of coordinate p to dst.
func (s *vectorInformation) noiseExpert(w *vectorWork, dst []float64, level, l, p int) {
	m := s.o.m
	i, a := p/m, p%m
	r, score, mean := w.PostOf(i), w.row(w.score, p), w.mean[level*s.o.own+l][:w.N]
	for t := range dst {
		dst[t] = r[t] * score[t] * mean[t]
	}
	if !s.has(level, i) {
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
	c, b := s.o.pairOf(l)
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

// noiseGate writes minus the second derivative by parameter l of a noise level and by row j
// of the gate to dst.
func (s *vectorInformation) noiseGate(w *vectorWork, dst []float64, level, l, j int) {
	gate := w.Gate.(mixture.CurvedGate)
	if s.levels == 1 {
		gate.Across(dst, j, w.noise[l], w.mean[l][:w.N], w.Posterior)
		return
	}
	gate.Cross(dst, level, j, w.row(w.noise[l], level), w.Posterior)
}

// noiseTerms writes minus the second derivative by parameters l and n of two noise levels to
// dst.
func (s *vectorInformation) noiseTerms(w *vectorWork, dst []float64, level, l, other, n int) {
	kernel.Mul(dst, w.mean[level*s.o.own+l][:w.N], w.mean[other*s.o.own+n][:w.N])
	s.o.eachOf(level, func(i int) {
		if !s.has(other, i) {
			return
		}
		r, psi, psi2 := w.PostOf(i), w.row(w.noise[l], i), w.row(w.noise[n], i)
		for t := range dst {
			dst[t] -= r[t] * psi[t] * psi2[t]
		}
		s.noiseComplete(w, dst, i, min(l, n), max(l, n))
	})
}

// noiseComplete adds r_i times minus the second derivative of log f_i by parameters l ≤ n of
// its noise to dst.
func (s *vectorInformation) noiseComplete(w *vectorWork, dst []float64, i, l, n int) {
	m := s.o.m
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
		if c, b := s.o.pairOf(n); c == l {
			add(-2/f.Scale[c], e, w.row(w.res, i*m+b))
		}
		return
	}
	c, b := s.o.pairOf(l)
	if c2, b2 := s.o.pairOf(n); c == c2 {
		add(1/f.Scale[c]/f.Scale[c], w.row(w.res, i*m+b), w.row(w.res, i*m+b2))
	}
}

// write writes the information, times factor, to h.
func (s *vectorInformation) write(h *mat.SymDense, factor float64) {
	if !h.IsEmpty() && h.SymmetricDim() != len(s.parameters) {
		panic("loss: hessian of the wrong size")
	}
	o, at := s.o, 0
	km := s.k * o.m
	for p := range km {
		for q := p; q < km; q++ {
			s.put(h, at, p*s.da, q*s.da, s.expert, s.expert, factor)
			at++
		}
		for j := range s.gates {
			s.put(h, at, p*s.da, o.row(j), s.expert, s.gate, factor)
			at++
		}
	}
	for j := range s.gates {
		for l := j; l < s.gates; l++ {
			s.put(h, at, o.row(j), o.row(l), s.gate, s.gate, factor)
			at++
		}
	}
	noises := s.levels * o.own
	for a := range noises {
		for j, v := range s.noiseCoef[a*o.atNoise : (a+1)*o.atNoise] {
			h.SetSym(j, o.atNoise+a, factor*v)
		}
		for b := a; b < noises; b++ {
			h.SetSym(o.atNoise+a, o.atNoise+b, factor*s.noiseNoise[a*noises+b])
		}
	}
}

// vectorProducts are the sums of the products of all pairs of a row's scores, see
// [productSums].
type vectorProducts struct {
	*vectorLayout
	packed []float64 // the upper triangle, in rows
}

func newVectorProducts(o *vectorLayout) *vectorProducts {
	n := len(o.parameters)
	return &vectorProducts{vectorLayout: o, packed: make([]float64, n*(n+1)/2)}
}

func (s *vectorProducts) block(w *vectorWork) {
	if w.scores == nil {
		w.scores = numeric.Columns(len(s.parameters), len(w.more))
	}
	rows := make([][]float64, len(s.parameters))
	for at := range rows {
		rows[at] = w.scores[at][:w.N]
	}
	s.scores(w, rows)
	for _, row := range rows {
		w.weigh(row)
	}
	kernel.AddGram(s.packed, rows, rows)
}

// scores writes the scores of the rows to dst, N values for every parameter.
func (o *vectorLayout) scores(w *vectorWork, dst [][]float64) {
	o.noiseScores(w)
	for at, q := range o.parameters {
		to := dst[at][:w.N]
		switch q.Part {
		case model.Expert:
			kernel.Mul(to, w.PostOf(q.Index/o.m), w.row(w.score, q.Index))
			kernel.Mul(to, to, w.cols[q.Feature])
		case model.Gate:
			w.GateScore(to, q.Index)
			kernel.Mul(to, to, w.cols[q.Feature])
		case model.Noise:
			copy(to, w.mean[q.Index][:w.N])
		}
	}
}

// write writes the sums to m.
func (s *vectorProducts) write(m *mat.SymDense) {
	at := 0
	for i := range s.parameters {
		for j := i; j < len(s.parameters); j++ {
			m.SetSym(i, j, s.packed[at])
			at++
		}
	}
}
