package network

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// Tensors is the estimate of a network by moment tensors,
//
//	M_j = E[y·S_j(x)] = Σ_i v_i·m_j(‖w_i‖)·w̄_i⊗…⊗w̄_i,  w̄_i = w_i/‖w_i‖
//
// with the Hermite tensors S_j and m_j(s) = E[φ(sZ)·He_j(Z)]: V, the k leading
// |eigen|vectors of M2 (of M3(·,·,α) where m2 = 0); the non-orthogonal rank-1 terms of
// M3(V,V,V), or of M4(V,V,V,V) where m3 = 0; magnitudes and signs from what M1, M2 and
// that tensor say of each term. Every M_j is taken of what of y the lower ones
// leave: polynomials of lower degree have no part in it, and no more noise.
type Tensors struct {
	Network     *model.Network
	Subspace    int       // order of the tensor that gave V: 2 or 3
	Terms       int       // order of the one that was decomposed: 3 or 4
	Eigenvalues []float64 // |those| of the subspace's matrix, descending
	Residual    float64   // of the rank-1 terms, relative to the tensor's norm
}

// estimator makes the estimate.
type estimator struct {
	rows    model.Rows
	curves  *curves
	k, d    int
	output  Output
	given   []float64 // v, with [Given]
	rng     *rand.Rand
	workers int
}

// ordersOf returns the orders of the two tensors that an activation allows, or why
// it allows none.
func (c *curves) ordersOf(act sdk.Activation) (subspace, terms int, err error) {
	switch {
	case c.vanishes(1) && c.vanishes(3):
		return 0, 0, refuseEven(act)
	case !c.vanishes(2):
		subspace = 2
	case !c.vanishes(3):
		subspace = 3
	}
	switch {
	case !c.vanishes(3):
		terms = 3
	case !c.vanishes(4):
		terms = 4
	}
	if subspace == 0 || terms == 0 {
		return 0, 0, refuse(
			"activation %s has no moment tensor of order 3 or 4: its units cannot be told apart by them",
			act.Info().Name)
	}
	return subspace, terms, nil
}

// estimate returns the tensors' network; subspace and terms are those of
// [curves.ordersOf].
func (e *estimator) estimate(ctx context.Context, subspace, terms int) (*Tensors, error) {
	m0, m1, m2, err := e.low(ctx)
	if err != nil {
		return nil, err
	}
	out := &Tensors{Subspace: subspace, Terms: terms}
	var v *mat.Dense
	if subspace == 2 {
		v, out.Eigenvalues, err = leading(m2, e.k)
	} else {
		v, out.Eigenvalues, err = e.thirdSubspace(ctx, m1)
	}
	if err != nil {
		return nil, err
	}
	m1k := mat.NewVecDense(e.k, nil)
	m1k.MulVec(v.T(), mat.NewVecDense(e.d, m1))
	m2k := projected(v, m2)
	higher, err := e.within(ctx, v, m1k, m2k, terms)
	if err != nil {
		return nil, err
	}
	units, weights, residual := decompose(higher, e.rng)
	if units == nil {
		return nil, nil
	}
	out.Residual = residual
	found := e.magnitudes(units, m1k, m2k, terms, weights)
	if found == nil {
		return nil, nil
	}
	if e.curves.odd() && e.output != Given {
		found.fold(e.curves.m(0, 1), m0)
	}
	out.Network = model.NewNetwork(e.k, e.d)
	copy(out.Network.Output, found.v)
	for i := range e.k {
		w := mat.NewVecDense(e.d, out.Network.Unit(i))
		w.MulVec(v, units.RowView(i))
		w.ScaleVec(found.scale[i], w)
	}
	if !numeric.Finite(out.Network.Weights...) {
		return nil, nil
	}
	return out, nil
}

// low returns M0 and M1, and M2 of what M1 leaves of y.
func (e *estimator) low(ctx context.Context) (mean float64, m1 []float64, m2 *mat.SymDense, err error) {
	sums, err := tensor.SumSecond(ctx, e.rows, e.workers)
	if err != nil {
		return 0, nil, nil, err
	}
	mean = sums.MeanY(1)
	// E[(y − ȳ)·x]: the mean has no part in it.
	m1 = sums.YX()
	floats.AddScaled(m1, -mean, sums.Mean())
	if sums, err = tensor.SumSecond(ctx, without(e.rows, mean, m1, nil), e.workers); err != nil {
		return 0, nil, nil, err
	}
	return mean, m1, sums.YXX(), nil
}

// without is the rows with y − m0 − ⟨m1, x⟩ − ½·(xᵀ·m2·x − tr m2) in the place of
// y. m2 may be nil for 0.
func without(rows model.Rows, m0 float64, m1 []float64, m2 *mat.SymDense) model.Rows {
	_, d := rows.Dims()
	return model.Map(rows, d, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		y := slices.Clone(src.Y)
		floats.AddConst(-m0, y)
		for j, v := range m1 {
			floats.AddScaled(y, -v, src.Col(j))
		}
		if m2 != nil {
			half := make([]float64, src.N)
			for a := range d {
				clear(half) // ½·(m2·x)_a, the off-diagonal once
				for b := a; b < d; b++ {
					v := m2.At(a, b)
					if b == a {
						v /= 2
					}
					floats.AddScaled(half, v, src.Col(b))
				}
				floats.Mul(half, src.Col(a))
				floats.Sub(y, half)
				floats.AddConst(m2.At(a, a)/2, y)
			}
		}
		dst.Y = y
	})
}

