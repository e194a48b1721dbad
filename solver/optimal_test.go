package solver_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

// made are the transforms that tests have made, by what they are of.
var made sync.Map

// optimal are the transforms of an activation, which no other has the name of.
func optimal(t testing.TB, act sdk.Activation, sigma float64, k int) *solver.Optimal {
	t.Helper()
	of := fmt.Sprint(act.Info().Name, sigma, k)
	if o, ok := made.Load(of); ok {
		return o.(*solver.Optimal)
	}
	o, err := solver.NewOptimal(t.Context(), act, sigma, k)
	if err != nil {
		t.Fatal(err)
	}
	made.Store(of, o)
	return o
}

// TestVarianceTable: the variances for k = 2 as a prototype in numpy found them, polynomial → least, to
// the digits that it printed. Four entries are one lower in their last digit: the
// prototype has a coarser grid (see TestOptimalByOtherQuadrature).
func TestVarianceTable(t *testing.T) {
	sigmas := []float64{.05, .3, 1}
	for _, c := range []struct {
		act                 sdk.Func
		fourth, third, two_ string
	}{
		{identity, "27.9→1.72 / 32.5→2.64 / 110→24.9", "6.36→1.47 / 7.27→1.87 / 20.7→9.39", "1.51→1.06 / 1.68→1.22 / 4.00→3.37"},
		{relu, "1515→25.9 / 1949→144 / 1.595e4→7545", "85.1→7.07 / 109→25.6 / 733→511", "5.44→2.21 / 7.37→4.83 / 41.2→35.1"},
		{leaky(.1), "300→2.37 / 374→15.9 / 2315→896", "31.5→1.78 / 39.3→7.20 / 222→147", "3.57→1.23 / 4.71→3.08 / 24.0→21.4"},
		{sigmoid, "8.91→2.66 / 1497→816 / 2.58e6→2.46e6", "3.65→1.75 / 125→82.5 / 3.20e4→3.11e4", "1.34→1.17 / 12.2→10.8 / 591→589"},
	} {
		for i, sigma := range sigmas {
			n, _ := noise(t, c.act, sigma)
			o := optimal(t, c.act, sigma, 2)
			for r, row := range map[int]string{4: c.fourth, 3: c.third, 2: c.two_} {
				polynomial, least, _ := strings.Cut(strings.Split(row, " / ")[i], "→")
				if got := n.Variance(r, 2); !printed(got, polynomial) {
					t.Errorf("%s at σ = %v, order %d: polynomial %v, want %s", c.act.Name, sigma, r, got, polynomial)
				}
				if got := o.Variance(r); !printed(got, least) {
					t.Errorf("%s at σ = %v, order %d: least %v, want %s", c.act.Name, sigma, r, got, least)
				}
			}
		}
	}
}

// printed says whether v rounds to the digits of want.
func printed(v float64, want string) bool {
	mantissa, _, _ := strings.Cut(want, "e")
	digits := len(strings.ReplaceAll(mantissa, ".", ""))
	w, err := strconv.ParseFloat(want, 64)
	return err == nil && fmt.Sprintf("%.*e", digits-1, v) == fmt.Sprintf("%.*e", digits-1, w)
}

// given are the density of y = g(Z) + σN and expectations given y on an even grid
// of y, by Simpson's rule over Z and with nothing of the package's own.
type given struct {
	y, p []float64 // p times the grid's step
	m, e [5][]float64
}

