package mixturetest

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
)

// RegisterJoint makes the densities of several targets known: [Full], [Exchangeable] and [Outlying].
func RegisterJoint() {
	for _, d := range []joint.Density{Full{}, Exchangeable{}, Outlying{}} {
		joint.Register(d)
	}
}

// Full is correlated normal noise of several targets without its kernels: what any density of them goes through.
type Full struct{ joint.Gaussian }

// Name returns "full".
func (Full) Name() string { return "full" }

// Own are the u_cb of [model.VectorNoise].
func (Full) Own(m int) (own []joint.Parameter) {
	for l := range m * (m - 1) / 2 {
		c, b := model.LowerAt(l)
		own = append(own, joint.Parameter{Name: "u" + string(rune('1'+c)) + string(rune('1'+b)), Least: math.Inf(-1),
			Most: math.Inf(1)})
	}
	return own
}

// At implements [joint.Density].
func (d Full) At(n model.VectorNoise) joint.Law {
	return d.Gaussian.At(model.VectorNoise{Scale: n.Scale, Lower: n.Own})
}

// Exchangeable is normal noise of several targets any two of which have the same correlation ρ: the density of M normal
// numbers e = (y − m)/s with
//
//	log f = −M/2·log 2π − Σ log s_c − ½·log |R| − ½·eᵀR⁻¹e,   |R| = a^(M−1)·d,   eᵀR⁻¹e = (Σ e² − ρ/d·(Σ e)²)/a
//
// where a = 1 − ρ and d = 1 + (M−1)·ρ. Its own parameter is Fisher's z = atanh ρ.
type Exchangeable struct{}

// Name returns "exchangeable".
func (Exchangeable) Name() string { return "exchangeable" }

// Own returns z, for which R is positive definite.
func (Exchangeable) Own(m int) []joint.Parameter {
	least := -4.0
	if m > 2 {
		least = max(least, math.Atanh(-0.999/float64(m-1)))
	}
	return []joint.Parameter{{Name: "z", Least: least, Most: 4}}
}

// At implements [joint.Density].
func (Exchangeable) At(n model.VectorNoise) joint.Law {
	rho := math.Tanh(n.Own[0])
	return exchangeable{n.Scale, rho, 1 - rho, 1 + float64(len(n.Scale)-1)*rho}
}

type exchangeable struct {
	scale     []float64
	rho, a, d float64
}

// row returns e, the sums of e² and of e, and R⁻¹e.
func (l exchangeable) row(y, mean []float64) (e []float64, squares, sum float64, v []float64) {
	for c, s := range l.scale {
		e = append(e, (y[c]-mean[c])/s)
	}
	squares, sum = floats.Dot(e, e), floats.Sum(e)
	for _, x := range e {
		v = append(v, (x-l.rho/l.d*sum)/l.a)
	}
	return e, squares, sum, v
}

// LogDensity implements [joint.Law].
func (l exchangeable) LogDensity(y, mean []float64) float64 {
	_, squares, sum, _ := l.row(y, mean)
	m := float64(len(y))
	out := -m*math.Log(2*math.Pi)/2 - (m-1)*math.Log(l.a)/2 - math.Log(l.d)/2 - (squares-l.rho/l.d*sum*sum)/l.a/2
	for _, s := range l.scale {
		out -= math.Log(s)
	}
	return out
}

// Derive implements [joint.Law].
func (l exchangeable) Derive(t *joint.Terms, y, mean []float64) {
	e, squares, sum, v := l.row(y, mean)
	m, q, a, d := len(y), len(y)+1, l.a, l.d
	n := float64(m - 1)
	h := 1 - l.rho*l.rho // dρ/dz
	rest := squares - l.rho/d*sum*sum
	slope := -(-n/a + n/d + rest/(a*a) - sum*sum/(d*d*a)) / 2
	bend := -(-n/(a*a) - n*n/(d*d) + 2*n*sum*sum/(d*d*d*a) - 2*sum*sum/(d*d*a*a) + 2*rest/(a*a*a)) / 2
	t.OwnScore[m] = h * slope
	t.OwnInformation[mixture.OwnAt(m, m)] = 2*l.rho*h*slope - h*h*bend
	for c, s := range l.scale {
		t.Score[c], t.OwnScore[c] = v[c]/s, e[c]*v[c]-1
		byRho := -sum/(d*d*a) + v[c]/a // of R⁻¹e
		t.Cross[c*q+m] = -h * byRho / s
		t.OwnInformation[mixture.OwnAt(c, m)] = -h * e[c] * byRho
		for b, of := range l.scale {
			p := -l.rho / d / a
			if b == c {
				p += 1 / a
			}
			t.Information[mixture.OwnAt(c, b)] = p / s / of
			t.Cross[c*q+b] = p * e[b] / s
			own := e[c] * p * e[b]
			if b == c {
				t.Cross[c*q+b] += v[c] / s
				own += e[c] * v[c]
			}
			t.OwnInformation[mixture.OwnAt(c, b)] = own
		}
	}
	copy(t.Expected, t.Information)
}