// leading returns the k eigenvectors of largest |eigenvalue|, as columns, and
// all |eigenvalues|, descending.
func leading(m *mat.SymDense, k int) (*mat.Dense, []float64, error) {
	var eig mat.EigenSym
	if !eig.Factorize(m, true) {
		return nil, nil, fmt.Errorf("the eigenvalues of a moment tensor cannot be computed")
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	values := eig.Values(nil)
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
		values[i] = math.Abs(values[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	v := mat.NewDense(len(values), k, nil)
	sorted := make([]float64, len(values))
	for i, at := range order {
		sorted[i] = values[at]
		if i < k {
			v.SetCol(i, mat.Col(nil, at, &vectors))
		}
	}
	return v, sorted, nil
}

// thirdSubspace is V where m2 = 0: the leading left singular vectors of M3(·,·,α)
// for α along M1, and then of those for the columns of that V together.
func (e *estimator) thirdSubspace(ctx context.Context, m1 []float64) (*mat.Dense, []float64, error) {
	alpha := mat.NewDense(e.d, 1, slices.Clone(m1))
	alpha.Scale(1/floats.Norm(m1, 2), alpha)
	var values []float64
	for range 3 {
		_, cols := alpha.Dims()
		square := mat.NewSymDense(e.d, nil)
		for c := range cols {
			m3, err := e.third(ctx, m1, mat.Col(nil, c, alpha))
			if err != nil {
				return nil, nil, err
			}
			var both mat.Dense
			both.Mul(m3, m3)
			square.AddSym(square, numeric.Symmetric(&both))
		}
		var err error
		if alpha, values, err = leading(square, e.k); err != nil {
			return nil, nil, err
		}
	}
	for i := range values {
		values[i] = math.Sqrt(values[i])
	}
	return alpha, values, nil
}

// third returns M3(·, ·, α) of what M1 leaves of y:
// E[y·⟨α,x⟩·(xxᵀ − I)] − E[y·x]·αᵀ − α·E[y·x]ᵀ.
func (e *estimator) third(ctx context.Context, m1, alpha []float64) (*mat.SymDense, error) {
	rest := without(e.rows, 0, m1, nil)
	along := model.Map(rest, e.d, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		z := make([]float64, src.N)
		model.Linear(z, alpha, nil, src)
		dst.Y = floats.MulTo(make([]float64, src.N), src.Y, z)
	})
	sums, err := tensor.SumSecond(ctx, along, e.workers)
	if err != nil {
		return nil, err
	}
	yx, err := tensor.SumSecond(ctx, rest, e.workers)
	if err != nil {
		return nil, err
	}
	return contracted(sums, yx.YX(), alpha), nil
}

// contracted is E[y·z·xxᵀ] − E[y·z]·I − M1·αᵀ − α·M1ᵀ from sums with the target y·z.
func contracted(sums *tensor.Second, m1, alpha []float64) *mat.SymDense {
	d := sums.D
	out := mat.NewSymDense(d, nil)
	at := 0
	for a := range d {
		for b := a; b < d; b++ {
			v := sums.XX[1][at]/sums.Y[0] - m1[a]*alpha[b] - m1[b]*alpha[a]
			if a == b {
				v -= sums.MeanY(1)
			}
			out.SetSym(a, b, v)
			at++
		}
	}
	return out
}

// projected is Vᵀ·m·V.
func projected(v *mat.Dense, m *mat.SymDense) *mat.SymDense {
	var half, both mat.Dense
	half.Mul(v.T(), m)
	both.Mul(&half, v)
	return numeric.Symmetric(&both)
}

// within returns M3 or M4 in the coordinates z = Vᵀx, of what M1 and M2 leave of y.
func (e *estimator) within(ctx context.Context, v *mat.Dense, m1 *mat.VecDense, m2 *mat.SymDense,
	order int) (*symmetric, error) {
	small := model.Map(e.rows, e.k, func(dst, src *model.Block) {
		clear(dst.X)
		for a := range e.k {
			for j := range e.d {
				floats.AddScaled(dst.Col(a), v.At(j, a), src.Col(j))
			}
		}
	})
	rest := without(small, 0, m1.RawVector().Data, m2)
	if order == 4 {
		basis := mat.NewDense(e.k, e.k, nil)
		for i := range e.k {
			basis.Set(i, i, 1)
		}
		sums, err := tensor.SumFourth(ctx, rest, basis, nil, e.workers)
		if err != nil {
			return nil, err
		}
		return symmetric4(sums.Y4()), nil
	}
	mean, err := tensor.SumSecond(ctx, rest, e.workers)
	if err != nil {
		return nil, err
	}
	out := make([]*mat.SymDense, e.k)
	for c := range out {
		axis := make([]float64, e.k)
		axis[c] = 1
		along := model.Map(rest, e.k, func(dst, src *model.Block) {
			copy(dst.X, src.X)
			dst.Y = floats.MulTo(make([]float64, src.N), src.Y, src.Col(c))
		})
		sums, err := tensor.SumSecond(ctx, along, e.workers)
		if err != nil {
			return nil, err
		}
		out[c] = contracted(sums, mean.YX(), axis)
	}
	return symmetric3(out), nil
}
