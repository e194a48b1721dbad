package result

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/advice"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result/warn"
	"github.com/gatedlearning/moe/host/search"
)

// Shrunk is the status of a fit that is none.
const Shrunk = "degenerate: an expert shrank onto a few rows; use a smaller k or shared noise"

// Model writes down what a method came to on p, in the user's units and with the largest expert first.
func Model(ctx context.Context, p *problem.Problem, e *moment.Evidence, out *Outcome,
	s Settings) (*fitted.Model, error) {
	out = out.upright(p.Shape.Output)
	best := out.Best
	l := loss.NewLikelihood(p.Given, p.G, best.Params, p.Shape.Free(), p.Threads)
	proportions, order, err := search.ByProportion(ctx, p, p.Given, best.Params)
	if err != nil {
		return nil, err
	}
	activation, leaves, err := described(ctx, p)
	if err != nil {
		return nil, err
	}
	m := &fitted.Model{
		Design:      s.Design,
		Activation:  activation,
		Leaves:      leaves,
		Features:    p.Schema.Features,
		Target:      p.Schema.Target,
		Proportions: model.Permuted(proportions, order),

		Approximation: p.G.Native,
	}
	m.SetParams(p.Units.OutOf(best.Params).Relabel(order))
	m.Shared = s.Tied
	m.Roles = dataset.Roles(p.Schema.Roles).OfLaw()
	m.TargetScale = p.Schema.Scale
	m.Fit = summary(p, e, out, s)
	warn.OfWeights(&m.Fit, p)
	if p.Facts == nil { // of sums
		if p.Facts, err = problem.Look(ctx, p, nil); err != nil {
			return nil, err
		}
	}
	m.Fit.RowsDigest = p.Facts.Digest
	if m.Groups, err = groupsOf(ctx, p, l, best.Params.Relabel(order)); err != nil {
		return nil, err
	}
	m.Format = m.FormatOf()
	m.Baselines = baselinesOf(p.Facts)
	if err := checked(ctx, m, p, l, best.Params.Relabel(order)); err != nil {
		return nil, err
	}
	estimated := loss.NewLikelihood(p.Given, p.G, best.Params, p.Shape.Estimated(), p.Threads)
	held, err := boundNote(ctx, estimated, best.Params)
	if err != nil {
		return nil, err
	}
	if held != "" {
		m.Fit.Notes = append(m.Fit.Notes, held)
	}
	if p.Shape.Sigma == 0 && p.Shape.Normal() && l.AtFloor(best.Params) {
		note, err := floorNote(p, best.Params)
		if err != nil {
			return nil, err
		}
		m.Fit.Notes = append(m.Fit.Notes, note)
	}
	m.Fit.Notes = append(m.Fit.Notes, endNotes(p, l, best.Params)...)
	if n := search.Count(out.All, func(c *search.Candidate) bool { return c.Degenerate }); n > 0 {
		m.Fit.Notes = append(m.Fit.Notes,
			fmt.Sprintf("%d of %d starts were degenerate and were set aside: an expert had collapsed onto a few rows",
				n, len(out.All)))
	}
	if best.Degenerate {
		m.Fit.Converged, m.Fit.Status = false, Shrunk
	}
	if !m.Fit.Converged && p.Shape.Density().Domain().Whole && !p.Grouped() {
		if m.Fit.Status, err = unending(ctx, p, best.Params.Relabel(order), m.Fit.Status); err != nil {
			return nil, err
		}
	}
	if m.Fit.Starts, err = starts(ctx, p, l, out.All); err != nil {
		return nil, err
	}
	if m.Fit.Separation, err = separations(ctx, p, best, order); err != nil {
		return nil, err
	}
	var at *optimum // of a maximum of the joint likelihood
	if out.Joint && m.Fit.Converged {
		if at, err = optimumOf(p, best, best.Params.Relabel(order), order).withEnds(ctx); err != nil {
			return nil, err
		}
		m.Fit.Endless = at.shownEnds().Names(p.Schema.Features)
	}
	if err := uncertainty(ctx, m, p, out, at, s); err != nil {
		return nil, err
	}
	if s.Unjudged {
		m.Fit.Certificate = nil
		return m, nil
	}
	if err := arrangements(ctx, m, p, out, order, s); err != nil {
		return nil, err
	}
	if c := m.Fit.Certificate; c != nil && at != nil {
		if c.Gain, err = gainBound(ctx, p, best.Params); err != nil {
			return nil, err
		}
	}
	advice.Add(m, out.Certificate)
	adviseStarts(m.Fit.Certificate, out.Certificate, s.Starts)
	maximum := out.Joint && !best.Degenerate
	if err := warn.Add(ctx, m, p, l, best.Params.Relabel(order), maximum, out.Doubts); err != nil {
		return nil, err
	}
	if s.Beside {
		beside(m, p, out)
	}
	if s.Truth != nil {
		r, err := known.Compare(m.Params(), s.Truth, m.Leaves...)
		if err != nil {
			return nil, &problem.RequestError{Msg: err.Error()}
		}
		m.Truth = &r
	}
	return m, nil
}

