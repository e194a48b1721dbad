package solver

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/designtest"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

var hinge = sdk.Func{Name: "hinge", G: func(z float64) float64 { return max(z, 0) }, DG: func(z float64) float64 { return min(1, max(0, math.Copysign(1, z))) }, Kinks: []float64{0}}

// TestMeanErrorByDefinition: the mean square error of oblique regressors in uneven proportions, with the shares of a
// row by the polynomials of 002 Eq. 7 in x, and the mean over its coordinates and the expert that made it as it stands.
func TestMeanErrorByDefinition(t *testing.T) {
	p := []float64{.5, .3, .2}
	a := mat.NewDense(3, 3, []float64{1, 0, 0, .6, .8, 0, -.3, .5, math.Sqrt(1 - .09 - .25)})
	var dual, gram mat.Dense
	if err := dual.Inverse(a.T()); err != nil { // rows b_i: B·Aᵀ = I
		t.Fatal(err)
	}
	gram.Mul(a, a.T())
	q2 := func(z float64) float64 { return z*z - .5*z + .3 }
	q3 := func(z float64) float64 { return .7*z*z + z - .2 }
	q4 := func(z float64) float64 { return 1.5*z*z + .4*z - 1 }
	n := expectationsOf(q2, q3, q4)
	beta := func(i int) []float64 {
		b := slices.Clone(dual.RawRowView(i))
		for j := range b {
			b[j] /= math.Sqrt(p[i])
		}
		return b
	}
	dot := func(u, v []float64) (s float64) {
		for i := range u {
			s += u[i] * v[i]
		}
		return s
	}
	s2 := func(u, v, x []float64) float64 { return dot(u, x)*dot(v, x) - dot(u, v) }
	s3 := func(u, v, x []float64) float64 { // S3(u, u, v)
		return dot(u, x)*dot(u, x)*dot(v, x) - 2*dot(u, v)*dot(u, x) - dot(u, u)*dot(v, x)
	}
	s4 := func(u, v, x []float64) float64 { // S4(u, u, u, v)
		ux, vx := dot(u, x), dot(v, x)
		return ux*ux*ux*vx - 3*dot(u, v)*ux*ux - 3*dot(u, u)*ux*vx + 3*dot(u, u)*dot(u, v)
	}
	z, w := gaussHermite(7)
	mean := func(f func(x []float64, q2, q3, q4 float64) float64) (s float64) {
		x := make([]float64, 3)
		for i := range z {
			for j := range z {
				for l := range z {
					x[0], x[1], x[2] = z[i], z[j], z[l]
					for r, pr := range p {
						u := dot(a.RawRowView(r), x)
						s += w[i] * w[j] * w[l] * pr * f(x, q2(u), q3(u), q4(u))
					}
				}
			}
		}
		return s
	}
	for _, order := range []int{3, 4} {
		share := func(i, m int, x []float64, q2, q3, q4 float64) float64 {
			bi, bm := beta(i), beta(m)
			turn := q4 * (s4(bi, bm, x) - s4(bm, bi, x))
			if order == 3 {
				turn = q3 * (s3(bi, bm, x)/math.Sqrt(p[i]) - s3(bm, bi, x)/math.Sqrt(p[m]))
			}
			return math.Sqrt(p[m]/p[i]) * (turn + q2*s2(bi, bm, x)/p[m]) / (1/p[i] + 1/p[m])
		}
		var want float64
		const d = 8
		for i := range p {
			want += mean(func(x []float64, q2, q3, q4 float64) float64 {
				e := make([]float64, 3)
				for m := range p {
					if m != i {
						c := share(i, m, x, q2, q3, q4)
						for j := range e {
							e[j] += c * a.At(m, j)
						}
					}
				}
				along, out := dot(e, a.RawRowView(i)), q2*dot(dual.RawRowView(i), x)/p[i]
				return dot(e, e) - along*along + (d-3)*out*out
			}) / 2
		}
		got := n.MeanError(Design{K: 3, D: d, Order: order, Proportions: p, Gram: mat.NewSymDense(3, gram.RawMatrix().Data)})
		if !(math.Abs(got/want-1) <= 1e-11) {
			t.Errorf("order %d: mean error %v, want %v", order, got, want)
		}
	}
}

