package tensor

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/solver"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Fourth are the sums of the second pass, over the projection z = Uᵀ(x − m) onto
// the columns of U, under which z ~ N(0, I): Σ y^p times every monomial of z of
// degree 2 and 4, for p = 0 … 4, times the row's weight. With U = I they are the
// sums of T4 itself.
type Fourth struct {
	N, M  int
	Y     [5]float64
	Two   [5][]float64 // m(m+1)/2 entries: z_a z_b, a ≤ b
	Four  [5][]float64 // C(m+3, 4) entries: z_a z_b z_c z_d, a ≤ b ≤ c ≤ d
	basis *mat.Dense   // d×m, U
	shift []float64    // Uᵀm
}

// NewFourth returns empty sums over the projection on the columns of u (d×m)
// about a centre of x that may be nil for 0.
func NewFourth(u *mat.Dense, centre []float64) *Fourth {
	_, m := u.Dims()
	f := &Fourth{M: m, basis: u, shift: make([]float64, m)}
	if centre != nil {
		f.shift = projected(u, centre)
	}
	for p := range f.Two {
		f.Two[p] = make([]float64, monomials(m, 2))
		f.Four[p] = make([]float64, monomials(m, 4))
	}
	return f
}

// SumFourth makes the second pass over the rows. What does not fit in memory is a
// *memory.Error before it begins.
func SumFourth(ctx context.Context, rows model.Rows, u *mat.Dense, centre []float64, workers int) (*Fourth, error) {
	_, have := rows.Dims()
	if d, _ := u.Dims(); d != have {
		panic(fmt.Sprintf("tensor: basis of %d rows for %d features", d, have))
	}
	_, columns := u.Dims()
	m := float64(columns)
	if err := room(fmt.Sprintf("the fourth moments in %d dimensions", columns), rows, workers,
		5*(m*(m+1)*(m+2)*(m+3)/24+m*(m+1)/2)); err != nil {
		return nil, err
	}
	return sum(ctx, rows, workers, func() *Fourth { return NewFourth(u, centre) })
}

// Merge adds the sums of o, over other rows and the same basis, to f.
func (f *Fourth) Merge(o *Fourth) {
	f.N += o.N
	floats.Add(f.Y[:], o.Y[:])
	addEach(f.Two[:], o.Two[:])
	addEach(f.Four[:], o.Four[:])
}

// Like returns empty sums over the same projection.
func (f *Fourth) Like() *Fourth {
	out := NewFourth(f.basis, nil)
	out.shift = f.shift
	return out
}

// Features returns the number of features that are projected.
func (f *Fourth) Features() int {
	d, _ := f.basis.Dims()
	return d
}

// Reset makes f the sums of no rows.
func (f *Fourth) Reset() {
	f.N, f.Y = 0, [5]float64{}
	clearEach(f.Two[:])
	clearEach(f.Four[:])
}

// Add adds the rows of a block to f.
func (f *Fourth) Add(b *model.Block, w *Scratch) {
	n := b.N
	f.N += n
	powers := w.powers(b, len(f.Y)-1)
	for p := range f.Y {
		f.Y[p] += kernel.Sum(powers[p])
	}
	pairs := w.pairs(w.columns(w.project(f.basis, f.shift, b), n))
	if b.Role[model.Weights] == nil {
		powers[0] = nil
	}
	w.addFourths(f.Four[:], f.Two[:], powers, pairs)
}

// addFourths adds to four[p] the sums of terms[p] times the products of four columns, and to
// two[p] those of two, of which the products of two are given. It takes the pairs (a, c) …
// (a, c+3) at once, times all terms, against the pairs from (c, c) on and ones.
func (w *Scratch) addFourths(four, two, terms, pairs [][]float64) {
	m, at := len(w.cols), 0
	pairs = append(pairs, w.allOnes(len(pairs[0])))
	w.products = pairs
	for a := range m {
		for c := a; c < m; c += 4 {
			first := pairs[pair(m, a, c) : pair(m, a, min(c+4, m)-1)+1]
			second := pairs[pair(m, c, c):]
			rows := w.timesEach(terms, first)
			sums := w.sums(len(rows) * len(second))
			kernel.AddProducts(sums, rows, second)
			last := len(second) - 1
			for s := range first {
				from := pair(m, c+s, c+s) - pair(m, c, c)
				for p := range four {
					row := sums[(p*len(first)+s)*len(second):]
					floats.Add(four[p][at:at+last-from], row[from:last])
					two[p][pair(m, a, c+s)] += row[last]
				}
				at += last - from
			}
		}
	}
}

