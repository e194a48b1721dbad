package tensor

import "gonum.org/v1/gonum/floats"

// Sym3 is a symmetric tensor of order 3 over ℝ^m: Data holds the entries
// a ≤ b ≤ c in lexicographic order.
type Sym3 struct {
	M    int
	Data []float64
}

// NewSym3 returns a zero tensor.
func NewSym3(m int) *Sym3 { return &Sym3{M: m, Data: make([]float64, m*(m+1)*(m+2)/6)} }

func (t *Sym3) each(fn func(i, a, b, c int)) {
	i := 0
	for a := range t.M {
		for b := a; b < t.M; b++ {
			for c := b; c < t.M; c++ {
				fn(i, a, b, c)
				i++
			}
		}
	}
}

// ScaleModes multiplies entry (a,b,c) by s_a·s_b·s_c: the tensor seen through a
// diagonal change of basis.
func (t *Sym3) ScaleModes(s []float64) {
	t.each(func(i, a, b, c int) { t.Data[i] *= s[a] * s[b] * s[c] })
}

// AddRankOne adds w·v⊗v⊗v.
func (t *Sym3) AddRankOne(w float64, v []float64) {
	t.each(func(i, a, b, c int) { t.Data[i] += w * v[a] * v[b] * v[c] })
}

// Full returns all m³ entries, entry (a,b,c) at (a·m+b)·m+c.
func (t *Sym3) Full() []float64 {
	m := t.M
	full := make([]float64, m*m*m)
	t.each(func(i, a, b, c int) {
		for _, p := range [6][3]int{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
			full[(p[0]*m+p[1])*m+p[2]] = t.Data[i]
		}
	})
	return full
}

// contract writes T(·,u,u) of a tensor's m³ entries to dst.
func contract(dst, full, u []float64) {
	m := len(u)
	for a := range m {
		var v float64
		for b := range m {
			v += u[b] * floats.Dot(full[(a*m+b)*m:(a*m+b+1)*m], u)
		}
		dst[a] = v
	}
}