// Draw implements [joint.Law]: Cholesky's factor of R row by row.
func (l exchangeable) Draw(rng *rand.Rand, dst, mean []float64) {
	var before float64 // Σ of those drawn
	for c, s := range l.scale {
		n := float64(c)
		of := l.rho / (1 + max(n-1, 0)*l.rho) // the regression on each of those before
		if c == 0 {
			of = 0
		}
		e := of*before + math.Sqrt(1-of*n*l.rho)*rng.NormFloat64()
		before += e
		dst[c] = mean[c] + s*e
	}
}

// Marginal implements [joint.Law].
func (l exchangeable) Marginal(c int) (family string, psi []float64) { return "", l.scale[c : c+1] }

// Outlying is the t law of several targets whose rows are outliers as a whole: with e = (y − m)/s, Q = Σ e² and ν
// degrees of freedom, of which the own parameter is the logarithm,
//
//	log f = log Γ((ν+M)/2) − log Γ(ν/2) − M/2·log(νπ) − Σ log s_c − (ν+M)/2·log(1 + Q/ν)
type Outlying struct{}

// Name returns "outlying".
func (Outlying) Name() string { return "outlying" }

// Own returns log ν.
func (Outlying) Own(int) []joint.Parameter {
	return []joint.Parameter{{Name: "log_dof", Start: math.Log(10), Least: 0, Most: math.Log(1000)}}
}

// At implements [joint.Density].
func (Outlying) At(n model.VectorNoise) joint.Law {
	nu, m := math.Exp(n.Own[0]), float64(len(n.Scale))
	up, _ := math.Lgamma((nu + m) / 2)
	down, _ := math.Lgamma(nu / 2)
	l := outlying{n.Scale, nu, up - down - m/2*math.Log(nu*math.Pi),
		mathext.Digamma((nu+m)/2) - mathext.Digamma(nu/2), mathext.Zeta(2, (nu+m)/2) - mathext.Zeta(2, nu/2)}
	for _, s := range n.Scale {
		l.constant -= math.Log(s)
	}
	return l
}

type outlying struct {
	scale             []float64
	nu, constant      float64
	digamma, trigamma float64 // of (ν+M)/2 less that of ν/2
}

func (l outlying) square(y, mean []float64) (q float64) {
	for c, s := range l.scale {
		q += (y[c] - mean[c]) / s * (y[c] - mean[c]) / s
	}
	return q
}

// LogDensity implements [joint.Law].
func (l outlying) LogDensity(y, mean []float64) float64 {
	return l.constant - (l.nu+float64(len(y)))/2*math.Log1p(l.square(y, mean)/l.nu)
}

// Derive implements [joint.Law].
func (l outlying) Derive(t *joint.Terms, y, mean []float64) {
	m, count := len(y), float64(len(y))
	q, nu, square := m+1, l.nu, l.square(y, mean)
	a := nu + square
	w, bend := (nu+count)/a, 2*(nu+count)/(a*a)
	byNu := (square - count) / (a * a) // of w
	first := (l.digamma-count/nu-math.Log1p(square/nu))/2 + w*square/nu/2
	second := l.trigamma/4 + count/(2*nu*nu) + square/(nu*a) -
		w*square*(2*nu+square)/(2*nu*nu*a)
	t.OwnScore[m] = nu * first
	t.OwnInformation[mixture.OwnAt(m, m)] = -nu*first - nu*nu*second
	for c, s := range l.scale {
		e := (y[c] - mean[c]) / s
		t.Score[c], t.OwnScore[c] = w*e/s, w*e*e-1
		t.Expected[mixture.OwnAt(c, c)] = (nu + count) / (nu + count + 2) / s / s
		t.Cross[c*q+m] = -nu * byNu * e / s
		t.OwnInformation[mixture.OwnAt(c, m)] = -nu * byNu * e * e
		for b, of := range l.scale {
			f := (y[b] - mean[b]) / of
			t.Information[mixture.OwnAt(c, b)] = -bend * e * f / s / of
			t.Cross[c*q+b] = -bend * f * f * e / s
			t.OwnInformation[mixture.OwnAt(c, b)] = -bend * e * e * f * f
			if b == c {
				t.Information[mixture.OwnAt(c, b)] += w / s / s
				t.Cross[c*q+b] += 2 * w * e / s
				t.OwnInformation[mixture.OwnAt(c, b)] += 2 * w * e * e
			}
		}
	}
}

// Draw implements [joint.Law]: normal numbers over the root of χ²/ν.
func (l outlying) Draw(rng *rand.Rand, dst, mean []float64) {
	root := mixture.Draw(rng, mixture.Gamma{}, 1, []float64{l.nu / 2})
	for c, s := range l.scale {
		dst[c] = mean[c] + s*rng.NormFloat64()/math.Sqrt(root)
	}
}

// Marginal implements [joint.Law].
func (l outlying) Marginal(c int) (family string, psi []float64) {
	return mixture.StudentT{}.Name(), []float64{l.scale[c], l.nu}
}
