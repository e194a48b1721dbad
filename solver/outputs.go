package solver

// Outputs are transforms T_2, T_3 and T_4 of the target: for y = g(Z) + σN those
// that exist have
//
//	E[T_r(y)·He_q(Z)] = 0 at 1 ≤ q < r    E[T_r(y)·He_r(Z)] = 1
//
// so that E[T_r(y)·S_r(x)] = Σ_i p_i a_i^{⊗r} with the Hermite tensor S_r. What takes them subtracts their sample
// means, which changes no expectation. [Transform] and [*Optimal] are Outputs.
type Outputs interface {
	// Has says whether T_r exists, r = 2, 3 or 4.
	Has(r int) bool
	// Apply writes T_r(y_i) to dst_i. It is finite at any finite y. It panics if
	// dst and y differ in length or T_r does not exist.
	Apply(r int, dst, y []float64)
}

// Has says whether Q2, P3 or Q4 exists and sees its order.
func (t Transform) Has(r int) bool {
	switch r {
	case 2:
		return t.C2 != 0
	case 3:
		return t.Cubic.Valid && t.Cubic.C3 != 0
	case 4:
		return t.C4 != 0
	}
	return false
}

// Apply writes Q2(y_i)/c2, P3(y_i)/c3 or Q4(y_i)/c4 to dst_i.
func (t Transform) Apply(r int, dst, y []float64) {
	mustApply(t, r, dst, y)
	switch r {
	case 2:
		for i, v := range y {
			dst[i] = t.Q2(v) / t.C2
		}
	case 3:
		for i, v := range y {
			dst[i] = t.P3(v) / t.Cubic.C3
		}
	case 4:
		for i, v := range y {
			dst[i] = t.Q4(v) / t.C4
		}
	}
}

func mustApply(o Outputs, r int, dst, y []float64) {
	if len(dst) != len(y) {
		panic("solver: places and values differ in number")
	}
	mustHave(o, r)
}

func mustHave(o Outputs, r int) {
	if !o.Has(r) {
		panic("solver: there is no transform of this order")
	}
}

// Means is that of [Optimal.Means] for Q2/c2, P3/c3 or Q4/c4.
func (t Transform) Means(r int) func(dst, m []float64) {
	mustHave(t, r)
	q, c := t.polynomial(r)
	q = q.smooth(t.Sigma * t.Sigma)
	return func(dst, m []float64) {
		for i, v := range m {
			dst[i] = q.at(v) / c
		}
	}
}
