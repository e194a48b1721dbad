package joint

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Gaussian is N(m, Σ), whose own parameters are in [model.VectorNoise].Lower: those of correlated noise, or none.
// [Experts] compute it from residuals: the methods of its law are what any has.
type Gaussian struct{}

// Name returns "gaussian".
func (Gaussian) Name() string { return mixture.Gaussian{}.Name() }

// Own are none: those in Lower may be anything.
func (Gaussian) Own(int) []Parameter { return nil }

// At implements [Density].
func (Gaussian) At(n model.VectorNoise) Law { return newNormal(n) }

// Normal is normal noise. With e = diag(s)⁻¹·U·t of the residuals t, Λ = Σ⁻¹,
//
//	u_a = (Λt)_a,   [a b] = Λ_ab
//	q of log s_c = e_c² − 1,   q of u_cb = −e_c·t_b/s_c
//	[a, log s_c] = 2·e_c·U_ca/s_c,   [a, u_cb] = −(U_ca·t_b/s_c² + δ_ab·e_c/s_c)
//	[log s_c, log s_c] = 2·e_c²,   [log s_c, u_cb] = −2·e_c·t_b/s_c,   [u_cb, u_cd] = t_b·t_d/s_c²
//
// [· ·] minus the second derivatives of log f.
type Normal struct {
	model.VectorNoise
	Unit      []float64 // U, M×M
	Precision []float64 // Σ⁻¹ = Uᵀ·diag(s⁻²)·U, M×M
	constant  float64   // of the log-density, but for one coordinate's ½·log 2π
}

func newNormal(n model.VectorNoise) *Normal {
	m := len(n.Scale)
	f := &Normal{VectorNoise: n, Unit: n.Unit(), Precision: make([]float64, m*m)}
	f.constant = -float64(m-1) * 0.5 * math.Log(2*math.Pi)
	for c, s := range n.Scale {
		f.constant -= math.Log(s)
		for a := range c + 1 {
			for b := range c + 1 {
				f.Precision[a*m+b] += f.Unit[c*m+a] / s * f.Unit[c*m+b] / s
			}
		}
	}
	return f
}

// standardised returns e.
func (f *Normal) standardised(y, mean []float64) []float64 {
	m := len(y)
	e := make([]float64, m)
	for c, s := range f.Scale {
		for b := range c + 1 {
			e[c] += f.Unit[c*m+b] * (y[b] - mean[b])
		}
		e[c] /= s
	}
	return e
}

// LogDensity implements [Law].
func (f *Normal) LogDensity(y, mean []float64) float64 {
	e := f.standardised(y, mean)
	return f.constant - logNorm - floats.Dot(e, e)/2
}

// Derive implements [Law].
func (f *Normal) Derive(t *Terms, y, mean []float64) {
	m, q, e := len(y), len(t.OwnScore), f.standardised(y, mean)
	own := func(l, n int, v float64) { t.OwnInformation[mixture.OwnAt(l, n)] = v }
	for c, s := range f.Scale {
		t.OwnScore[c] = e[c]*e[c] - 1
		own(c, c, 2*e[c]*e[c])
		for a := range m {
			t.Score[a] += f.Unit[c*m+a] / s * e[c]
			t.Cross[a*q+c] = 2 * e[c] * f.Unit[c*m+a] / s
			t.Information[mixture.OwnAt(a, c)] = f.Precision[a*m+c]
		}
		for b := range min(c, q-m) { // none where the noise is diagonal
			l, res := m+c*(c-1)/2+b, y[b]-mean[b]
			t.OwnScore[l] = -e[c] * res / s
			own(c, l, -2*e[c]*res/s)
			for a := range m {
				t.Cross[a*q+l] = -f.Unit[c*m+a] * res / s / s
			}
			t.Cross[b*q+l] -= e[c] / s
			for d := range b + 1 {
				own(l, l-b+d, res*(y[d]-mean[d])/s/s)
			}
		}
	}
	copy(t.Expected, t.Information)
}

// Draw implements [Law].
func (f *Normal) Draw(rng *rand.Rand, dst, mean []float64) {
	noise := make([]float64, len(mean))
	for c, scale := range f.Scale {
		noise[c] = scale * rng.NormFloat64()
		for a := range c {
			noise[c] -= f.Unit[c*len(mean)+a] * noise[a]
		}
		dst[c] = mean[c] + noise[c]
	}
}

// Marginal implements [Law].
func (f *Normal) Marginal(c int) (family string, psi []float64) {
	return "", []float64{math.Sqrt(f.Covariance().At(c, c))}
}

// logNorm is ½ log 2π.
var logNorm = 0.5 * math.Log(2*math.Pi)

// normal are experts with normal noise.
type normal struct {
	experts
	res     []float64 // t
	std     []float64 // e
	pull    []float64 // Λt
	factors []*Normal
}

// Under implements [Experts].
func (w *normal) Under(noises []Noise) {
	w.factors = w.factors[:0]
	for _, n := range noises {
		w.factors = append(w.factors, n.Normal)
	}
}

// factorOf returns the noise of expert i.
func (w *normal) factorOf(i int) *Normal { return w.factors[min(i, len(w.factors)-1)] }

