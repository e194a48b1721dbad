package loss

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/kernel"
)

// vectorDerivatives are those of the log-density of several targets, as [mixture.Complete]. With e = diag(s)⁻¹·U·t of
// the residuals t, Λ = Σ⁻¹ and z_ia the experts' linear predictors, of an expert s_a = g′_a(Λt)_a,
//
//	q of log s_c = e_c² − 1,   q of u_cb = −e_c·t_b/s_c
//	[z_a z_b] = g′_a·g′_b·Λ_ab [− δ_ab·g″_a·(Λt)_a]
//	[z_a, log s_c] = 2·g′_a·e_c·U_ca/s_c,   [z_a, u_cb] = −g′_a·(U_ca·t_b/s_c² + δ_ab·e_c/s_c)
//	[log s_c, log s_c] = 2·e_c²,   [log s_c, u_cb] = −2·e_c·t_b/s_c,   [u_cb, u_cd] = t_b·t_d/s_c²
type vectorDerivatives struct {
	*work
	o *layout
}

// Predictors implements [mixture.Complete].
func (w *vectorDerivatives) Predictors(dst []float64, i, a, b int) {
	m := w.o.m
	precision, ga, gb := w.factorOf(i).precision[a*m+b], w.row(w.dg, i*m+a), w.row(w.dg, i*m+b)
	for t, r := range w.PostOf(i) {
		dst[t] = r * precision * ga[t] * gb[t]
	}
}

// Bend implements [mixture.Complete].
func (w *vectorDerivatives) Bend(dst []float64, i, a int, bend []float64) {
	pull := w.row(w.pull, i*w.o.m+a)
	for t, r := range w.PostOf(i) {
		dst[t] -= r * bend[t] * pull[t]
	}
}

// Cross implements [mixture.Complete].
func (w *vectorDerivatives) Cross(dst []float64, i, a, l int) {
	m, f := w.o.m, w.factorOf(i)
	r, score, dg := w.PostOf(i), w.LinearScore(i*m+a), w.row(w.dg, i*m+a)
	for t, v := range dst {
		dst[t] = -r[t] * score[t] * v
	}
	add := func(by float64, v []float64) {
		for t := range dst {
			dst[t] += r[t] * by * dg[t] * v[t]
		}
	}
	if l < m {
		add(2*f.unit[l*m+a]/f.Scale[l], w.row(w.std, i*m+l))
		return
	}
	c, b := w.o.pairOf(l)
	add(-f.unit[c*m+a]/f.Scale[c]/f.Scale[c], w.row(w.res, i*m+b))
	if a == b {
		add(-1/f.Scale[c], w.row(w.std, i*m+c))
	}
}

// OwnScore implements [mixture.Complete].
func (w *vectorDerivatives) OwnScore(dst []float64, i, l int) {
	m := w.o.m
	if l < m {
		for t, e := range w.row(w.std, i*m+l) {
			dst[t] = e*e - 1
		}
		return
	}
	c, b := w.o.pairOf(l)
	kernel.Mul(dst, w.row(w.std, i*m+c), w.row(w.res, i*m+b))
	floats.Scale(-1/w.factorOf(i).Scale[c], dst)
}

// Own implements [mixture.Complete].
func (w *vectorDerivatives) Own(dst []float64, i, l, n int) {
	m, scale := w.o.m, w.factorOf(i).Scale
	write := func(by float64, a, b []float64) {
		kernel.Mul(dst, a, b)
		floats.Scale(by, dst)
	}
	clear(dst)
	if l < m {
		e := w.row(w.std, i*m+l)
		if n == l {
			write(2, e, e)
		}
		if n < m {
			return
		}
		if c, b := w.o.pairOf(n); c == l {
			write(-2/scale[c], e, w.row(w.res, i*m+b))
		}
		return
	}
	c, b := w.o.pairOf(l)
	if c2, b2 := w.o.pairOf(n); c == c2 {
		write(1/scale[c]/scale[c], w.row(w.res, i*m+b), w.row(w.res, i*m+b2))
	}
}
