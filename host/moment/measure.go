// Package moment is what the moment tensors say of a problem: the noise level,
// the subspace of the regressors, the regressors themselves with their
// proportions and signs, and the number of experts.
package moment

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// Evidence is what one pass over the data and the moments of g tell. It is
// read-only.
type Evidence struct {
	Sigma     float64          // the noise level: that known, or implied by unit regressors
	Norm      float64          // of the regressors, as far as E[y²] tells
	Transform solver.Transform // at Sigma
	Verdict   solver.Verdict
	Optimal   *solver.Optimal // nil where the tensors are those of the polynomials
	Subspace  *Subspace       // nil where T̂2 cannot give one
	Marginal  *Marginal       // nil where the noise is normal
	Notes     []string        // for the user

	none  string // why there are no transforms of a density that is not normal
	want  Want
	laws  *laws         // of y given the features, where the density is not normal
	law   *solver.Law   // nil until transforms of minimum variance are looked at
	level float64       // noise level that they are made for
	unit  bool          // regressors are of unit norm, as far as y tells
	t2    *mat.SymDense // T̂2 by Optimal; nil without

	score          *score              // nil where the features are taken for Gaussian
	outputs        *outputs            // of rows of several laws; Optimal is one of them
	sums3, fourths *tensor.Transformed // see Knowing
	sums4          *tensor.Fourth
}

// Measure takes the transforms of the activation at the noise level that the
// target's second moment implies, or those of minimum variance, and the subspace of
// the regressors from T̂2.
//
// Where experts have activations of their own there is no transform for them all: the evidence is the target's rms, as
// noise level and norm. Where the noise is not normal there are transforms of minimum variance alone, see [Marginal].
func Measure(ctx context.Context, p *problem.Problem, w Want) (*Evidence, error) {
	if p.Leaves != nil {
		return &Evidence{Sigma: p.RMS(), Norm: p.RMS(), want: w}, nil
	}
	if p.Link != nil {
		return (&Evidence{Sigma: p.RMS(), Norm: p.Link.Spread, want: w}).With(ctx, p)
	}
	sigma, z := sigmaFromNorms(p.Second, p.Moments)
	if p.Shape.Sigma > 0 {
		sigma = p.Shape.Sigma
	}
	e := &Evidence{Sigma: sigma, Norm: 1, want: w}
	// Regressors of unit norm have E[y²] = E[g(Z)²] + σ², and σ² may be neither
	// negative nor many times the signal.
	if ratio := p.Second.MeanY(2) / p.Moments.Value[2][0]; z < -4 || ratio > 1.5 {
		e.Norm = math.Sqrt(ratio)
	}
	if z < -4 {
		e.Notes = append(e.Notes, "the target's second moment is below what unit regressors give: their norms are "+
			"free in the likelihood, the moment estimate's are not")
	}
	system, err := sdk.SystemFrom(ctx, p.Activation, p.Moments, sigma)
	if err != nil {
		return nil, err
	}
	e.Transform, e.Verdict = solver.Solve(p.Moments, system, sigma)
	if err := seeInputs(ctx, p, e); err != nil {
		return nil, err
	}
	return e.With(ctx, p)
}

// sum makes a pass over the rows for the tensor of an order, see [tensor.SumTransformed].
func (e *Evidence) sum(ctx context.Context, p *problem.Problem, order int, u *mat.Dense,
	centre []float64) (*tensor.Transformed, error) {
	rows, outputs := e.transformed(p.Rows, order)
	return tensor.SumTransformed(ctx, rows, outputs, order, u, centre, p.Threads)
}

// transformed returns rows and transforms of their targets that give T_order: of rows of several laws the
// targets are transformed already.
func (e *Evidence) transformed(rows model.Rows, order int) (model.Rows, solver.Outputs) {
	if e.outputs == nil || len(e.outputs.of) == 1 {
		return rows, e.Outputs()
	}
	return e.outputs.rows(rows, order), given{}
}

// Outputs are the transforms that the tensors are made of.
func (e *Evidence) Outputs() solver.Outputs {
	if e.Optimal != nil {
		return e.Optimal
	}
	return e.Transform
}

// Components is how many Gaussians the tensors take the features for a mixture of; 0 for none.
func (e *Evidence) Components() int {
	if e.score == nil {
		return 0
	}
	return len(e.score.law.Components)
}

// InputsNote says that the features are not what the tensors take them for; "" where nothing does.
func (e *Evidence) InputsNote(p *problem.Problem) string {
	if e.score != nil {
		return ""
	}
	return p.Inputs.Note()
}

// Cubic says whether the tensor of order 3 gives a start that is to be had beside that of order 4.
func (e *Evidence) Cubic() bool { return e.Optimal != nil || e.score != nil }

// With returns the evidence on the same data for the number of experts of p.
func (e *Evidence) With(ctx context.Context, p *problem.Problem) (*Evidence, error) {
	f := *e
	f.Subspace, f.sums3, f.fourths, f.sums4 = nil, nil, nil, nil
	var err error
	if p.Link != nil {
		err = chooseUnder(ctx, p, &f)
	} else {
		err = f.choose(ctx, p, e.want)
	}
	if err != nil {
		return nil, err
	}
	if !f.Outputs().Has(2) || p.Shape.D < p.Shape.K || f.Optimal != nil && f.t2 == nil {
		return &f, nil
	}
	var s *Subspace
	if f.score != nil {
		s, err = f.score.subspace(f.t2, p.Shape.K)
	} else {
		s, err = leadingSubspace(f.whitenedT2(p), p.Inputs, p.Shape.K)
	}
	if err != nil {
		return nil, err
	}
	if s.positive() {
		f.Subspace = s
	}
	return &f, nil
}

// Knowing returns the evidence with sums over all rows, in its subspace, that stand
// already: no estimate of it then makes a pass over the rows. Those of order 4 are powers
// of the target for the polynomials, and transformed for the transforms of minimum
// variance. Of nil sums a pass is made.
func (e *Evidence) Knowing(third, fourth *tensor.Transformed, powers *tensor.Fourth) *Evidence {
	f := *e
	f.sums3, f.fourths, f.sums4 = third, fourth, powers
	return &f
}

// Unidentified says why the moment tensors do not determine the regressors,
// whatever the number of rows; "" where they do.
func (e *Evidence) Unidentified(p *problem.Problem) string {
	if why := e.unmade(p); why != "" {
		return why
	}
	if k, d := p.Shape.K, p.Shape.D; d <= 2*k-1 {
		return fewDimensions(k, d)
	}
	return ""
}

// fewDimensions says that so many features do not tell so many experts.
func fewDimensions(k, d int) string { return fmt.Sprintf("d = %d is not above 2k-1 = %d", d, 2*k-1) }

// Obstacle says which assumption of an estimate by tensors up to this order fails so
// badly that there is none; "" where none does.
func (e *Evidence) Obstacle(p *problem.Problem, order int) string {
	f := *e
	f.want.Order = order
	return f.obstacle(p)
}

// obstacle says which assumption of the moment estimate fails so badly that
// there is none; "" where none does.
func (e *Evidence) obstacle(p *problem.Problem) string {
	if p.Leaves != nil {
		return "the experts have activations of their own"
	}
	if why := e.Unidentified(p); why != "" {
		return why
	}
	if e.Subspace == nil {
		return fmt.Sprintf("T2 from %d rows does not have %d positive eigenvalues", p.Second.N, p.Shape.K)
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
