package descent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
)

// L4 is the settings of a descent of L4 (002 Eq. 7) in ℝ^d.
type L4 struct {
	MiniBatches
	Mu     float64  // weight μ of T4(a_i,a_i,a_i,a_i); 0: 0.01
	Lambda float64  // weight λ of the terms in T2; 0: 10
	Ridge  *float64 // weight of ½‖A‖² (δ in 002 Eq. 7), at least 0; nil: 2
}

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

// l4Stream separates the random numbers of the descent from those of a search.
const l4Stream = 1 << 34

// Check refuses what no data could be fitted with.
func (l L4) Check() error {
	switch {
	case !positive(l.Mu):
		return refuse("mu = %v, want a finite number above 0", l.Mu)
	case !positive(l.Lambda):
		return refuse("lambda = %v, want a finite number above 0", l.Lambda)
	case l.Ridge != nil && !positive(*l.Ridge):
		return refuse("ridge = %v, want a finite number of at least 0", *l.Ridge)
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

// Fit takes SGD down L4 from random unit rows (002 Section 4 on a table) and
// reads regressors and proportions off the rows of (A†)ᵀ. On a table L4 has no
// lower bound: a run that leaves for infinity ends diverged, with the estimate
// of the point at which it moved least.
func (l L4) Fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, show Progress) (*Descended, error) {
	how, err := l.over(p.N(), l4Batch, l4Step, l4Steps)
	if err != nil {
		return nil, err
	}
	l.Mu, l.Lambda = cmp.Or(l.Mu, l4Mu), cmp.Or(l.Lambda, l4Lambda)
	if l.Ridge == nil {
		ridge := float64(l4Ridge)
		l.Ridge = &ridge
	}
	k, d := p.Shape.K, p.Shape.D
	rows, err := whitened(ctx, p)
	if err != nil {
		return nil, err
	}
	objective := loss.NewOnlineL4(k, d, e.Transform, l.Mu, l.Lambda, *l.Ridge)
	rng := rand.New(rand.NewPCG(p.Seed, l4Stream))
	t, err := descend(ctx, how, optim.SGD, objective, rows, model.RandomDirections(rng, k, d), rng, l4Bound, show.epochs(how.Epochs))
	if err != nil {
		return nil, err
	}
	read := func(a []float64) *moment.Estimate { return moment.FromL4(a, k, p.Inputs.Whiten) }
	whole := &loss.Whole{Loss: objective, Rows: rows}
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
	return out, nil
}

func divergedNote(made, steps, kept int, norm float64) string {
	text := fmt.Sprintf("L4 diverged after %d of %d mini-batches: over the rows of a table it has no lower bound. The model is that of mini-batch %d, where it moved least. "+
		"Try fewer epochs, a smaller step size, a larger lambda or ridge, or method moments, whose L4 is bounded", made, steps, kept)
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
	}))
}
