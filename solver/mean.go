package solver

// Means returns m ↦ E[T_r(m + Sigma·N)], which is E[T_r(y)|Z] at m = g(Z), as a function that writes it to dst. It
// panics if T_r does not exist, or is not of normal noise.
func (o *Optimal) Means(r int) func(dst, m []float64) {
	mustHave(o, r)
	t := o.t[r].(*piecewise)
	if o.Sigma > 0 {
		t = smoothed(t, o.Sigma)
	}
	return func(dst, m []float64) {
		for i, v := range m {
			dst[i] = t.at(v)
		}
	}
}
