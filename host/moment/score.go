package moment

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/gaussians"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/solver"
)

// score makes tensors with S_r(x) = (−1)^r ∇^r f(x)/f(x) of a mixture f of Gaussians,
//
//	S_r(x) = Σ_c P(c|x)·H_r(Σ_c⁻¹(x − μ_c); Σ_c⁻¹)
//
// where H_r(v; Q) is the Hermite tensor of a v whose covariance is Q. By Stein's identity E[T(y)·S_r(x)] =
// E[∇^r E[T(y)|x]], for any f (Janzamin, Sedghi & Anandkumar 2014), and the sum over the components c stays where T is
// another for each of them. The tensors are
//
//	E[T_c(y)·P(c|x)·H_r] summed over c = Σ_i κ_i a_i^{⊗r} + what holds derivatives of the gate
//
// with T_c(y) = (y − E[y|c])^r/r! and κ_i = Σ_c E[P(c|x)·P(z = i|x)·t_c^{(r)}(⟨a_i,x⟩)], t_c(z) = E[T_c(y)|g(z)]. The
// coordinates of a regressor in which T̂_2 is looked at are v = M^{−1/2}a, M the mean of the Σ_c⁻¹: there the noise of
// the tensors is as large in one direction as in another.
type score struct {
	law     *gaussians.Mixture
	about   []float64     // E[y|c]
	lift    *mat.SymDense // M^{1/2}
	inverse *mat.SymDense // M⁻¹
}

func newScore(ctx context.Context, p *problem.Problem, law *gaussians.Mixture) (*score, error) {
	mean := mat.NewSymDense(law.D, nil)
	var scaled mat.SymDense
	for _, c := range law.Components {
		scaled.ScaleSym(c.Weight, c.Precision)
		mean.AddSym(mean, &scaled)
	}
	s := &score{law: law, lift: power(mean, .5), inverse: power(mean, -1), about: make([]float64, len(law.Components))}
	totals := make([]float64, len(s.about))
	err := model.InOrder(ctx, p.Rows, func(b *model.Block) error {
		for c, posterior := range s.posteriors(b) {
			totals[c] += floats.Sum(posterior)
			s.about[c] += floats.Dot(posterior, b.Y)
		}
		return nil
	})
	floats.Div(s.about, totals)
	return s, err
}

// power is m^p of a positive definite m.
func power(m *mat.SymDense, p float64) *mat.SymDense {
	var eig mat.EigenSym
	out := mat.NewSymDense(m.SymmetricDim(), nil)
	if !eig.Factorize(m, true) {
		panic("moment: a positive definite matrix without eigenvalues")
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	for i, v := range eig.Values(nil) {
		out.SymRankOne(out, math.Pow(v, p), vectors.ColView(i))
	}
	return out
}

// posteriors are P(c|x) times the weights of a block's rows, by component.
func (s *score) posteriors(b *model.Block) [][]float64 {
	room, out := make([]float64, len(s.law.Components)*b.N), make([][]float64, len(s.law.Components))
	s.law.LogDensity(room, b.X[:s.law.D*b.N], b.N)
	for c := range out {
		out[c] = room[c*b.N : (c+1)*b.N]
		if w := b.Role[model.Weights]; w != nil {
			floats.Mul(out[c], w)
		}
	}
	return out
}

// of are the rows with the posterior of component c in their weights.
func (s *score) of(rows model.Rows, c int) model.Rows {
	return model.Map(rows, s.law.D, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		dst.Role[model.Weights] = s.posteriors(src)[c]
	})
}

// part is what a component's tensors are made of.
type part struct {
	rows    model.Rows
	outputs solver.Outputs
}

// data are the rows and the powers of their targets.
func (s *score) data(rows model.Rows) func(c int) part {
	return func(c int) part { return part{rows, powers{About: s.about[c]}} }
}

// sum adds up the components' tensors of an order r in the coordinates of a D×m basis U of regressors: of one a = U·b
// it has b^{⊗r}. The sums of a component are over standard coordinates, root times which are those of the basis; add is
// given them with their share in all rows.
func (s *score) sum(ctx context.Context, of func(c int) part, order int, basis *mat.Dense, workers int,
	add func(sums *tensor.Transformed, root *mat.SymDense, share float64)) error {
	var dual, gram mat.Dense // U·(UᵀU)⁻¹ in the metric M⁻¹ of regressors
	dual.Mul(s.inverse, basis)
	gram.Mul(basis.T(), &dual)
	var right mat.Dense
	if err := right.Inverse(&gram); err != nil {
		return err
	}
	dual.Mul(mat.DenseCopyOf(&dual), &right)
	type one struct {
		sums *tensor.Transformed
		root *mat.SymDense
	}
	var all []one
	total := 0.0
	for c, component := range s.law.Components {
		var half, square, standard mat.Dense
		half.Mul(component.Precision, &dual)
		square.Mul(dual.T(), &half)
		q := numeric.Symmetric(&square)
		standard.Mul(&half, power(q, -.5))
		from := of(c)
		sums, err := tensor.SumTransformed(ctx, s.of(from.rows, c), from.outputs, order, &standard, component.Mean,
			workers)
		if err != nil {
			return err
		}
		all, total = append(all, one{sums, power(q, .5)}), total+sums.Y[0]
	}
	for _, o := range all {
		if share := o.sums.Y[0] / total; share > 0 {
			add(o.sums, o.root, share)
		}
	}
	return nil
}

