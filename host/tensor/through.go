package tensor

import "gonum.org/v1/gonum/mat"

// through returns the tensor of order r with all m^r entries in full, seen through L (m×m) in every mode:
// T(Lᵀ·, …, Lᵀ·). A mode is multiplied and becomes the last, r times.
func through(full []float64, m, r int, l mat.Matrix) []float64 {
	for range r {
		var out mat.Dense
		out.Mul(mat.NewDense(m, len(full)/m, full).T(), l.T())
		full = out.RawMatrix().Data
	}
	return full
}

// Through returns the tensor with entries Σ L_ai·L_bj·L_ck·T_ijk.
func (t *Sym3) Through(l mat.Matrix) *Sym3 {
	m := t.M
	full, out := through(t.Full(), m, 3, l), NewSym3(m)
	out.each(func(i, a, b, c int) { out.Data[i] = full[(a*m+b)*m+c] })
	return out
}

// Along is T(u,u,u).
func (t *Sym3) Along(u []float64) float64 { return along(t.Full(), u) }

// Through returns the tensor with entries Σ L_ai·L_bj·L_ck·L_dl·T_ijkl.
func (t *Sym4) Through(l mat.Matrix) *Sym4 {
	m := t.M
	full := make([]float64, m*m*m*m)
	at := newRotating(*t)
	for i := range full {
		full[i] = at.data[at.place(i/(m*m*m), i/(m*m)%m, i/m%m, i%m)]
	}
	full = through(full, m, 4, l)
	out := NewSym4(m)
	out.each(func(i, a, b, c, d int) { out.Data[i] = full[((a*m+b)*m+c)*m+d] })
	return out
}
