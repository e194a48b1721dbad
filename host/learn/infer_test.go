package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
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
	h, score := s.information(r)
	p := len(score)
	const step = 1e-5
	hessian := mat.NewDense(p, p, nil)
	for i := range p {
		above, below := s.shifted(r.d, i, step), s.shifted(r.d, i, -step)
		want := (above.pass(r).loglik - below.pass(r).loglik) / (2 * step)
		if math.Abs(want-score[i]) > 1e-5*max(1, math.Sqrt(h.At(i, i))) {
			t.Errorf("score %d is %v, by differences %v", i, score[i], want)
		}
		_, up := above.information(r)
		_, down := below.information(r)
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
		s := &state{k: 1, placed: true, g: function(func(z float64) float64 { return 2 + 3*max(-z, 0) })}
		var at []float64
		for i := range 500 {
			at = append(at, wide*(float64(i)/250-1))
		}
		if n := nearest(s, relu, at); math.Abs(n.offset-2)+math.Abs(n.scale-3)+math.Abs(n.beta+1)+math.Abs(n.shift) > 1e-9 {
			t.Errorf("width %v: %v + %v·relu(%v·z + %v)", wide, n.offset, n.scale, n.beta, n.shift)
		}
	}
}
