package moment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
)

// Estimate is what the two tensors say: unit regressors, with their signs, and
// the experts' proportions.
type Estimate struct {
	Params      *model.Params // regressors only; gating 0
	Proportions []float64
	Agreeing    int      // of the starts of L4, how many reached its best value
	Notes       []string // for the user

	norm float64 // of regressors where starts begin; 0: the evidence's
}

// UnitMu is the weight of the terms T4(a_i,a_i,a_i,a_i) at which L4 does best with
// rows that are held at unit norm only. The theory of 002 asks for a small one; on
// samples 1 halves the error that 0.01 leaves.
const UnitMu = 1

// starts is the number of random starts of L4 on the reduced problem. All of
// them reach the same optimum on good data.
const starts = 4

// EstimateParams takes T̂4 in the subspace, minimises L4 there, and gives the
// regressors their signs. At mu = 0 the rows are held orthonormal in the whitened
// coordinates, as those sought are, and the weight μ does not matter
// ([tensor.Sym4.Orthogonal]); at others they are held at unit norm only, as 002's
// limit λ → ∞ does. Rows of many experts that are not held apart end up in the one
// direction in which the error of T̂4 is most negative, whose k(k−1) products are all of
// L4. Where the moments cannot tell it says why, and the estimate is nil.
func EstimateParams(ctx context.Context, p *problem.Problem, e *Evidence,
	mu float64) (est *Estimate, obstacle string, err error) {
	if obstacle = e.obstacle(p); obstacle != "" {
		return nil, obstacle, nil
	}
	fourth, err := e.fourth(ctx, p)
	if err != nil {
		return nil, "", err
	}
	rng := stream.New(p.Seed, stream.Moments, 0)
	if mu == 0 {
		est = orthogonal(fourth, e.Subspace, rng)
	} else if est, err = regressors(ctx, fourth, e.Subspace, mu, rng); err != nil {
		return nil, err.Error(), ctx.Err()
	}
	if e.score != nil {
		return est, "", e.score.settle(ctx, p, e, est, false)
	}
	if e.Marginal != nil {
		return est, "", est.signByFirst(ctx, p, e)
	}
	est.Sign(p, e)
	return est, "", nil
}

// FromTensors is the estimate from T2/c2 over standard inputs and from T4/c4 in the
// coordinates z = Uᵀx of a basis U (D×k) of its leading eigenvectors, whoever made them:
// L4 over orthonormal rows, the regressors' signs left open. It is nil where T2 has fewer
// than k positive eigenvalues.
func FromTensors(t2 *mat.SymDense, fourth func(basis *mat.Dense) (*tensor.Sym4, error), k int,
	seed uint64) (*Estimate, error) {
	s, err := leadingSubspace(t2, new(problem.Inputs), k)
	if err != nil || !s.positive() {
		return nil, err
	}
	t4, err := fourth(s.Basis)
	if err != nil {
		return nil, err
	}
	return orthogonal(t4, s, stream.New(seed, stream.Moments, 0)), nil
}

// orthogonal minimises L4 on the reduced problem over orthonormal rows.
func orthogonal(t4 *tensor.Sym4, s *Subspace, rng *rand.Rand) *Estimate {
	t4.ScaleModes(s.whitening())
	u, agreeing := t4.Orthogonal(rng, starts)
	return s.estimate(u, agreeing)
}

// regressors minimises L4 on the reduced problem (002 Eq. 7 projected on the
// subspace of T̂2, whitened so that its second term is a unit norm) and maps the
// minimiser back by the pseudo-inverse.
func regressors(ctx context.Context, t4 *tensor.Sym4, s *Subspace, mu float64, rng *rand.Rand) (*Estimate, error) {
	_, k := s.Basis.Dims()
	best, agreeing, err := bestOfStarts(ctx, reducedL4(t4, s, mu), rng)
	if err != nil {
		return nil, err
	}
	rows := mat.NewDense(k, k, best.X)
	for i := range k {
		r := rows.RawRowView(i)
		floats.Scale(1/floats.Norm(r, 2), r)
	}
	dual, err := tensor.PseudoInverseRows(rows)
	if err != nil {
		return nil, fmt.Errorf("L4's minimiser has dependent rows: %w", err)
	}
	return s.estimate(dual, agreeing), nil
}

// reducedL4 scales T̂4/c4 of the subspace in place: it is L4 in the whitened coordinates of the subspace, where T̂2/c2
// is the identity and T4/c4 = Σ (1/p_m)·v_m⊗v_m⊗v_m⊗v_m with orthonormal v_m.
func reducedL4(t4 *tensor.Sym4, s *Subspace, mu float64) *tensor.L4 {
	t4.ScaleModes(s.whitening())
	return tensor.NewUnitL4(len(s.Values), t4, mu)
}

// bestOfStarts minimises the objective from random orthonormal rows.
func bestOfStarts(ctx context.Context, o *tensor.L4, rng *rand.Rand) (best *optim.Result, agreeing int, err error) {
	var all []*optim.Result
	for range starts {
		r, err := optim.LBFGS(ctx, o, RandomOrthonormal(rng, o.K), optim.Settings{Iterations: 500})
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

// RandomOrthonormal returns the rows of a random k×k orthogonal matrix.
func RandomOrthonormal(rng *rand.Rand, k int) []float64 {
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

// FromL4 reads regressors and proportions from the rows of A, k×d, at a minimum
// of L4 in ℝ^d: (A†)ᵀ has the rows √p_i·a_i (002 Theorem 1). Where A has no full
// rank its own rows stand in. Features that were whitened for L4 are taken back
// to what they were.
func FromL4(a []float64, k int, whiten *mat.SymDense) *Estimate {
	d := len(a) / k
	rows := mat.NewDense(k, d, append([]float64(nil), a...))
	if dual, err := tensor.PseudoInverseRows(rows); err == nil && numeric.Finite(dual.RawMatrix().Data...) {
		rows = dual
	}
	e := &Estimate{Params: model.NewParams(k, d), Proportions: make([]float64, k)}
	for i := range k {
		row := rows.RawRowView(i)
		norm := max(floats.Norm(row, 2), math.SmallestNonzeroFloat64)
		e.Proportions[i] = norm * norm
		to := e.Params.Regressor(i)
		copy(to, row)
		if whiten != nil {
			mat.NewVecDense(d, to).MulVec(whiten, mat.NewVecDense(d, row))
		}
		if norm := floats.Norm(to, 2); norm > 0 {
			floats.Scale(1/norm, to)
		}
	}
	floats.Scale(1/max(floats.Sum(e.Proportions), math.SmallestNonzeroFloat64), e.Proportions)
	return e
}
