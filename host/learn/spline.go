package learn

import "math"

// curve is a g with parameters: a spline, or a named function with offset and scale.
type curve interface {
	size() int
	// at returns g(z) and g′(z), and writes the derivatives of g by the parameters to row.
	at(z float64, row []float64) (g, slope float64)
	// moved is the curve whose parameters differ by delta.
	moved(delta []float64) curve
}

// spline is the natural cubic spline with values c at knots, of which it is a linear function; it goes on
// as a line beyond them.
type spline struct {
	knots  []float64
	c      []float64
	slopes []float64   // = by·c
	by     [][]float64 // slopes of the splines that are 1 at one knot and 0 at the others, by row
}

func newSpline(knots, c []float64, slopesOf func(z, g []float64) []float64) *spline {
	m := len(knots)
	s := &spline{knots: knots, c: c, by: make([][]float64, m)}
	for i := range s.by {
		s.by[i] = make([]float64, m)
	}
	for j := range m {
		unit := make([]float64, m)
		unit[j] = 1
		for i, v := range slopesOf(knots, unit) {
			s.by[i][j] = v
		}
	}
	s.slope()
	return s
}

func (s *spline) slope() {
	s.slopes = make([]float64, len(s.c))
	for i, row := range s.by {
		for j, v := range row {
			s.slopes[i] += v * s.c[j]
		}
	}
}

func (s *spline) size() int { return len(s.c) }

func (s *spline) moved(delta []float64) curve {
	out := &spline{knots: s.knots, by: s.by, c: make([]float64, len(s.c))}
	for j := range out.c {
		out.c[j] = s.c[j] + delta[j]
	}
	out.slope()
	return out
}

func (s *spline) at(z float64, row []float64) (g, slope float64) {
	last := len(s.knots) - 1
	clear(row)
	if z <= s.knots[0] || z >= s.knots[last] {
		end := 0
		if z > s.knots[0] {
			end = last
		}
		u := z - s.knots[end]
		row[end] = 1
		for j, v := range s.by[end] {
			row[j] += u * v
		}
		return s.c[end] + u*s.slopes[end], s.slopes[end]
	}
	i := 0
	for z >= s.knots[i+1] {
		i++
	}
	h := s.knots[i+1] - s.knots[i]
	u := (z - s.knots[i]) / h
	v := 1 - u
	p0, p1, q0, q1 := v*v*(1+2*u), u*u*(3-2*u), h*u*v*v, -h*u*u*v
	for j := range row {
		row[j] = q0*s.by[i][j] + q1*s.by[i+1][j]
	}
	row[i] += p0
	row[i+1] += p1
	g = p0*s.c[i] + p1*s.c[i+1] + q0*s.slopes[i] + q1*s.slopes[i+1]
	slope = 6*u*v*(s.c[i+1]-s.c[i])/h + v*(v-2*u)*s.slopes[i] + u*(u-2*v)*s.slopes[i+1]
	return g, slope
}

// named is a + s·h(βz), or a + s·h(z) where the shape has no scale of its own.
type named struct {
	shape         shape
	offset, scale float64
	beta          float64
}

// shape is a function that a g may be, up to offset and scale.
type shape struct {
	name   string
	h      func(z float64) (h, slope float64)
	scaled bool // h(βz) is another function than a multiple of h(z), or of h(−z)
}

func (n *named) size() int {
	if n.shape.scaled {
		return 3
	}
	return 2
}

func (n *named) at(z float64, row []float64) (g, slope float64) {
	h, d := n.shape.h(n.beta * z)
	row[0], row[1] = 1, h
	if n.shape.scaled {
		row[2] = n.scale * z * d
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
	return &out
}

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-max(z, -700))) }

// shapes are the functions that a curve is compared with.
var shapes = []shape{
	{"identity", func(z float64) (float64, float64) { return z, 1 }, false},
	{"relu", func(z float64) (float64, float64) {
		if z > 0 {
			return z, 1
		}
		return 0, 0
	}, false},
	{"expr: abs(z)", func(z float64) (float64, float64) { return math.Abs(z), math.Copysign(1, z) }, false},
	{"sigmoid", func(z float64) (float64, float64) { s := logistic(z); return s, s * (1 - s) }, true},
	{"softplus", func(z float64) (float64, float64) {
		return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0), logistic(z)
	}, true},
	{"expr: z*sigmoid(z)", func(z float64) (float64, float64) { s := logistic(z); return z * s, s + z*s*(1-s) }, true},
	{"expr: exp(-z^2)", func(z float64) (float64, float64) {
		e := math.Exp(-min(z*z, 700))
		return e, -2 * z * e
	}, true},
}

// function is a curve without parameters.
type function func(z float64) float64

func (function) size() int               { return 0 }
func (f function) moved([]float64) curve { return f }

func (f function) at(z float64, _ []float64) (g, slope float64) { return f(z), 0 }
