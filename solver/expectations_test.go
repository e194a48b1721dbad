package solver

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// named are the expectations of a Noise by what they are.
func (n Noise) named() map[string]float64 {
	return map[string]float64{
		"V2": n.V2, "V4": n.V4, "E[q2²]": n.q22, "E[q2²Z²]": n.q22z, "E[q2·q3·Z·He2]": n.q23,
		"E[q3²]": n.q33[0], "E[q3²Z²]": n.q33[1], "E[q3²He2²]": n.q33[2],
		"E[q4²]": n.q44[0], "E[q4²Z²]": n.q44[1], "E[q4²He2²]": n.q44[2], "E[q4²He3²]": n.q44[3],
		"E[q2·q4·He2]": n.q24[2], "E[q2·q4·Z·He3]": n.q24[3],
	}
}

// byDefinition takes them as means over places of Z and y with weights.
func byDefinition(each func(add func(w, z, q2, q3, q4 float64))) Noise {
	n := Noise{V2: -1, V4: -1}
	he := gauss.Hermite
	each(func(w, z, q2, q3, q4 float64) {
		n.V2 += w * q2 * q2 * he(2, z) * he(2, z)
		n.V4 += w * q4 * q4 * he(4, z) * he(4, z)
		n.q22 += w * q2 * q2
		n.q22z += w * q2 * q2 * z * z
		n.q23 += w * q2 * q3 * z * he(2, z)
		for q := range n.q33 {
			n.q33[q] += w * q3 * q3 * he(q, z) * he(q, z)
		}
		for q := range n.q44 {
			n.q44[q] += w * q4 * q4 * he(q, z) * he(q, z)
		}
		n.q24[2] += w * q2 * q4 * he(2, z)
		n.q24[3] += w * q2 * q4 * z * he(3, z)
	})
	return n
}

func compareNoise(t *testing.T, name string, got, want Noise, tol float64) {
	t.Helper()
	w := want.named()
	for what, v := range got.named() {
		if !(math.Abs(v-w[what]) <= tol*max(1, math.Abs(w[what]))) {
			t.Errorf("%s: %s = %.12g, want %.12g", name, what, v, w[what])
		}
	}
}

// TestExpectationsOfPolynomials: all that predictions are made of, by Legendre's rule on panels of
// Z, cut at 0, and Hermite's over the noise, which is exact for polynomials of degree 8.
func TestExpectationsOfPolynomials(t *testing.T) {
	const sigma = .4
	nodes, weights := gauss.Legendre(16)
	e, ew := gaussHermite(8)
	for _, act := range []sdk.Func{
		{Name: "leaky", G: func(z float64) float64 { return max(z, .1*z) + 2 }, Kinks: []float64{0}},
		{Name: "sigmoid", G: func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }},
	} {
		m, err := sdk.Quadrature(t.Context(), act)
		if err != nil {
			t.Fatal(err)
		}
		tr, _ := Solve(m, m.System(sigma), sigma)
		got, err := NoiseOf(t.Context(), act, tr)
		if err != nil {
			t.Fatal(err)
		}
		over := func(f func(w, z, y float64)) {
			for panel := -13; panel < 13; panel++ {
				for i, x := range nodes {
					z := float64(panel) + .5 + x/2
					for j := range e {
						f(weights[i]/2*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)*ew[j], z, act.G(z)+sigma*e[j])
					}
				}
			}
		}
		var m2, m3, m4 float64
		over(func(w, _, y float64) { m2, m3, m4 = m2+w*tr.Q2(y), m3+w*tr.P3(y), m4+w*tr.Q4(y) })
		want := byDefinition(func(add func(w, z, q2, q3, q4 float64)) {
			over(func(w, z, y float64) { add(w, z, (tr.Q2(y)-m2)/tr.C2, (tr.P3(y)-m3)/tr.Cubic.C3, (tr.Q4(y)-m4)/tr.C4) })
		})
		compareNoise(t, act.Name, got, want, 1e-8)
	}
}

// TestExpectationsOfLeast: the same of the transforms of minimum variance for g = z, where Z given y
// is normal, of mean y/(1+σ²) and variance σ²/(1+σ²).
func TestExpectationsOfLeast(t *testing.T) {
	law, err := NewLaw(t.Context(), sdk.Func{Name: "identity", G: func(z float64) float64 { return z }})
	if err != nil {
		t.Fatal(err)
	}
	e, ew := gaussHermite(12)
	for _, sigma := range []float64{.3, 1} {
		o := law.Optimal(sigma, 3)
		s2 := 1 + sigma*sigma
		const h = 1. / 64
		want := byDefinition(func(add func(w, z, q2, q3, q4 float64)) {
			for u := -9.0; u <= 9; u += h {
				y := u * math.Sqrt(s2)
				w := h * math.Exp(-u*u/2) / math.Sqrt(2*math.Pi)
				q2, q3, q4 := o.At(2, y), o.At(3, y), o.At(4, y)
				for i, v := range e {
					add(w*ew[i], y/s2+sigma/math.Sqrt(s2)*v, q2, q3, q4)
				}
			}
		})
		compareNoise(t, "identity", o.Noise, want, 1e-7)
		// Variance is that of the contraction: the weights w_r, averaged.
		p := 1. / 3
		for r, w := range map[int]float64{
			2: p*want.q22z + (1-p)*want.q22,
			3: p*(want.q33[2]+2*want.q33[1]) + 2*(1-2*p)*want.q33[0],
			4: p*(want.q44[3]+6*want.q44[1]) + 6*(1-2*p)*want.q44[0],
		} {
			if got := o.Variance(r); !(math.Abs(got/w-1) <= 1e-7) {
				t.Errorf("σ = %v: variance %v of order %d, want %v", sigma, got, r, w)
			}
		}
	}
}

// TestPolynomials: products, scales and shifts at points, and means over the noise in closed form.
func TestPolynomials(t *testing.T) {
	p, q := polynomial{1, -2, .5, 3, -1, .25}, polynomial{-.5, 4, 2}
	e, w := gaussHermite(6)
	for _, x := range []float64{-2, -.3, 0, 1.7} {
		direct := 1 - 2*x + .5*x*x + 3*x*x*x - x*x*x*x + .25*x*x*x*x*x
		var blurred float64
		for i := range e {
			blurred += w[i] * p.at(x+.7*e[i])
		}
		for name, v := range map[string][2]float64{
			"at": {p.at(x), direct}, "times": {p.times(q).at(x), direct * (-.5 + 4*x + 2*x*x)}, "scale": {p.scale(-3).at(x), -3 * direct},
			"shift": {p.shift(1.5).at(x - 1.5), direct}, "smooth": {p.smooth(.49).at(x), blurred},
		} {
			if !(math.Abs(v[0]-v[1]) <= 1e-12*(1+math.Abs(v[1]))) {
				t.Errorf("%s at %v: %v, want %v", name, x, v[0], v[1])
			}
		}
	}
	if n := len(p.shift(2)); n != len(p) {
		t.Errorf("%d coefficients after a shift", n)
	}
}
