package moment

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/solver"
)

// Transform names the transforms of y that the tensors are made of. The zero value
// is the one whose predicted error is smaller for the design and σ at hand
// ([solver.Noise.MeanError]) where the prediction holds: inputs N(0, I) and
// regressors of unit norm, as far as the data tell by the size of y or its law
// ([solver.Law.Fits]); elsewhere the polynomials, which rest on four moments only.
type Transform string

const (
	Polynomial Transform = "polynomial" // 002 Appendix B: [solver.Transform]
	// of minimum variance: [solver.Optimal], where predictions hold made in two rounds, for the design at hand
	Optimal Transform = "optimal"
)

// Name is what flags and files call it.
func (t Transform) Name() string { return string(t) }

// Transforms lists the transforms.
func Transforms() []Transform { return []Transform{Polynomial, Optimal} }

// Want is what evidence is to be made for.
type Want struct {
	Transform Transform
	Inputs    Inputs
	Order     int    // of the tensor beside T̂2: 4 for L4, 3 for the spectral decomposition; 0: 4
	Known     *Known // nil: passes over the rows tell it
}

func (w Want) order() int {
	if w.Order == 3 {
		return 3
	}
	return 4
}

// LevelRows is the most values of y that the noise level is told from: those of
// [model.Part] of the rows.
const LevelRows = 1 << 16

// Known is what is known of all rows of a table, where those of the problem are a sample.
type Known struct {
	Y, W  []float64           // of the rows that the noise level is told from; W nil without weights
	Total float64             // sum of all weights
	Rows  model.Rows          // those of [DesignRows] in the units of the fit; nil: the design is not looked at
	T2    *tensor.Transformed // sums of order 2 by the transforms of minimum variance; nil: they are to be made
}

// choose sets the transforms for the number of experts of p, and T̂2.
func (e *Evidence) choose(ctx context.Context, p *problem.Problem, w Want) (err error) {
	e.Optimal, e.t2 = nil, nil
	if e.score != nil {
		e.t2, err = e.score.second(ctx, e.score.data(p.Rows), p.Threads)
		return err
	}
	predicted := p.Inputs.Standard() && !p.Shape.Intercept
	if w.Transform == Polynomial || w.Transform != Optimal && !predicted || p.Shape.D < p.Shape.K {
		return nil
	}
	if e.law == nil {
		if err := e.target(ctx, p); err != nil {
			return err
		}
	}
	if w.Transform != Optimal && !e.unit {
		return nil
	}
	o := e.law.Optimal(e.level, p.Shape.K)
	design := solver.Design{K: p.Shape.K, D: p.Shape.D}
	if predicted {
		found, err := designOf(ctx, e, p, o)
		if err != nil {
			return err
		}
		if found != nil {
			design, o = *found, e.law.OptimalFor(e.level, *found)
		}
	}
	if design.Order = w.order(); w.Transform != Optimal {
		better, err := e.better(ctx, p, o, design)
		if err != nil || !better {
			return err
		}
	}
	e.Optimal = o
	if !o.Has(2) {
		return nil
	}
	if known := w.Known; known != nil {
		if known.T2 != nil {
			e.t2 = known.T2.T2()
		}
		return nil
	}
	sums, err := e.sum(ctx, p, 2, nil, p.Inputs.Centre)
	if err != nil {
		return err
	}
	e.t2 = sums.T2()
	return nil
}

// better says whether the transforms of minimum variance have the smaller predicted
// error in an estimate of a design.
func (e *Evidence) better(ctx context.Context, p *problem.Problem, o *solver.Optimal,
	design solver.Design) (bool, error) {
	if !o.Noise.Learns(design.Order) {
		return false, nil
	}
	polynomial := math.Inf(1)
	n, err := solver.NoiseOf(ctx, p.Activation, e.Transform.At(e.level))
	switch {
	case err == nil && e.Verdict.Valid:
		polynomial = n.MeanError(design)
	case err != nil && ctx.Err() != nil:
		return false, err
	}
	return o.Noise.MeanError(design) < polynomial, nil
}

