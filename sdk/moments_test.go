package sdk_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

func relu(z float64) float64 { return math.Max(z, 0) }

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

func unitStep(z float64) float64 {
	if z > 0 {
		return 1
	}
	return 0
}

var activations = []sdk.Func{
	{Name: "relu", G: relu, DG: unitStep, Kinks: []float64{0}},
	{Name: "sigmoid", G: logistic, DG: func(z float64) float64 { return logistic(z) * logistic(-z) }},
	{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { return 1 - math.Pow(math.Tanh(z), 2) }},
	{Name: "square", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }},
}

func moments(t testing.TB, act sdk.Activation) sdk.Moments {
	t.Helper()
	m, err := sdk.Quadrature(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestQuadratureOfReLU: E[g^p·Z^q] = ½E|Z|^{p+q} for p ≥ 1 (002 Example 2).
func TestQuadratureOfReLU(t *testing.T) {
	m := moments(t, activations[0])
	even := []float64{1, 1, 3, 15, 105} // E[Z^{2n}]
	for p := 1; p <= 4; p++ {
		for q := 0; q <= 4; q++ {
			want := math.Sqrt(2/math.Pi) * []float64{1, 2, 8, 48, 384}[(p+q)/2] / 2 // E|Z|^{2n+1} = √(2/π)·2ⁿn!
			if (p+q)%2 == 0 {
				want = even[(p+q)/2] / 2
			}
			if got := m.Value[p][q]; math.Abs(got-want) > m.Error[p][q] || m.Error[p][q] > 2e-14*want {
				t.Errorf("E[g^%d·Z^%d] = %v ± %.1e, want %v", p, q, got, m.Error[p][q], want)
			}
		}
	}
}

// TestSteinIdentities: E[f(Z)·He_{q+1}(Z)] = E[f′(Z)·He_q(Z)] for f = g^p, with
// f′ from the activation's derivative: values and derivative through one
// formula that the quadrature of g knows nothing of.
func TestSteinIdentities(t *testing.T) {
	for _, act := range activations {
		m := moments(t, act)
		deriv, err := gauss.NewGrid(t.Context(), act.Deriv, act.Kinks)
		if err != nil {
			t.Fatal(err)
		}
		for p := 1; p <= 4; p++ {
			for q := range 4 {
				want, bound := deriv.Expect(func(z, d float64) float64 {
					return float64(p) * math.Pow(act.G(z), float64(p-1)) * d * gauss.Hermite(q, z)
				})
				if got := m.Hermite(p, q+1); math.Abs(got-want) > bound+m.HermiteError(p, q+1) {
					t.Errorf("%s: h(%d,%d) = %v, Stein's identity gives %v", act.Name, p, q+1, got, want)
				}
			}
		}
	}
}

// noisy returns E[f(g(Z) + σN, Z)] by a product rule: another quadrature of the
// definition than the algebra of the systems.
func noisy(t testing.TB, act sdk.Func, sigma float64, f func(y, z float64) float64) float64 {
	t.Helper()
	ctx := t.Context()
	outer, err := gauss.NewGrid(ctx, act.Eval, act.Kinks)
	if err != nil {
		t.Fatal(err)
	}
	// Trapezoids converge geometrically for a normal density times a polynomial.
	const h = 0.2
	var noise, weight []float64
	for e := -12.0; e <= 12; e += h {
		noise, weight = append(noise, e), append(weight, h*math.Exp(-e*e/2)/math.Sqrt(2*math.Pi))
	}
	v, _ := outer.Expect(func(z, g float64) float64 {
		var s float64
		for i, e := range noise {
			s += weight[i] * f(g+sigma*e, z)
		}
		return s
	})
	return v
}

// TestSystemIsTheDefinition: Matrix·x − RHS is E[Q4(y)·He_q(Z)] for every x, and
// so for the other rows, at every σ.
func TestSystemIsTheDefinition(t *testing.T) {
	for _, act := range activations {
		for _, sigma := range []float64{0, 0.3, 1.1} {
			s := moments(t, act).System(sigma)
			a, b, c, d := -1.3, 0.7, 2.1, -0.4
			q4 := func(y float64) float64 { return y*y*y*y + a*y*y*y + b*y*y + c*y }
			q2 := func(y float64) float64 { return y*y + d*y }
			p3 := func(y float64) float64 { return y*y*y + a*y*y + b*y }
			e := func(f func(float64) float64, q int) float64 {
				return noisy(t, act, sigma, func(y, z float64) float64 { return f(y) * gauss.Hermite(q, z) })
			}
			check := func(name string, got, want float64) {
				if math.Abs(got-want) > 1e-10*math.Max(1, math.Abs(want)) {
					t.Errorf("%s at σ = %v: %s = %v, by definition %v", act.Name, sigma, name, got, want)
				}
			}
			for i, r := range s.Matrix {
				check("row of Q4", r[0]*a+r[1]*b+r[2]*c-s.RHS[i], e(q4, i+1))
			}
			check("c4", s.C4[0]+s.C4[1]*a+s.C4[2]*b+s.C4[3]*c, e(q4, 4))
			check("row of Q2", s.Delta[0]*d-s.Delta[1], e(q2, 1))
			check("c2", s.C2[0]+s.C2[1]*d, e(q2, 2))
			for i, r := range s.Cubic.Matrix {
				check("row of P3", r[0]*a+r[1]*b-s.Cubic.RHS[i], e(p3, i+1))
			}
			check("c3", s.Cubic.C3[0]+s.Cubic.C3[1]*a+s.Cubic.C3[2]*b, e(p3, 3))
		}
	}
}

// TestSigmoidMatrix: the third-order matrix of the slides (001), six digits.
func TestSigmoidMatrix(t *testing.T) {
	m := moments(t, activations[1])
	for _, sigma := range []float64{0.05, 0.5} {
		s := m.System(sigma).Cubic
		for _, c := range []struct{ got, want float64 }{
			{s.Matrix[0][0], .206621}, {s.Matrix[0][1], .206621}, {s.Matrix[1][0], .062396}, {s.Matrix[1][1], 0},
			{s.RHS[0], -.175423 - .619863*sigma*sigma}, {s.RHS[1], -.093595},
		} {
			if math.Abs(c.got-c.want) > 1.1e-6 { // two roundings to six digits
				t.Errorf("σ = %v: %v, want %v", sigma, c.got, c.want)
			}
		}
	}
}

// TestMomentsOfAffine: E[(a·g+b)^p·Z^q] follows from the moments of g by the
// binomial theorem.
func TestMomentsOfAffine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		act := rapid.SampledFrom(activations).Draw(rt, "activation")
		a := rapid.Float64Range(-5, 5).Draw(rt, "a")
		b := rapid.Float64Range(-5, 5).Draw(rt, "b")
		m := moments(t, act)
		n := moments(t, sdk.Func{Name: "affine", G: func(z float64) float64 { return a*act.G(z) + b }, Kinks: act.Kinks})
		for p := range n.Value {
			for q := range n.Value[p] {
				var want, tol float64
				for j := 0; j <= p; j++ {
					c := binomial(p, j) * math.Pow(a, float64(j)) * math.Pow(b, float64(p-j))
					want += c * m.Value[j][q]
					tol += math.Abs(c) * (m.Error[j][q] + 1e-14*math.Abs(m.Value[j][q]))
				}
				if math.Abs(n.Value[p][q]-want) > tol+n.Error[p][q]+1e-14 {
					rt.Fatalf("E[(%v·%s%+v)^%d·Z^%d] = %v, want %v", a, act.Name, b, p, q, n.Value[p][q], want)
				}
			}
		}
	})
}

