package host

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// span is the estimated span of the regressors: the K leading eigenpairs of
// T̂2/c2 = Σ p_i a_i a_iᵀ.
type span struct {
	basis  *mat.Dense // D×K, U: orthonormal columns, or Cov(x)^{−1/2} times such
	centre []float64  // of x; nil for 0
	values []float64  // K, descending, Λ
}

// leadingSpan returns the k leading eigenpairs of T̂2/c2. Inputs that are not
// standard are whitened first: regressors are then unit vectors of another
// norm, and the span is good for starts only.
func leadingSpan(second *tensor.Second, in *inputs, q solver.Transform, k int) (*span, error) {
	var eig mat.EigenSym
	if !eig.Factorize(whitenedT2(second, in, q), true) {
		return nil, fmt.Errorf("the eigenvalues of T2 cannot be computed")
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	d := second.D
	s := &span{basis: mat.NewDense(d, k, nil), centre: in.centre, values: make([]float64, k)}
	values := eig.Values(nil)
	for i := range k {
		s.values[i] = values[d-1-i]
		s.basis.SetCol(i, mat.Col(nil, d-1-i, &vectors))
	}
	if in.whiten != nil {
		s.basis.Mul(in.whiten, mat.DenseCopyOf(s.basis))
	}
	return s, nil
}

// whitenedT2 is T̂2/c2, of the whitened inputs where they are not standard.
func whitenedT2(second *tensor.Second, in *inputs, q solver.Transform) *mat.SymDense {
	t2 := mat.NewSymDense(second.D, nil)
	t2.ScaleSym(1/q.C2, second.T2(q.Delta, in.centre))
	if in.whiten != nil {
		var half, both mat.Dense
		half.Mul(in.whiten, t2)
		both.Mul(&half, in.whiten)
		symmetrise(t2, &both)
	}
	return t2
}

// symmetrise writes (m + mᵀ)/2.
func symmetrise(dst *mat.SymDense, m *mat.Dense) {
	for i := range dst.SymmetricDim() {
		for j := i; j < dst.SymmetricDim(); j++ {
			dst.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
}

// positive says whether all eigenvalues are: without that there is no
// whitening, and the sample is too small, or the model is another.
func (s *span) positive() bool { return s.values[len(s.values)-1] > 0 }

// lift writes the direction U·Λ^{1/2}·u in ℝ^D of u in the whitened span, and
// returns its norm: for regressor i it estimates √p_i.
func (s *span) lift(dst, u []float64) float64 {
	d, k := s.basis.Dims()
	for j := range d {
		dst[j] = 0
		for i := range k {
			dst[j] += s.basis.At(j, i) * math.Sqrt(s.values[i]) * u[i]
		}
	}
	norm := floats.Norm(dst, 2)
	floats.Scale(1/norm, dst)
	return norm
}

// momentEstimate is what the two tensors say: unit regressors, with their
// signs, and the experts' proportions.
type momentEstimate struct {
	params      *model.Params // regressors only; gating 0
	proportions []float64
	agreeing    int // of the starts, how many reached the best value of L4
}

// defaultMu is Mu of L4: the weight of the terms T4(a_i,a_i,a_i,a_i). The
// theory of 002 asks for a small one; on samples 1 halves the error that 0.01
// leaves, and every start still reaches the same optimum.
const defaultMu = 1

// l4Starts is the number of random starts of L4 on the reduced problem. All of
// them reach the same optimum on good data.
const l4Starts = 4

// estimateRegressors minimises L4 on the reduced problem (002 Eq. 7
// projected on the span of T̂2, whitened so that its second term is a unit norm) and maps the minimiser back by the pseudo-inverse.
func estimateRegressors(ctx context.Context, f *tensor.Fourth, s *span, q solver.Transform, mu float64, rng *rand.Rand) (*momentEstimate, error) {
	d, k := s.basis.Dims()
	objective := reducedL4(f, s, q, mu)
	best, agreeing, err := bestOfStarts(ctx, objective, rng)
	if err != nil {
		return nil, err
	}
	rows := mat.NewDense(k, k, best.X)
	for i := range k {
		r := rows.RawRowView(i)
		floats.Scale(1/floats.Norm(r, 2), r)
	}
	dual, err := loss.PseudoInverseRows(rows)
	if err != nil {
		return nil, fmt.Errorf("L4's minimiser has dependent rows: %w", err)
	}
	e := &momentEstimate{params: model.NewParams(k, d), proportions: make([]float64, k), agreeing: agreeing}
	for i := range k {
		norm := s.lift(e.params.Regressor(i), dual.RawRowView(i))
		e.proportions[i] = norm * norm
	}
	floats.Scale(1/floats.Sum(e.proportions), e.proportions)
	return e, nil
}

// reducedL4 is L4 in the whitened coordinates of the span, where T̂2/c2 is the
// identity and T4/c4 = Σ (1/p_m)·v_m⊗v_m⊗v_m⊗v_m with orthonormal v_m.
func reducedL4(f *tensor.Fourth, s *span, q solver.Transform, mu float64) *loss.L4 {
	t4 := f.T4(q)
	t4.Scale(1 / q.C4)
	whiten := make([]float64, len(s.values))
	for i, v := range s.values {
		whiten[i] = 1 / math.Sqrt(v)
	}
	t4.ScaleModes(whiten)
	return loss.NewUnitL4(len(whiten), t4, mu)
}

// bestOfStarts minimises the objective from random orthonormal rows.
func bestOfStarts(ctx context.Context, o *loss.L4, rng *rand.Rand) (best *optim.Result, agreeing int, err error) {
	var all []*optim.Result
	for range l4Starts {
		r, err := optim.LBFGS(ctx, o, randomOrthonormal(rng, o.K), optim.Settings{Iterations: 500})
		if err != nil {
			return nil, 0, err
		}
		all = append(all, r)
		if best == nil || r.Value < best.Value {
			best = r
		}
	}
	for _, r := range all {
		if r.Value-best.Value <= 1e-6*math.Abs(best.Value) {
			agreeing++
		}
	}
	return best, agreeing, nil
}

// randomOrthonormal returns the rows of a random k×k orthogonal matrix.
func randomOrthonormal(rng *rand.Rand, k int) []float64 {
	g := mat.NewDense(k, k, nil)
	for i := range k {
		for j := range k {
			g.Set(i, j, rng.NormFloat64())
		}
	}
	var qr mat.QR
	qr.Factorize(g)
	var q mat.Dense
	qr.QTo(&q)
	return append([]float64(nil), q.RawMatrix().Data...)
}

// chooseSigns gives the regressors the signs that the first moment asks for
// (Ge, Lee & Ma 2018; 002 Remark 1): E[y·x] = E[g′(Z)]·Σ_i p_i s_i a_i, so the
// signs of the coefficients of E[y·x] in the basis of the rows are the s_i. Where
// that cannot tell it leaves the rows alone and says why.
func (e *momentEstimate) chooseSigns(yx []float64, m sdk.Moments) (obstacle string) {
	slope := m.Value[1][1] // E[g′(Z)] = E[g(Z)·Z]
	if math.Abs(slope) < 1e-8*math.Sqrt(m.Value[2][0]) {
		return "E[g'(Z)] = 0"
	}
	k, d := e.params.K, e.params.D
	rows := mat.NewDense(k, d, append([]float64(nil), e.params.Regressors...))
	dual, err := loss.PseudoInverseRows(rows)
	if err != nil {
		return "the estimated regressors are linearly dependent"
	}
	for i := range k {
		if floats.Dot(dual.RawRowView(i), yx)/slope < 0 {
			floats.Scale(-1, e.params.Regressor(i))
		}
	}
	return ""
}

// sigmaFromNorms returns σ̂ = √(mean(y²) − E[g(Z)²]), which unit regressors
// imply, clamped at 0, and how many of its standard errors the unclamped σ̂²
// is above 0: far below 0, the regressors are not of unit norm.
func sigmaFromNorms(s *tensor.Second, m sdk.Moments) (sigma, z float64) {
	s2 := s.MeanY(2) - m.Value[2][0]
	se := math.Sqrt(max(s.MeanY(4)-s.MeanY(2)*s.MeanY(2), 0) / s.Effective())
	return math.Sqrt(max(s2, 0)), s2 / se
}