func givenY(act sdk.Func, sigma float64) given {
	const reach = 8.5
	steps, rows := 5100, 3000 // steps of no more than σ/8
	if sigma >= .2 {
		steps, rows = 1020, 1000
	}
	z, w, g := make([]float64, steps+1), make([]float64, steps+1), make([]float64, steps+1)
	hermite := make([][5]float64, steps+1)
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range z {
		z[i] = reach * (2*float64(i)/float64(steps) - 1) // 0 is a node between two panels of the rule
		w[i] = float64(2+2*(i%2)) / 3 * 2 * reach / float64(steps) * math.Exp(-z[i]*z[i]/2) / math.Sqrt(2*math.Pi)
		g[i] = act.G(z[i])
		lo, hi = min(lo, g[i]), max(hi, g[i])
		for q := range 5 {
			hermite[i][q] = gauss.Hermite(q, z[i])
		}
	}
	var d given
	step := (hi - lo + 16*sigma) / float64(rows)
	for i := range rows + 1 {
		y := lo - 8*sigma + float64(i)*step
		var s [10]float64
		for j := range z {
			u := (y - g[j]) / sigma
			if math.Abs(u) > 12 {
				continue
			}
			f := w[j] * math.Exp(-u*u/2) / (sigma * math.Sqrt(2*math.Pi))
			for q, h := range &hermite[j] {
				s[q] += f * h
				s[5+q] += f * h * h
			}
		}
		if s[0] < 1e-16 {
			continue
		}
		d.y, d.p = append(d.y, y), append(d.p, s[0]*step)
		for q := range 5 {
			d.m[q] = append(d.m[q], s[q]/s[0])
			d.e[q] = append(d.e[q], s[5+q]/s[0])
		}
	}
	return d
}

// weight is w_r at point i of the grid.
func (d given) weight(r, k, i int) float64 {
	p := 1 / float64(k)
	switch r {
	case 2:
		return p*d.e[1][i] + 1 - p
	case 3:
		return p*(d.e[2][i]+2*d.e[1][i]) + 2*(1-2*p)
	}
	return p*(d.e[3][i]+6*d.e[1][i]) + 6*(1-2*p)
}

// mean is E[f(y)] of the values of f on the grid.
func (d given) mean(f func(i int) float64) float64 {
	var s float64
	for i, p := range d.p {
		s += p * f(i)
	}
	return s
}

// solve returns λ by the normal equations.
func (d given) solve(t testing.TB, r, k int) []float64 {
	g := mat.NewSymDense(r+1, nil)
	for a := range r + 1 {
		for b := a; b <= r; b++ {
			g.SetSym(a, b, d.mean(func(i int) float64 { return d.m[a][i] * d.m[b][i] / d.weight(r, k, i) }))
		}
	}
	target, lambda := mat.NewVecDense(r+1, nil), new(mat.VecDense)
	target.SetVec(r, 1)
	if err := lambda.SolveVec(g, target); err != nil && !strings.Contains(err.Error(), "condition") {
		t.Fatal(err)
	}
	return lambda.RawVector().Data
}

// TestOptimalByOtherQuadrature: variances, values and the expectations behind
// predictions to four digits and more against Simpson's rule, an even grid of y and
// normal equations.
func TestOptimalByOtherQuadrature(t *testing.T) {
	for _, act := range []sdk.Func{identity, relu, leaky(.1), sigmoid} {
		for _, sigma := range []float64{.05, .3, 1} {
			d := givenY(act, sigma)
			for _, k := range []int{2, 6} {
				o := optimal(t, act, sigma, k)
				for _, r := range solver.Orders() {
					lambda := d.solve(t, r, k)
					if got := o.Variance(r); math.Abs(got/lambda[r]-1) > 2e-5 {
						t.Errorf("%s at σ = %v, k = %d, order %d: variance %.8g, want %.8g", act.Name, sigma, k, r, got, lambda[r])
					}
					scale := math.Sqrt(lambda[r])
					for i := 0; i < len(d.y); i += 37 {
						var want float64
						for q, l := range lambda {
							want += l * d.m[q][i] / d.weight(r, k, i)
						}
						if got := o.At(r, d.y[i]); d.p[i] > 1e-9 && math.Abs(got-want) > 1e-3*scale {
							t.Fatalf("%s at σ = %v, k = %d: T%d(%v) = %.8g, want %.8g", act.Name, sigma, k, r, d.y[i], got, want)
						}
					}
				}
				v4 := d.mean(func(i int) float64 { return math.Pow(o.At(4, d.y[i]), 2) * d.e[4][i] }) - 1
				v2 := d.mean(func(i int) float64 { return math.Pow(o.At(2, d.y[i]), 2) * d.e[2][i] }) - 1
				if math.Abs(o.Noise.V4/v4-1) > 1e-4 || math.Abs(o.Noise.V2/v2-1) > 1e-4 {
					t.Errorf("%s at σ = %v, k = %d: V4 = %v, V2 = %v, want %v, %v", act.Name, sigma, k, o.Noise.V4, o.Noise.V2, v4, v2)
				}
			}
		}
	}
}

