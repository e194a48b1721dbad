package result

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/separation"
)

// mostCovariance is the most parameters whose full covariance goes into the
// model file.
const mostCovariance = 300

// uncertainty adds to the model the standard errors and the covariance of the best
// of the outcome, or a note why there are none; at is the best with the experts in
// the model's order, where it is a maximum of the joint likelihood.
func uncertainty(ctx context.Context, m *fitted.Model, p *problem.Problem, out *Outcome, at *optimum,
	s Settings) error {
	note := func(why string) {
		m.Fit.Notes = append(m.Fit.Notes, "no standard errors: "+why)
	}
	switch {
	case !out.Joint:
		note("method " + m.Fit.Method + " does not maximise the likelihood over the regressors")
		return nil
	case out.Best.Degenerate:
		note("an expert collapsed onto a few rows")
		return nil
	case out.Best.Run.Status != optim.Converged:
		note("the search has not converged")
		return nil
	case p.Shape.Explained(out.Best.Run.Value):
		note("the likelihood has no maximum, at which there would be some")
		return nil
	}
	c, err := at.covariance(ctx, s.kind(p))
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		if none.Singular {
			m.Fit.Warn(fitted.WarnErrors, "no standard errors: %s", none.Reason)
		} else {
			note(none.Reason)
		}
		return nil
	}
	if err != nil {
		return err
	}
	m.StandardErrors = at.standardErrors(c)
	warnClusters(&m.Fit, p, len(c.Parameters))
	if err := at.correct(ctx, m, c); err != nil {
		return err
	}
	var dependent *infer.Covariance
	if slices.Contains(s.Errors, infer.Dependent) {
		dependent, err = at.covariance(ctx, infer.Dependent)
		if err != nil { // the information has been inverted
			return err
		}
		m.HAC = dependence(dependent, at.standardErrors(dependent))
	}
	if n := len(c.Parameters); n > mostCovariance {
		m.Fit.Notes = append(m.Fit.Notes,
			fmt.Sprintf("the covariance of %d parameters is left out of the model file, which has that of up to %d; "+
				"their standard errors are there", n, mostCovariance))
		return nil
	}
	m.Covariance = &fitted.Covariance{Parameters: c.Names(p.Schema.Features), Matrix: rowsOf(c.Matrix)}
	if dependent != nil {
		m.HAC.Covariance = rowsOf(dependent.Matrix)
	}
	return nil
}

// warnClusters warns where there are no more clusters than parameters.
func warnClusters(f *fitted.Fit, p *problem.Problem, parameters int) {
	if p.Clusters > 0 && p.Clusters <= parameters {
		f.Warn(fitted.WarnErrors, "%d clusters for %d parameters: their covariance by clusters is singular, and "+
			"standard errors from so few are too small as a rule", p.Clusters, parameters)
	}
}

// dependence is what a file says of standard errors for rows that follow each other.
func dependence(c *infer.Covariance, se *fitted.StandardErrors) *fitted.HAC {
	return &fitted.HAC{Kernel: "bartlett", Bandwidth: c.Bandwidth, StandardErrors: se, CriticalValue: c.Critical()}
}

// clusters is what a file says of the clusters of a covariance; nil where it is by none.
func clusters(c *infer.Covariance, p *problem.Problem) *fitted.Clusters {
	if c.Kind != infer.Clustered {
		return nil
	}
	return &fitted.Clusters{Column: p.Schema.Roles[model.Clusters], Count: c.Clusters, CriticalValue: c.Critical()}
}

// infinity is what of a gate has no finite optimum.
type infinity struct {
	p      *problem.Problem
	groups *separation.Groups // of branches between which gates separate rows; nil where none does
	ends   *infer.Endless     // of the gate where none does, see [infer.EndlessOf]; nil where there are none
}

