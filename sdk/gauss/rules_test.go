package gauss

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func of(g func(float64) float64) Func {
	return func(_ context.Context, dst, z []float64) error {
		for i, v := range z {
			dst[i] = g(v)
		}
		return nil
	}
}

// TestFeatures: the integrands on which panels are compared, by their definition.
func TestFeatures(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	n := 2 * order * children
	r := rule{make([]float64, n), make([]float64, n), make([]float64, n)}
	var mass, mean float64
	for i := range r.z {
		r.z[i], r.w[i], r.g[i] = rng.NormFloat64(), rng.Float64(), 1e3+2*rng.NormFloat64()
		mass += r.w[i]
		mean += r.w[i] * r.g[i]
	}
	mean /= mass
	variance := 0.0
	for i, g := range r.g {
		variance += r.w[i] * math.Pow(g-mean, 2) / mass
	}
	f := &features{mean: mean, sd: math.Sqrt(variance)}
	for _, c := range [][2]int{{0, n}, {17, 40}} {
		sum, size := f.integrate(r, c[0], c[1])
		j := 0
		check := func(p, q float64) {
			want, most := 0.0, 0.0
			for i := c[0]; i < c[1]; i++ {
				v := r.w[i] * math.Pow((r.g[i]-mean)/f.sd, p) * math.Pow(r.z[i], q)
				want += v
				most += math.Abs(v)
			}
			// Rounding of n products of 16 factors, of which g − mean has lost three digits.
			if tol := 1e-11 * most; math.Abs(sum[j]-want) > tol || math.Abs(size[j]-most) > tol {
				t.Errorf("t^%v·z^%v over %v: %v and %v, want %v and %v", p, q, c, sum[j], size[j], want, most)
			}
			j++
		}
		for p := 1.0; p <= 4; p++ {
			for q := range 5 {
				check(p, float64(q))
			}
		}
		check(8, 8)
	}
}

// TestFeaturesOfWeights: the scales are those of the weights' mass, and either outermost panel,
// all of it, is looked at.
func TestFeaturesOfWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	const part = order * children
	n := 4 * part
	r := rule{make([]float64, n), make([]float64, n), make([]float64, n)}
	var mass, mean, variance float64
	for i := range r.z {
		r.z[i], r.g[i] = rng.NormFloat64(), 5+2*rng.NormFloat64()
		if part <= i && i < n-part {
			r.w[i] = rng.Float64()
		}
		mass += r.w[i]
		mean += r.w[i] * r.g[i]
	}
	mean /= mass
	for i, g := range r.g {
		variance += r.w[i] * math.Pow(g-mean, 2) / mass
	}
	f, err := newFeatures(r, Range)
	if err != nil || math.Abs(f.mean-mean) > 1e-13 || math.Abs(f.sd-math.Sqrt(variance)) > 1e-13 {
		t.Errorf("%+v, %v, want mean %v and sd %v", f, err, mean, math.Sqrt(variance))
	}
	for _, i := range []int{0, part / 2, part - 1, n - part, n - part/2, n - 1} {
		r.w[i] = 1
		if _, err := newFeatures(r, Range); !errors.Is(err, ErrGrowth) {
			t.Errorf("with weight at node %d of %d: %v", i, n, err)
		}
		r.w[i] = 0
	}
}

