package result

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result/warn"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/separation"
)

// vector is a fit of several targets under one gate that is written down.
type vector struct {
	Settings
	task  *search.VectorTask
	given model.Rows
}

// SharedGate writes down what the search for a task came to, in the user's units and with the largest expert first. The
// given rows have the weights as they were given; each target has a truth, or nil.
func SharedGate(ctx context.Context, task *search.VectorTask, given model.Rows, found *search.Found,
	truths []*model.Params, settings Settings) (*fitted.Vector, error) {
	s := &vector{settings, task, given}
	p, best := s.task.Problems[0], found.Best
	proportions, order, err := search.ByProportion(ctx, p, p.Given, best.Vector.Coordinate(0))
	if err != nil {
		return nil, err
	}
	ordered := best.Vector.Each(func(q *model.Params) *model.Params { return q.Relabel(order) }, order)
	params := each(ordered, s.task.Problems, (*problem.Units).OutOf)
	activation, leaves, err := described(ctx, p)
	if err != nil {
		return nil, err
	}
	if leaves == nil {
		leaves = slices.Repeat([]stated.Activation{activation}, p.Shape.K)
	}
	v := fitted.NewSharedGate(params, p.Schema.Features, s.task.Targets(), leaves)
	v.Design, v.Approximation = s.Design, p.G.Native
	l := s.task.Likelihood(s.given, ordered)
	v.SharedGate.Proportions = model.Permuted(proportions, order)
	for j := range v.Outputs {
		v.Outputs[j].Baselines = baselinesOf(s.task.Problems[j].Facts)
	}
	v.SharedGate.Fit = s.summary(found, l.Dim())
	if err := checkedVector(ctx, v, s.task.Problems, s.given, l, ordered); err != nil {
		return nil, err
	}
	if s.Unjudged {
		v.SharedGate.Fit.Certificate = nil
		return v, nil
	}
	held, err := boundNote(ctx, l, ordered)
	if err != nil {
		return nil, err
	}
	if held != "" {
		v.SharedGate.Fit.Notes = append(v.SharedGate.Fit.Notes, held)
	}
	if v.SharedGate.Fit.Starts, err = starts(ctx, p, nil, found.All); err != nil {
		return nil, err
	}
	of := &infinity{p: p, groups: best.Groups.Relabel(best.Vector.Coordinate(0), order)}
	if v.SharedGate.Fit.Separation, err = s.separations(ctx, of.groups, ordered); err != nil {
		return nil, err
	}
	if of.groups == nil && v.SharedGate.Fit.Converged {
		if of.ends, err = infer.EndlessOf(ctx, l, ordered); err != nil {
			return nil, err
		}
		v.SharedGate.Fit.Endless = of.shownEnds().Names(p.Schema.Features)
	}
	if err := s.uncertainty(ctx, v, l, ordered, best, of); err != nil {
		return nil, err
	}
	m := v.Model(0)
	m.Fit = *v.SharedGate.Fit
	if err := warn.OfGate(ctx, m, l, ordered); err != nil {
		return nil, err
	}
	*v.SharedGate.Fit = m.Fit
	return v, compare(v, truths)
}

// each converts the mixture of every target by the units of its problem; the noise stays.
func each(v *model.VectorParams, problems []*problem.Problem,
	convert func(*problem.Units, *model.Params) *model.Params) *model.VectorParams {
	j := -1
	return v.Each(func(q *model.Params) *model.Params {
		j++
		return convert(problems[j].Units, q)
	}, nil)
}

// separations states the boundaries between groups of the experts of params, in the user's columns.
func (s *vector) separations(ctx context.Context, groups *separation.Groups,
	params *model.VectorParams) ([]fitted.Separation, error) {
	if groups == nil {
		return nil, nil
	}
	p := s.task.Problems[0]
	seen := loss.NewVectorRows(p.G, params, p.Shape.Free())
	boundaries, err := separation.BoundariesOf(ctx, s.task.Rows, p.Shape.GateFeatures(),
		func(ctx context.Context, fn func(*model.Block, func(i int) []float64)) error {
			return model.InOrder(ctx, s.task.Rows, func(b *model.Block) error {
				if err := seen.Observe(ctx, b); err != nil {
					return err
				}
				fn(b, seen.Posterior)
				return nil
			})
		}, params.OfGate(), groups)
	return inColumns(p, boundaries), err
}

// summary says how the parameters were found.
func (s *vector) summary(found *search.Found, parameters int) *fitted.Fit {
	p, best := s.task.Problems[0], found.Best
	loglik, q, n := -best.Run.Value*p.Weights.Total, float64(parameters), p.Weights.Total
	if best.Whole != nil {
		loglik = -*best.Whole * p.Weights.Total
	}
	f := &fitted.Fit{
		Method: s.Method, Seed: p.Seed, N: p.N(), Dropped: p.Dropped, Weight: p.Weights.Reported(),
		WeightColumn:  p.Schema.Roles[model.Weights],
		LogLikelihood: loglik, BIC: q*math.Log(n) - 2*loglik, AIC: 2*q - 2*loglik,
		Converged: best.Run.Status == optim.Converged, Status: best.Run.Status.String(),
		Iterations:  best.Run.Iterations,
		Certificate: fitted.NewCertificate(found.Certificate), Notes: []string{}, Survey: surveyOf(found.Survey),
	}
	adviseStarts(f.Certificate, found.Certificate, s.Starts)
	warn.OfWeights(f, p)
	for _, p := range s.task.Problems {
		for _, note := range p.Notes {
			if !slices.Contains(f.Notes, note) {
				f.Notes = append(f.Notes, note)
			}
		}
	}
	if p.G.Note != "" {
		f.Notes = append(f.Notes, p.G.Note)
	}
	f.Notes = append(f.Notes, found.Notes...)
	if best.Degenerate {
		f.Converged, f.Status = false, Shrunk
	}
	met := search.Count(found.All, func(c *search.Candidate) bool { return c.Agrees })
	if found.Survey != nil {
		met += found.Survey.Met
	}
	if met < 2 && len(found.All) > 1 && p.Shape.K > 1 {
		f.Warn(fitted.WarnStarts, "no other start reached the best optimum: a better one may exist")
	}
	return f
}