// Observe implements [Experts].
func (w *normal) Observe(y, mean []float64) {
	w.residuals(y, mean)
	w.res = mean
	for i := range w.K {
		w.exponents(w.PostOf(i), i)
	}
	w.Infer(func(i, t int) (most float64) { // the largest |e_ic|
		for c := range w.m {
			most = max(most, math.Abs(w.row(w.std, i*w.m+c)[t]))
		}
		return most
	})
}

// exponents writes the log of expert i's probability times its density to dst, and its e.
func (w *normal) exponents(dst []float64, i int) {
	f, m := w.factorOf(i), w.m
	squares := w.more[:w.N] // halves of them
	clear(squares)
	for c, scale := range f.Scale {
		e := w.row(w.std, i*m+c)
		copy(e, w.row(w.res, i*m+c))
		for b := range c {
			if u := f.Unit[c*m+b]; u != 0 {
				floats.AddScaled(e, u, w.row(w.res, i*m+b))
			}
		}
		inv := 1 / scale
		for t, v := range e {
			v *= inv
			e[t] = v
			squares[t] += 0.5 * v * v
		}
	}
	scores := w.row(w.Scores, i)
	for t, v := range squares {
		dst[t] = scores[t] + (f.constant - v)
	}
}

// Slope implements [Experts].
func (w *normal) Slope(slopes []float64) {
	w.slopes = slopes
	for i := range w.K {
		f := w.factorOf(i)
		for a := range w.m {
			pull := w.row(w.pull, i*w.m+a)
			clear(pull)
			for c := a; c < w.m; c++ {
				if u := f.Unit[c*w.m+a]; u != 0 {
					floats.AddScaled(pull, u/f.Scale[c], w.row(w.std, i*w.m+c))
				}
			}
			kernel.Mul(w.row(w.score, i*w.m+a), pull, w.row(w.slopes, i*w.m+a))
		}
	}
}

// Standard implements [Experts].
func (w *normal) Standard(i, c int) []float64 { return w.row(w.std, i*w.m+c) }

// Curvature implements [Experts].
func (w *normal) Curvature(dst []float64, i, a, b int) {
	kernel.Mul(dst, w.PostOf(i), w.row(w.slopes, i*w.m+a))
	kernel.Mul(dst, dst, w.row(w.slopes, i*w.m+b))
}

// Pull implements [Experts].
func (w *normal) Pull(dst []float64, i, a, b int) bool {
	if a != b && w.factors[0].Lower == nil {
		return false
	}
	kernel.Mul(dst, w.PostOf(i), w.row(w.slopes, i*w.m+a))
	kernel.Mul(dst, dst, w.row(w.res, i*w.m+b))
	return true
}

// Predictors implements [mixture.Complete].
func (w *normal) Predictors(dst []float64, i, a, b int) {
	precision, ga, gb := w.factorOf(i).Precision[a*w.m+b], w.row(w.slopes, i*w.m+a), w.row(w.slopes, i*w.m+b)
	for t, r := range w.PostOf(i) {
		dst[t] = r * precision * ga[t] * gb[t]
	}
}

// Bend implements [mixture.Complete].
func (w *normal) Bend(dst []float64, i, a int, bend []float64) {
	w.bend(dst, i, bend, w.row(w.pull, i*w.m+a))
}

// Cross implements [mixture.Complete].
func (w *normal) Cross(dst []float64, i, a, l int) {
	m, f := w.m, w.factorOf(i)
	r, score, dg := w.PostOf(i), w.row(w.score, i*m+a), w.row(w.slopes, i*m+a)
	for t, v := range dst {
		dst[t] = -r[t] * score[t] * v
	}
	add := func(by float64, v []float64) {
		for t := range dst {
			dst[t] += r[t] * by * dg[t] * v[t]
		}
	}
	if l < m {
		add(2*f.Unit[l*m+a]/f.Scale[l], w.row(w.std, i*m+l))
		return
	}
	c, b := model.LowerAt(l - m)
	add(-f.Unit[c*m+a]/f.Scale[c]/f.Scale[c], w.row(w.res, i*m+b))
	if a == b {
		add(-1/f.Scale[c], w.row(w.std, i*m+c))
	}
}

// OwnScore implements [mixture.Complete].
func (w *normal) OwnScore(dst []float64, i, l int) {
	m := w.m
	if l < m {
		for t, e := range w.row(w.std, i*m+l) {
			dst[t] = e*e - 1
		}
		return
	}
	c, b := model.LowerAt(l - m)
	kernel.Mul(dst, w.row(w.std, i*m+c), w.row(w.res, i*m+b))
	floats.Scale(-1/w.factorOf(i).Scale[c], dst)
}

// Own implements [mixture.Complete].
func (w *normal) Own(dst []float64, i, l, n int) {
	m, scale := w.m, w.factorOf(i).Scale
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
		if c, b := model.LowerAt(n - m); c == l {
			write(-2/scale[c], e, w.row(w.res, i*m+b))
		}
		return
	}
	c, b := model.LowerAt(l - m)
	if c2, b2 := model.LowerAt(n - m); c == c2 {
		write(1/scale[c]/scale[c], w.row(w.res, i*m+b), w.row(w.res, i*m+b2))
	}
}
