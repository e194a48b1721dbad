package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// gaussHermite is the rule of n nodes for E[f(Z)], exact for polynomials of degree 2n − 1.
func gaussHermite(n int) (z, w []float64) {
	z, w = make([]float64, n), make([]float64, n)
	quad.Hermite{}.FixedLocations(z, w, math.Inf(-1), math.Inf(1)) // of exp(−x²)
	for i := range z {
		z[i] *= math.Sqrt2
		w[i] /= math.Sqrt(math.Pi)
	}
	return z, w
}

// expectationsOf are those of a Noise for transforms that are functions of Z alone.
func expectationsOf(q2, q3, q4 func(z float64) float64) Noise {
	z, w := gaussHermite(12)
	e := func(f func(z float64) float64) (s float64) {
		for i, x := range z {
			s += w[i] * f(x)
		}
		return s
	}
	he := gauss.Hermite
	n := Noise{
		q22:  e(func(z float64) float64 { return q2(z) * q2(z) }),
		q22z: e(func(z float64) float64 { return q2(z) * q2(z) * z * z }),
		q23:  e(func(z float64) float64 { return q2(z) * q3(z) * z * he(2, z) }),
		q23z: e(func(z float64) float64 { return q2(z) * q3(z) * z }),
	}
	for q := range n.q33 {
		n.q33[q] = e(func(z float64) float64 { return math.Pow(q3(z)*he(q, z), 2) })
	}
	for q := range n.q44 {
		n.q44[q] = e(func(z float64) float64 { return math.Pow(q4(z)*he(q, z), 2) })
	}
	n.q24[2] = e(func(z float64) float64 { return q2(z) * q4(z) * he(2, z) })
	n.q24[3] = e(func(z float64) float64 { return q2(z) * q4(z) * z * he(3, z) })
	return n
}

// TestErrorsByDefinition: the variances and covariances of the errors of Samples, with the
// shares of a row as its documentation has them and the mean over four coordinates and the
// expert that made the row taken as it stands.
func TestErrorsByDefinition(t *testing.T) {
	p := []float64{.4, .3, .2, .1}
	q2 := func(z float64) float64 { return z*z - .5*z + .3 }
	q3 := func(z float64) float64 { return .7*z*z + z - .2 }
	q4 := func(z float64) float64 { return 1.5*z*z + .4*z - 1 }
	n := expectationsOf(q2, q3, q4)
	he := gauss.Hermite
	const mu = .3
	// The share of coordinates x in ⟨a_m, â_i⟩, given q2, q3 and q4 of the row.
	type share func(i, m int, x []float64, q2, q3, q4 float64) float64
	spectral := func(i, m int, x []float64, q2, q3, _ float64) float64 {
		return (q3*he(2, x[i])*x[m]*p[m]/p[i] - q3*he(2, x[m])*x[i] + q2*x[i]*x[m]) / (p[i] + p[m])
	}
	orthonormal := func(i, m int, x []float64, q2, _, q4 float64) float64 {
		return (q4*he(3, x[i])*x[m]*p[m]/p[i] - q4*he(3, x[m])*x[i] + q2*x[i]*x[m]) / (p[i] + p[m])
	}
	unitRows := func(i, m int, x []float64, q2, _, q4 float64) float64 {
		s := mu*q2*x[i]*x[m]/p[m] - mu*q4*he(3, x[m])*x[i]/p[m] + q4*he(3, x[i])*x[m]/p[i]
		for j := range p {
			if j != i && j != m {
				s += q4 * x[i] * x[m] * he(2, x[j]) / p[j]
			}
		}
		return s / (1 + mu*p[i]/p[m])
	}
	z, w := gaussHermite(6) // of degree 10 in each coordinate
	mean := func(f func(x []float64, q2, q3, q4 float64) float64) (s float64) {
		x := make([]float64, len(p))
		var over func(j int, by float64)
		over = func(j int, by float64) {
			if j == len(p) {
				for r, pr := range p {
					s += by * pr * f(x, q2(x[r]), q3(x[r]), q4(x[r]))
				}
				return
			}
			for i := range z {
				x[j] = z[i]
				over(j+1, by*w[i])
			}
		}
		over(0, 1)
		return s
	}
	for _, c := range []struct {
		name   string
		design Design
		share  share
	}{
		{"T̂3", Design{Order: 3}, spectral},
		{"T̂4, orthonormal", Design{Order: 4}, orthonormal},
		{"T̂4, unit rows", Design{Mu: mu}, unitRows},
		{"T̂3 whatever μ", Design{Order: 3, Mu: mu}, spectral},
	} {
		c.design.K, c.design.D, c.design.Proportions = len(p), 7, p
		got := n.errors(c.design)
		if got.outer != 3 || len(got.pairs) != 6 || len(got.outside) != 4 {
			t.Fatalf("%s: %d directions, %d pairs, %d experts", c.name, got.outer, len(got.pairs), len(got.outside))
		}
		sum := 0.0
		for i, v := range got.outside {
			want := mean(func(x []float64, q2, _, _ float64) float64 { return q2 * q2 * x[i] * x[i] / (p[i] * p[i]) })
			if !(math.Abs(v/want-1) <= 1e-12) {
				t.Errorf("%s: variance %v of expert %d outside the span, want %v", c.name, v, i, want)
			}
			sum += 3 * want
		}
		for _, v := range got.pairs {
			product := func(i, m, j, l int) float64 {
				return mean(func(x []float64, q2, q3, q4 float64) float64 {
					return c.share(i, m, x, q2, q3, q4) * c.share(j, l, x, q2, q3, q4)
				})
			}
			vi, vm, both := product(v.i, v.m, v.i, v.m), product(v.m, v.i, v.m, v.i), product(v.i, v.m, v.m, v.i)
			if !(math.Abs(v.vi/vi-1) <= 1e-12) || !(math.Abs(v.vm/vm-1) <= 1e-12) || !(math.Abs(v.both-both) <= 1e-12*vi) {
				t.Errorf("%s: experts %d and %d have %v, %v and %v, want %v, %v and %v", c.name, v.i, v.m, v.vi, v.vm, v.both, vi, vm, both)
			}
			sum += vi + vm
		}
		if got := n.MeanError(c.design); !(math.Abs(got/(sum/2)-1) <= 1e-12) {
			t.Errorf("%s: mean error %v, want %v", c.name, got, sum/2)
		}
	}
}

