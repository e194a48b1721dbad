package solver

import "gonum.org/v1/gonum/floats"

// factor is G = RᵀR of the Gram matrix of functions that were made orthonormal one
// after the other. A function that is a combination of those before it has norm 0
// and an empty row.
type factor struct {
	r    [][]float64 // upper triangle
	norm []float64   // its diagonal: what is left of each function
}

// orthogonalise makes the functions orthonormal in place, by Gram–Schmidt; at
// most least(q) of function q counts as nothing.
func orthogonalise(f [][]float64, least func(q int) float64) factor {
	n := len(f)
	out := factor{norm: make([]float64, n)}
	for range n {
		out.r = append(out.r, make([]float64, n))
	}
	for q := range f {
		for range 2 { // twice is enough for orthogonality to rounding
			for p := range q {
				if out.norm[p] == 0 {
					continue
				}
				c := floats.Dot(f[p], f[q])
				out.r[p][q] += c
				floats.AddScaled(f[q], -c, f[p])
			}
		}
		if norm := floats.Norm(f[q], 2); norm > least(q) {
			out.norm[q], out.r[q][q] = norm, norm
			floats.Scale(1/norm, f[q])
		}
	}
	return out
}

// solve returns G⁻¹·b on the functions that are there, 0 for the others.
func (f factor) solve(b []float64) []float64 {
	n := len(b)
	x := make([]float64, n)
	for q := range n { // Rᵀ·x = b
		if f.norm[q] == 0 {
			continue
		}
		v := b[q]
		for p := range q {
			v -= f.r[p][q] * x[p]
		}
		x[q] = v / f.norm[q]
	}
	for q := n - 1; q >= 0; q-- { // R·x
		if f.norm[q] == 0 {
			continue
		}
		v := x[q]
		for p := q + 1; p < n; p++ {
			v -= f.r[q][p] * x[p]
		}
		x[q] = v / f.norm[q]
	}
	return x
}
