package learn

import (
	"math"

	"github.com/gatedlearning/moe/table"
)

// curve is a g with parameters: a spline, or a named function with offset and scale.
type curve interface {
	size() int
	// at returns g(z) and g′(z), and writes the derivatives of g by the parameters to row.
	at(z float64, row []float64) (g, slope float64)
	// moved is the curve whose parameters differ by delta, as far as they may.
	moved(delta []float64) curve
	// held says which parameters are at their bounds, and would leave them in the direction of grad; nil for none.
	held(grad []float64) []bool
}

// spline is a cubic on each interval between its knots, and goes on as a line beyond them. Its values and slopes at
// the knots are linear in its parameters c: those of
//
//   - the natural cubic spline are its values at the knots;
//   - the rising one are its value at the first knot and its slopes, which are not below 0, at all of them. Its slope
//     is linear between knots, so that the curve rises throughout.
type spline struct {
	knots  []float64
	c      []float64
	basis  *basis
	values []float64 // at the knots
	slopes []float64
}

// basis are the values and slopes at the knots, by row, of the splines of which one parameter is 1 and all others are
// 0.
type basis struct {
	values, slopes [][]float64
	rising         bool
}

// newNatural is the natural cubic spline with these values.
func newNatural(knots, values []float64) *spline {
	m := len(knots)
	b := newBasis(m, m)
	for j := range m {
		unit := make([]float64, m)
		unit[j] = 1
		b.values[j][j] = 1
		for i, v := range table.Natural(knots, unit) {
			b.slopes[i][j] = v
		}
	}
	return (&spline{knots: knots, basis: b}).with(values)
}

// newRising is the rising spline with this value at the first knot and these slopes.
func newRising(knots []float64, first float64, slopes []float64) *spline {
	m := len(knots)
	b := newBasis(m, m+1)
	b.rising = true
	for i := range m {
		b.values[i][0] = 1
		b.slopes[i][i+1] = 1
		for j := range i {
			h := (knots[j+1] - knots[j]) / 2
			b.values[i][j+1] += h
			b.values[i][j+2] += h
		}
	}
	return (&spline{knots: knots, basis: b}).with(append([]float64{first}, slopes...))
}

func newBasis(m, size int) *basis {
	b := &basis{values: make([][]float64, m), slopes: make([][]float64, m)}
	for i := range m {
		b.values[i], b.slopes[i] = make([]float64, size), make([]float64, size)
	}
	return b
}

// with is the spline of the same basis with parameters c.
func (s *spline) with(c []float64) *spline {
	out := &spline{knots: s.knots, basis: s.basis, c: c}
	for i := range s.knots {
		out.values = append(out.values, dot(s.basis.values[i], c))
		out.slopes = append(out.slopes, dot(s.basis.slopes[i], c))
	}
	return out
}

func (s *spline) size() int { return len(s.c) }

func (s *spline) moved(delta []float64) curve {
	c := make([]float64, len(s.c))
	for j := range c {
		c[j] = s.c[j] + delta[j]
		if s.basis.rising && j > 0 {
			c[j] = max(c[j], 0)
		}
	}
	return s.with(c)
}

func (s *spline) held(grad []float64) []bool {
	if !s.basis.rising {
		return nil
	}
	out := make([]bool, len(s.c))
	for j := range out {
		out[j] = j > 0 && s.c[j] == 0 && grad[j] <= 0
	}
	return out
}

func (s *spline) at(z float64, row []float64) (g, slope float64) {
	last := len(s.knots) - 1
	if z <= s.knots[0] || z >= s.knots[last] {
		end := 0
		if z > s.knots[0] {
			end = last
		}
		u := z - s.knots[end]
		for j := range row {
			row[j] = s.basis.values[end][j] + u*s.basis.slopes[end][j]
		}
		return s.values[end] + u*s.slopes[end], s.slopes[end]
	}
	i := 0
	for z >= s.knots[i+1] {
		i++
	}
	h := s.knots[i+1] - s.knots[i]
	u := (z - s.knots[i]) / h
	v := 1 - u
	p0, p1, q0, q1 := v*v*(1+2*u), u*u*(3-2*u), h*u*v*v, -h*u*u*v
	b := s.basis
	for j := range row {
		row[j] = p0*b.values[i][j] + p1*b.values[i+1][j] + q0*b.slopes[i][j] + q1*b.slopes[i+1][j]
	}
	g = p0*s.values[i] + p1*s.values[i+1] + q0*s.slopes[i] + q1*s.slopes[i+1]
	slope = 6*u*v*(s.values[i+1]-s.values[i])/h + v*(v-2*u)*s.slopes[i] + u*(u-2*v)*s.slopes[i+1]
	return g, slope
}

// named is offset + scale·h(beta·z + shift). Beta is fitted where the shape is scaled and else 1 or −1, shift is
// fitted where the curve is placed and else 0.
type named struct {
	shape         shape
	offset, scale float64
	beta, shift   float64
	placed        bool
}

// shape is a function that a g may be, up to offset and scale.
type shape struct {
	name   string
	h      func(z float64) (h, slope float64)
	scaled bool // h(βz) is another function than a multiple of h(z), or of h(−z)
	line   bool // h(z + c) differs by a constant alone
}

func (n *named) size() int {
	size := 2
	if n.shape.scaled {
		size++
	}
	if n.moves() {
		size++
	}
	return size
}

// moves says whether the shift is a parameter.
func (n *named) moves() bool { return n.placed && !n.shape.line }

func (n *named) at(z float64, row []float64) (g, slope float64) {
	h, d := n.shape.h(n.beta*z + n.shift)
	row[0], row[1] = 1, h
	if n.shape.scaled {
		row[2] = n.scale * z * d
	}
	if n.moves() {
		row[len(row)-1] = n.scale * d
	}
	return n.offset + n.scale*h, n.scale * n.beta * d
}

func (n *named) moved(delta []float64) curve {
	out := *n
	out.offset += delta[0]
	out.scale += delta[1]
	if n.shape.scaled {
		out.beta += delta[2]
	}
	if n.moves() {
		out.shift += delta[len(delta)-1]
	}
	return &out
}

func (*named) held([]float64) []bool { return nil }

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-max(z, -700))) }

// shapes are the functions that a curve is compared with.
var shapes = []shape{
	{"identity", func(z float64) (float64, float64) { return z, 1 }, false, true},
	{"relu", func(z float64) (float64, float64) {
		if z > 0 {
			return z, 1
		}
		return 0, 0
	}, false, false},
	{"expr: abs(z)", func(z float64) (float64, float64) { return math.Abs(z), math.Copysign(1, z) }, false, false},
	{"sigmoid", func(z float64) (float64, float64) { s := logistic(z); return s, s * (1 - s) }, true, false},
	{"softplus", func(z float64) (float64, float64) {
		return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0), logistic(z)
	}, true, false},
	{"expr: z*sigmoid(z)", func(z float64) (float64, float64) { s := logistic(z); return z * s, s + z*s*(1-s) }, true,
		false},
	{"expr: exp(-z^2)", func(z float64) (float64, float64) {
		e := math.Exp(-min(z*z, 700))
		return e, -2 * z * e
	}, true, false},
}

// function is a curve without parameters.
type function func(z float64) float64

func (function) size() int               { return 0 }
func (f function) moved([]float64) curve { return f }
func (function) held([]float64) []bool   { return nil }

func (f function) at(z float64, _ []float64) (g, slope float64) { return f(z), 0 }