// second is T̂_2 in the coordinates v.
func (s *score) second(ctx context.Context, of func(c int) part, workers int) (*mat.SymDense, error) {
	total := mat.NewDense(s.law.D, s.law.D, nil)
	err := s.sum(ctx, of, 2, mat.DenseCopyOf(s.lift), workers, func(sums *tensor.Transformed, root *mat.SymDense,
		share float64) {
		var half, both mat.Dense
		half.Mul(root, sums.T2())
		both.Mul(&half, root)
		both.Scale(share, &both)
		total.Add(total, &both)
	})
	return numeric.Symmetric(total), err
}

// third is T̂_3 on a subspace.
func (s *score) third(ctx context.Context, of func(c int) part, u *Subspace, workers int) (*tensor.Sym3, error) {
	total := tensor.NewSym3(len(u.Values))
	err := s.sum(ctx, of, 3, u.Basis, workers, func(sums *tensor.Transformed, root *mat.SymDense, share float64) {
		floats.AddScaled(total.Data, share, sums.T3().Through(root).Data)
	})
	return total, err
}

// fourth is T̂_4 on a subspace.
func (s *score) fourth(ctx context.Context, of func(c int) part, u *Subspace, workers int) (*tensor.Sym4, error) {
	total := tensor.NewSym4(len(u.Values))
	err := s.sum(ctx, of, 4, u.Basis, workers, func(sums *tensor.Transformed, root *mat.SymDense, share float64) {
		floats.AddScaled(total.Data, share, sums.T4().Through(root).Data)
	})
	return total, err
}

// subspace are the leading k eigenpairs of T̂_2 in the coordinates v.
func (s *score) subspace(t2 *mat.SymDense, k int) (*Subspace, error) {
	u, err := leadingSubspace(t2, new(problem.Inputs), k)
	if err == nil {
		u.Basis.Mul(s.lift, mat.DenseCopyOf(u.Basis))
	}
	return u, err
}

// coordinates are those of the regressors of q in a basis, least-squares in the metric M⁻¹, a row each.
func (s *score) coordinates(q *model.Params, basis *mat.Dense) (*mat.Dense, error) {
	var dual, gram, right, out mat.Dense
	dual.Mul(s.inverse, basis)
	gram.Mul(basis.T(), &dual)
	right.Mul(mat.NewDense(q.K, q.D, q.Regressors), &dual)
	err := out.Solve(&gram, right.T())
	return mat.DenseCopyOf(out.T()), err
}