// TestLearns: an estimate needs both of its transforms, and says with +Inf that one is not there.
func TestLearns(t *testing.T) {
	one := func(float64) float64 { return 1 }
	none := func(float64) float64 { return 0 }
	for _, c := range []struct {
		n     Noise
		three bool
		four  bool
	}{
		{expectationsOf(one, one, one), true, true},
		{expectationsOf(none, one, one), false, false},
		{expectationsOf(one, none, one), false, true},
		{expectationsOf(one, one, none), true, false},
	} {
		for order, want := range map[int]bool{3: c.three, 4: c.four} {
			d := Design{K: 2, D: 4, Order: order}
			if c.n.Learns(order) != want || math.IsInf(c.n.Samples(d, .1), 1) == want || math.IsInf(c.n.MeanError(d), 1) == want {
				t.Errorf("order %d: learns %v of %+v", order, c.n.Learns(order), c.n)
			}
		}
	}
}

// TestDrawsOfPairs: mean squares and products of 20,000 draws within five standard errors, √(2/n) of a
// variance and √((1 + ρ²)/n) of a covariance (1 in 10⁶ each).
func TestDrawsOfPairs(t *testing.T) {
	const n = 20_000
	for _, p := range []pair{{vi: 2, vm: .5, both: .7}, {vi: .3, vm: 4, both: -.9}, {vi: 1, vm: 2}, {vi: 0, vm: 3}, {vi: 1, vm: .25, both: .5}, {}} {
		rng := rand.New(rand.NewPCG(5, 1))
		var xx, yy, xy float64
		for range n {
			x, y := p.draw(rng)
			xx, yy, xy = xx+x*x/n, yy+y*y/n, xy+x*y/n
		}
		se := math.Sqrt(2. / n)
		if !(math.Abs(xx-p.vi) <= 5*se*p.vi) || !(math.Abs(yy-p.vm) <= 5*se*p.vm) || !(math.Abs(xy-p.both) <= 5*se*math.Sqrt(p.vi*p.vm)) {
			t.Errorf("%+v: %v, %v, %v", p, xx, yy, xy)
		}
	}
}

// TestMedianLargest: of two experts with the same law outside the span and none inside, the
// largest of two independent exponentials of mean 2v: the median is −2v·log(1 − √½). With
// uneven ones the larger alone. 20,000 draws find a median within 1 % (four standard errors).
func TestMedianLargest(t *testing.T) {
	for _, c := range []struct {
		law  errorLaw
		want float64
	}{
		{errorLaw{outside: []float64{3, 3}, outer: 2}, -6 * math.Log(1-math.Sqrt(.5))},
		{errorLaw{outside: []float64{3, 1e-9}, outer: 2}, 6 * math.Log(2)},
		// χ² with 2 degrees of freedom outside and one of a pair: 3, of median 2.366.
		{errorLaw{outside: []float64{1, 1e-9}, pairs: []pair{{i: 0, m: 1, vi: 1}}, outer: 2}, 2.365974},
		{errorLaw{outside: []float64{1, 1e-9}, pairs: []pair{{i: 1, m: 0, vm: 1}}, outer: 2}, 2.365974},
		// More pairs than 200 take fewer draws: 2,000, within 6 %.
		{errorLaw{outside: []float64{3, 1e-9}, pairs: slices.Repeat([]pair{{i: 1}}, 2000), outer: 2}, 6 * math.Log(2)},
	} {
		tol := .03
		if len(c.law.pairs) > 200 {
			tol = .09
		}
		if got := medianLargest(c.law); !(math.Abs(got/c.want-1) <= tol) {
			t.Errorf("median %v, want %v", got, c.want)
		}
	}
}
