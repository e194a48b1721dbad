package learn

import "github.com/gatedlearning/moe/table"

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
