package descent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/minibatch"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/stream"
)

// L4 is the settings of a descent of L4 (002 Eq. 7) in ℝ^d.
type L4 struct {
	MiniBatches
	Penalty Penalty  // "": SecondMoment
	Mu      float64  // weight μ of T4(a_i,a_i,a_i,a_i); 0: 0.01, or 1 with UnitNorm
	Lambda  float64  // weight λ of the penalty; 0: 10, or 5 with UnitNorm
	Ridge   *float64 // weight of ½‖A‖² (δ in 002 Eq. 7), at least 0; nil: 2, or none with UnitNorm
}

// Penalty is what L4 holds the size of a row by.
type Penalty string

const (
	SecondMoment Penalty = "moment" // λ·Σ_i (T2(a_i,a_i)/c2 − 1)² (002 Eq. 7)
	UnitNorm     Penalty = "norm"   // λ·Σ_i (|a_i|² − 1)² (001)
)

// Name is what flags call it.
func (p Penalty) Name() string { return string(p) }

// Penalties lists the penalties.
func Penalties() []Penalty { return []Penalty{SecondMoment, UnitNorm} }

// Defaults of L4 with UnitNorm. It needs no ridge, and μ = 1, since nothing but T4 keeps
// rows in the span of the regressors.
const (
	normMu     = 1
	normLambda = 5
	normStep   = 0.02
)

// Defaults, chosen on tables of the papers' design with 1e4 and 1e5 rows: without
// a ridge nothing but the noise of mini-batches keeps A inside the subspace of
// the regressors. μ is as small as the theory of 002 wants it: 1 leads to
// infinity.
const (
	l4Batch  = 1024
	l4Step   = 1e-3
	l4Steps  = 4_000
	l4Mu     = 0.01
	l4Lambda = 10
	l4Ridge  = 2
)

// l4Bound is the largest |entry| of A at which a descent of L4 has not yet
// diverged. Minima of L4 have rows of norm 1/√p where the regressors are
// orthogonal.
const l4Bound = 100

// Check refuses what no data could be fitted with.
func (l L4) Check() error {
	switch {
	case l.Penalty != "" && !slices.Contains(Penalties(), l.Penalty):
		return problem.Refuse("penalty = %q; there are %v", l.Penalty, Penalties())
	case !positive(l.Mu):
		return problem.Refuse("mu = %v, want a finite number above 0", l.Mu)
	case !positive(l.Lambda):
		return problem.Refuse("lambda = %v, want a finite number above 0", l.Lambda)
	case l.Ridge != nil && !positive(*l.Ridge):
		return problem.Refuse("ridge = %v, want a finite number of at least 0", *l.Ridge)
	}
	return l.check()
}

// Descended is where a descent of L4 ended.
type Descended struct {
	Status   optim.Status
	Estimate *moment.Estimate // without signs
	Record   *Record
	Notes    []string // for the user
}

// start is random unit rows. With UnitNorm they are orthonormal rows in the span of T̂2,
// where there is one: the cross terms drive a row that has less of every regressor than
// another out of the span, where L4 is flat and only 002's terms in T2 would bring it
// back.
func (l L4) start(p *problem.Problem, e *moment.Evidence, rng *rand.Rand) []float64 {
	k, d := p.Shape.K, p.Shape.D
	if l.Penalty != UnitNorm || e.Subspace == nil {
		return model.RandomDirections(rng, k, d)
	}
	basis := e.Subspace.Basis
	if w := p.Inputs.Whiten; w != nil { // A is over whitened features
		basis = new(mat.Dense)
		if basis.Solve(w, e.Subspace.Basis) != nil {
			return model.RandomDirections(rng, k, d)
		}
	}
	var rows mat.Dense
	rows.Mul(mat.NewDense(k, k, moment.RandomOrthonormal(rng, k)), basis.T())
	return rows.RawMatrix().Data
}

