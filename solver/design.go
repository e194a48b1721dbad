package solver

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// weights are those of the squares of transforms in a target: w_r(y) = Σ_j weights[r][j]·e_j(y), with e_0 = 1.
type weights [5][gauss.He4]float64

// orthonormal are the weights of [Optimal] for k orthonormal regressors in equal proportions; w_1 is 1, that of any
// direction.
func orthonormal(k int) weights {
	p := 1 / float64(max(k, 2))
	return weights{
		1: {1},
		2: {1 - p, p},
		3: {2 * (1 - 2*p), 2 * p, p},
		4: {6 * (1 - 2*p), 6 * p, 0, p},
	}
}

// at is w_r, given e_q.
func (w *weights) at(r int, e *[gauss.He4 + 1]float64) float64 {
	c := &w[r]
	return c[0] + c[1]*e[1] + c[2]*e[2] + c[3]*e[3]
}

// mean is E[w_r], since E[He_j²] = j!.
func (w *weights) mean(r int) float64 { return w[r][0] + w[r][1] + 2*w[r][2] + 6*w[r][3] }

// form is the mean square error of an estimate, summed over the experts, as a quadratic form in its transforms: n
// times it is
//
//	E[T_2²·Σ_j own[2][j]·He_j²] + E[T_r²·Σ_j own[r][j]·He_j²]
//	+ 2·E[T_2·T_r·(cross[r][0]·He_{r−2} + cross[r][1]·He_1·He_{r−1})]
//
// with the Hermite polynomials in Z. See [Noise.MeanError] for what it is made of.
type form struct {
	own   weights
	cross [5][2]float64
}

// singular is the condition number of a Gram matrix from which on its regressors count as dependent.
const singular = 1e8

// newForm is that of a design whose rows are held orthonormal in the whitened coordinates; false where the regressors
// are linearly dependent, or an expert has no rows.
func newForm(d Design) (f form, ok bool) {
	s := &spanned{p: d.proportions(), gram: d.Gram}
	if s.gram == nil {
		s.gram = mat.NewSymDense(d.K, nil)
		for i := range d.K {
			s.gram.SetSym(i, i, 1)
		}
	}
	for _, p := range s.p {
		if !(p > 0) {
			return f, false
		}
	}
	var c mat.Cholesky
	if !c.Factorize(s.gram) || c.Cond() > singular || c.InverseTo(&s.dual) != nil {
		return f, false
	}
	for i, p := range s.p {
		outer := float64(d.D - d.K)
		f.own[2][0] += outer * (s.dual.At(i, i) - p) / (p * p)
		f.own[2][1] += outer / p
		for m := range d.K {
			for l := range m + 1 {
				if m != i && l != i {
					s.add(&f, i, m, l)
				}
			}
		}
	}
	return f, true
}

// spanned are the regressors in their span. With b_i the rows of the pseudo-inverse of A, ⟨b_i, a_j⟩ = [i = j], the
// whitened coordinate along v_i is ⟨β_i, x⟩, β_i = b_i/√p_i.
type spanned struct {
	p    []float64
	gram *mat.SymDense // ⟨a_i, a_j⟩
	dual mat.SymDense  // ⟨b_i, b_j⟩, its inverse
}

// add adds what the coefficients of a_m and a_l in the error of â_i have together; of m ≠ l for l and m as well.
func (s *spanned) add(f *form, i, m, l int) {
	by := (s.gram.At(m, l) - s.gram.At(i, m)*s.gram.At(i, l)) * s.size(i, m) * s.size(i, l)
	if m != l {
		by *= 2
	}
	if by == 0 {
		return
	}
	rest := 1.0
	for j, r := range [3]int{i, m, l} {
		if j == 2 && l == m {
			break
		}
		rest -= s.p[r]
		s.addOf(f, by*s.p[r], i, m, l, r)
	}
	s.addOf(f, by*rest, i, m, l, -1)
}

// size is what is before the coefficient of a_m in â_i.
func (s *spanned) size(i, m int) float64 {
	return math.Sqrt(s.p[m]/s.p[i]) * s.p[i] * s.p[m] / (s.p[i] + s.p[m])
}

