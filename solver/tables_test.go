package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// TestPiecewise: the value is that of the polynomial of the piece that y lies in, found by looking
// at all of them, also at knots, where the pieces differ, and beyond the ends.
func TestPiecewise(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, n := range []int{1, 2, 7, 40} {
		p := &piecewise{knots: []float64{-1.5}}
		for range n {
			// Lengths over four orders of magnitude.
			p.knots = append(p.knots, p.knots[len(p.knots)-1]+math.Pow(10, 4*rng.Float64()-3))
			var c [terms]float64
			for j := range c {
				c[j] = rng.NormFloat64()
			}
			p.coef = append(p.coef, c)
		}
		p.index()
		lo, hi := p.knots[0], p.knots[n]
		places := append([]float64{lo - 1, hi + 1, math.Inf(-1), math.Inf(1)}, p.knots...)
		for range 300 {
			i := rng.IntN(n)
			places = append(places, p.knots[i]+rng.Float64()*(p.knots[i+1]-p.knots[i]), lo+rng.Float64()*(hi-lo))
		}
		for _, y := range places {
			at := min(max(y, lo), hi)
			piece := 0
			for piece < n-1 && p.knots[piece+1] <= at {
				piece++
			}
			u := 2*(at-p.knots[piece])/(p.knots[piece+1]-p.knots[piece]) - 1
			want := 0.0
			for j, c := range p.coef[piece] {
				want += c * math.Pow(u, float64(j))
			}
			if got := p.at(y); !(math.Abs(got-want) <= 1e-13*terms*4) {
				t.Errorf("%d pieces: %v at %v, want %v", n, got, y, want)
			}
		}
		if p.at(math.NaN()) != p.at(lo) {
			t.Errorf("%v at NaN", p.at(math.NaN()))
		}
	}
}

// TestPanelRule: the rules integrate what they should, and of degree 7 nothing is lost.
func TestPanelRule(t *testing.T) {
	r := newPanelRule()
	f := func(x float64) float64 { return 2 - x + 3*x*x*x*x - .5*math.Pow(x, 7) }
	var own, at [half]float64
	for i, x := range r.x {
		own[i] = f(x)
	}
	for j := range at {
		for i, v := range own {
			at[j] += r.toCoef[j][i] * v
		}
	}
	for j, want := range [half]float64{0: 2, 1: -1, 4: 3, 7: -.5} {
		if !(math.Abs(at[j]-want) <= 1e-12) {
			t.Errorf("coefficient %d is %v, want %v", j, at[j], want)
		}
	}
	var upper, all float64
	for i, x := range r.sub {
		all += r.subw[i] * x * x
		if x > 0 {
			upper += r.subw[i] * math.Pow(x, 15)
		}
		if x > 0 != (i >= half) {
			t.Errorf("node %d is %v", i, x)
		}
		v := 0.0
		for j, o := range own {
			v += r.toSub[i][j] * o
		}
		if !(math.Abs(v-f(x)) <= 1e-12) {
			t.Errorf("%v at %v, want %v", v, x, f(x))
		}
	}
	if !(math.Abs(all-2./3) <= 1e-14) || !(math.Abs(upper-1./16) <= 1e-14) {
		t.Errorf("∫x² = %v, ∫₀x¹⁵ = %v", all, upper)
	}
}

// TestBoundOfTable: what interpolation at the nodes x_i leaves of t⁸ is Π(t − x_i): four times the
// largest at the nodes of the halves, and 2⁻⁴⁷ of the values for their rounding.
func TestBoundOfTable(t *testing.T) {
	r := newPanelRule()
	var own [half]float64
	var sub [2 * half]float64
	var worst float64
	for i, x := range r.x {
		own[i] = math.Pow(x, 8)
	}
	for i, x := range r.sub {
		sub[i] = math.Pow(x, 8)
		left := 1.0
		for _, node := range r.x {
			left *= x - node
		}
		worst = max(worst, 4*math.Abs(left))
	}
	p := &piecewise{knots: []float64{-1}}
	p.add(r, 1, &own, &sub)
	if !(math.Abs(p.bound-worst) <= 1e-12) || p.knots[1] != 1 || len(p.coef) != 1 {
		t.Errorf("%v, want %v", p.bound, worst)
	}
	// Of two where there should be nothing, 8 and the rounding of 2; a piece without error does not make
	// the bound smaller.
	p.add(r, 2, new([half]float64), &[2 * half]float64{3: 2})
	p.add(r, 3, new([half]float64), new([2 * half]float64))
	if want := 8 + 2*0x1p-47; p.bound != want {
		t.Errorf("%v, want %v", p.bound, want)
	}
}

