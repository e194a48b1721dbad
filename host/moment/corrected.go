package moment

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/solver"
)

// Correctable says why an estimate by the cubic tensor cannot be corrected for its gate; "" where it can.
func Correctable(p *problem.Problem, e *Evidence) string {
	switch {
	case p.Link != nil:
		return "the noise is not normal"
	case p.Shape.Intercept:
		return "the experts have intercepts"
	case !p.Inputs.Standard() && e.score == nil:
		return "the features are not standard normal"
	}
	return ""
}

// Corrected is the estimate by the cubic tensor once more, with what the unit regressors of q and its gate have in the
// tensors beside Σ p_i a_i^{⊗r} taken off:
//
//	T̂_r = mean[(T_r(y) − E_q[T_r(y)|x])·S_r(x)] + Σ p_i a_i^{⊗r}
//
// with a_i and the gate of q, and p_i the mean of the gate's P(z = i|x), the shares. At the truth its expectation is
// Σ p_i a_i^{⊗r} whatever the gate. It is nil where T̂_2 has not k positive eigenvalues.
func Corrected(ctx context.Context, p *problem.Problem, e *Evidence, q *model.Params,
	shares []float64) (*Estimate, error) {
	if e.score != nil {
		return e.score.corrected(ctx, p, e, q)
	}
	second, err := residual(ctx, p, e, q, 2, nil)
	if err != nil {
		return nil, err
	}
	t2 := second.T2()
	for i, share := range shares {
		t2.SymRankOne(t2, share, mat.NewVecDense(q.D, q.Regressor(i)))
	}
	s, err := leadingSubspace(t2, p.Inputs, q.K)
	if err != nil || !s.positive() {
		return nil, err
	}
	third, err := residual(ctx, p, e, q, 3, s.Basis)
	if err != nil {
		return nil, err
	}
	t3, v := third.T3(), mat.NewVecDense(q.K, nil)
	for i, share := range shares {
		v.MulVec(s.Basis.T(), mat.NewVecDense(q.D, q.Regressor(i)))
		t3.AddRankOne(share, v.RawVector().Data)
	}
	t3.ScaleModes(s.whitening())
	found := t3.Orthogonal(stream.New(p.Seed, stream.Spectral, 0), restarts)
	return s.estimate(found.Vectors, found.Agreeing), nil
}

// residual makes a pass over the rows with T_r(y) − E_q[T_r(y)|x] in the place of T_r(y).
func residual(ctx context.Context, p *problem.Problem, e *Evidence, q *model.Params, r int,
	basis *mat.Dense) (*tensor.Transformed, error) {
	outputs := e.Outputs()
	means := outputs.(interface {
		solver.Outputs
		Means(int) func(dst, m []float64)
	}).Means(r)
	var once sync.Once
	var failed error
	rows := model.Map(p.Rows, q.D, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		room := make([]float64, src.N*(3*q.K+1))
		dst.Y = room[:src.N]
		z, g, prior := room[src.N:src.N*(q.K+1)], room[src.N*(q.K+1):src.N*(2*q.K+1)], room[src.N*(2*q.K+1):]
		q.Predictors(z, src)
		if err := p.G.Eval(ctx, g, z); err != nil {
			once.Do(func() { failed = err })
			return
		}
		outputs.Apply(r, dst.Y, src.Y)
		means(z, g)
		mixture.Mixture{}.Prior(prior, q, src)
		floats.Mul(z, prior)
		for i := range q.K {
			floats.Sub(dst.Y, z[i*src.N:(i+1)*src.N])
		}
	})
	sums, err := tensor.SumTransformed(ctx, rows, given{}, r, basis, nil, p.Threads)
	if err == nil {
		err = failed
	}
	return sums, err
}

// Turned is the largest 1 − |cos| of the angles of the estimate's regressors from the nearest of another's.
func (est *Estimate) Turned(from *Estimate) (most float64) {
	for i := range est.Params.K {
		least := math.Inf(1)
		for j := range from.Params.K {
			a, b := est.Params.Regressor(i), from.Params.Regressor(j)
			least = min(least, 1-math.Abs(floats.Dot(a, b))/(floats.Norm(a, 2)*floats.Norm(b, 2)))
		}
		most = max(most, least)
	}
	return most
}
