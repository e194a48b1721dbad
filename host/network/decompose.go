package network

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
)

// symmetric is a symmetric tensor of order 3 or 4 over ℝ^k.
type symmetric struct {
	k, order int
	flat     *mat.Dense // k rows T(e_c, …) of k^{order−1} values
}

// symmetric3 is the tensor of order 3 with the given slices.
func symmetric3(slices []*mat.SymDense) *symmetric {
	k := len(slices)
	t := &symmetric{k: k, order: 3, flat: mat.NewDense(k, k*k, nil)}
	for c, s := range slices {
		for a := range k {
			for b := range k {
				t.flat.Set(c, a*k+b, s.At(a, b))
			}
		}
	}
	return t
}

// symmetric4 is a tensor of order 4.
func symmetric4(t4 *tensor.Sym4) *symmetric {
	k := t4.M
	t := &symmetric{k: k, order: 4, flat: mat.NewDense(k, k*k*k, nil)}
	pairs := t4.Pairs()
	for c := range k {
		for d := range k {
			for ab := range k * k {
				t.flat.Set(c, d*k*k+ab, pairs.At(c*k+d, ab))
			}
		}
	}
	return t
}

// along returns T(·, u, …, u).
func (t *symmetric) along(u []float64) []float64 {
	v := t.flat.RawMatrix().Data
	for range t.order - 1 {
		v = contract(v, u)
	}
	return v
}

// contract contracts the last index of flat values with u.
func contract(v, u []float64) []float64 {
	k := len(u)
	out := make([]float64, len(v)/k)
	for i := range out {
		out[i] = floats.Dot(v[i*k:(i+1)*k], u)
	}
	return out
}

// slice returns T(·, ·, θ), or T(·, ·, θ, θ′), for random unit vectors.
func (t *symmetric) slice(rng *rand.Rand) *mat.SymDense {
	v := t.flat.RawMatrix().Data
	for range t.order - 2 {
		v = contract(v, model.RandomDirections(rng, 1, t.k))
	}
	out := mat.NewSymDense(t.k, nil)
	for a := range t.k {
		for b := a; b < t.k; b++ { // two different vectors leave it symmetric
			out.SetSym(a, b, v[a*t.k+b])
		}
	}
	return out
}

// decompositions is how many pairs of random contractions are tried.
const decompositions = 12

// decompose returns the unit vectors u_i, as rows, and weights c_i of the
// symmetric tensor Σ_i c_i·u_i⊗…⊗u_i, and the norm of what is left of it relative to
// its own: simultaneous diagonalisation of two random contractions, T(θ)·T(θ′)⁻¹
// having the u_i as eigenvectors (Leurgans, Ross & Abel 1993), then least squares;
// the best of several pairs. The u_i need not be orthogonal. It is nil where no
// pair gave any.
func decompose(t *symmetric, rng *rand.Rand) (*mat.Dense, []float64, float64) {
	var best *rankOnes
	var at []float64
	least := math.Inf(1)
	for range decompositions {
		u := diagonalise(t, rng)
		if u == nil {
			continue
		}
		f, a := newRankOnes(t, u)
		if r, err := optim.LBFGS(context.Background(), f, a, optim.Settings{Iterations: 500}); err == nil &&
			r.Value < least {
			best, at, least = f, r.X, r.Value
		}
	}
	if best == nil {
		return nil, nil, 0
	}
	units, weights := mat.NewDense(t.k, t.k, nil), make([]float64, t.k)
	for i := range t.k {
		a := at[i*t.k : (i+1)*t.k]
		norm := floats.Norm(a, 2)
		if norm == 0 {
			return nil, nil, 0
		}
		weights[i] = best.sign[i] * math.Pow(norm, float64(t.order))
		floats.ScaleTo(units.RawRowView(i), 1/norm, a)
	}
	return units, weights, math.Sqrt(2 * max(least, 0) / best.squares)
}

