package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// NoiseCovariance says whether the noise of a row's targets may be correlated.
type NoiseCovariance = fitted.NoiseCovariance

// The kinds of noise of several targets.
const (
	Diagonal = fitted.Diagonal
	Full     = fitted.Full
)

// FitSharedGate fits several targets, which share their features, a mixture under one gate
// (002 Eq. 4 with the gate shared): every expert has regressors for every target,
//
//	y | z=i, x ~ N((g(⟨a_i1,x⟩), …, g(⟨a_iM,x⟩)), Σ)
//
// with Σ diagonal or full, of all experts or of each as cfg.Noise has it. Where the targets
// have starts or truths all have, with one gate. The method is [Auto]. Errors are those of
// [Fit].
func FitSharedGate(ctx context.Context, act sdk.Activation, targets []Target, noise NoiseCovariance,
	cfg Config) (*fitted.Vector, error) {
	if len(targets) == 0 {
		return nil, refuse("there are no targets")
	}
	if err := firstError(checkSharedGate(cfg, noise), cfg.onlyNormal("a fit of several targets"),
		cfg.untied("a gate of several targets")); err != nil {
		return nil, err
	}
	for _, t := range targets {
		if t.Source.Schema().Roles[model.Clusters] != "" {
			return nil, refuse("standard errors by clusters are for targets with gates of their own")
		}
	}
	s := &sharedGate{cfg: cfg, targets: targets, noise: noise}
	defer s.close()
	if err := s.load(ctx, act); err != nil {
		return nil, err
	}
	asked, err := s.resume(ctx)
	if err != nil {
		return nil, err
	}
	defer asked.leave(ctx)
	if err := possibleVector(ctx, s.task); err != nil {
		return nil, err
	}
	found, err := search.Vector(ctx, s.task)
	if err != nil {
		return nil, err
	}
	v, err := s.write(ctx, found)
	if err != nil {
		return nil, err
	}
	for _, g := range s.problems[0].Activations() {
		if err := claims.Recheck(ctx, g); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// resume readies the search to go on from a checkpoint, if there is one, and to write the next.
func (s *sharedGate) resume(ctx context.Context) (request, error) {
	p := s.problems[0]
	cfg, err := s.cfg.checked()
	if err != nil {
		return request{}, err
	}
	asked, err := cfg.requested(ctx, p)
	if err != nil {
		return asked, err
	}
	asked.data = sync.OnceValues(func() (string, error) { return hash(s.task.Rows, p.Threads) })
	asked.more = map[string]any{"target": s.names(), "noise covariance": s.noise, "start": s.task.Own}
	asked.parameters = s.task.Parameters()
	r, err := cfg.started(ctx, p, asked)
	if s.task.Resume = r.resume; r.checkpoint != nil {
		s.task.Checkpoint = func(at search.State) { r.checkpoint(p, at) }
	}
	return asked, err
}

// checkSharedGate refuses what a fit under one gate has no use for.
func checkSharedGate(c Config, noise NoiseCovariance) error {
	switch {
	case noise != Diagonal && noise != Full:
		return refuse("noise covariance = %q; there are %s, %s", noise, Diagonal, Full)
	case c.Method != nil && !Takes(c.Method, OptSharedGate):
		return refuse("method %s: targets under one gate are fitted by method %s", c.Method.Name(),
			strings.Join(Taking(OptSharedGate), ", "))
	case c.Output != "":
		return refuse("output scale %s is for one target", c.Output)
	case c.Arrangements:
		return refuse("arrangements are those of targets with gates of their own")
	case c.wants(Dependent):
		return refuse("standard errors of dependent rows are for targets with gates of their own")
	}
	if c.Noise != nil {
		for _, known := range []Noise{Shared{}, PerExpert{}} {
			if c.Noise == known {
				return nil
			}
		}
		return refuse("sigma is estimated, and has no floor, where targets share a gate")
	}
	return nil
}

// sharedGate is a fit of several targets under one gate.
type sharedGate struct {
	cfg      Config
	targets  []Target
	noise    NoiseCovariance
	problems []*problem.Problem
	given    model.Rows // with the weights as they were given
	task     *search.VectorTask
}

func (s *sharedGate) close() {
	for _, p := range s.problems {
		p.Close()
	}
}

// load reads the targets' tables side by side.
func (s *sharedGate) load(ctx context.Context, act sdk.Activation) error {
	task := &search.VectorTask{Full: s.noise == Full}
	var rows, given []model.Rows
	for _, t := range s.targets {
		if err := ofItself("each of several targets", t.Source.Schema()); err != nil {
			return err
		}
		one := forTarget(s.cfg, t)
		cfg, p, err := load(ctx, act, t.Source, one)
		if err != nil {
			return err
		}
		s.problems = append(s.problems, p)
		if err := s.sameRows(p); err != nil {
			return err
		}
		evidence, err := moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial})
		if err != nil {
			return err
		}
		task.Evidence = append(task.Evidence, evidence)
		task.Starts = cfg.Method.(Auto).starts()
		rows, given = append(rows, p.Rows), append(given, p.Given)
	}
	task.Problems, task.Rows, s.given = s.problems, model.Beside(rows), model.Beside(given)
	own, err := s.joined(func(t Target) *model.Params { return t.Start }, "start")
	if err != nil {
		return err
	}
	task.Own = own
	task.Screening, task.Refining = s.shows(StageScreening), s.shows(StageRefining)
	s.task = task
	if n, q := s.problems[0].Weights.Rows, task.Parameters(); q >= n*len(s.targets) {
		return &dataset.Error{File: s.problems[0].Schema.Name,
			Msg: fmt.Sprintf("%d rows cannot determine the %d parameters of k = %d experts with %d targets; use more "+
				"rows, fewer features or a smaller k", n, q, s.problems[0].Shape.K, len(s.targets))}
	}
	return nil
}