// TestOptimalConstraints: E[T_r(y)·He_q(Z)] is 0 for q < r and 1 for q = r to 1e−8 of
// the square root of its variance, with the noise averaged over explicitly; also
// at σ = 0, and for g that are even or have no polynomial.
func TestOptimalConstraints(t *testing.T) {
	testslow.Mark(t)
	for _, act := range []sdk.Func{identity, relu, leaky(.1), sigmoid, tanh, gelu, elu, cube, absolute, square, zPhi(.806521), window} {
		for _, sigma := range []float64{0, .002, .05, .5} {
			o := optimal(t, act, sigma, 2)
			for _, r := range solver.Orders() {
				if !o.Has(r) {
					continue
				}
				if got := constraints(t, act, o, r); got > 1e-8*math.Sqrt(max(1, o.Variance(r))) {
					t.Errorf("%s at σ = %v: T%d misses its constraints by %v", act.Name, sigma, r, got)
				}
			}
		}
	}
}

// constraints returns by how much T_r misses its constraints.
func constraints(t testing.TB, act sdk.Func, o *solver.Optimal, r int) float64 {
	const h = 1. / 4
	var at, weight []float64
	for u := -8.5; u <= 8.5; u += h {
		at, weight = append(at, u), append(weight, h*math.Exp(-u*u/2)/math.Sqrt(2*math.Pi))
	}
	blurred := func(z float64) float64 {
		g := act.G(z)
		if o.Sigma == 0 {
			return o.At(r, g)
		}
		var s float64
		for i, u := range at {
			s += weight[i] * o.At(r, g+o.Sigma*u)
		}
		return s
	}
	x, w := gauss.Legendre(16)
	e := make([]float64, r+1)
	edges := append(append([]float64{-8}, act.Kinks...), 8)
	for i := 1; i < len(edges); i++ {
		parts := 250 // panels of .06, as T_r varies over the floor of the noise
		if o.Sigma >= .05 {
			parts = 60
		}
		step := (edges[i] - edges[i-1]) / float64(parts)
		for j := range parts * len(x) {
			z := edges[i-1] + step*(float64(j/len(x))+(1+x[j%len(x)])/2)
			f := step / 2 * w[j%len(x)] * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
			if f < 1e-19 {
				continue
			}
			f *= blurred(z)
			for q := range e {
				e[q] += f * gauss.Hermite(q, z)
			}
		}
	}
	e[r]--
	worst := 0.0
	for _, v := range e {
		worst = max(worst, math.Abs(v))
	}
	return worst
}

// TestOptimalIsLeast: T_r is uncorrelated under w_r with every change that keeps the
// constraints, so that any of them raises the variance.
func TestOptimalIsLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, act := range []sdk.Func{relu, sigmoid} {
		const sigma, k = .2, 3
		d := givenY(act, sigma)
		o := optimal(t, act, sigma, k)
		for _, r := range solver.Orders() {
			w := func(i int) float64 { return d.weight(r, k, i) }
			least := d.mean(func(i int) float64 { return math.Pow(o.At(r, d.y[i]), 2) * w(i) })
			for range 20 {
				// A random function of y, less its part along the m_q/w_r.
				a, b, c := rng.NormFloat64(), 6*rng.NormFloat64(), rng.Float64()*2*math.Pi
				h := make([]float64, len(d.y))
				for i, y := range d.y {
					h[i] = math.Cos(b*y+c) + a*y
				}
				g, rhs := mat.NewSymDense(r+1, nil), mat.NewVecDense(r+1, nil)
				for p := range r + 1 {
					rhs.SetVec(p, d.mean(func(i int) float64 { return h[i] * d.m[p][i] }))
					for q := p; q <= r; q++ {
						g.SetSym(p, q, d.mean(func(i int) float64 { return d.m[p][i] * d.m[q][i] / w(i) }))
					}
				}
				var coef mat.VecDense
				if err := coef.SolveVec(g, rhs); err != nil && !strings.Contains(err.Error(), "condition") {
					t.Fatal(err)
				}
				for i := range h {
					for q := range r + 1 {
						h[i] -= coef.AtVec(q) * d.m[q][i] / w(i)
					}
				}
				own := d.mean(func(i int) float64 { return h[i] * h[i] * w(i) })
				changed := d.mean(func(i int) float64 { return math.Pow(o.At(r, d.y[i])+h[i], 2) * w(i) })
				if !(changed > least) || math.Abs(changed-least-own) > 1e-5*(least+own) {
					t.Fatalf("%s, order %d: a feasible change of variance %v takes the variance from %v to %v", act.Name, r, own, least, changed)
				}
			}
		}
	}
}