// diagonalise returns the eigenvectors of T(θ)·T(θ′)⁻¹, as rows, for random
// contractions.
func diagonalise(t *symmetric, rng *rand.Rand) *mat.Dense {
	var m mat.Dense
	if m.Solve(t.slice(rng), t.slice(rng)) != nil { // its transpose
		return nil
	}
	var eig mat.Eigen
	if !eig.Factorize(m.T(), mat.EigenRight) {
		return nil
	}
	var vectors mat.CDense
	eig.VectorsTo(&vectors)
	u := mat.NewDense(t.k, t.k, nil)
	for i := range t.k {
		row := u.RawRowView(i)
		for j := range row {
			row[j] = real(vectors.At(j, i))
		}
		norm := floats.Norm(row, 2)
		if !(norm > 1e-12) {
			return nil
		}
		floats.Scale(1/norm, row)
	}
	return u
}

// rankOnes is ½·‖T − Σ_i σ_i·a_i⊗…⊗a_i‖² as a function of the k rows a_i. The signs
// σ_i are 1 at odd orders.
type rankOnes struct {
	t       *symmetric
	sign    []float64
	squares float64 // ‖T‖²
}

// newRankOnes returns the function, and as a start the a_i along the rows of u with
// the weights of least squares.
func newRankOnes(t *symmetric, u *mat.Dense) (*rankOnes, []float64) {
	norm := mat.Norm(t.flat, 2)
	f := &rankOnes{t: t, sign: make([]float64, t.k), squares: norm * norm}
	gram, rhs := mat.NewSymDense(t.k, nil), mat.NewVecDense(t.k, nil)
	for i := range t.k {
		ui := u.RawRowView(i)
		for j := i; j < t.k; j++ {
			gram.SetSym(i, j, math.Pow(floats.Dot(ui, u.RawRowView(j)), float64(t.order)))
		}
		gram.SetSym(i, i, 1+1e-9) // rows that coincide
		rhs.SetVec(i, floats.Dot(t.along(ui), ui))
	}
	var weights mat.VecDense
	if weights.SolveVec(gram, rhs) != nil {
		weights.CloneFromVec(rhs)
	}
	a := make([]float64, t.k*t.k)
	for i := range t.k {
		w := weights.AtVec(i)
		length := math.Pow(math.Abs(w), 1/float64(t.order))
		f.sign[i] = 1
		switch {
		case w < 0 && t.order%2 == 1:
			length = -length
		case w < 0:
			f.sign[i] = -1
		}
		floats.ScaleTo(a[i*t.k:(i+1)*t.k], length, u.RawRowView(i))
	}
	return f, a
}

// Dim returns k².
func (f *rankOnes) Dim() int { return f.t.k * f.t.k }

// Value returns ½‖T‖² − Σ σ_i·T(a_i, …) + ½·Σ_ij σ_i·σ_j·⟨a_i,a_j⟩^order.
func (f *rankOnes) Value(ctx context.Context, a []float64) (float64, error) {
	return f.Grad(ctx, make([]float64, len(a)), a)
}

// Grad writes order·σ_i·(Σ_j σ_j·⟨a_i,a_j⟩^{order−1}·a_j − T(·,a_i,…)) to dst.
func (f *rankOnes) Grad(_ context.Context, dst, a []float64) (float64, error) {
	k, order := f.t.k, f.t.order
	value := f.squares / 2
	for i := range k {
		ai, g := a[i*k:(i+1)*k], dst[i*k:(i+1)*k]
		along := f.t.along(ai)
		value -= f.sign[i] * floats.Dot(along, ai)
		floats.ScaleTo(g, -float64(order)*f.sign[i], along)
		for j := range k {
			aj := a[j*k : (j+1)*k]
			c := floats.Dot(ai, aj)
			power := f.sign[i] * f.sign[j] * math.Pow(c, float64(order-1))
			value += power * c / 2
			floats.AddScaled(g, float64(order)*power, aj)
		}
	}
	return value, nil
}
