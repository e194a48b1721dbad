package moment

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Subspace is the estimated span of the regressors: the K leading eigenpairs of
// T̂2/c2 = Σ p_i a_i a_iᵀ.
type Subspace struct {
	Basis  *mat.Dense // D×K, U: orthonormal columns, or Cov(x)^{−1/2} times such
	Centre []float64  // of x; nil for 0
	Values []float64  // K, descending, Λ
}

// leadingSubspace returns the k leading eigenpairs of T̂2/c2 of whitened inputs. Inputs that are not
// standard are whitened first: regressors are then unit vectors of another
// norm, and the subspace is good for starts only.
func leadingSubspace(t2 *mat.SymDense, in *problem.Inputs, k int) (*Subspace, error) {
	var eig mat.EigenSym
	if !eig.Factorize(t2, true) {
		return nil, fmt.Errorf("the eigenvalues of T2 cannot be computed")
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	d := t2.SymmetricDim()
	s := &Subspace{Basis: mat.NewDense(d, k, nil), Centre: in.Centre, Values: make([]float64, k)}
	values := eig.Values(nil)
	for i := range k {
		s.Values[i] = values[d-1-i]
		s.Basis.SetCol(i, mat.Col(nil, d-1-i, &vectors))
	}
	if in.Whiten != nil {
		s.Basis.Mul(in.Whiten, mat.DenseCopyOf(s.Basis))
	}
	return s, nil
}

// whitened is T̂2 of the whitened inputs where they are not standard.
func whitened(t2 *mat.SymDense, in *problem.Inputs) *mat.SymDense {
	if in.Whiten != nil {
		var half, both mat.Dense
		half.Mul(in.Whiten, t2)
		both.Mul(&half, in.Whiten)
		return numeric.Symmetric(&both)
	}
	return t2
}

// positive says whether all eigenvalues are: without that there is no
// whitening, and the sample is too small, or the model is another.
func (s *Subspace) positive() bool { return s.Values[len(s.Values)-1] > 0 }

// whitening is Λ^{−1/2}.
func (s *Subspace) whitening() []float64 {
	w := make([]float64, len(s.Values))
	for i, v := range s.Values {
		w[i] = 1 / math.Sqrt(v)
	}
	return w
}

// direction writes the direction U·Λ^{1/2}·u in ℝ^D of u in the whitened
// subspace, and returns its norm: for regressor i it estimates √p_i.
func (s *Subspace) direction(dst, u []float64) float64 {
	d, k := s.Basis.Dims()
	for j := range d {
		dst[j] = 0
		for i := range k {
			dst[j] += s.Basis.At(j, i) * math.Sqrt(s.Values[i]) * u[i]
		}
	}
	norm := floats.Norm(dst, 2)
	floats.Scale(1/norm, dst)
	return norm
}

// estimate returns the regressors along the rows of u, in the whitened subspace, and
// their proportions.
func (s *Subspace) estimate(u *mat.Dense, agreeing int) *Estimate {
	d, k := s.Basis.Dims()
	e := &Estimate{Params: model.NewParams(k, d), Proportions: make([]float64, k), Agreeing: agreeing}
	for i := range k {
		norm := s.direction(e.Params.Regressor(i), u.RawRowView(i))
		e.Proportions[i] = norm * norm
	}
	floats.Scale(1/floats.Sum(e.Proportions), e.Proportions)
	return e
}

// Project returns the rows in the coordinates z = Uᵀx of the subspace.
// ⟨b, z⟩ = ⟨U·b, x⟩: what is fitted there lifts exactly.
func (s *Subspace) Project(rows model.Rows) model.Rows {
	d, k := s.Basis.Dims()
	return model.Map(rows, k, func(dst, src *model.Block) {
		clear(dst.X)
		for i := range k {
			for j := range d {
				floats.AddScaled(dst.Col(i), s.Basis.At(j, i), src.Col(j))
			}
		}
	})
}

// Lift writes the rows of z-coordinates in small, K values each, to rows of ℝ^D,
// which are 0.
func (s *Subspace) Lift(dst, small []float64) {
	d, k := s.Basis.Dims()
	for r := range len(small) / k {
		for j := range d {
			for i := range k {
				dst[r*d+j] += s.Basis.At(j, i) * small[r*k+i]
			}
		}
	}
}

// EigengapK is the number of experts that T̂2 suggests. T̂2/c2 estimates
// Σ p_i a_i a_iᵀ: as many eigenvalues as there are independent regressors are
// positive, the others are noise and as often negative. Counted are those that
// exceed twice the size of the most negative one. It is 0 where that says
// nothing: g without a transform, or no negative eigenvalue.
func (e *Evidence) EigengapK(p *problem.Problem) (int, error) {
	if !e.Outputs().Has(2) || p.Link != nil && e.t2 == nil {
		return 0, nil
	}
	var eig mat.EigenSym
	if !eig.Factorize(e.whitenedT2(p), false) {
		return 0, fmt.Errorf("the eigenvalues of T2 cannot be computed")
	}
	values := eig.Values(nil) // ascending
	if values[0] >= 0 {
		return 0, nil
	}
	k := 0
	for _, v := range values {
		if v > -2*values[0] {
			k++
		}
	}
	return k, nil
}

// SharesAlong sets the proportions of an estimate from the rows of an A whose norms do
// not tell them. A row that is orthogonal to all regressors but a_i has
// T2(u,u)/c2 = p_i·⟨a_i,u⟩².
func (e *Evidence) SharesAlong(p *problem.Problem, est *Estimate, a []float64) {
	k, d := est.Params.K, est.Params.D
	t2 := e.whitenedT2(p)
	for i := range k {
		u := mat.NewVecDense(d, a[i*d:(i+1)*d])
		r := mat.NewVecDense(d, append([]float64(nil), est.Params.Regressor(i)...))
		if w := p.Inputs.Whiten; w != nil { // back to the coordinates of A
			var solved mat.VecDense
			if solved.SolveVec(w, r) == nil {
				r = &solved
				r.ScaleVec(1/mat.Norm(r, 2), r)
			}
		}
		along := mat.Dot(r, u)
		est.Proportions[i] = max(mat.Inner(u, t2, u), 0) / max(along*along, math.SmallestNonzeroFloat64)
	}
	if sum := floats.Sum(est.Proportions); sum > 0 && numeric.Finite(sum) {
		floats.Scale(1/sum, est.Proportions)
		return
	}
	for i := range est.Proportions {
		est.Proportions[i] = 1 / float64(k)
	}
}
