package gauss_test

import (
	"context"
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk/gauss"
)

func each(f func(float64) float64) gauss.Func {
	return func(_ context.Context, dst, z []float64) error {
		for i, v := range z {
			dst[i] = f(v)
		}
		return nil
	}
}

func step(z float64) float64 {
	if z > 0 {
		return 1
	}
	return 0
}

// TestPairOfSteps: P(U > 0, V > 0) = ¼ + arcsin(c)/2π (Sheppard 1899), and by
// differentiating it E[1·1·UV] = c·P + √(1−c²)/2π; nearly parallel ones too.
func TestPairOfSteps(t *testing.T) {
	for _, c := range []float64{0, 0.3, -0.8, 0.999, -0.999999, 1, -1} {
		p, err := gauss.NewPair(t.Context(), each(step), []float64{0}, each(step), []float64{0}, c)
		if err != nil {
			t.Fatal(err)
		}
		s := math.Sqrt((1 - c) * (1 + c))
		both := 0.25 + math.Asin(c)/(2*math.Pi)
		product := c*both + s/(2*math.Pi)
		got := c*p.Value[2][0] + s*p.Value[1][1]
		// 1e−12: the rules agree to that.
		if math.Abs(p.Value[0][0]-both) > 1e-12 || math.Abs(got-product) > 1e-12 || p.Error > 1e-11 {
			t.Errorf("c = %v: %v and %v ± %v, want %v and %v", c, p.Value[0][0], got, p.Error, both, product)
		}
	}
}

// TestPairOfPolynomials: E[U²·V²] = 1 + 2c², and E[e^{tU}·e^{tV}] = e^{t²(1+c)}.
func TestPairOfPolynomials(t *testing.T) {
	square := each(func(z float64) float64 { return z * z })
	exp := each(func(z float64) float64 { return math.Exp(0.7 * z) })
	for _, c := range []float64{0, 0.5, -0.9, 1} {
		p, err := gauss.NewPair(t.Context(), square, nil, square, nil, c)
		if err != nil || math.Abs(p.Value[0][0]-(1+2*c*c)) > 1e-12 {
			t.Errorf("c = %v: E U²V² = %v (%v)", c, p.Value[0][0], err)
		}
		p, err = gauss.NewPair(t.Context(), exp, nil, exp, nil, c)
		if want := math.Exp(0.49 * (1 + c)); err != nil || math.Abs(p.Value[0][0]-want) > 1e-11 {
			t.Errorf("c = %v: E e^U e^V = %v, want %v (%v)", c, p.Value[0][0], want, err)
		}
	}
}

// TestPairMoments: U²V² with the weights Z^a·W^b, by the moments of Z and W; functions of
// other sizes take the same number of batches.
func TestPairMoments(t *testing.T) {
	for _, c := range []float64{0, 0.5, -0.9} {
		s2 := 1 - c*c
		want := [3][3]float64{{1 + 2*c*c, 0, 3}, {0, 6 * c * math.Sqrt(s2)}, {15*c*c + 3*s2}}
		batches := 0
		for _, size := range []float64{1, 1e-6, 1e6} {
			calls := 0
			square := counted(func(z float64) float64 { return size * z * z }, &calls)
			p, err := gauss.NewPair(t.Context(), square, nil, each(func(z float64) float64 { return size * z * z }), nil, c)
			if err != nil {
				t.Fatal(err)
			}
			for a := range want {
				for b := range 3 - a {
					if got := p.Value[a][b] / size / size; math.Abs(got-want[a][b]) > 1e-11 || p.Error > 1e-10*size*size {
						t.Errorf("c = %v: E[U²V²·Z^%d·W^%d] = %v ± %v, want %v", c, a, b, got, p.Error/size/size, want[a][b])
					}
				}
			}
			if batches == 0 {
				batches = calls
			}
			if calls != batches || calls != 2 {
				t.Errorf("c = %v, size %v: %d batches", c, size, calls)
			}
		}
	}
}

// TestPairOfWaves: E[sin(aU)·sin(aV)] = ½(e^{−a²(1−c)} − e^{−a²(1+c)}), with waves so short
// that the first panels do not resolve them.
func TestPairOfWaves(t *testing.T) {
	const a, c = 24, 0.999
	sine := each(func(z float64) float64 { return math.Sin(a * z) })
	p, err := gauss.NewPair(t.Context(), sine, nil, sine, nil, c)
	if want := (math.Exp(-a*a*(1-c)) - math.Exp(-a*a*(1+c))) / 2; err != nil || math.Abs(p.Value[0][0]-want) > 1e-12 {
		t.Errorf("%v ± %v (%v), want %v", p.Value[0][0], p.Error, err, want)
	}
}

// TestPairOfShiftedSteps: P(U > ½, V > −¼) = ∫_½ φ(z)·Φ((cz+¼)/s) dz, whose steep part is
// where cz = −¼.
func TestPairOfShiftedSteps(t *testing.T) {
	x, w := gauss.Legendre(40)
	shifted := func(at float64) gauss.Func {
		return each(func(z float64) float64 { return step(z - at) })
	}
	for _, c := range []float64{0.2, -0.6, 0.95, -0.999, 0.99999, -0.99999} {
		s := math.Sqrt((1 - c) * (1 + c))
		calls := 0
		p, err := gauss.NewPair(t.Context(), counted(func(z float64) float64 { return step(z - 0.5) }, &calls), []float64{0.5}, shifted(-0.25), []float64{-0.25}, c)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		const panels = 4000
		for i := range panels {
			a, width := 0.5+11.5*float64(i)/panels, 11.5/panels
			for j, x := range x {
				z := a + width*(x+1)/2
				want += w[j] * width / 2 * density(z) * math.Erfc(-(c*z+0.25)/s/math.Sqrt2) / 2
			}
		}
		if math.Abs(p.Value[0][0]-want) > 1e-12 || p.Error > 1e-11 {
			t.Errorf("c = %v: %v ± %v, want %v", c, p.Value[0][0], p.Error, want)
		}
		if calls > 3 {
			t.Errorf("c = %v: %d batches", c, calls)
		}
	}
}

// TestSphere: E t² = 1/d, E t⁴ = 3/(d(d+2)), odd powers 0.
func TestSphere(t *testing.T) {
	for _, d := range []int{2, 3, 20, 300} {
		n := float64(d)
		for power, want := range map[float64]float64{0: 1, 1: 0, 2: 1 / n, 3: 0, 4: 3 / (n * (n + 2))} {
			got := gauss.Sphere(d, func(t float64) float64 { return math.Pow(t, power) })
			if math.Abs(got-want) > 1e-14 {
				t.Errorf("d = %d: E t^%v = %v, want %v", d, power, got, want)
			}
		}
	}
}
