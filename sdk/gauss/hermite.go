package gauss

// Hermite returns the probabilists' Hermite polynomial He_q(z), by
// He_{q+1}(z) = z·He_q(z) − q·He_{q−1}(z): 1, z, z²−1, z³−3z, z⁴−6z²+3, …
// They are orthogonal under N(0,1) with E[He_q(Z)²] = q!.
func Hermite(q int, z float64) float64 {
	prev, cur := 0.0, 1.0
	for j := range q {
		prev, cur = cur, z*cur-float64(j)*prev
	}
	return cur
}

// HermiteCoefficients returns the q+1 coefficients of He_q, constant first.
func HermiteCoefficients(q int) []float64 {
	prev, cur := []float64{}, []float64{1}
	for j := range q {
		next := make([]float64, j+2)
		for i, c := range cur {
			next[i+1] += c
		}
		for i, c := range prev {
			next[i] -= float64(j) * c
		}
		prev, cur = cur, next
	}
	return cur
}
