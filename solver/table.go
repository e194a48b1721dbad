package solver

import (
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// table holds h(p,q) = E[g(Z)^p·He_q(Z)] for p, q = 1 … 4 and a bound on the
// numerical error of each. Every system of this package is made of these.
type table struct {
	h, err [sdk.MaxOrder + 1][sdk.MaxOrder + 1]float64
}

func tableOf(m sdk.Moments) table {
	var t table
	for p := 1; p <= sdk.MaxOrder; p++ {
		for q := 1; q <= sdk.MaxOrder; q++ {
			t.h[p][q], t.err[p][q] = m.Hermite(p, q), m.HermiteError(p, q)
		}
	}
	return t
}

// affine is the change of scale y = Mean + SD·t that makes g standard.
type affine struct{ mean, sd float64 }

// standardise returns the mean and standard deviation of g(Z), and a bound on
// the error of the variance. Where the variance does not exceed that bound, g
// cannot be told from a constant.
func standardise(m sdk.Moments) (a affine, varianceError float64) {
	mean := m.Value[1][0]
	variance := m.Value[2][0] - mean*mean
	varianceError = m.HermiteError(2, 0) + 2*math.Abs(mean)*m.HermiteError(1, 0) + 8*epsilon*m.Value[2][0]
	return affine{mean, math.Sqrt(max(variance, 0))}, varianceError
}

// epsilon is the relative rounding error of float64.
const epsilon = 1.0 / (1 << 53)

var binomial = [5][5]float64{{1}, {1, 1}, {1, 2, 1}, {1, 3, 3, 1}, {1, 4, 6, 4, 1}}

// of returns the table of (g − mean)/sd:
// h̃(p,q) = Σ_j C(p,j)·(−mean)^{p−j}·h(j,q)/sd^p, where h(0,q) = 0 for q ≥ 1.
func (a affine) of(t table) table {
	var r table
	for p := 1; p <= sdk.MaxOrder; p++ {
		for q := 1; q <= sdk.MaxOrder; q++ {
			scale := math.Pow(a.sd, float64(p))
			for j := 1; j <= p; j++ {
				c := binomial[p][j] * math.Pow(-a.mean, float64(p-j)) / scale
				r.h[p][q] += c * t.h[j][q]
				r.err[p][q] += math.Abs(c) * (t.err[j][q] + 8*epsilon*math.Abs(t.h[j][q]))
			}
		}
	}
	return r
}

// equations returns the rows q = 1 … rows of the transform of the given degree
// (4 for Q4, 3 for P3, 2 for Q2) of a noiseless y, and the functional of the
// coefficient that it leaves:
//
//	Σ_j a[q−1][j]·x_j = b[q−1],   a[q−1][j] = h(degree−1−j, q),   b[q−1] = −h(degree, q)
//	c = c0 + Σ_j c[j]·x_j at q = degree
//
// with x the coefficients of y^{degree−1}, …, y.
func (t table) equations(degree int) equations {
	n := degree - 1
	e := equations{c0: t.h[degree][degree], c0err: t.err[degree][degree]}
	for q := 1; q <= n; q++ {
		row := make([]float64, n)
		for j := range row {
			row[j] = t.h[degree-1-j][q]
			e.aerr = math.Hypot(e.aerr, t.err[degree-1-j][q])
		}
		e.a = append(e.a, row)
		e.b = append(e.b, -t.h[degree][q])
		e.berr = math.Hypot(e.berr, t.err[degree][q])
	}
	for j := range n {
		e.c = append(e.c, t.h[degree-1-j][degree])
		e.cerr = append(e.cerr, t.err[degree-1-j][degree])
	}
	return e
}