func (s *sharedGate) shows(stage Stage) func(done, total int) {
	return func(done, total int) { s.cfg.show(stage, done, total) }
}

// sameRows refuses a table that has not the features and rows of the first.
func (s *sharedGate) sameRows(p *problem.Problem) error {
	first := s.problems[0]
	if first == p {
		return nil
	}
	other := refuse("the rows with all cells are others for target %s than for %s: leave out those without a target "+
		"beforehand, and name the references of factors", p.Schema.Target, first.Schema.Target)
	if !slices.Equal(p.Schema.Features, first.Schema.Features) {
		return other
	}
	if same, err := model.SameFeatures(first.Rows, p.Rows); same || err != nil {
		return err
	}
	return other
}

// joined are the parameters that every target has, as one mixture; nil where they have none.
func (s *sharedGate) joined(of func(Target) *model.Params, what string) (*model.VectorParams, error) {
	var coordinates []*model.Params
	for _, t := range s.targets {
		if p := of(t); p != nil {
			coordinates = append(coordinates, p)
		}
	}
	if len(coordinates) == 0 {
		return nil, nil
	}
	first, shape := coordinates[0], s.problems[0].Shape
	if len(coordinates) < len(s.targets) {
		return nil, refuse("%d of %d targets have a %s", len(coordinates), len(s.targets), what)
	}
	for _, p := range coordinates {
		if p.K != shape.K || p.D != shape.D {
			return nil, refuse("the %s has k = %d and d = %d, the fit k = %d and d = %d", what, p.K, p.D, shape.K,
				shape.D)
		}
		if !slices.Equal(p.Gating, first.Gating) || !slices.Equal(p.GatingIntercepts, first.GatingIntercepts) {
			return nil, refuse("the targets of the %s have gates of their own", what)
		}
		if len(p.Sigma) != len(first.Sigma) || (p.RegressorIntercepts == nil) != (first.RegressorIntercepts == nil) {
			return nil, refuse("the targets of the %s have another shape each", what)
		}
	}
	noise := make([]model.VectorNoise, len(first.Sigma))
	for i := range noise {
		noise[i] = model.NewVectorNoise(len(coordinates), false)
		for c, p := range coordinates {
			noise[i].Scale[c] = p.Sigma[i]
		}
	}
	return model.JoinCoordinates(coordinates, noise), nil
}