// TestFormOfOrthonormal: of orthonormal regressors in equal proportions the weights are those of Optimal but for what
// the error of T̂2 in the span adds, and a nil Gram matrix is I.
func TestFormOfOrthonormal(t *testing.T) {
	for _, k := range []int{2, 3, 5} {
		f, ok := newForm(Design{K: k, D: 2 * k})
		g, also := newForm(Design{K: k, D: 2 * k, Gram: designtest.Gram(k, 0)})
		if !ok || !also || f != g {
			t.Fatalf("k = %d: %v and %v", k, f, g)
		}
		w, want := f.weights(k), orthonormal(k)
		for _, r := range []int{3, 4} {
			for j := range w[r] {
				if !(math.Abs(w[r][j]-want[r][j]) <= 1e-12) {
					t.Errorf("k = %d, order %d: weights %v, want %v", k, r, w[r], want[r])
				}
			}
		}
	}
	for name, d := range map[string]Design{
		"dependent": {K: 2, D: 5, Gram: designtest.Gram(2, 1)},
		"no rows":   {K: 2, D: 5, Proportions: []float64{1, 0}},
	} {
		if _, ok := newForm(d); ok {
			t.Errorf("%s: there is a form", name)
		}
		if v := expectationsOf(math.Cos, math.Exp, math.Cos).MeanError(d); !math.IsInf(v, 1) {
			t.Errorf("%s: mean error %v", name, v)
		}
	}
}

// TestObliqueWeight: the weight of order 3 of two regressors with product ρ is ½E[U²|y], U = S3(b1,b1,b2) − S3(b2,b2,b1)
// with b1·x = √2z − ρβξ, b2·x = βξ, β² = 2/(1 − ρ²) for a row of expert 1, up to its size.
func TestObliqueWeight(t *testing.T) {
	x, v := gaussHermite(8)
	for _, rho := range []float64{0, .3, .5, .7, .9, -.6} {
		f, _ := newForm(Design{K: 2, D: 6, Gram: designtest.Gram(2, rho)})
		w := f.weights(2)
		beta := math.Sqrt(2 / (1 - rho*rho))
		bb, b12 := beta*beta, -rho*beta*beta
		want := func(z float64) (s float64) {
			for i, xi := range x {
				p, q := math.Sqrt2*z-rho*beta*xi, beta*xi
				u := (p*p*q - 2*p*b12 - bb*q) - (q*q*p - 2*q*b12 - bb*p)
				s += v[i] * u * u / 2
			}
			return s
		}
		at := func(z float64) float64 {
			var e [gauss.He4 + 1]float64
			for q := range e {
				e[q] = math.Pow(gauss.Hermite(q, z), 2)
			}
			return w.at(3, &e)
		}
		for _, z := range []float64{-2, -.4, 0, .3, 1, 3} {
			if got, want := at(z)/at(.5), want(z)/want(.5); !(math.Abs(got/want-1) <= 1e-12) {
				t.Errorf("ρ = %v: w(%v)/w(.5) = %v, want %v", rho, z, got, want)
			}
		}
	}
}

// TestObliqueLoss: what transforms for orthonormal regressors lose where those of ReLU, k = 2, have product ρ: variance
// of the turn by T̂3 over the least, σ = .05, as a prototype in numpy found it, and the polynomial's beside it.
func TestObliqueLoss(t *testing.T) {
	law, err := NewLaw(t.Context(), hinge)
	if err != nil {
		t.Fatal(err)
	}
	flat := law.Optimal(.05, 2)
	for rho, printed := range map[float64]float64{.3: 1.06, .5: 1.20, .7: 1.56, .9: 2.5} {
		o := law.OptimalFor(.05, Design{K: 2, D: 10, Gram: designtest.Gram(2, rho)})
		loss := flat.Noise.variance(3, &o.w) / o.Variance(3)
		t.Logf("ρ = %v: %.4g", rho, loss)
		if !(math.Abs(loss/printed-1) <= .01) {
			t.Errorf("ρ = %v: %v times the least, want %v", rho, loss, printed)
		}
	}
}
