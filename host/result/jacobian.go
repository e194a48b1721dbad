package result

import (
	"context"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
)

// OfTarget returns m, a fit of h(y), with the likelihoods of y: the log of the density of y is that of h(y) plus log
// |h′(y)|. What is compared on the way, and what a checkpoint has, is of h(y).
func OfTarget(ctx context.Context, p *problem.Problem, m *fitted.Model) (*fitted.Model, error) {
	if m.TargetScale == "" {
		return m, nil
	}
	jacobian, outside, err := besides(ctx, p, m)
	if err != nil {
		return nil, err
	}
	out := *m
	f := &out.Fit
	of := f.LogLikelihood
	f.LogLikelihoodTransformed, f.ProbabilityOutside = &of, outside
	f.LogLikelihood += jacobian
	f.LeaveOneOut = f.LeaveOneOut.Shifted(jacobian)
	f.BIC, f.AIC = f.BIC-2*jacobian, f.AIC-2*jacobian
	f.Starts, f.Selection = slices.Clone(f.Starts), slices.Clone(f.Selection)
	for i := range f.Starts {
		f.Starts[i].LogLikelihood += jacobian
	}
	for i := range f.Selection {
		c := &f.Selection[i]
		c.LogLikelihood += jacobian
		c.BIC, c.AIC, c.ICL = c.BIC-2*jacobian, c.AIC-2*jacobian, c.ICL-2*jacobian
	}
	if s := m.Penalised; s != nil {
		out.Penalised = s.Shifted(jacobian)
	}
	if a := m.Arrangements; a != nil {
		shifted := *a
		shifted.Others = slices.Clone(a.Others)
		for i := range shifted.Others {
			shifted.Others[i].LogLikelihood += jacobian
		}
		out.Arrangements = &shifted
	}
	return &out, nil
}

// besides are Σ w·log |h′(y)| over the rows, and the mean probability that the noise gives to values which h(y) does
// not take.
func besides(ctx context.Context, p *problem.Problem, m *fitted.Model) (jacobian, outside float64, err error) {
	q := p.Units.Into(m.Params())
	predictor := predict.NewPredictor(q, p.G, p.Schema.Name)
	at, weight := mixture.NewDistribution(mixture.Mixture{}, q), 0.0
	err = model.InOrder(ctx, p.Given, func(b *model.Block) error {
		pred, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		for r, v := range p.Units.Targets(b.Y) {
			w := b.Weight(r)
			weight += w
			jacobian += w * m.TargetScale.LogSlope(v)
			if m.TargetScale.Bounded() {
				for i := range q.K {
					at.P[i], at.Mean[i] = pred.Gate[i*b.N+r], pred.Experts[i*b.N+r]
				}
				outside += w * at.CDF(-p.Taken())
			}
		}
		return nil
	})
	return jacobian, outside / weight, err
}
