package properties

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
)

// grid are places from −20 to 20 in steps of .01, and a function's values.
func gridOf(f func(z float64) float64) (z, v []float64) {
	for i := -2000; i <= 2000; i++ {
		x := float64(i) / 100
		z, v = append(z, x), append(v, f(x))
	}
	return z, v
}

// TestJumps: by how much φ′ jumps at each kink, also where kinks are near each other or far out.
func TestJumps(t *testing.T) {
	kinks := []float64{-3e6, 0, 1e-3, 2}
	levels := []float64{5, 1, 2, -1.5, .25} // between the kinks
	act := sdk.Func{Name: "steps", DG: func(z float64) float64 {
		piece := 0
		for piece < len(kinks) && z > kinks[piece] {
			piece++
		}
		return levels[piece]
	}}
	got, err := jumps(t.Context(), act, kinks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kinks {
		if want := math.Abs(levels[i+1] - levels[i]); got[i] != want {
			t.Errorf("%v at %v, want %v", got[i], kinks[i], want)
		}
	}
	if _, err := jumps(t.Context(), sdk.Func{Name: "none"}, kinks); err == nil {
		t.Error("no error without a derivative")
	}
}

// TestPolynomialBound: powers and what falls are bounded by a power, exponentials are not, also those that
// fall before they grow.
func TestPolynomialBound(t *testing.T) {
	steps := func(ten, twenty float64) func(float64) float64 { // of the logarithm up to 5, 10 and 20
		return func(z float64) float64 {
			switch z = math.Abs(z); {
			case z <= 5:
				return 1
			case z <= 10:
				return math.Exp(ten)
			}
			return math.Exp(twenty)
		}
	}
	for name, c := range map[string]struct {
		f    func(z float64) float64
		want bool
	}{
		"1":               {func(float64) float64 { return 1 }, true},
		"z⁸":              {func(z float64) float64 { return math.Pow(z, 8) }, true},
		"1/(1+z²)":        {func(z float64) float64 { return 1 / (1 + z*z) }, true},
		"exp(−z²)":        {func(z float64) float64 { return math.Exp(-z * z) }, true},
		"exp|z|":          {func(z float64) float64 { return math.Exp(math.Abs(z)) }, false},
		"exp(−z)":         {func(z float64) float64 { return math.Exp(-z) }, false},
		"1+exp(|z|−15)":   {func(z float64) float64 { return 1 + math.Exp(math.Abs(z)-15) }, false},
		"−exp|z|":         {func(z float64) float64 { return -math.Exp(math.Abs(z)) }, false},
		"1+(|z|/100)":     {func(z float64) float64 { return 1 + math.Abs(z)/100 }, true}, // grows by less than .1 of log
		"z² for |z| ≤ 10": {func(z float64) float64 { return min(z*z, 100) }, true},
		// Factors of e and e^1.35 are those of a power, e and e^1.45 not: 1.3·1 + .1.
		"1, e, e^2.35": {steps(1, 2.35), true},
		"1, e, e^2.45": {steps(1, 2.45), false},
	} {
		z, v := gridOf(c.f)
		if got := polynomiallyBounded(z, v); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSlopeBound: P3's first half. A jump counts from a thousandth of φ′'s size on, and a declared kink of
// φ″ alone does not.
func TestSlopeBound(t *testing.T) {
	for name, c := range map[string]struct {
		f     func(z float64) float64
		jumps []float64
		want  bool
	}{
		"constant":      {func(float64) float64 { return 7 }, nil, true},
		"sin":           {math.Sin, nil, true},
		"z":             {func(z float64) float64 { return z }, nil, true},
		"z²":            {func(z float64) float64 { return z * z }, nil, false},
		"−z³":           {func(z float64) float64 { return -z * z * z }, nil, false},
		"a jump":        {math.Sin, []float64{0, .0011}, false},
		"a small jump":  {math.Sin, []float64{.0009}, true},
		"large, a jump": {func(z float64) float64 { return 100 * math.Sin(z) }, []float64{.09}, true},
		"z^1.2":         {func(z float64) float64 { return math.Pow(math.Abs(z), 1.2) }, nil, true}, // 2^.2 < 1.2
		"z^1.3":         {func(z float64) float64 { return math.Pow(math.Abs(z), 1.3) }, nil, false},
		"rounding":      {func(z float64) float64 { return 1e10 + z*z/10 }, nil, true}, // steps of 1e−9 of φ′
	} {
		z, v := gridOf(c.f)
		if got := boundedSlope(z, v, c.jumps); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// A jump that was not declared, between nodes that are near each other.
	if boundedSlope([]float64{-1, 0, .5e-6, 1}, []float64{0, 0, 3, 3}, nil) {
		t.Error("a slope of 2·10⁶ times φ′ is bounded")
	}
	if !boundedSlope([]float64{-1, 0, 2e-6, 1}, []float64{0, 0, 3, 3}, nil) {
		t.Error("a slope of 5·10⁵ times φ′ is not bounded")
	}
}

// TestPiecesOfDerivative: P3's other half, with kinks in any order.
func TestPiecesOfDerivative(t *testing.T) {
	z, v := gridOf(func(z float64) float64 { return math.Floor((z - .005) / 10) })
	if !piecewiseConstant(z, v, []float64{10.005, -9.995, .005, -19.995}) {
		t.Error("steps at the kinks")
	}
	if piecewiseConstant(z, v, []float64{10.005, .005, -19.995}) {
		t.Error("a step beside the kinks")
	}
	for by, want := range map[float64]bool{.9e-9: true, 1.1e-9: false} {
		z, v := gridOf(func(float64) float64 { return 5 })
		v[2000] += 5 * by // one place beside its neighbours
		if piecewiseConstant(z, v, nil) != want {
			t.Errorf("off by %v of φ′: %v", by, !want)
		}
	}
	for least, want := range map[float64]bool{-.9e-12: true, -1.1e-12: false} {
		if nonNegative([]float64{0, 3, 3 * least}) != want {
			t.Errorf("%v of φ′ below 0 counts: %v", least, want)
		}
	}
	if largest([]float64{1, -4, 3}) != 4 || largest([]float64{1, -2, 3}) != 3 {
		t.Error("the largest in absolute value")
	}
}

// TestRhoOfSigns: where φ′ takes both signs and has no mean, the third of ρ's terms is −α_1² in closed form:
// φ = z² + εz has φ′(σZ) = 2σZ + ε, α_0 = α_2 = ε, α_1 = 2σ, and ε² − 4σ².
func TestRhoOfSigns(t *testing.T) {
	for _, epsilon := range []float64{0, .01, .2} {
		for _, sigma := range []float64{.5, 3} {
			act := sdk.Func{Name: "z²", DG: func(z float64) float64 { return 2*z + epsilon }}
			rho, scale, err := RhoOf(t.Context(), act, sigma)
			want := epsilon*epsilon - 4*sigma*sigma
			// β_0 + β_2 = (4σ² + ε²) + (12σ² + ε²).
			size := 16*sigma*sigma + 2*epsilon*epsilon
			if err != nil || !(math.Abs(rho/want-1) <= 1e-11) || !(math.Abs(scale/size-1) <= 1e-12) {
				t.Errorf("ε = %v, σ = %v: %v of %v (%v), want %v of %v", epsilon, sigma, rho, scale, err, want, size)
			}
		}
	}
}

// TestRhoOfKinks: kinks are at k/σ on the scale of Z: φ′ = 1 for z > .7 has α_0 = P(σZ > .7) and closed forms
// of the rest, with a = .7/σ, φ the density: α_1 = φ(a), α_2 = α_0 + aφ(a).
func TestRhoOfKinks(t *testing.T) {
	act := sdk.Func{Name: "hinge", DG: func(z float64) float64 {
		if z > .7 {
			return 1
		}
		return 0
	}, Kinks: []float64{.7}}
	for _, sigma := range []float64{.4, 1, 5} {
		a := .7 / sigma
		a0 := math.Erfc(a/math.Sqrt2) / 2
		a1 := math.Exp(-a*a/2) / math.Sqrt(2*math.Pi)
		a2 := a0 + a*a1
		want := min(a0-a0*a0-a1*a1, a2-a1*a1-a2*a2, a0*a2-a1*a1)
		if rho, _, err := RhoOf(t.Context(), act, sigma); err != nil || !(math.Abs(rho/want-1) <= 1e-9) {
			t.Errorf("σ = %v: %v (%v), want %v", sigma, rho, err, want)
		}
	}
}

// TestRhoOfMultiples: ρ of c·φ is c² times that of φ, however small both are, and 0 of a line however steep.
func TestRhoOfMultiples(t *testing.T) {
	logistic := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	want, _, err := RhoOf(t.Context(), sdk.Func{Name: "softplus", DG: logistic}, .01)
	if err != nil || !(want > 0) {
		t.Fatal(want, err)
	}
	for _, c := range []float64{1e-9, 1e9} {
		rho, _, err := RhoOf(t.Context(), sdk.Func{Name: "softplus", DG: func(z float64) float64 { return c * logistic(z) }}, .01)
		if err != nil || !(math.Abs(rho/(c*c*want)-1) <= 1e-6) {
			t.Errorf("%v times: %v (%v), want %v", c, rho, err, c*c*want)
		}
		rho, _, err = RhoOf(t.Context(), sdk.Func{Name: "line", DG: func(float64) float64 { return c / 3 }}, .01)
		if err != nil || rho != 0 {
			t.Errorf("a line of slope %v/3: %v (%v)", c, rho, err)
		}
	}
}

// TestRhoOfGap: φ′ = 1 but for 0 in (0, .3) is the nearest to a line where it is weighted by Z, so that the second
// of ρ's terms is the least: in closed form by the moments of the gap.
func TestRhoOfGap(t *testing.T) {
	act := sdk.Func{Name: "gap", DG: func(z float64) float64 {
		if z > 0 && z < .3 {
			return 0
		}
		return 1
	}, Kinks: []float64{0, .3}}
	for _, sigma := range []float64{.7, 1} {
		a := .3 / sigma
		density := math.Exp(-a*a/2) / math.Sqrt(2*math.Pi)
		w0, w1 := math.Erf(a/math.Sqrt2)/2, 1/math.Sqrt(2*math.Pi)-density
		a0, a1, a2 := 1-w0, -w1, 1-(w0-a*density)
		want := a2 - a1*a1 - a2*a2
		if want > min(a0-a0*a0-a1*a1, a0*a2-a1*a1) {
			t.Fatal("the second is not the least")
		}
		if rho, _, err := RhoOf(t.Context(), act, sigma); err != nil || !(math.Abs(rho/want-1) <= 1e-9) {
			t.Errorf("σ = %v: %v (%v), want %v", sigma, rho, err, want)
		}
	}
}
