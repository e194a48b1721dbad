package gauss_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk/gauss"
)

func batch(g func(float64) float64) gauss.Func {
	return func(_ context.Context, dst, z []float64) error {
		for i, v := range z {
			dst[i] = g(v)
		}
		return nil
	}
}

func law(t testing.TB, g func(float64) float64, kinks ...float64) *gauss.Law {
	t.Helper()
	l, err := gauss.NewLaw(t.Context(), batch(g), kinks)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLawOfIdentity: y = Z + σN is N(0, 1 + σ²), and given y, Z is normal with mean
// y/(1+σ²) and variance σ²/(1+σ²).
func TestLawOfIdentity(t *testing.T) {
	l := law(t, func(z float64) float64 { return z })
	if math.Abs(l.Mean) > 1e-14 || math.Abs(l.SD-1) > 2e-3 || !l.Resolved {
		t.Errorf("mean %v, sd %v, resolved %v", l.Mean, l.SD, l.Resolved)
	}
	for _, sigma := range []float64{.01, .3, 2} {
		n, d := l.Noisy(sigma), l.Density(sigma)
		s := 1 + sigma*sigma
		if want := 7.349 * math.Sqrt(s); math.Abs(n.Hi-want) > .05*math.Sqrt(s) || math.Abs(n.Lo+want) > .05*math.Sqrt(s) {
			t.Errorf("σ = %v: y in [%v, %v], want ±%v", sigma, n.Lo, n.Hi, want)
		}
		for y := -4.; y <= 4; y += .37 {
			c := n.At(y)
			if want := math.Exp(-y*y/2/s) / math.Sqrt(2*math.Pi*s); math.Abs(c.Density/want-1) > 1e-11 {
				t.Fatalf("σ = %v: density at %v is %v, want %v", sigma, y, c.Density, want)
			}
			if got, want := d.CDF(y), math.Erfc(-y/math.Sqrt(2*s))/2; math.Abs(got-want) > 1e-12 {
				t.Fatalf("σ = %v: distribution function at %v is %v, want %v", sigma, y, got, want)
			}
			if got := d.At(y); math.Abs(got/c.Density-1) > 1e-11 {
				t.Fatalf("σ = %v: density alone at %v is %v, want %v", sigma, y, got, c.Density)
			}
			mean, variance := y/s, sigma*sigma/s
			for q, want := range []float64{1, mean, mean*mean + variance - 1, mean*mean*mean + 3*mean*variance - 3*mean} {
				if math.Abs(c.M[q]-want) > 1e-10*(1+math.Abs(want)) {
					t.Fatalf("σ = %v: E[He%d|y = %v] = %v, want %v", sigma, q, y, c.M[q], want)
				}
			}
			for q := range c.E {
				// He_q² = Σ_j j!·C(q, j)²·He_{2q−2j}.
				want, weight := 0., 1.
				for j := 0; j <= q; j++ {
					want += weight * hermiteOf(2*q-2*j, mean, variance)
					weight *= float64((q-j)*(q-j)) / float64(j+1)
				}
				if math.Abs(c.E[q]-want) > 1e-9*(1+want) {
					t.Fatalf("σ = %v: E[He%d²|y = %v] = %v, want %v", sigma, q, y, c.E[q], want)
				}
			}
		}
	}
}

// TestDensityOfMultiples: the density of c·Z + σN is that of N(0, c² + σ²), out to four deviations, however large c is beside σ.
func TestDensityOfMultiples(t *testing.T) {
	for _, c := range []float64{.1, 10} {
		l := law(t, func(z float64) float64 { return c * z })
		for _, sigma := range []float64{.1, 1} {
			d, s := l.Density(sigma), math.Hypot(c, sigma)
			for u := -4.; u <= 4; u += .37 {
				if got, want := d.At(u*s), math.Exp(-u*u/2)/math.Sqrt(2*math.Pi)/s; math.Abs(got/want-1) > 1e-10 {
					t.Fatalf("%v·Z, σ = %v: density at %v is %v, want %v", c, sigma, u*s, got, want)
				}
			}
		}
	}
}

// hermiteOf is E[He_n(Z)] of a normal Z: Σ_k n!/(k!(n−2k)!2ᵏ)·(variance − 1)ᵏ·meanⁿ⁻²ᵏ.
func hermiteOf(n int, mean, variance float64) (sum float64) {
	factor := 1.
	for k := 0; 2*k <= n; k++ {
		sum += factor * math.Pow(variance-1, float64(k)) * math.Pow(mean, float64(n-2*k))
		factor *= float64((n-2*k)*(n-2*k-1)) / float64(2*(k+1))
	}
	return sum
}

// TestLawBySimpson: g with kinks, declared or not, steps, plateaus and steep growth
// against Simpson's rule.
func TestLawBySimpson(t *testing.T) {
	for name, c := range map[string]struct {
		g     func(float64) float64
		kinks []float64
	}{
		"relu":       {func(z float64) float64 { return math.Max(z, 0) }, []float64{0}},
		"undeclared": {func(z float64) float64 { return math.Max(z-.5, 0) }, nil},
		"step":       {func(z float64) float64 { return math.Copysign(1, z-.25) + z/10 }, nil},
		"cube":       {func(z float64) float64 { return z * z * z }, nil},
		"steep":      {func(z float64) float64 { return math.Tanh(50 * z) }, nil},
	} {
		const steps = 1 << 18
		type node struct{ g, w, h1, h2, h3, h4 float64 } // w: Simpson's rule times the density of Z
		rule := make([]node, steps+1)
		for i := range rule {
			z := 8 * (2*float64(i)/steps - 1)
			w := float64(2+2*(i%2)) / 3 * 16 / steps * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
			rule[i] = node{c.g(z), w, gauss.Hermite(1, z), gauss.Hermite(2, z), gauss.Hermite(3, z), gauss.Hermite(4, z)}
		}
		for _, sigma := range []float64{.1, 1} {
			l := law(t, c.g, c.kinks...)
			n, d := l.Noisy(sigma), l.Density(sigma)
			for _, y := range []float64{-1.2, -.9, -.05, 0, .1, .7, 1.05, 2.5} {
				var s [5]float64
				for i := range rule {
					v := &rule[i]
					if d := (y - v.g) / sigma; math.Abs(d) < 30 {
						w := v.w * math.Exp(-d*d/2) / (sigma * math.Sqrt(2*math.Pi))
						s[0] += w
						s[1] += w * v.h1
						s[2] += w * v.h2
						s[3] += w * v.h3
						s[4] += w * v.h4
					}
				}
				got := n.At(y)
				if s[0] < 1e-9 {
					continue
				}
				// A jump between two nodes of Simpson's rule costs it 1e−4.
				if math.Abs(got.Density/s[0]-1) > 2e-4 {
					t.Errorf("%s at σ = %v: density at %v is %v, want %v", name, sigma, y, got.Density, s[0])
				}
				if alone := d.At(y); math.Abs(alone/got.Density-1) > 1e-9 {
					t.Errorf("%s at σ = %v: density alone at %v is %v, want %v", name, sigma, y, alone, got.Density)
				}
				for q := 1; q <= 4; q++ {
					if want := s[q] / s[0]; math.Abs(got.M[q]-want) > 5e-4*(1+math.Abs(want)) {
						t.Errorf("%s at σ = %v: E[He%d|y = %v] = %v, want %v", name, sigma, q, y, got.M[q], want)
					}
				}
			}
		}
	}
}

// TestLawFarOut: the expectations are finite at any y, and what lies beyond the range
// is what is said.
func TestLawFarOut(t *testing.T) {
	n := law(t, func(z float64) float64 { return math.Max(z, 0) }, 0).Noisy(.05)
	for _, y := range []float64{-1e3, -1, 20, 1e6} {
		c := n.At(y)
		for q := range c.M {
			if math.IsNaN(c.M[q]+c.E[q]) || math.IsInf(c.M[q]+c.E[q], 0) {
				t.Errorf("at y = %v: %+v", y, c)
			}
		}
	}
	below, above := n.Beyond()
	for _, c := range []gauss.Conditional{below, above} {
		if !(c.Density > 0 && c.Density <= 1.1e-13) || c.M[0] != c.Density || !(c.E[4] > 0) {
			t.Errorf("beyond the range: %+v", c)
		}
	}
	// e^z: the range ends at 128 standard deviations, with something beyond it.
	n = law(t, math.Exp).Noisy(.05)
	_, above = n.Beyond()
	if want := math.Erfc(math.Log(n.Hi)/math.Sqrt2) / 2; math.Abs(above.Density/want-1) > 1e-6 || n.Hi > 300 {
		t.Errorf("beyond %v lies %v, want %v", n.Hi, above.Density, want)
	}
}

// TestDensityOfMany: the densities of many y are those of each alone, to the byte.
func TestDensityOfMany(t *testing.T) {
	d := law(t, math.Tanh).Density(.02)
	y := make([]float64, 301)
	for i := range y {
		y[i] = -1.5 + float64(i)*.01
	}
	all := make([]float64, len(y))
	d.Values(all, y)
	for i, v := range y {
		if got := d.At(v); got != all[i] {
			t.Fatalf("at %v: %v alone, %v among others", v, got, all[i])
		}
	}
	if all[0] != 0 || !(all[150] > 0) {
		t.Errorf("density %v far out, %v in the middle", all[0], all[150])
	}
}

// TestLawRefuses: g that fails, is not finite, is constant or is noise.
func TestLawRefuses(t *testing.T) {
	fails := errors.New("no")
	if _, err := gauss.NewLaw(t.Context(), func(context.Context, []float64, []float64) error { return fails }, nil); !errors.Is(err, fails) {
		t.Errorf("error %v", err)
	}
	if _, err := gauss.NewLaw(t.Context(), batch(math.Log), nil); err == nil {
		t.Error("log has a law")
	}
	if _, err := gauss.NewLaw(t.Context(), batch(math.Exp), []float64{math.NaN()}); err == nil {
		t.Error("a kink that is not a number")
	}
	if l := law(t, func(float64) float64 { return 1e9 / 7 }); l.SD != 0 {
		t.Errorf("a constant has sd %v", l.SD)
	}
	noise := func(z float64) float64 { return math.Mod(math.Abs(math.Sin(z*12345.678)*43758.5453), 1) }
	if l := law(t, noise); l.Resolved || l.Noisy(.1).Resolved {
		t.Error("noise is resolved")
	}
}