func binomial(n, k int) float64 {
	r := 1.0
	for i := range k {
		r = r * float64(n-i) / float64(i+1)
	}
	return math.Round(r)
}

// provider is an activation with moments and a system of its own.
type provider struct {
	sdk.Func
	m sdk.Moments
	s sdk.System
}

func (p provider) Moments(context.Context) (sdk.Moments, error)        { return p.m, nil }
func (p provider) System(context.Context, float64) (sdk.System, error) { return p.s, nil }

func TestProvidersAreAsked(t *testing.T) {
	p := provider{Func: activations[0]}
	p.m.Value[1][1] = 7
	p.s.RHS[1] = 9
	m, err := sdk.MomentsOf(t.Context(), p)
	if err != nil || m.Value[1][1] != 7 {
		t.Errorf("moments %v, %v: not the provider's", m, err)
	}
	s, err := sdk.SystemOf(t.Context(), p, 0.5)
	if err != nil || s.RHS[1] != 9 || s.Sigma != 0.5 {
		t.Errorf("system %v, %v: not the provider's at σ = 0.5", s, err)
	}
	if s, err := sdk.SystemFrom(t.Context(), p, m, 0.5); err != nil || s.RHS[1] != 9 || s.Sigma != 0.5 {
		t.Errorf("system %v, %v: not the provider's, beside its moments", s, err)
	}
	p.m.Value[2][3] = math.NaN()
	if _, err := sdk.MomentsOf(t.Context(), p); err == nil || !strings.Contains(err.Error(), "g^2·Z^3") {
		t.Errorf("NaN among the moments: %v", err)
	}
}

func BenchmarkQuadrature(b *testing.B) {
	for _, act := range activations[:2] {
		b.Run(act.Name, func(b *testing.B) {
			for range b.N {
				moments(b, act)
			}
		})
	}
}

// TestHermiteError: errors of the moments count by the size of their coefficients, and so
// does the rounding of the sum.
func TestHermiteError(t *testing.T) {
	var m sdk.Moments
	for q := range m.Error[1] {
		m.Error[1][q] = math.Pow(10, float64(q))
		m.Value[1][q] = -math.Pow(10, float64(q)) * 0x1p52 / 2 // whose rounding is half its error
	}
	for q, want := range []float64{1, 10, 100 + 1, 1000 + 3*10, 10000 + 6*100 + 3} {
		if got := m.HermiteError(1, q); math.Abs(got/want/1.5-1) > 1e-14 {
			t.Errorf("E[g·He_%d]: ±%v, want %v", q, got, 1.5*want)
		}
	}
}