// write writes down what the search came to, in the user's units and with the largest expert
// first.
func (s *sharedGate) write(ctx context.Context, found *search.VectorFound) (*fitted.Vector, error) {
	p, best := s.problems[0], found.Best
	proportions, order, err := search.ByProportion(ctx, p, p.Given, best.Vector.Coordinate(0))
	if err != nil {
		return nil, err
	}
	ordered := best.Vector.Each(func(q *model.Params) *model.Params { return q.Relabel(order) }, order)
	params := ordered.Each(p.Units.OutOf, nil)
	activation, leaves, err := described(ctx, p)
	if err != nil {
		return nil, err
	}
	if leaves == nil {
		leaves = slices.Repeat([]fitted.Activation{activation}, p.Shape.K)
	}
	v := fitted.NewSharedGate(params, p.Schema.Features, s.names(), leaves)
	v.Design, v.Approximation = s.cfg.Design, p.G.Native
	l := s.task.Likelihood(s.given, ordered)
	v.SharedGate.Proportions = permuted(proportions, order)
	for j := range v.Outputs {
		v.Outputs[j].Baselines = baselinesOf(s.problems[j].Facts)
	}
	v.SharedGate.Fit = s.summary(found, l.Dim())
	if err := checkedVector(ctx, v, p, s.given, l, ordered); err != nil {
		return nil, err
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
	if err := s.uncertainty(ctx, v, l, ordered, best); err != nil {
		return nil, err
	}
	return v, s.compare(v)
}

func (s *sharedGate) names() (out []string) {
	for _, p := range s.problems {
		out = append(out, p.Schema.Target)
	}
	return out
}

// summary says how the parameters were found.
func (s *sharedGate) summary(found *search.VectorFound, parameters int) *fitted.Fit {
	p, best := s.problems[0], found.Best
	loglik, q, n := -best.Run.Value*p.Weights.Total, float64(parameters), p.Weights.Total
	if best.Whole != nil {
		loglik = -*best.Whole * p.Weights.Total
	}
	f := &fitted.Fit{
		Method: Auto{}.Name(), Seed: p.Seed, N: p.N(), Dropped: p.Dropped, Weight: p.Weights.Reported(),
		LogLikelihood: loglik, BIC: q*math.Log(n) - 2*loglik, AIC: 2*q - 2*loglik,
		Converged: best.Run.Status == optim.Converged, Status: best.Run.Status.String(),
		Iterations:  best.Run.Iterations,
		Certificate: fitted.NewCertificate(found.Certificate), Notes: []string{},
	}
	adviseStarts(f.Certificate, found.Certificate, s.cfg.Method)
	for _, p := range s.problems {
		for _, note := range p.Notes {
			if !slices.Contains(f.Notes, note) {
				f.Notes = append(f.Notes, note)
			}
		}
	}
	if p.G.Note != "" {
		f.Notes = append(f.Notes, p.G.Note)
	}
	if found.Note != "" {
		f.Notes = append(f.Notes, found.Note)
	}
	if best.Degenerate {
		f.Converged, f.Status = false, shrunk
	}
	if best.Ridge > 0 {
		f.Warn(fitted.WarnGate, "the gate separates the rows of some experts from those of others, and its "+
			"coefficients have no finite optimum: they are those under a ridge of %.3g, which costs less than 0.01 "+
			"of the log-likelihood", best.Ridge)
	}
	agrees := func(c *search.Candidate) bool { return c.Agrees }
	if search.Count(found.All, agrees) < 2 && len(found.All) > 1 && p.Shape.K > 1 {
		f.Warn(fitted.WarnStarts, "no other start reached the best optimum: a better one may exist")
	}
	return f
}

// uncertainty adds standard errors at the parameters, in the units of the fit and with the
// model's order of experts, or a note why there are none.
func (s *sharedGate) uncertainty(ctx context.Context, v *fitted.Vector, l *loss.Vector, params *model.VectorParams,
	best *search.Candidate) error {
	p, fit := s.problems[0], v.SharedGate.Fit
	switch {
	case best.Degenerate:
		fit.Notes = append(fit.Notes, "no standard errors: an expert collapsed onto a few rows")
		return nil
	case best.Ridge > 0:
		fit.Notes = append(fit.Notes, "no standard errors: the gate separates")
		return nil
	case !l.Dense() || l.Dim() > infer.MaxParameters:
		fit.Notes = append(fit.Notes, fmt.Sprintf("no standard errors: %d parameters are too many to invert their "+
			"information", l.Dim()))
		return nil
	}
	h, score := mat.NewSymDense(l.Dim(), nil), make([]float64, l.Dim())
	if err := l.Information(ctx, h, score, params, p.Kinks()); err != nil {
		return err
	}
	var products *mat.SymDense
	if s.cfg.wants(Robust) {
		products = mat.NewSymDense(l.Dim(), nil)
		if err := l.ScoreProducts(ctx, products, params); err != nil {
			return err
		}
	}
	c, err := infer.VectorCovariance(h, products, score, l.Parameters(), params, l.Rows(), p.Kinks())
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		fit.Notes = append(fit.Notes, "no standard errors: "+none.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	if u := p.Units; u != nil {
		c.Convert(u.Mean, u.SD)
	}
	s.noteErrors(v, c, params)
	for _, row := range v.Outputs[0].StandardErrors.Gating {
		for j, se := range row {
			if p.Units != nil {
				se *= p.Units.SD[j]
			}
			if se > mostGateError {
				fit.Warn(fitted.WarnGate, "the gate nearly separates the rows of some experts from those of others: "+
					"the data say little of its coefficients")
				return nil
			}
		}
	}
	return nil
}

// mostGateError is the standard error of a gate's coefficient, of a feature of unit
// variance, from which on odds of e to that power are as likely as their inverse.
const mostGateError = 100

// noteErrors writes the standard errors of a covariance to the model.
func (s *sharedGate) noteErrors(v *fitted.Vector, c *infer.Covariance, params *model.VectorParams) {
	p, m := s.problems[0], params.M
	sg := v.SharedGate
	expert, _ := p.Shape.Free().Columns(params.Coordinate(0))
	var se []*model.Params
	for j := range m {
		se = append(se, params.Coordinate(j).Like())
	}
	correlations := make([][][]float64, len(params.Noise))
	for i := range correlations {
		correlations[i] = rowsOf(mat.NewSymDense(m, nil))
	}
	infer.VectorErrors(c, se, correlations)
	for j := range m {
		out := fitted.NewStandardErrors(string(c.Kind), se[j], true)
		for i, sigma := range v.Outputs[j].Sigma {
			rows, coefficients := p.Weights.Total, float64(len(expert))
			if len(v.Outputs[j].Sigma) > 1 {
				rows *= sg.Proportions[i]
			} else {
				coefficients *= float64(params.K)
			}
			out.SigmaCorrected = append(out.SigmaCorrected, infer.NoiseCorrected(sigma, rows, coefficients))
			lower, upper := infer.NoiseInterval(sigma, se[j].Sigma[i], 0.95, rows, coefficients)
			out.SigmaInterval = append(out.SigmaInterval, []float64{lower, upper})
		}
		v.Outputs[j].StandardErrors = out
	}
	if s.noise == Full {
		sg.CorrelationErrors = correlations
	}
	if n := len(c.Parameters); n > mostCovariance {
		sg.Fit.Notes = append(sg.Fit.Notes,
			fmt.Sprintf("the covariance of %d parameters is left out of the model file, which has that of up to %d; "+
				"their standard errors are there", n, mostCovariance))
		return
	}
	sg.Covariance = &fitted.Covariance{Parameters: infer.VectorNames(c, v.Features, s.names(), len(params.Noise)),
		Matrix: rowsOf(c.Matrix)}
}

// compare measures every target against its truth.
func (s *sharedGate) compare(v *fitted.Vector) error {
	for j, t := range s.targets {
		if t.Truth == nil {
			continue
		}
		m := v.Model(j)
		r, err := fitted.Compare(m.Params(), t.Truth, m.Leaves...)
		if err != nil {
			return refuse("%v", err)
		}
		v.Outputs[j].Truth = &r
	}
	return nil
}