// uncertainty adds standard errors at the parameters, in the units of the fit and with the
// model's order of experts, or a note why there are none.
func (s *vector) uncertainty(ctx context.Context, v *fitted.Vector, l *loss.Vector, params *model.VectorParams,
	best *search.Candidate, of *infinity) error {
	p, fit := s.task.Problems[0], v.SharedGate.Fit
	if best.Degenerate {
		fit.Notes = append(fit.Notes, "no standard errors: an expert collapsed onto a few rows")
		return nil
	}
	covariance := func(kind infer.Kind) (*infer.Covariance, error) {
		c, err := infer.EstimateVector(ctx, l, params, kind, p.Kinks(), of.leads, of.ends)
		if err == nil {
			of.left(c)
		}
		return c, err
	}
	c, err := covariance(s.kind(p))
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		fit.Notes = append(fit.Notes, "no standard errors: "+none.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	s.noteErrors(v, c, l, params, of)
	warnClusters(fit, p, len(c.Parameters))
	if slices.Contains(s.Errors, infer.Dependent) {
		dependent, err := covariance(infer.Dependent)
		if err != nil { // the information has been inverted
			return err
		}
		s.noteDependence(v, dependent, l, params, of)
	}
	return nil
}

// standardErrors are those of a covariance as files state them, for every target, and those of the correlations or of
// a family's own parameters.
func (s *vector) standardErrors(c *infer.Covariance, l *loss.Vector, params *model.VectorParams,
	of *infinity) (targets []*fitted.StandardErrors, correlations [][][]float64, own fitted.Own) {
	se := writeErrors(params.Like(), c, l, params, of)
	for j := range se.M {
		one := se.Coordinate(j)
		for level, n := range se.Noise {
			one.Sigma[level] = n.Scale[j]
		}
		out := fitted.NewStandardErrors(string(c.Kind), one, true)
		out.Clusters = clusters(c, s.task.Problems[0])
		targets = append(targets, out)
	}
	if params.Family != "" {
		own = fitted.OwnOfSeveral(params, func(level int) []float64 { return se.Noise[level].Own })
	}
	for _, n := range se.Noise {
		if !s.task.Full {
			break
		}
		matrix := mat.NewSymDense(params.M, nil)
		for l, v := range n.Lower {
			a, b := model.LowerAt(l)
			matrix.SetSym(a, b, v)
		}
		correlations = append(correlations, rowsOf(matrix))
	}
	return targets, correlations, own
}

// noteDependence writes the standard errors for rows that follow each other to the model.
func (s *vector) noteDependence(v *fitted.Vector, c *infer.Covariance, l *loss.Vector, params *model.VectorParams,
	of *infinity) {
	var se []*fitted.StandardErrors
	se, v.SharedGate.CorrelationHACErrors, v.SharedGate.OwnHACErrors = s.standardErrors(c, l, params, of)
	for j := range v.Outputs {
		v.Outputs[j].HAC = dependence(c, se[j])
	}
}

// noteErrors writes the standard errors of a covariance to the model.
func (s *vector) noteErrors(v *fitted.Vector, c *infer.Covariance, l *loss.Vector, params *model.VectorParams,
	of *infinity) {
	p, sg := s.task.Problems[0], v.SharedGate
	expert, _ := p.Shape.Free().Columns(params.Coordinate(0))
	var se []*fitted.StandardErrors
	se, sg.CorrelationErrors, sg.OwnErrors = s.standardErrors(c, l, params, of)
	for j, out := range se {
		levels := v.Outputs[j].Sigma
		if params.Family != "" {
			levels = nil // what is corrected is normal noise
		}
		for i, sigma := range levels {
			rows, coefficients := p.Weights.Total, float64(len(expert))
			if len(levels) > 1 {
				rows *= sg.Proportions[i]
			} else {
				coefficients *= float64(params.K)
			}
			out.SigmaCorrected = append(out.SigmaCorrected, infer.NoiseCorrected(sigma, rows, coefficients))
			lower, upper := infer.NoiseInterval(sigma, out.Sigma[i], 0.95, rows, coefficients)
			out.SigmaInterval = append(out.SigmaInterval, []float64{lower, upper})
		}
		v.Outputs[j].StandardErrors = out
	}
	if n := len(c.Parameters); n > mostCovariance {
		sg.Fit.Notes = append(sg.Fit.Notes,
			fmt.Sprintf("the covariance of %d parameters is left out of the model file, which has that of up to %d; "+
				"their standard errors are there", n, mostCovariance))
		return
	}
	sg.Covariance = &fitted.Covariance{Parameters: c.Names(v.Features, s.task.Targets()...), Matrix: rowsOf(c.Matrix)}
}

// compare measures every target against its truth.
func compare(v *fitted.Vector, truths []*model.Params) error {
	for j, truth := range truths {
		if truth == nil {
			continue
		}
		m := v.Model(j)
		r, err := known.Compare(m.Params(), truth, m.Leaves...)
		if err != nil {
			return &problem.RequestError{Msg: err.Error()}
		}
		v.Outputs[j].Truth = &r
	}
	return nil
}