// pairs returns the products of all pairs of columns, a ≤ b.
func (w *Scratch) pairs(cols [][]float64) [][]float64 {
	m, n := len(cols), len(cols[0])
	if need := m * (m + 1) / 2 * n; len(w.of2) < need {
		w.of2 = make([]float64, need)
	}
	w.products = w.products[:0]
	for a, x := range cols {
		for _, y := range cols[a:] {
			at := len(w.products) * n
			v := w.of2[at : at+n]
			kernel.Mul(v, x, y)
			w.products = append(w.products, v)
		}
	}
	return w.products
}

// addSquares adds to dst[p], an upper triangle in rows, the sums of terms[p] times the
// products of all pairs of columns. A term of nil is 1.
func (w *Scratch) addSquares(dst, terms, cols [][]float64) {
	for p := range dst {
		kernel.AddGram(dst[p], w.timesEach(terms[p:p+1], cols), cols)
	}
}

// timesEach returns the columns times each of the terms, one of these after the other. A
// term of nil is 1.
func (w *Scratch) timesEach(terms, cols [][]float64) [][]float64 {
	n := len(cols[0])
	if need := len(terms) * len(cols) * n; len(w.store) < need {
		w.store = make([]float64, need)
	}
	w.weighted = w.weighted[:0]
	for _, t := range terms {
		if t == nil {
			w.weighted = append(w.weighted, cols...)
			continue
		}
		for _, col := range cols {
			at := len(w.weighted) * n
			v := w.store[at : at+n]
			kernel.Mul(v, t, col)
			w.weighted = append(w.weighted, v)
		}
	}
	return w.weighted
}

// sums returns room for so many sums, all 0.
func (w *Scratch) sums(n int) []float64 {
	if len(w.total) < n {
		w.total = make([]float64, n)
	}
	clear(w.total[:n])
	return w.total[:n]
}

// pair is the index of the entry (a, b), a ≤ b, of a packed upper triangle of m rows.
func pair(m, a, b int) int { return a*m - a*(a-1)/2 + b - a }

// project returns z = Uᵀx − s, a column of b.N values for each column of u.
func (w *Scratch) project(u *mat.Dense, s []float64, b *model.Block) []float64 {
	d, m := u.Dims()
	if w.basis != u {
		w.basis, w.coef = u, make([]float64, m*d)
		for a := range m {
			mat.Col(w.coef[a*d:(a+1)*d], a, u)
		}
	}
	if cap(w.rest) < m*b.N {
		w.rest = make([]float64, m*b.N)
	}
	if cap(w.from) < m {
		w.from = make([]float64, m)
	}
	z, from := w.rest[:m*b.N], w.from[:m]
	clear(from)
	if s != nil {
		floats.Sub(from, s)
	}
	kernel.Linear(z, w.coef, from, b.X, d, b.N)
	return z
}

// T4 returns the estimate of E[Q4(y)·S4(z)], with Q4's sample mean taken off
// first.
func (f *Fourth) T4(q solver.Transform) *Sym4 {
	return f.of([5]float64{0, q.Gamma, q.Beta, q.Alpha, 1})
}

// Y4 returns the estimate of E[y·S4(z)], with y's sample mean taken off first.
func (f *Fourth) Y4() *Sym4 { return f.of([5]float64{0, 1}) }

// of is T4 of the polynomial in y with these coefficients; the constant is
// replaced.
func (f *Fourth) of(coef [5]float64) *Sym4 {
	n := f.Y[0]
	for p := 1; p < 5; p++ {
		coef[0] -= coef[p] * f.Y[p] / n
	}
	combine := func(sums [5][]float64) []float64 {
		out := make([]float64, len(sums[0]))
		for p, c := range coef {
			floats.AddScaled(out, c/n, sums[p])
		}
		return out
	}
	return hermite4(f.M, combine(f.Two), combine(f.Four))
}