// TestScales: mean, deviation and tolerance of g, and that it is refused for either of
// its tails.
func TestScales(t *testing.T) {
	edges, err := panels(nil, Range)
	if err != nil {
		t.Fatal(err)
	}
	at := func(g func(float64) float64) (*features, error) {
		r, err := evaluate(t.Context(), of(g), nodes(split(edges)))
		if err != nil {
			t.Fatal(err)
		}
		return newFeatures(r, Range)
	}
	f, err := at(func(z float64) float64 { return 1e-3 * (1e9 + z) })
	// The mean has rounding of 1e6, the deviation that of one value.
	if err != nil || math.Abs(f.mean-1e6) > 1e-8 || math.Abs(f.sd-1e-3) > 1e-8 || math.Abs(f.tol/(64*epsilon*1e9)-1) > 1e-4 {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err = at(func(z float64) float64 { return 2 * z }); err != nil || math.Abs(f.sd-2) > 1e-13 || f.tol != agree {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err = at(func(float64) float64 { return 3 }); err != nil || f.sd > 1e-13 {
		t.Errorf("a constant: %+v, %v", f, err)
	}
	half := func(sign, a float64) func(float64) float64 {
		return func(z float64) float64 {
			if sign*z < 0 {
				return 0
			}
			return math.Exp(a * z * z)
		}
	}
	for _, sign := range []float64{-1, 1} {
		// E g⁴ is that of exp((4a−½)z²).
		if _, err := at(half(sign, 0.11)); err != nil {
			t.Errorf("side %v, with a fourth moment: %v", sign, err)
		}
		if _, err := at(half(sign, 0.125)); err != ErrGrowth {
			t.Errorf("side %v, without a fourth moment: %v", sign, err)
		}
	}
}

// TestDivide: the parts are of equal width and end where the panel does, to the bit.
func TestDivide(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for range 1000 {
		a, width, n := 10*rng.NormFloat64(), rng.ExpFloat64(), 1+rng.IntN(9)
		b := a + width
		parts := divide(a, b, n)
		if len(parts) != n || parts[0][0] != a || parts[n-1][1] != b {
			t.Fatalf("[%v, %v] in %d: %v", a, b, n, parts)
		}
		for i, p := range parts {
			if math.Abs(p[1]-p[0]-width/float64(n)) > 1e-14 || i > 0 && p[0] != parts[i-1][1] {
				t.Fatalf("[%v, %v] in %d: %v", a, b, n, parts)
			}
		}
	}
}

// TestBound: what is without noise and without error has the bound of rounding.
func TestBound(t *testing.T) {
	g, err := NewGrid(t.Context(), of(func(float64) float64 { return 1000 }), nil)
	if err != nil {
		t.Fatal(err)
	}
	value, bound := g.Expect(func(_, g float64) float64 { return g })
	if least := 4 * epsilon * 1000; math.Abs(value-1000) > bound || bound < least || bound > 3*least {
		t.Errorf("%v ± %v, want ±%v to thrice that", value, bound, least)
	}
}

// TestLawScale: mean and deviation given |Z| ≤ 4 by their closed forms, about any
// constant; what is resolved does not depend on g's scale and offset.
func TestLawScale(t *testing.T) {
	cdf := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	within := cdf(4) - cdf(-4)
	spread := math.Sqrt(1 - 8*density(4)/within) // of Z
	exp1 := math.Exp(0.5) * (cdf(3) - cdf(-5)) / within
	exp2 := math.Exp(2) * (cdf(2) - cdf(-6)) / within
	for name, c := range map[string]struct {
		g        func(float64) float64
		kinks    []float64
		mean, sd float64
	}{
		"identity":              {func(z float64) float64 { return z }, nil, 0, spread},
		"far":                   {func(z float64) float64 { return 1e6 + 3*z }, nil, 1e6, 3 * spread},
		"far below":             {func(z float64) float64 { return -1e6 - z/1e3 }, nil, -1e6, spread / 1e3},
		"exp":                   {math.Exp, nil, exp1, math.Sqrt(exp2 - exp1*exp1)},
		"exp, cut at odd kinks": {math.Exp, []float64{-0.3, 1.7}, exp1, math.Sqrt(exp2 - exp1*exp1)},
	} {
		l, err := NewLaw(t.Context(), of(c.g), c.kinks)
		if err != nil {
			t.Fatal(err)
		}
		// Rounding: of the mean relative to itself, of the deviation to the values'.
		if math.Abs(l.Mean-c.mean) > 1e-13*(1+math.Abs(c.mean)) || math.Abs(l.SD-c.sd) > 1e-12*c.sd+4*epsilon*math.Abs(c.mean) || !l.Resolved {
			t.Errorf("%s: mean %v, sd %v, resolved %v; want %v, %v", name, l.Mean, l.SD, l.Resolved, c.mean, c.sd)
		}
	}
	pieces := func(scale, offset float64) int {
		l, err := NewLaw(t.Context(), of(func(z float64) float64 { return scale * (offset + math.Tanh(20*z)) }), nil)
		if err != nil || !l.Resolved {
			t.Fatalf("resolved %v, error %v", l.Resolved, err)
		}
		if !slices.IsSortedFunc(l.pieces, func(a, b piece) int { return cmp.Compare(a.lo, b.lo) }) {
			t.Error("the pieces are not in order")
		}
		return len(l.pieces)
	}
	n := pieces(1, 0)
	for _, scale := range []float64{1e-9, 1e9} {
		if m := pieces(scale, 0); m != n {
			t.Errorf("scaled by %v: %d pieces, %d without", scale, m, n)
		}
	}
	for _, offset := range []float64{-1e6, 1e6} {
		// 64 roundings of the offset are more than 1e−12: no more can be resolved, and fewer
		// pieces are enough.
		if m := pieces(1, offset); m > n || m < n/4 {
			t.Errorf("about %v: %d pieces, %d without", offset, m, n)
		}
	}
}

// TestLawFollows: between its nodes too the panels' polynomials are g.
func TestLawFollows(t *testing.T) {
	g := func(z float64) float64 { return math.Tanh(50*z) + math.Abs(z-0.3) }
	l, err := NewLaw(t.Context(), of(g), nil)
	if err != nil {
		t.Fatal(err)
	}
	leg := newLegendre()
	for _, p := range l.pieces {
		for _, part := range leg.divide(nil, p, 3) {
			for i, v := range part.g {
				// The last four coefficients are below 1e−12 of a deviation of 1.2; a kink's
				// panel is narrower than 1e−11.
				if want := g(leg.z(part, i)); math.Abs(v-want) > 2e-11 {
					t.Fatalf("at %v: %v, want %v", leg.z(part, i), v, want)
				}
			}
		}
	}
}

// TestNoisyNodes: no g goes further than 8σ within a panel, nodes are in order, and At
// takes those that count.
func TestNoisyNodes(t *testing.T) {
	l, err := NewLaw(t.Context(), of(func(z float64) float64 { return 3 + math.Tanh(z) + z*z/9 }), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sigma := range []float64{0.01, 0.3, 2} {
		pieces, resolved := l.fine(sigma, 1e3, newLegendre())
		if !resolved {
			t.Fatalf("σ = %v: not resolved", sigma)
		}
		for _, p := range pieces {
			// An eighth more: the parts are of equal width, not of equal range.
			if reach := slices.Max(p.g[:]) - slices.Min(p.g[:]); reach > perNoise*sigma {
				t.Errorf("σ = %v: g goes %v within a panel", sigma, reach)
			}
		}
		n := l.Noisy(sigma)
		if !slices.IsSorted(n.g) {
			t.Error("nodes are not in order")
		}
		total := 0.0
		for i := 0; i < len(n.f); i += conditions {
			total += n.f[i]
		}
		if math.Abs(total-1) > 1e-13 {
			t.Errorf("σ = %v: the weights add up to %v", sigma, total)
		}
		for _, y := range []float64{-50, 2, 3.3, 5, 60} {
			near := math.Inf(1)
			for _, g := range n.g {
				near = min(near, math.Abs(g-y))
			}
			count := 0
			for _, g := range n.g {
				if math.Abs(g-y) <= math.Sqrt(near*near+window*sigma*sigma) {
					count++
				}
			}
			if got := n.At(y).Nodes; got != count {
				t.Errorf("σ = %v, y = %v: %d nodes, want %d", sigma, y, got, count)
			}
		}
	}
	// Far outside only the nearest g is left: below, the least one's Z, above, that of z = 8.
	n := l.Noisy(0.05)
	for _, y := range []float64{-1e3, 1e3} {
		at := l.pieces[0].lo
		if y > 0 {
			at = l.pieces[len(l.pieces)-1].hi
		}
		if c := n.At(y); y > 0 && math.Abs(c.M[1]-at) > 0.1 || math.IsNaN(c.M[1]) || c.Density != 0 {
			t.Errorf("at y = %v: E[Z|y] = %v, want about %v", y, c.M[1], at)
		}
	}
}

// TestPiecesAreBounded: of a law that would take more panels than there may be, there are
// not many more, and it is not resolved.
func TestPiecesAreBounded(t *testing.T) {
	l, err := NewLaw(t.Context(), of(math.Exp), nil)
	if err != nil {
		t.Fatal(err)
	}
	pieces, resolved := l.fine(1e-6, 1e6, newLegendre())
	if resolved || len(pieces) > maxPieces || len(pieces) < maxPieces-8 {
		t.Errorf("%d panels, resolved %v", len(pieces), resolved)
	}
}

// TestBeyondIdentity: of y = Z + σN, Z given y is normal, so that what lies beyond the range
// has closed forms.
func TestBeyondIdentity(t *testing.T) {
	l, err := NewLaw(t.Context(), of(func(z float64) float64 { return z }), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := l.Noisy(1)
	below, above := n.Beyond()
	u := n.Lo / math.Sqrt2
	p := math.Erfc(-u/math.Sqrt2) / 2
	first := density(u) / math.Sqrt2
	second := (p-u*density(u))/2 + p/2
	for sign, c := range map[float64]Conditional{-1: below, 1: above} {
		// 5 %: beyond |Z| = 8 there is nothing, which is some hundredths of what y below −10 sees;
		// and the two ends are found to within σ/64.
		near := func(got, want float64) bool { return math.Abs(got/want-1) < 0.15 }
		if !near(c.Density, p) || !near(c.M[0], p) || !near(c.M[1], sign*first) || !near(c.E[1], second) || !near(c.M[2], second-p) {
			t.Errorf("side %v: %+v, want %v, %v, %v", sign, c, p, first, second)
		}
	}
}

// TestPanics: a noise level that is not above 0 is the caller's error.
func TestPanics(t *testing.T) {
	l, err := NewLaw(t.Context(), of(math.Tanh), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sigma := range []float64{0, -1, math.NaN()} {
		for name, f := range map[string]func(){"noisy": func() { l.Noisy(sigma) }, "density": func() { l.Density(sigma) }} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s takes the noise level %v", name, sigma)
					}
				}()
				f()
			}()
		}
	}
}