// shownEnds are the ends in the user's units.
func (g *infinity) shownEnds() *infer.Endless {
	if u := g.p.Units; u != nil {
		return g.ends.Converted(u.Mean, u.SD)
	}
	return g.ends
}

// leads says whether a coefficient is of the row of its group that goes to infinity.
func (g *infinity) leads(q loss.Parameter) bool {
	return q.Part == model.Gate && g.groups.Leads(q.Index)
}

// beyond says whether a coefficient has no finite optimum as its gate separates.
func (g *infinity) beyond(q loss.Parameter) bool {
	return q.Part == model.Gate && g.groups.Infinite(q.Index)
}

// has says whether a coefficient, in the user's units, has no finite optimum.
func (g *infinity) has(q loss.Parameter) bool { return g.beyond(q) || g.shownEnds().Moves(q) }

// left takes the covariance of what does not lead to the user's units, of the parameters that have a finite optimum.
func (g *infinity) left(c *infer.Covariance) {
	c.Without(g.beyond)
	if u := g.p.Units; u != nil {
		c.Convert(u.Mean, u.SD)
	}
	c.Without(g.shownEnds().Moves)
}

// optimum is where a fit has ended, with its experts in the model's order.
type optimum struct {
	infinity
	l      *loss.Likelihood
	params *model.Params
}

// optimumOf is where a candidate has ended, its parameters in another order.
func optimumOf(p *problem.Problem, c *search.Candidate, params *model.Params, order []int) *optimum {
	return &optimum{
		infinity: infinity{p: p, groups: c.Groups.Relabel(c.Params, order)}, params: params,
		l: loss.NewLikelihood(p.Given, p.G, params, p.Shape.Estimated(), p.Threads),
	}
}

// withEnds is o that knows the directions in which its gate has no finite optimum though it separates no experts.
func (o *optimum) withEnds(ctx context.Context) (*optimum, error) {
	if o.groups != nil {
		return o, nil
	}
	out := *o
	var err error
	out.ends, err = infer.EndlessOf(ctx, o.l, o.params)
	return &out, err
}

// covariance is that of the parameters that have a finite optimum, in the user's units.
func (o *optimum) covariance(ctx context.Context, kind infer.Kind) (*infer.Covariance, error) {
	c, err := infer.EstimateGiven(ctx, o.l, o.params, kind, o.p.Kinks(), func(q loss.Parameter) bool {
		return o.leads(q) || o.l.AtEnd(o.params, q)
	}, o.ends)
	if err == nil {
		o.left(c)
	}
	return c, err
}

// estimated is a likelihood of parameters P of which some were estimated.
type estimated[P any] interface {
	Parameters() []loss.Parameter
	In(p P) func(q loss.Parameter) *float64
	Theta(p P) []float64
	AtZero(theta []float64) []bool
}

// writeErrors writes the standard errors of a covariance at p to se: NaN for coefficients of the gate without a finite
// optimum, and for slopes that a lasso has brought to 0.
func writeErrors[P any](se P, c *infer.Covariance, l estimated[P], p P, of *infinity) P {
	in, zero := l.In(se), l.AtZero(l.Theta(p))
	c.WriteErrors(in)
	for i, q := range l.Parameters() {
		if of.has(q) || zero[i] {
			*in(q) = math.NaN()
		}
	}
	return se
}

// standardErrors are those of a covariance as files state them.
func (o *optimum) standardErrors(c *infer.Covariance) *fitted.StandardErrors {
	free := o.p.Shape.Estimated()
	out := fitted.NewStandardErrors(string(c.Kind), writeErrors(o.params.Like(), c, o.l, o.params, &o.infinity),
		free.Sigma)
	if free.FixedScale {
		out.OutputScale.Scale = nil
	}
	out.Clusters = clusters(c, o.p)
	return out
}