// addOf is add for rows of expert r; −1 for one that is none of i, m and l.
func (s *spanned) addOf(f *form, by float64, i, m, l, r int) {
	ym, yl := s.contraction(nil, 2, i, m, r, 1/s.p[m]), s.contraction(nil, 2, i, l, r, 1/s.p[l])
	for _, a := range ym {
		for _, b := range yl {
			if a.n == b.n {
				f.own[2][a.he] += by * s.together(a, b, r)
			}
		}
	}
	for _, n := range []int{3, 4} {
		um, ul := s.turn(n, i, m, r), s.turn(n, i, l, r)
		for _, a := range um {
			for _, b := range ul {
				if a.n == b.n {
					f.own[n][a.he] += by * s.together(a, b, r)
				}
			}
		}
		both := func(u, y []part) {
			for _, a := range u {
				for _, b := range y {
					if a.n == b.n {
						f.cross[n][b.he] += by / 2 * s.together(a, b, r)
					}
				}
			}
		}
		both(um, yl)
		both(ul, ym)
	}
}

// part is by·He_he(z)·S_n(β_v1, …, β_vn), z the coordinate of a row along its expert's regressor and S_n the Hermite
// tensor of the coordinates orthogonal to it. Parts of different n are uncorrelated given z.
type part struct {
	by    float64
	he, n int
	v     [4]int
}

// turn is what of a row turns û_i towards v_m, up to size: λ_i·S_n(β_i, …, β_i, β_m) − λ_m·S_n(β_m, …, β_m, β_i).
func (s *spanned) turn(n, i, m, r int) []part {
	li, lm := 1.0, 1.0
	if n == 3 {
		li, lm = 1/math.Sqrt(s.p[i]), 1/math.Sqrt(s.p[m])
	}
	return s.contraction(s.contraction(nil, n, i, m, r, li), n, m, i, r, -lm)
}

// contraction appends by·S_n(β_a, …, β_a, β_b) for a row of expert r, whose regressor is orthogonal to all β but β_r.
func (s *spanned) contraction(to []part, n, a, b, r int, by float64) []part {
	along := func(times, he int, last bool) {
		p := part{by: by * float64(times), he: he}
		for range he {
			p.by /= math.Sqrt(s.p[r])
		}
		of := n - 1 - he
		if !last {
			of = n - 1
		}
		for range of {
			p.v[p.n] = a
			p.n++
		}
		if last {
			p.v[p.n] = b
			p.n++
		}
		to = append(to, p)
	}
	along(1, 0, true)
	switch r {
	case a:
		times := 1
		for he := 1; he < n; he++ {
			times = times * (n - he) / he // n − 1 over he
			along(times, he, true)
		}
	case b:
		along(1, 1, false)
	}
	return to
}

// together is E[S_n(β_v)·S_n(β_w)] times what is before them: the permanent of their products.
func (s *spanned) together(a, b part, r int) float64 {
	return a.by * b.by * s.permanent(a.v[:a.n], b.v[:b.n], 0, r)
}

// permanent is that of the products of the v and those of the w that are not used.
func (s *spanned) permanent(v, w []int, used uint, r int) float64 {
	if len(v) == 0 {
		return 1
	}
	var sum float64
	for j, u := range w {
		if used&(1<<j) != 0 {
			continue
		}
		product := s.dual.At(v[0], u) / math.Sqrt(s.p[v[0]]*s.p[u])
		if v[0] == r && u == r {
			product -= 1 / s.p[r]
		}
		sum += product * s.permanent(v[1:], w, used|1<<j, r)
	}
	return sum
}

// of is n times the mean square error of the estimate of this order, with transforms of these expectations.
func (f *form) of(n Noise, order int) float64 {
	own, low, high := n.q44[:], n.q24[2], n.q24[3]
	if order == 3 {
		own, low, high = n.q33[:], n.q23z, n.q23
	} else {
		order = 4
	}
	sum := f.own[2][0]*n.q22 + f.own[2][1]*n.q22z
	for j, v := range own {
		sum += f.own[order][j] * v
	}
	return sum + 2*(f.cross[order][0]*low+f.cross[order][1]*high)
}

// weights are those of the squares, of the size that those of orthonormal regressors have.
func (f *form) weights(k int) weights {
	w := orthonormal(k)
	for _, r := range Orders() {
		by := w.mean(r) / f.own.mean(r)
		for j := range w[r] {
			w[r][j] = by * f.own[r][j]
		}
	}
	return w
}

// OptimalFor makes the transforms of minimum variance at noise level sigma ≥ 0 for a design: T_r has the least mean
// square of its own part in the error of the estimate ([Noise.MeanError]). Of one expert, or of regressors that are
// linearly dependent, they are those of [Law.Optimal].
func (l *Law) OptimalFor(sigma float64, d Design) *Optimal {
	w := orthonormal(d.K)
	if f, ok := newForm(d); ok && d.K > 1 && d.D > d.K {
		w = f.weights(d.K)
	}
	return optimalOf(l.law, sigma, d.K, w)
}