// Fit takes SGD down L4 from random unit rows (002 Section 4 on a table) and
// reads regressors and proportions off the rows of (A†)ᵀ. On a table L4 has no
// lower bound: a run that leaves for infinity ends diverged, with the estimate
// of the point at which it moved least.
func (l L4) Fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, show Progress) (*Descended, error) {
	mu, lambda, ridge, step := l4Mu, float64(l4Lambda), float64(l4Ridge), l4Step
	if l.Penalty == UnitNorm {
		mu, lambda, ridge, step = normMu, normLambda, 0, normStep
	}
	how, err := l.over(p.N(), l4Batch, step, l4Steps)
	if err != nil {
		return nil, err
	}
	l.Mu, l.Lambda = cmp.Or(l.Mu, mu), cmp.Or(l.Lambda, lambda)
	if l.Ridge == nil {
		l.Ridge = &ridge
	}
	k, d := p.Shape.K, p.Shape.D
	rows, err := whitened(ctx, p)
	if err != nil {
		return nil, err
	}
	objective := minibatch.NewL4(k, d, e.Outputs(), l.Mu, l.Lambda, *l.Ridge)
	objective.UnitNorm = l.Penalty == UnitNorm
	rng := stream.New(p.Seed, stream.Descent, 0)
	t, err := descend(ctx, how, optim.SGD, objective, rows, l.start(p, e, rng), rng, l4Bound, nil,
		show.epochs(how.Epochs))
	if err != nil {
		return nil, err
	}
	read := func(a []float64) *moment.Estimate { return moment.FromL4(a, k, p.Inputs.Whiten) }
	whole := &minibatch.Whole{Loss: objective, Rows: rows}
	early, err := t.endedEarly(ctx, whole, func(x []float64) *model.Params { return read(x).Params })
	if err != nil {
		return nil, err
	}
	out := &Descended{Status: t.Status}
	if early != "" {
		out.Notes = append(out.Notes, endedEarly(early))
	}
	made := t.Iterations
	if t.Status == optim.Diverged {
		var at int
		at, t.X = t.stillest()
		out.Notes = append(out.Notes, divergedNote(made, t.steps, at, e.Norm))
	}
	value, err := whole.Value(ctx, t.X)
	if err != nil {
		return nil, err
	}
	out.Record = &Record{
		Loss: "l4", Optimiser: SGD{}.Name(), MiniBatches: how, Steps: t.steps, Made: made, Value: value,
		Mu: l.Mu, Lambda: l.Lambda, Ridge: l.Ridge,
	}
	out.Estimate = read(t.X)
	if l.Penalty == UnitNorm {
		out.Record.Penalty = l.Penalty.Name()
		e.SharesAlong(p, out.Estimate, t.X)
	}
	return out, nil
}

func divergedNote(made, steps, kept int, norm float64) string {
	text := fmt.Sprintf("L4 diverged after %d of %d mini-batches: over the rows of a table it has no lower bound. "+
		"The model is that of mini-batch %d, where it moved least. "+
		"Try fewer epochs, a smaller step size, a larger lambda or ridge, or method moments, whose L4 is bounded", made,
		steps, kept)
	if norm != 1 {
		text += fmt.Sprintf("; and L4 takes regressors to be of unit norm: divide the target by about %.3g", norm)
	}
	return text
}

// whitened returns the rows with features of mean 0 and unit covariance, or as
// they are where they are N(0, I) or cannot be whitened.
func whitened(ctx context.Context, p *problem.Problem) (model.Rows, error) {
	in, d := p.Inputs, p.Shape.D
	if in.Whiten == nil {
		return p.Rows, nil
	}
	return model.InMemory(ctx, model.Map(p.Rows, d, func(dst, src *model.Block) {
		clear(dst.X)
		for j := range d {
			shift := 0.0
			for i := range d {
				w := in.Whiten.At(j, i)
				floats.AddScaled(dst.Col(j), w, src.Col(i))
				shift += w * in.Centre[i]
			}
			floats.AddConst(-shift, dst.Col(j))
		}
	}), p.Threads)
}