// zPhi is z·Φ(βz), whose c4 vanishes at two β.
func zPhi(beta float64) sdk.Func {
	return fn(fmt.Sprintf("z·Φ(%v·z)", beta), func(z float64) float64 { return z * math.Erfc(-beta*z/math.Sqrt2) / 2 }, nil)
}

// TestOptimalWithoutPolynomial: where c4 vanishes there is no polynomial, and T4 is as
// good as any.
func TestOptimalWithoutPolynomial(t *testing.T) {
	for _, c := range []struct{ lo, hi, near, want float64 }{{.80, .81, .806521, 2.38}, {2.37, 2.39, 2.379487, 6.73}} {
		c4 := func(beta float64) float64 { tr, _ := solve(t, zPhi(beta), .05); return tr.C4 }
		lo, hi := c.lo, c.hi
		below := c4(lo) < 0
		for range 45 {
			if mid := (lo + hi) / 2; (c4(mid) < 0) == below {
				lo = mid
			} else {
				hi = mid
			}
		}
		act := zPhi(lo)
		if math.Abs(lo-c.near) > 5e-7 {
			t.Errorf("c4 vanishes at β = %v, want %v", lo, c.near)
		}
		if _, v := solve(t, act, .05); v.Valid {
			t.Errorf("%s has a polynomial: %+v", act.Name, v)
		}
		if got := optimal(t, act, .05, 2).Variance(4); math.Abs(got-c.want) > .005 {
			t.Errorf("%s: variance %v, want %v", act.Name, got, c.want)
		}
	}
}

// TestOptimalExists: a valid polynomial implies the transforms, an even g has those
// of even order, and where y takes two values only there is none.
func TestOptimalExists(t *testing.T) {
	testslow.Mark(t)
	for _, sigma := range []float64{0, .05, 2} {
		for _, act := range valid {
			o := optimal(t, act, sigma, 2)
			if act.Name == milli.Name && sigma == 2 {
				continue // the noise is 2000 standard deviations of g: see TestOptimalDrowned
			}
			n, _ := noise(t, act, sigma)
			for _, r := range solver.Orders() {
				if !o.Has(r) || o.Reason(r) != "" || !(o.Variance(r) <= n.Variance(r, 2)*(1+1e-6)) {
					t.Errorf("%s at σ = %v: T%d has variance %v (%s), the polynomial %v", act.Name, sigma, r, o.Variance(r), o.Reason(r), n.Variance(r, 2))
				}
			}
		}
		for _, act := range even {
			if o := optimal(t, act, sigma, 2); !o.Has(2) || o.Has(3) || !o.Has(4) || !strings.Contains(o.Reason(3), "He3") {
				t.Errorf("%s at σ = %v: %v %v %v", act.Name, sigma, o.Reason(2), o.Reason(3), o.Reason(4))
			}
		}
		for _, act := range invalid {
			o := optimal(t, act, sigma, 2)
			for _, r := range solver.Orders() {
				// A window is even: what y tells of He2(Z) is something.
				if want := act.Name == window.Name && r == 2; o.Has(r) != want || (o.Reason(r) == "") != want {
					t.Errorf("%s at σ = %v: order %d exists: %v (%s)", act.Name, sigma, r, o.Has(r), o.Reason(r))
				}
			}
			if !math.IsInf(o.Variance(4), 1) {
				t.Errorf("%s: variance %v", act.Name, o.Variance(4))
			}
		}
	}
}

