package moment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/gaussians"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
)

// Inputs names what the features are taken for in the moment tensors. The zero value is [GaussianInputs].
type Inputs string

// The laws of the features.
const (
	GaussianInputs  Inputs = "gaussian" // N(m, Σ)
	MixtureInputs   Inputs = "mixture"  // of Gaussians, estimated by EM: the tensors are made with its score
	AutomaticInputs Inputs = "auto"     // the mixture where the features are not N(0, I) and BIC asks for two or more
)

// Name is what flags and files call it.
func (i Inputs) Name() string { return string(i) }

// AllInputs lists the laws of the features.
func AllInputs() []Inputs { return []Inputs{GaussianInputs, MixtureInputs, AutomaticInputs} }

// Gaussian says whether no mixture is looked for.
func (i Inputs) Gaussian() bool { return i == "" || i == GaussianInputs }

// Limits of the estimate of a law of the features.
const (
	mostComponents = 8
	lawRows        = 1 << 12 // from which it is estimated
	refineRows     = 1 << 15 // with which it is refined
	refineSteps    = 5
)

// seeInputs estimates the law of the features where the tensors of e are to be made with its score.
func seeInputs(ctx context.Context, p *problem.Problem, e *Evidence) error {
	w := e.want.Inputs
	if w.Gaussian() || w == AutomaticInputs && p.Inputs.Standard() {
		return nil
	}
	law, err := lawOf(ctx, p)
	if err != nil {
		return err
	}
	switch {
	case law == nil && w == MixtureInputs:
		return &problem.RequestError{Msg: "inputs mixture: the rows do not tell a mixture of Gaussians; the features " +
			"have too few rows, or one is next to constant or told by the others"}
	case law == nil || w == AutomaticInputs && len(law.Components) == 1:
		return nil
	}
	if e.score, err = newScore(ctx, p, law); err != nil {
		return err
	}
	of := "one Gaussian"
	if n := len(law.Components); n > 1 {
		of = fmt.Sprintf("a mixture of %d Gaussians", n)
	}
	e.Notes = append(e.Notes, "the moment tensors are made with the score of "+of+
		", estimated from the features; regressors are taken for unit vectors")
	return nil
}

// lawOf is the mixture that part of the rows tell, refined on more of them; nil where there is none.
func lawOf(ctx context.Context, p *problem.Problem) (*gaussians.Mixture, error) {
	in := p.Inputs
	points := func(n int) (*mat.Dense, []float64, error) { return whitePoints(ctx, model.Part(p.Rows, n), in) }
	x, weights, err := points(lawRows)
	if err != nil {
		return nil, err
	}
	law, err := gaussians.Fit(ctx, x, weights, mostComponents, func(i int) *rand.Rand {
		return stream.New(p.Seed, stream.Inputs, i)
	})
	if err != nil || law == nil {
		return nil, err
	}
	if x, weights, err = points(refineRows); err != nil {
		return nil, err
	}
	if law, err = law.Refine(ctx, x, weights, refineSteps); err != nil || in.Whiten == nil {
		return law, err
	}
	var inverse mat.Dense
	if inverse.Inverse(in.Whiten) != nil {
		return nil, nil
	}
	if law, ok := law.Through(numeric.Symmetric(&inverse), in.Centre); ok {
		return law, nil
	}
	return nil, nil
}

// whitePoints are the features of rows, whitened where they are not standard, n×d, and the rows' weights, nil for none.
func whitePoints(ctx context.Context, rows model.Rows, in *problem.Inputs) (*mat.Dense, []float64, error) {
	n, d := rows.Dims()
	x, at := mat.NewDense(n, d, nil), 0
	var weights []float64
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		for r := range b.N {
			row := x.RawRowView(at)
			for j := range d {
				row[j] = b.X[j*b.N+r]
			}
			if in.Centre != nil {
				floats.Sub(row, in.Centre)
			}
			at++
		}
		weights = append(weights, b.Role[model.Weights]...)
		return nil
	})
	if err == nil && in.Whiten != nil {
		var white mat.Dense
		white.Mul(x, in.Whiten)
		x = &white
	}
	return x, weights, err
}

// powers are T_r(y) = (y − About)^r/r!. Where g(z) = z they leave every component's tensors 1 times p_i·a_i^{⊗r}; under
// other g a positive coefficient, for most.
type powers struct{ About, Sigma float64 }

// Has implements [solver.Outputs].
func (powers) Has(r int) bool { return r >= 2 && r <= 4 }

// Apply implements [solver.Outputs].
func (o powers) Apply(r int, dst, y []float64) {
	factorial := math.Gamma(float64(r + 1))
	for i, v := range y {
		dst[i] = math.Pow(v-o.About, float64(r)) / factorial
	}
}

// Means is that of [solver.Transform.Means], up to a constant.
func (o powers) Means(r int) func(dst, m []float64) {
	s := o.Sigma * o.Sigma
	return func(dst, m []float64) {
		for i, v := range m {
			v -= o.About
			switch r {
			case 2:
				dst[i] = v * v / 2
			case 3:
				dst[i] = (v*v + 3*s) * v / 6
			case 4:
				dst[i] = (v*v + 6*s) * v * v / 24
			}
		}
	}
}
