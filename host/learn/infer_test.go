package learn

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/expression"
)

// drawn is a state of two experts with intercepts, and n rows of it.
func drawn(n int) (*state, *rows) {
	s := &state{k: 2, a: [][]float64{{.6, .8, 0}, {-.5, .3, 1}}, b: []float64{.2, -.3}, w: [][]float64{{1, -.5, .3, .2}},
		sigma: .3, metric: []float64{1, 1, 1}, intercept: true, placed: true,
		g: newNatural([]float64{-2, -.8, .1, .9, 2}, []float64{.1, .3, -.2, .6, 1.4})}
	rng := rand.New(rand.NewPCG(5, 6))
	r := &rows{n: n, d: 3}
	prior, row := make([]float64, 2), make([]float64, s.g.size())
	for range n {
		x := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		s.gateAt(x, prior)
		i := 0
		if rng.Float64() > math.Exp(prior[0]) {
			i = 1
		}
		g, _ := s.g.at(s.index(i, x), row)
		r.x, r.y = append(r.x, x...), append(r.y, g+s.sigma*rng.NormFloat64())
	}
	return s, r
}

// shifted is s with the parameter at one place, in the order of [state.information], moved by h.
func (s *state) shifted(d, place int, h float64) *state {
	c := s.clone()
	per, m := s.per(d), s.g.size()
	gate := s.k*per + m
	switch {
	case place < s.k*per && place%per < d:
		c.a[place/per][place%per] += h
	case place < s.k*per:
		c.b[place/per] += h
	case place < gate:
		delta := make([]float64, m)
		delta[place-s.k*per] = h
		c.g = s.g.moved(delta)
	case place < gate+len(s.w)*len(s.w[0]):
		c.w[(place-gate)/len(s.w[0])][(place-gate)%len(s.w[0])] += h
	default:
		c.sigma *= math.Exp(h)
	}
	return c
}

// TestInformation: the score is the gradient of the log-likelihood by differences, and the information, at the truth of
// many rows, the negative Hessian by differences of the score. The two differ by .04 at most here, and by
// half of that with four times the rows.
func TestInformation(t *testing.T) {
	s, r := drawn(10_000)
	h, score, _ := s.information(r)
	p := len(score)
	const step = 1e-5
	hessian := mat.NewDense(p, p, nil)
	for i := range p {
		above, below := s.shifted(r.d, i, step), s.shifted(r.d, i, -step)
		want := (above.pass(r).loglik - below.pass(r).loglik) / (2 * step)
		if math.Abs(want-score[i]) > 1e-5*max(1, math.Sqrt(h.At(i, i))) {
			t.Errorf("score %d is %v, by differences %v", i, score[i], want)
		}
		_, up, _ := above.information(r)
		_, down, _ := below.information(r)
		for j := range p {
			hessian.Set(i, j, -(up[j]-down[j])/(2*step))
		}
	}
	for i := range p {
		for j := range i + 1 {
			scale := math.Sqrt(h.At(i, i) * h.At(j, j))
			if d := math.Abs(hessian.At(i, j)-h.At(i, j)) / scale; d > .08 {
				t.Errorf("information %d, %d is %v, the Hessian %v: off by %v", i, j, h.At(i, j), hessian.At(i, j), d)
			}
		}
	}
}

// TestNearest: a fall that ends is the ReLU of the index with the other sign, at any width of the indices.
func TestNearest(t *testing.T) {
	relu := shapes[slices.IndexFunc(shapes, func(s shape) bool { return s.name == "relu" })]
	for _, wide := range []float64{.3, 1, 1.7, 2.1, 3.3} {
		s := &state{k: 1, g: function(func(z float64) float64 { return 2 + 3*max(-z, 0) })}
		var at []float64
		for i := range 500 {
			at = append(at, wide*(float64(i)/250-1))
		}
		if n := nearest(s, relu, at, true); math.Abs(n.offset-2)+math.Abs(n.scale-3)+math.Abs(n.beta+1)+math.Abs(n.shift) > 1e-9 {
			t.Errorf("width %v: %v + %v·relu(%v·z + %v)", wide, n.offset, n.scale, n.beta, n.shift)
		}
	}
}

// TestHeld: the ends of a curve are held by rows beyond both outer knots, and by three of 101.
func TestHeld(t *testing.T) {
	r := &rows{n: 101, d: 1}
	for i := range r.n {
		r.x, r.y = append(r.x, float64(i)-50), append(r.y, 0)
	}
	for _, test := range []struct {
		lo, hi float64
		want   bool
	}{{-47.5, 47.5, true}, {-48, 47.5, false}, {-47.5, 48, false}, {-70, 0, false}, {0, 70, false}} {
		s := &state{k: 1, a: [][]float64{{1}}, sigma: 1,
			g: newNatural([]float64{test.lo, (test.lo + test.hi) / 2, test.hi}, make([]float64, 3))}
		if got := s.held(r); got != test.want {
			t.Errorf("knots from %v to %v: %v", test.lo, test.hi, got)
		}
	}
}