// TestOptimalDrowned: whatever keeps float64 from saying anything is said, and nothing
// is NaN.
func TestOptimalDrowned(t *testing.T) {
	wild := fn("wild", func(z float64) float64 { return math.Mod(math.Abs(math.Sin(z*12345.678)*43758.5453), 1) }, nil)
	for _, c := range []struct {
		act   sdk.Func
		sigma float64
		want  string
	}{
		{sigmoid, 1e200, "the noise is more than 1e+06 standard deviations of g"},
		{milli, 2, "the noise is 2e+03 standard deviations of g: what y tells of He4(Z) is lost in rounding"},
		{fn("tanh+1e10", func(z float64) float64 { return math.Tanh(z) + 1e10 }, nil), .05, "the mean of g is 1.59e+10 standard deviations: take the constant off g"}, // Var tanh(Z) = .394,
		{fn("tanh+1e15", func(z float64) float64 { return math.Tanh(z) + 1e15 }, nil), .05, "constant"},
		{fn("dead", func(z float64) float64 { return math.Max(z-6, 0) }, nil, 6), .05, "constant on |z| ≤ 4"},
		{fn("huge", func(z float64) float64 { return 1e200 * z }, nil), .05, "constant"},
		{wild, .05, "changes too fast"},
	} {
		o := optimal(t, c.act, c.sigma, 2)
		if o.Has(4) || !strings.Contains(o.Reason(4), c.want) || math.IsNaN(o.Variance(4)+o.Noise.V4+o.Noise.V2) {
			t.Errorf("%s at σ = %v: %q, want %q; %+v", c.act.Name, c.sigma, o.Reason(4), c.want, o.Noise)
		}
	}
	failing := fn("log", math.Log, nil)
	if _, err := solver.NewOptimal(t.Context(), failing, .05, 2); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("g that is not finite: %v", err)
	}
}

// TestOptimalTowardsNoNoise: the variance falls to a limit, and the transform of a
// σ below the floor differs little from that of the floor.
func TestOptimalTowardsNoNoise(t *testing.T) {
	testslow.Mark(t)
	for _, act := range []sdk.Func{identity, relu, leaky(.1), sigmoid} {
		var last [5]float64
		for i, sigma := range []float64{.1, .03, .01, .003, 1e-3, 1e-9, 0} {
			o := optimal(t, act, sigma, 2)
			for _, r := range solver.Orders() {
				if v := o.Variance(r); i > 0 && !(v <= last[r]*(1+1e-9)) || !(v > .5) {
					t.Errorf("%s at σ = %v: variance %v of order %d, %v at a larger σ", act.Name, sigma, v, r, last[r])
				}
				last[r] = o.Variance(r)
			}
			if (o.Level > sigma) != (sigma < .002) && sigma != .003 {
				t.Errorf("%s at σ = %v: made for %v", act.Name, sigma, o.Level)
			}
		}
	}
}

// TestOptimalIsAffine: T_r does not change when y becomes a·y + b, σ with it.
func TestOptimalIsAffine(t *testing.T) {
	want := optimal(t, sigmoid, .05, 3)
	got := optimal(t, fn("affine", func(z float64) float64 { return 3 - 20*logistic(z) }, nil), 1, 3)
	for _, r := range solver.Orders() {
		lo, hi := want.Range(r)
		for y := lo + .01; y < hi-.01; y += .01 {
			if a, b := got.At(r, 3-20*y), want.At(r, y); !near(a, b, 1e-7) {
				t.Fatalf("T%d(%v) = %v, want %v", r, y, a, b)
			}
		}
	}
}