// target looks at the values of y: the law of g(Z), the noise level that transforms
// of minimum variance are made for, which is that known, or told by the law of y (see
// [solver.Law.NoiseLevel]), and whether y is what regressors of unit norm give.
func (e *Evidence) target(ctx context.Context, p *problem.Problem) (err error) {
	if e.law, err = solver.NewLaw(ctx, p.Activation); err != nil {
		return err
	}
	e.level, e.unit = p.Shape.Sigma, e.Norm == 1
	if e.level > 0 && e.unit {
		return nil
	}
	known := e.want.Known
	if known == nil {
		if known, err = targetsOf(ctx, p); err != nil {
			return err
		}
	}
	if e.level == 0 {
		e.level = e.law.NoiseLevel(known.Y, known.W, known.Total)
	}
	if !e.unit {
		e.unit = e.law.Fits(known.Y, known.W, min(known.Total, float64(len(known.Y))))
	}
	return nil
}

// targetsOf are the values of y that the noise level is told from.
func targetsOf(ctx context.Context, p *problem.Problem) (*Known, error) {
	known := &Known{Total: p.Weights.Total}
	rows := model.Part(p.Rows, LevelRows)
	n, _ := rows.Dims()
	known.Y = make([]float64, 0, n)
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		known.Y, known.W = append(known.Y, b.Y...), append(known.W, b.Role[model.Weights]...)
		return nil
	})
	return known, err
}

// unmade says which transform is missing for an estimate; "" where none is.
func (e *Evidence) unmade(p *problem.Problem) string {
	name, r := p.Activation.Info().Name, e.want.order()
	switch {
	case e.none != "":
		return e.none
	case e.Optimal != nil:
		for _, r := range []int{2, r} {
			if why := e.Optimal.Reason(r); why != "" {
				return fmt.Sprintf("%s has no transform of order %d: %s%s", name, r, why, e.whyEven())
			}
		}
	case r == 3 && !e.Transform.Has(3):
		return fmt.Sprintf("%s has no transform of order 3: c3 = 0 or its system is inconsistent%s", name, e.whyEven())
	case r == 3 && !e.Transform.Has(2), r == 4 && !e.Verdict.Valid:
		return fmt.Sprintf("%s is not a valid nonlinearity: %s", name, e.Verdict.Reasons[0])
	}
	return ""
}

func (e *Evidence) whyEven() string {
	if e.Marginal != nil || !e.Verdict.Even {
		return ""
	}
	return "; g is even, so that every tensor of odd order vanishes"
}

// whitenedT2 is T̂2/c2 = Σ p_i a_i a_iᵀ, of the whitened inputs where they are not
// standard, or in the coordinates of the score of a mixture.
func (e *Evidence) whitenedT2(p *problem.Problem) *mat.SymDense {
	if e.score != nil {
		return e.t2
	}
	t2 := mat.NewSymDense(p.Second.D, nil)
	if e.t2 != nil {
		t2.CopySym(e.t2)
	} else {
		t2.ScaleSym(1/e.Transform.C2, p.Second.T2(e.Transform.Delta, p.Inputs.Centre))
	}
	return whitened(t2, p.Inputs)
}

// fourth is T̂4/c4 on the subspace.
func (e *Evidence) fourth(ctx context.Context, p *problem.Problem) (*tensor.Sym4, error) {
	s := e.Subspace
	if e.score != nil {
		return e.score.fourth(ctx, e.score.data(p.Rows), s, p.Threads)
	}
	if e.Optimal != nil {
		sums := e.fourths
		if sums == nil {
			var err error
			if sums, err = e.sum(ctx, p, 4, s.Basis, s.Centre); err != nil {
				return nil, err
			}
		}
		return sums.T4(), nil
	}
	sums := e.sums4
	if sums == nil {
		var err error
		if sums, err = tensor.SumFourth(ctx, p.Rows, s.Basis, s.Centre, p.Threads); err != nil {
			return nil, err
		}
	}
	t4 := sums.T4(e.Transform)
	t4.Scale(1 / e.Transform.C4)
	return t4, nil
}