// TestCanonical: another order of the experts, another norm of the first and the other sign of all are the same mixture,
// and the one that is canonical is found from each.
func TestCanonical(t *testing.T) {
	s, r := drawn(2000)
	s.loglik = s.pass(r).loglik
	want := canonical(s, r)
	if share := want.pass(r).expected; share[0] < share[1] {
		t.Errorf("%v rows of the experts", share)
	}
	other := s.clone()
	other.a[0], other.a[1], other.b[0], other.b[1] = other.a[1], other.a[0], other.b[1], other.b[0]
	for i := range other.a {
		for j := range other.a[i] {
			other.a[i][j] *= -3
		}
		other.b[i] *= -3
	}
	for j := range other.w[0] {
		other.w[0][j] = -other.w[0][j]
	}
	other.g = s.g.(*spline).stretched(-3)
	got := canonical(other, r)
	for _, c := range []*state{want, other, got} {
		if l := c.pass(r).loglik; math.Abs(l-s.loglik) > 1e-8*math.Abs(s.loglik) {
			t.Errorf("log-likelihood %v, want %v", l, s.loglik)
		}
	}
	if norm := got.norm(got.a[0]); math.Abs(norm-1) > 1e-12 {
		t.Errorf("norm %v", norm)
	}
	near := func(what string, a, b []float64) {
		for i := range a {
			if math.Abs(a[i]-b[i]) > 1e-9 {
				t.Errorf("%s: %v, from the other %v", what, a, b)
				return
			}
		}
	}
	near("a_1", want.a[0], got.a[0])
	near("a_2", want.a[1], got.a[1])
	near("b", want.b, got.b)
	near("w", want.w[0], got.w[0])
	near("knots", want.g.(*spline).knots, got.g.(*spline).knots)
	near("values", want.g.(*spline).values, got.g.(*spline).values)

	// Of an even g the common sign is that of the first regressor's largest coefficient, wherever the center is.
	for _, center := range []float64{0, .4} {
		even := want.clone()
		even.g = newNatural([]float64{center - 2, center - 1, center, center + 1, center + 2}, []float64{4, 1, 0, 1, 4})
		for _, factor := range []float64{1, -1} {
			c := even.clone()
			for i := range c.a {
				for j := range c.a[i] {
					c.a[i][j] *= factor
				}
				c.b[i] *= factor
			}
			c.g = even.g.(*spline).stretched(factor)
			at, is := evenAbout(c, r)
			if !is || math.Abs(at-factor*center) > .05 {
				t.Errorf("even about %v: %v, about %v", factor*center, is, at)
			}
			c = canonical(c, r)
			if largest := slices.MaxFunc(c.a[0], func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) }); largest < 0 {
				t.Errorf("a_1 is %v", c.a[0])
			}
		}
	}
}

// TestNamed: what is said of a function as an expression, and by Eval, are its values, shifted.
func TestNamed(t *testing.T) {
	for _, shape := range shapes {
		for _, n := range []named{
			{shape: shape, offset: .3, scale: -1.2, beta: .7, shift: .2, moves: true},
			{shape: shape, offset: -.3, scale: .4, other: 1.5, beta: -1, moves: true},
		} {
			const move = .6
			out := n.named(move)
			act, err := expression.Parse(out.Activation, nil)
			if err != nil {
				t.Fatal(err)
			}
			z := []float64{-2.5, -1, -.2, .1, .8, 2.9}
			values, texts := make([]float64, len(z)), make([]float64, len(z))
			out.Eval(values, z)
			if err := act.Eval(t.Context(), texts, z); err != nil {
				t.Fatal(err)
			}
			row := make([]float64, n.size())
			for i := range z {
				want, _ := n.at(z[i]-move, row)
				if math.Abs(values[i]-want) > 1e-13 || math.Abs(texts[i]-want) > 1e-13 {
					t.Errorf("%s at %v: %v, as a text %v, want %v", out.Activation, z[i], values[i], texts[i], want)
				}
			}
		}
	}
}

// TestDeviating: a named curve with a spline beside it has the sum of their values and slopes, and derivatives by all
// parameters as differences have them.
func TestDeviating(t *testing.T) {
	shape := shapes[slices.IndexFunc(shapes, func(s shape) bool { return s.name == "sigmoid" })]
	g := &deviating{&named{shape: shape, offset: .3, scale: -1.2, beta: .7, shift: .2, moves: true},
		newNatural([]float64{-2, -.8, .1, .9, 2}, []float64{.1, .3, -.2, .6, 1.4})}
	row, other := make([]float64, g.size()), make([]float64, g.size())
	for _, z := range []float64{-3, -1.1, .4, 1.7, 2.6} {
		value, slope := g.at(z, row)
		own, rise := g.named.at(z, other[:g.named.size()])
		more, bend := g.beside.at(z, other[g.named.size():])
		if value != own+more || slope != rise+bend {
			t.Errorf("at %v: %v and %v, want %v and %v", z, value, slope, own+more, rise+bend)
		}
		const step = 1e-6
		for j, want := range row {
			delta := make([]float64, len(row))
			delta[j] = step
			up, _ := g.moved(delta).at(z, other)
			delta[j] = -step
			down, _ := g.moved(delta).at(z, other)
			if got := (up - down) / (2 * step); math.Abs(got-want) > 1e-8 {
				t.Errorf("at %v: derivative %d is %v, by differences %v", z, j, want, got)
			}
		}
	}
}