// correct adds to a model's standard errors the noise as it is estimated beside the coefficients: levels of normal
// noise that were not given, with their intervals, and of other families the first own parameter, which predictive
// laws have.
func (o *optimum) correct(ctx context.Context, m *fitted.Model, c *infer.Covariance) error {
	if o.p.Shape.Normal() {
		if o.p.Shape.Sigma == 0 {
			noiseIntervals(o.p, m, c)
		}
		return nil
	}
	corrected, err := infer.Dispersion(ctx, c, o.l, o.p.Given, o.params)
	if corrected != nil {
		m.StandardErrors.DispersionCorrected = corrected.Sigma
	}
	return err
}

// separations states the boundaries of the best, whose experts the model has in the given
// order, in the user's columns.
func separations(ctx context.Context, p *problem.Problem, best *search.Candidate,
	order []int) ([]fitted.Separation, error) {
	if best.Groups == nil {
		return nil, nil
	}
	boundaries, err := separation.Boundaries(ctx, p, best.Params.Relabel(order),
		best.Groups.Relabel(best.Params, order))
	return inColumns(p, boundaries), err
}

// inColumns are boundaries in the user's columns.
func inColumns(p *problem.Problem, boundaries []separation.Boundary) (out []fitted.Separation) {
	for _, b := range boundaries {
		plane := model.NewParams(2, p.Shape.D)
		copy(plane.Gating, b.Normal)
		plane.GatingIntercepts = []float64{b.Offset}
		plane = p.Units.OutOf(plane)
		out = append(out, fitted.Separation{
			Above: numbered(b.Above), Below: numbered(b.Below),
			Coefficients: plane.Gating, Intercept: plane.GatingIntercepts[0], Margin: b.Margin,
		})
	}
	return out
}

// numbered counts experts from 1.
func numbered(experts []int) []int {
	out := make([]int, len(experts))
	for i, e := range experts {
		out[i] = e + 1
	}
	return out
}

// noiseIntervals adds to the model the corrected estimate and the 95 % interval of
// every noise level; no intervals if one has no end.
func noiseIntervals(p *problem.Problem, m *fitted.Model, c *infer.Covariance) {
	s := m.StandardErrors
	for i, sigma := range m.Sigma {
		rows, coefficients := p.Weights.Total, 0.0
		if len(m.Sigma) > 1 {
			rows *= m.Proportions[i]
		}
		for _, q := range c.Parameters {
			ofExperts := q.Part == model.Expert || q.Part == model.Offset || q.Part == model.Scale
			switch {
			case !ofExperts:
			case tied(p, q) && len(m.Sigma) == 1: // one coefficient of all
				coefficients += 1 / float64(m.K)
			case tied(p, q):
				if q.Index == i {
					coefficients += m.Proportions[i]
				}
			case len(m.Sigma) == 1 || q.Index == i && (q.Part == model.Expert || len(m.OutputScale.Offset) > 1):
				coefficients++
			case q.Part != model.Expert && len(m.OutputScale.Offset) == 1: // a share of what all have
				coefficients += m.Proportions[i]
			}
		}
		s.SigmaCorrected = append(s.SigmaCorrected, infer.NoiseCorrected(sigma, rows, coefficients))
		lower, upper := infer.NoiseIntervalOf(sigma, s.Sigma[i], c.Critical(), rows, coefficients)
		s.SigmaInterval = append(s.SigmaInterval, []float64{lower, upper})
	}
	for _, interval := range s.SigmaInterval {
		if math.IsInf(interval[1], 0) {
			s.SigmaInterval = nil
		}
	}
}

// tied says whether a coefficient is the same in all experts.
func tied(p *problem.Problem, q loss.Parameter) bool {
	return q.Part == model.Expert && slices.Contains(p.Shape.Tied, q.Feature)
}

// rowsOf returns the rows of a symmetric matrix.
func rowsOf(m *mat.SymDense) [][]float64 {
	n := m.SymmetricDim()
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, n)
		for j := range out[i] {
			out[i][j] = m.At(i, j)
		}
	}
	return out
}