// settle gives an estimate signs, by the first moment where told is false, and regressors of unit norm in the user's
// units, and finds the size that the target asks of starts.
func (s *score) settle(ctx context.Context, p *problem.Problem, e *Evidence, est *Estimate, told bool) error {
	if slope := p.Moments.Value[1][1]; !told && e.Verdict.SignsIdentifiable {
		first := make([]float64, p.Shape.D)
		err := model.InOrder(ctx, p.Rows, func(b *model.Block) error {
			for c, w := range s.posteriors(b) {
				of, along := s.law.Components[c], make([]float64, len(first))
				for r, y := range b.Y {
					w[r] *= y - s.about[c]
				}
				for j := range along {
					along[j] = floats.Dot(w, b.Col(j)) - of.Mean[j]*floats.Sum(w)
				}
				floats.Add(first, vector(of.Precision, along))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if why := signsOf(est.Params, first, slope); why != "" {
			est.Notes = append(est.Notes, "the first moment does not tell the regressors' signs: "+why)
		}
	}
	q := p.Units.OutOf(est.Params).Clone()
	for i := range q.K {
		if norm := floats.Norm(q.Regressor(i), 2); norm > 0 {
			floats.Scale(1/norm, q.Regressor(i))
		}
	}
	est.Params = p.Units.Into(q)
	return est.size(ctx, p)
}

func vector(m mat.Matrix, x []float64) []float64 {
	var out mat.VecDense
	out.MulVec(m, mat.NewVecDense(len(x), x))
	return out.RawVector().Data
}

// size finds the factor of the regressors with which the rows have E[y²], were g linear.
func (est *Estimate) size(ctx context.Context, p *problem.Problem) error {
	const most = 4
	squares, have := 0.0, 0.0
	q := est.Params
	err := model.InOrder(ctx, model.Part(p.Rows, lawRows), func(b *model.Block) error {
		z, g := make([]float64, q.K*b.N), make([]float64, q.K*b.N)
		q.Predictors(z, b)
		if err := p.G.Eval(ctx, g, z); err != nil {
			return err
		}
		for r, y := range b.Y {
			squares += b.Weight(r) * y * y
			for i, share := range est.Proportions {
				have += b.Weight(r) * share * g[i*b.N+r] * g[i*b.N+r]
			}
		}
		return nil
	})
	if est.norm = math.Sqrt(squares / have); !numeric.Finite(est.norm) {
		est.norm = 1
	}
	est.norm = min(max(est.norm, 1/most), most)
	return err
}

// spectral is the estimate from T̂_2 and T̂_3, in these coordinates.
func (s *score) spectral(t3 *tensor.Sym3, u *Subspace, seed uint64) *Estimate {
	t3.ScaleModes(u.whitening())
	found := t3.Orthogonal(stream.New(seed, stream.Spectral, 0), restarts)
	return u.estimate(found.Vectors, found.Agreeing)
}

// corrected is [Corrected] under a mixture of inputs:
//
//	T̂_r = Ê[T_c(y)·S_r] − Ê[E_q[T_c(y)|x]·S_r] + Σ κ_i a_i^{⊗r}
//
// with the κ_i for which the last sum is nearest the second term: what is taken off is all that q has in the tensors
// beside multiples of a_i^{⊗r}. At the truth its expectation is Σ κ_i a_i^{⊗r}, whatever gate, g and law of x.
func (s *score) corrected(ctx context.Context, p *problem.Problem, e *Evidence, q *model.Params) (*Estimate, error) {
	var failed error
	var once sync.Once
	own := func(r int) func(c int) part {
		return func(c int) part {
			return part{s.means(p, q, c, r, func(err error) { once.Do(func() { failed = err }) }), given{}}
		}
	}
	of2, err := s.second(ctx, own(2), p.Threads)
	if err = firstOf(err, failed); err != nil {
		return nil, err
	}
	v, err := s.coordinates(q, mat.DenseCopyOf(s.lift))
	if err != nil {
		return nil, err
	}
	along := make([]float64, q.K)
	for i := range along {
		row := v.RowView(i)
		along[i] = mat.Inner(row, of2, row)
	}
	kappa, err := multiples(v, along, 2)
	if err != nil {
		return nil, nil
	}
	t2 := mat.NewSymDense(q.D, nil)
	for i := range q.D {
		for j := i; j < q.D; j++ {
			t2.SetSym(i, j, e.t2.At(i, j)-of2.At(i, j))
		}
	}
	for i, share := range kappa {
		t2.SymRankOne(t2, share, v.RowView(i))
	}
	u, err := s.subspace(t2, q.K)
	if err != nil || !u.positive() {
		return nil, err
	}
	t3, err := s.third(ctx, s.data(p.Rows), u, p.Threads)
	if err != nil {
		return nil, err
	}
	of3, err := s.third(ctx, own(3), u, p.Threads)
	if err = firstOf(err, failed); err != nil {
		return nil, err
	}
	if v, err = s.coordinates(q, u.Basis); err != nil {
		return nil, err
	}
	for i := range along {
		along[i] = of3.Along(v.RawRowView(i))
	}
	if kappa, err = multiples(v, along, 3); err != nil {
		return nil, nil
	}
	floats.Sub(t3.Data, of3.Data)
	for i, share := range kappa {
		t3.AddRankOne(share, v.RawRowView(i))
	}
	est := s.spectral(t3, u, p.Seed)
	return est, s.settle(ctx, p, e, est, true)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// multiples are the κ of the Σ_i κ_i v_i^{⊗r} nearest a tensor with these T(v_i, …, v_i).
func multiples(v *mat.Dense, along []float64, r int) ([]float64, error) {
	k := len(along)
	gram := mat.NewDense(k, k, nil)
	for i := range k {
		for j := range k {
			gram.Set(i, j, math.Pow(floats.Dot(v.RawRowView(i), v.RawRowView(j)), float64(r)))
		}
	}
	var out mat.VecDense
	err := out.SolveVec(gram, mat.NewVecDense(k, along))
	return out.RawVector().Data, err
}

// means are the rows with E_q[T_c(y)|x] of component c for their targets.
func (s *score) means(p *problem.Problem, q *model.Params, c, r int, fail func(error)) model.Rows {
	means := powers{About: s.about[c], Sigma: q.SigmaOf(0)}.Means(r)
	return model.Map(p.Rows, q.D, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		room := make([]float64, src.N*(3*q.K+1))
		dst.Y = room[:src.N]
		z, g, prior := room[src.N:src.N*(q.K+1)], room[src.N*(q.K+1):src.N*(2*q.K+1)], room[src.N*(2*q.K+1):]
		q.Predictors(z, src)
		if err := p.G.Eval(context.Background(), g, z); err != nil {
			fail(err)
			return
		}
		means(z, g)
		mixture.Mixture{}.Prior(prior, q, src)
		floats.Mul(z, prior)
		for i := range q.K {
			floats.Add(dst.Y, z[i*src.N:(i+1)*src.N])
		}
	})
}
