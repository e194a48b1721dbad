package solver

import "gonum.org/v1/gonum/floats"

// raw turns the coefficients x of a monic polynomial in t = (y − mean)/sd into
// those of the same polynomial in y, times sd^degree and up to a constant:
//
//	sd^m·[t^m + Σ_j x_j·t^{m−1−j}] = (y−mean)^m + Σ_j x_j·sd^{1+j}·(y−mean)^{m−1−j}
//
// x[j] belongs to power len(x)−j.
func (a affine) raw(x []float64) []float64 { return shifted(stretched(x, a.sd), -a.mean) }

// stretched multiplies x_j by by^{1+j}.
func stretched(x []float64, by float64) []float64 {
	r, f := make([]float64, len(x)), by
	for j, v := range x {
		r[j] = v * f
		f *= by
	}
	return r
}

// shifted replaces y by y + by in y^m + Σ_j x_j·y^{m−1−j} and drops the constant.
func shifted(x []float64, by float64) []float64 {
	m := len(x) + 1
	lead := append([]float64{1}, x...) // of y^m, …, y
	r := make([]float64, len(lead))
	for i, c := range lead {
		power, f := m-i, c // c·(y+by)^power
		for j := 0; j < power; j++ {
			r[i+j] += binomial[power][j] * f
			f *= by
		}
	}
	return r[1:]
}

// least returns, among the standardised solutions x + span(free), the one whose
// raw coefficients have minimum norm.
func (a affine) least(x []float64, free [][]float64) []float64 {
	if len(free) == 0 {
		return x
	}
	origin := a.raw(x)
	// The images of the free directions under the linear part of raw, made
	// orthonormal by Gram–Schmidt, with their preimages alongside.
	var image, pre [][]float64
	for _, f := range free {
		moved := append([]float64(nil), x...)
		floats.Add(moved, f)
		im := a.raw(moved)
		floats.Sub(im, origin)
		p := append([]float64(nil), f...)
		for range 2 { // twice is enough for orthogonality to rounding
			for i := range image {
				c := floats.Dot(im, image[i])
				floats.AddScaled(im, -c, image[i])
				floats.AddScaled(p, -c, pre[i])
			}
		}
		norm := floats.Norm(im, 2)
		if norm == 0 {
			continue
		}
		floats.Scale(1/norm, im)
		floats.Scale(1/norm, p)
		image, pre = append(image, im), append(pre, p)
	}
	r := append([]float64(nil), x...)
	for i := range image {
		floats.AddScaled(r, -floats.Dot(origin, image[i]), pre[i])
	}
	return r
}