// certain is the log-likelihood that an expert may yet gain for it to be said that its coefficients grow for ever.
const certain = 0.01

// unending is why a fit to whole numbers at q has not converged, if not for the reason given: an expert says for
// certain which targets its rows have, by coefficients that grow for ever, and gains next to nothing by it. Of the law
// of whole numbers log f ≤ 0, so that with the others as they are it can gain no more than −Σ w·r·log f.
func unending(ctx context.Context, p *problem.Problem, q *model.Params, reason string) (string, error) {
	left := make([]float64, q.K)
	predictor := predict.NewPredictor(q, p.G, p.Schema.Name)
	err := model.InOrder(ctx, p.Given, func(b *model.Block) error {
		at, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		for i := range left {
			for r := range b.N {
				if post := at.Posterior[i*b.N+r]; post > 0 {
					left[i] -= b.Weight(r) * post * (math.Log(post/at.Gate[i*b.N+r]) + at.LogDens[r])
				}
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	var who []string
	for i, v := range left {
		if v < certain {
			who = append(who, fmt.Sprintf("expert %d", i+1))
		}
	}
	switch len(who) {
	case 0:
		return reason, nil
	case 1:
		return who[0] + " is certain of its rows: its coefficients grow for ever", nil
	}
	return strings.Join(who, " and ") + " are certain of their rows: their coefficients grow for ever", nil
}

// baselinesOf is how files state the simpler models of the rows; nil where there is not even a mean.
func baselinesOf(f *problem.Facts) *fitted.Baselines {
	if f.Mean == nil {
		return nil
	}
	out := &fitted.Baselines{Mean: fitted.Baseline(*f.Mean)}
	if f.Linear != nil {
		line := fitted.Baseline(*f.Linear)
		out.Linear = &line
	}
	return out
}

// floorNote says what a noise level at its floor means.
func floorNote(p *problem.Problem, q *model.Params) (string, error) {
	const floor = "sigma stands at its floor, 1e-8 of the target's spread: "
	far, err := p.Outlier()
	if far != nil && !infer.Exact(q, far.Others) {
		return fmt.Sprintf("%sthat is row %d alone", floor, far.Row), err
	}
	return floor + "the experts fit their rows to the last digits, and the likelihood of such data has no maximum", err
}

// endNotes say which own parameters of a density stand at an end of what they may be.
func endNotes(p *problem.Problem, l *loss.Likelihood, q *model.Params) (notes []string) {
	d := p.Shape.Density()
	for _, at := range l.Parameters() {
		if l.AtEnd(q, at) {
			note := fmt.Sprintf(
				"%s stands at %.4g, an end of what the family %s lets it be, and has no standard error",
				d.Own()[at.Own].Name, *at.In(q), d.Name())
			if p.Shape.Least > 0 && at.Own == 0 {
				note = fmt.Sprintf("sigma of an expert stands at its floor of %g, and has no standard error: the "+
					"log-likelihood is higher the lower the floor is", p.Shape.Least)
			}
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// described is how files name the activation of all experts, [stated.Mixed] where they
// have their own, and those.
func described(ctx context.Context, p *problem.Problem) (act stated.Activation, leaves []stated.Activation, err error) {
	if p.Leaves == nil {
		act, err = stated.Describe(ctx, p.Activation)
		return act, nil, err
	}
	for _, g := range p.Leaves {
		leaf, err := stated.Describe(ctx, g)
		if err != nil {
			return act, nil, err
		}
		leaves = append(leaves, leaf)
	}
	return stated.Activation{Name: stated.Mixed, Params: map[string]float64{}}, leaves, nil
}

// summary says how the parameters were found.
func summary(p *problem.Problem, e *moment.Evidence, out *Outcome, s Settings) fitted.Fit {
	best := out.Best
	loglik, q, n := -best.Run.Value*p.Weights.Total, float64(p.Shape.Parameters()), p.Observations()
	f := fitted.Fit{
		Method:        s.Method,
		Seed:          s.Seed,
		N:             p.N(),
		SigmaGiven:    p.Shape.Sigma > 0,
		OwnGiven:      p.Shape.OwnGiven(),
		SigmaFloor:    p.Shape.Least,
		Dropped:       p.Dropped,
		LogLikelihood: loglik,
		Weight:        p.Weights.Reported(),
		WeightColumn:  p.Schema.Roles[model.Weights],
		BIC:           q*math.Log(n) - 2*loglik,
		AIC:           2*q - 2*loglik,
		Converged:     best.Run.Status == optim.Converged,
		Status:        best.Run.Status.String(),
		Iterations:    best.Run.Iterations,
		Descent:       descentOf(out.Descended, out.Radius),
		Survey:        surveyOf(out.Survey),
		Begun:         begunOf(out.Begun),
		Steps:         stepsOf(best.Gains),
		Certificate:   fitted.NewCertificate(out.Certificate),
		Notes:         slices.Concat(p.Notes, e.Notes),
	}
	if e.Optimal != nil {
		f.Transform = moment.Optimal.Name()
	}
	if f.InputComponents = e.Components(); f.InputComponents > 0 {
		f.Inputs = moment.MixtureInputs.Name()
	}
	if p.G.Note != "" {
		f.Notes = append(f.Notes, p.G.Note)
	}
	f.Notes = append(f.Notes, out.Notes...)
	if est := out.Estimate; est != nil {
		f.MomentsEstimate = &fitted.MomentsEstimate{Proportions: est.Proportions}
		params := p.Units.OutOf(est.Params)
		for i := range params.K {
			f.MomentsEstimate.Regressors = append(f.MomentsEstimate.Regressors, params.Regressor(i))
		}
	}
	return f
}

// surveyOf is how files state a survey; nil for nil.
func surveyOf(s *search.Survey) *fitted.Survey {
	if s == nil {
		return nil
	}
	return &fitted.Survey{Starts: s.Starts, Kinds: s.Kinds, Moves: s.Moves, Optima: s.Optima, Met: s.Met,
		Singles: s.Singles, Unseen: s.Unseen()}
}

// begunOf is how files state what a best came of; nil for nil.
func begunOf(b *search.Begun) *fitted.Begun {
	if b == nil {
		return nil
	}
	return &fitted.Begun{K: b.From, By: b.By, Gain: b.Gain}
}

// stepsOf is how files state what steps have gained; nil for none.
func stepsOf(gains []search.Gain) (out []fitted.Step) {
	for _, g := range gains {
		out = append(out, fitted.Step{Name: g.Step, Gain: g.LogLikelihood})
	}
	return out
}

// descentOf is how files state a descent; nil for nil.
func descentOf(r *descent.Record, radius float64) *fitted.Descent {
	if r == nil {
		return nil
	}
	return &fitted.Descent{
		Loss: r.Loss, Optimiser: r.Optimiser, Batch: r.Batch, StepSize: r.StepSize, Schedule: r.Schedule.Name(),
		Epochs: r.Epochs, Steps: r.Steps, Made: r.Made, Value: finiteOrNil(&r.Value),
		Mu: r.Mu, Lambda: r.Lambda, Ridge: r.Ridge, Radius: radius, Penalty: r.Penalty,
	}
}

// starts states every candidate with its likelihood on all rows, best first: by
// likelihood, or by the loss where a method minimises another.
func starts(ctx context.Context, p *problem.Problem, l *loss.Likelihood,
	all []*search.Candidate) ([]fitted.Start, error) {
	out := make([]fitted.Start, 0, len(all))
	for _, c := range all {
		loglik := -c.Run.Value * p.Weights.Total
		if c.Failed() {
			loglik = math.NaN()
		} else if c.Whole != nil {
			loglik = -*c.Whole * p.Weights.Total
		} else if c.Rows != p.N() || c.Ridge > 0 {
			var err error
			if loglik, err = l.LogLikelihood(ctx, c.Params); err != nil {
				return nil, err
			}
		}
		trace := c.Run.Trace
		if c.Ridge > 0 && c.Rows == p.N() { // which the path has, and what it ends at has not
			trace = append(slices.Clip(trace), -loglik/p.Weights.Total)
		}
		out = append(out, fitted.Start{
			Kind: c.Kind, LogLikelihood: loglik, Converged: c.Run.Status == optim.Converged,
			Status: c.Run.Status.String(), Agrees: c.Agrees, Rows: c.Rows, Path: path(trace),
			Loss: finiteOrNil(c.Loss),
		})
	}
	if all[0].Loss == nil {
		slices.SortStableFunc(out, func(a, b fitted.Start) int { return cmp.Compare(b.LogLikelihood, a.LogLikelihood) })
	}
	return out, nil
}

func finiteOrNil(v *float64) *float64 {
	if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
		return nil
	}
	return v
}

// path is the mean log-likelihood at the start and after every iteration, to six
// decimals, which is what a picture shows of it.
func path(trace []float64) []float64 {
	out := make([]float64, 0, len(trace))
	for _, v := range trace {
		if v = -math.Round(v*1e6) / 1e6; !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}