// hermite4 returns the mean of q·S4(z) for a q of mean 0 from those of q times the
// monomials of degree 2 and 4.
func hermite4(m int, two, four []float64) *Sym4 {
	t := NewSym4(m)
	t.each(func(i, a, b, c, d int) {
		v := four[i]
		// S4 = z⊗z⊗z⊗z − Σ over the 6 pairs of z_a z_b·I_cd + the 3 pairings of I.
		for _, s := range [6][4]int{{a, b, c, d}, {a, c, b, d}, {a, d, b, c}, {b, c, a, d}, {b, d, a, c},
			{c, d, a, b}} {
			if s[2] == s[3] {
				v -= two[pair(m, min(s[0], s[1]), max(s[0], s[1]))]
			}
		}
		// The pairings multiply the mean of q, 0.
		t.Data[i] = v
	})
	return t
}

// Sym4 is a symmetric tensor of order 4 over ℝ^m: Data holds the entries
// a ≤ b ≤ c ≤ d in lexicographic order.
type Sym4 struct {
	M    int
	Data []float64
}

// NewSym4 returns a zero tensor.
func NewSym4(m int) *Sym4 { return &Sym4{M: m, Data: make([]float64, m*(m+1)*(m+2)*(m+3)/24)} }

func (t *Sym4) each(fn func(i, a, b, c, d int)) {
	i := 0
	for a := range t.M {
		for b := a; b < t.M; b++ {
			for c := b; c < t.M; c++ {
				for d := c; d < t.M; d++ {
					fn(i, a, b, c, d)
					i++
				}
			}
		}
	}
}

// Scale multiplies every entry by s.
func (t *Sym4) Scale(s float64) { floats.Scale(s, t.Data) }

// ScaleModes multiplies entry (a,b,c,d) by s_a·s_b·s_c·s_d: the tensor seen
// through a diagonal change of basis.
func (t *Sym4) ScaleModes(s []float64) {
	t.each(func(i, a, b, c, d int) { t.Data[i] *= s[a] * s[b] * s[c] * s[d] })
}

// AddRankOne adds w·v⊗v⊗v⊗v.
func (t *Sym4) AddRankOne(w float64, v []float64) {
	t.each(func(i, a, b, c, d int) { t.Data[i] += w * v[a] * v[b] * v[c] * v[d] })
}

// Pairs returns the tensor as the m²×m² matrix M with
// M[(a,b),(c,d)] = T_abcd, so that T(u,u,v,v) = (u⊗u)ᵀ M (v⊗v).
func (t *Sym4) Pairs() *mat.SymDense {
	m := t.M
	out := mat.NewSymDense(m*m, nil)
	t.each(func(i, a, b, c, d int) {
		x := [4]int{a, b, c, d}
		for _, s := range permutations4 {
			r, q := x[s[0]]*m+x[s[1]], x[s[2]]*m+x[s[3]]
			if r <= q {
				out.SetSym(r, q, t.Data[i])
			}
		}
	})
	return out
}

// permutations4 are the 24 orders of four indices.
var permutations4 = func() (out [][4]int) {
	for a := range 4 {
		for b := range 4 {
			for c := range 4 {
				d := 6 - a - b - c
				if a != b && a != c && b != c {
					out = append(out, [4]int{a, b, c, d})
				}
			}
		}
	}
	return out
}()

// Population returns T2/c2 and T4/c4 of 002 Eq. 8, Σ p_i a_i⊗a_i and
// Σ p_i a_i⊗a_i⊗a_i⊗a_i, for the k rows a_i of regressors over ℝ^m.
func Population(proportions []float64, regressors *mat.Dense) (*mat.SymDense, *Sym4) {
	k, m := regressors.Dims()
	t2, t4 := mat.NewSymDense(m, nil), NewSym4(m)
	for i := range k {
		row := regressors.RawRowView(i)
		t2.SymRankOne(t2, proportions[i], mat.NewVecDense(m, row))
		t4.AddRankOne(proportions[i], row)
	}
	return t2, t4
}