// TestSmoothed: a ramp that is held at its ends, averaged over normal noise, is a difference of integrals of Φ, and a
// step at 0 is an error function: on the whole range and at its ends.
func TestSmoothed(t *testing.T) {
	ramp := &piecewise{knots: []float64{-1, .3, 1}} // y in two pieces, by their middles and half-lengths
	ramp.coef = [][terms]float64{{-.35, .65}, {.65, .35}}
	step := &piecewise{knots: []float64{-1, 0, .1, 1}, coef: [][terms]float64{{-1}, {1}, {1}}}
	shifted := &piecewise{knots: []float64{1, 2, 2.1, 3}, coef: step.coef}
	// E max(y + τN, 0) = y·Φ(y/τ) + τφ(y/τ).
	relu := func(y, tau float64) float64 {
		return y*math.Erfc(-y/tau/math.Sqrt2)/2 + tau*math.Exp(-y*y/(2*tau*tau))/math.Sqrt(2*math.Pi)
	}
	for _, tau := range []float64{.02, .7} {
		for name, c := range map[string]struct {
			p    *piecewise
			want func(y float64) float64
		}{
			"ramp":    {ramp, func(y float64) float64 { return relu(y+1, tau) - relu(y-1, tau) - 1 }},
			"step":    {step, func(y float64) float64 { return math.Erf(y / tau / math.Sqrt2) }},
			"shifted": {shifted, func(y float64) float64 { return math.Erf((y - 2) / tau / math.Sqrt2) }},
		} {
			c.p.index()
			got := smoothed(c.p, tau)
			lo, hi := got.knots[0], got.knots[len(got.knots)-1]
			from, to := c.p.knots[0]-9*tau, c.p.knots[len(c.p.knots)-1]+9*tau
			if !(math.Abs(lo-from) <= 1e-14) || !(math.Abs(hi-to) <= 1e-14) || !slices.IsSorted(got.knots) {
				t.Errorf("%s over ±%v: from %v to %v, want %v to %v; sorted %v", name, tau, lo, hi, from, to, slices.IsSorted(got.knots))
			}
			for i := range 201 {
				y := lo + (hi-lo)*float64(i)/200
				if d := math.Abs(got.at(y) - c.want(y)); !(d <= got.bound+1e-11) || !(got.bound < 1e-8) {
					t.Fatalf("%s over ±%v: %v at %v, want %v; bound %v", name, tau, got.at(y), y, c.want(y), got.bound)
				}
			}
			c.p.bound = .5 // nothing gets more exact by an average
			if got := smoothed(c.p, tau); got.bound < .5 {
				t.Errorf("%s: bound %v", name, got.bound)
			}
			c.p.bound = 0
		}
	}
}

// TestAverageOfCells: average takes pieces no longer than τ and cut at the knots, so that it is exact
// to rounding for steps between them.
func TestAverageOfCells(t *testing.T) {
	x, w := gauss.Legendre(half)
	p := &piecewise{knots: []float64{-3, -.5, -.5 + 1e-6, .25, 3}, coef: [][terms]float64{{0}, {5}, {1}, {2}}}
	p.index()
	cdf := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for i, y := range []float64{-4, -.5, 0, .2, 1, 6, -4, -.5, 0, .2, 1, 6} {
		tau := []float64{.5, 3}[i/6]
		var want float64
		for i, v := range []float64{0, 5, 1, 2} {
			lo, hi := p.knots[i], p.knots[i+1]
			if i == 0 {
				lo = math.Inf(-1)
			}
			if i == 3 {
				hi = math.Inf(1)
			}
			want += v * (cdf((hi-y)/tau) - cdf((lo-y)/tau))
		}
		if got := p.average(y, tau, x, w); !(math.Abs(got-want) <= 1e-11) {
			t.Errorf("%v at %v, want %v", got, y, want)
		}
	}
}

// TestPanelIsFine: a panel is not cut again where its polynomials miss nothing by more than tol of their
// largest; of the density also where what is missed has next to no probability.
func TestPanelIsFine(t *testing.T) {
	c := &conditionals{w: orthonormal(4), tol: 1e-6, rule: newPanelRule()}
	for i, at := range []struct {
		lo, hi       float64
		density, he4 float64 // by which one node is off: of 2, and of 8
		fine         bool
	}{
		{.25, .75, 0, 0, true},
		{.25, .75, 1e-6, 0, true},
		{.25, .75, -1e-6, 0, true},
		{.25, .75, 3e-6, 0, false},
		{.25, .75, -3e-6, 0, false},
		{.25, .25 + 1e-7, 3e-6, 0, true}, // 3e−13 of probability
		{.25, .25 + 1e-6, 3e-6, 0, false},
		{.25, .75, 0, 4e-6, true},
		{.25, .75, 0, 1.2e-5, false},
	} {
		p := panelOfY{lo: at.lo, hi: at.hi}
		for j := range p.own {
			p.own[j].Density, p.own[j].M[4] = 2, 8
		}
		for j := range p.sub {
			p.sub[j].Density, p.sub[j].M[4] = 2, 8
		}
		p.sub[3].Density += at.density
		p.sub[5].M[4] += at.he4
		if got := c.resolved(&p); got != at.fine {
			t.Errorf("case %d: fine %v", i, got)
		}
	}
}