// TestOutputs: polynomials and tables behind one interface, one value at a time or
// many, far out too.
func TestOutputs(t *testing.T) {
	tr, _ := solve(t, relu, .05)
	o := optimal(t, relu, .05, 2)
	y := []float64{-1e300, -3, 0, .01, .5, 2, 7, 9, 1e300, math.Inf(1), math.NaN()}
	dst := make([]float64, len(y))
	for r, q := range map[int]func(float64) float64{2: tr.Q2, 3: tr.P3, 4: tr.Q4} {
		var p solver.Outputs = tr
		p.Apply(r, dst[1:8], y[1:8])
		c := map[int]float64{2: tr.C2, 3: tr.Cubic.C3, 4: tr.C4}[r]
		for i := 1; i < 8; i++ {
			if dst[i] != q(y[i])/c {
				t.Errorf("T%d(%v) = %v", r, y[i], dst[i])
			}
		}
		p = o
		p.Apply(r, dst, y)
		lo, hi := o.Range(r)
		for i, v := range dst {
			if math.IsNaN(v) || math.IsInf(v, 0) || v != o.At(r, y[i]) {
				t.Errorf("T%d(%v) = %v", r, y[i], v)
			}
		}
		if dst[0] != o.At(r, lo) || dst[8] != o.At(r, hi) || !(lo < -.3 && hi > 7) {
			t.Errorf("T%d is not constant outside [%v, %v]", r, lo, hi)
		}
	}
	for name, f := range map[string]func(){
		"order 5":          func() { o.Apply(5, dst, y) },
		"order 3 of |z|":   func() { optimal(t, absolute, .05, 2).Apply(3, dst, y) },
		"P3 of |z|":        func() { tr, _ := solve(t, absolute, .05); tr.Apply(3, dst, y) },
		"places":           func() { o.Apply(4, dst[1:], y) },
		"value of order 1": func() { o.At(1, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestOptimalOfAnything: whatever g, σ and k, a number or a reason.
func TestOptimalOfAnything(t *testing.T) {
	testslow.Mark(t)
	rapid.Check(t, func(rt *rapid.T) {
		bend := map[string]func(float64) float64{
			"tanh": math.Tanh, "relu": relu.G, "abs": math.Abs, "step": unit, "sin": math.Sin, "cube": cube.G, "exp": math.Exp,
		}
		type term struct {
			shape   func(float64) float64
			a, b, c float64
		}
		var terms []term
		var kinks []float64
		for range rapid.IntRange(1, 3).Draw(rt, "terms") {
			name := rapid.SampledFrom([]string{"tanh", "relu", "abs", "step", "sin", "cube", "exp"}).Draw(rt, "shape")
			x := term{bend[name], rapid.Float64Range(-3, 3).Draw(rt, "a"), rapid.Float64Range(-3, 3).Draw(rt, "b"), rapid.Float64Range(-4, 4).Draw(rt, "c")}
			if x.b != 0 && rapid.Bool().Draw(rt, "declared") {
				kinks = append(kinks, -x.c/x.b)
			}
			terms = append(terms, x)
		}
		act := fn("drawn", func(z float64) float64 {
			var v float64
			for _, x := range terms {
				v += x.a * x.shape(x.b*z+x.c)
			}
			return v
		}, nil, kinks...)
		sigma := math.Pow(10, rapid.Float64Range(-4, 3).Draw(rt, "log10 σ"))
		k := rapid.IntRange(1, 9).Draw(rt, "k")
		o, err := solver.NewOptimal(t.Context(), act, sigma, k)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range solver.Orders() {
			if !o.Has(r) {
				if o.Reason(r) == "" || !math.IsInf(o.Variance(r), 1) {
					rt.Errorf("order %d: no transform, no reason, variance %v", r, o.Variance(r))
				}
				continue
			}
			if v := o.Variance(r); !(v > 0) || math.IsInf(v, 0) || math.IsNaN(o.ErrorBound(r)) {
				rt.Errorf("order %d: variance %v, bound %v", r, v, o.ErrorBound(r))
			}
			lo, hi := o.Range(r)
			for _, y := range []float64{lo, hi, 0, lo - 1e9, hi + 1e9, (lo + hi) / 2, rapid.Float64Range(lo, hi).Draw(rt, "y")} {
				if v := o.At(r, y); math.IsNaN(v) || math.IsInf(v, 0) {
					rt.Errorf("T%d(%v) = %v", r, y, v)
				}
			}
		}
	})
}

func BenchmarkNewOptimal(b *testing.B) {
	for b.Loop() {
		if _, err := solver.NewOptimal(b.Context(), relu, .05, 2); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply is T4 of a block of 256 rows.
func BenchmarkApply(b *testing.B) {
	tr, _ := solve(b, relu, .05)
	for name, o := range map[string]solver.Outputs{"polynomial": tr, "optimal": optimal(b, relu, .05, 2)} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 0))
			y, dst := make([]float64, 256), make([]float64, 256)
			for i := range y {
				y[i] = max(rng.NormFloat64(), 0) + .05*rng.NormFloat64()
			}
			for b.Loop() {
				o.Apply(4, dst, y)
			}
		})
	}
}
