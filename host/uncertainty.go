package host

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/problem"
)

// mostCovariance is the most parameters whose full covariance goes into the
// model file.
const mostCovariance = 300

// uncertainty adds to the model the standard errors and the covariance of the
// best of the outcome, whose experts the model has in the given order, or a note
// why there are none.
func uncertainty(ctx context.Context, m *fitted.Model, p *problem.Problem, out *outcome, order []int, robust bool) error {
	note := func(why string) {
		m.Fit.Notes = append(m.Fit.Notes, "no standard errors: "+why)
	}
	switch {
	case !out.joint:
		note("method " + m.Fit.Method + " does not maximise the likelihood over the regressors")
		return nil
	case out.best.Degenerate:
		note("an expert collapsed onto a few rows")
		return nil
	}
	free := p.Shape.Estimated()
	q := out.best.Params.Relabel(order)
	kind := infer.Observed
	if robust {
		kind = infer.Robust
	}
	l := loss.NewLikelihood(p.Given, p.G, q, free, p.Threads)
	c, err := infer.Estimate(ctx, l, q, kind, p.Activation.Info().Kinks)
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		note(none.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	if u := p.Units; u != nil {
		c.Convert(u.Mean, u.SD)
	}
	m.SetErrors(string(kind), c.Errors(q), free.Sigma)
	if free.Sigma {
		noiseIntervals(p, m, c.Parameters)
	}
	if n := len(c.Parameters); n > mostCovariance {
		m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("the covariance of %d parameters is left out of the model file, which has that of up to %d; their standard errors are there", n, mostCovariance))
		return nil
	}
	m.Covariance = &fitted.Covariance{Parameters: c.Names(p.Schema.Features), Matrix: rowsOf(c.Matrix)}
	return nil
}

// noiseIntervals adds to the model the corrected estimate and the 95 % interval of
// every noise level; no intervals if one has no end.
func noiseIntervals(p *problem.Problem, m *fitted.Model, parameters []loss.Parameter) {
	s := m.StandardErrors
	for i, sigma := range m.Sigma {
		rows, coefficients := p.Weights.Total, 0.0
		if len(m.Sigma) > 1 {
			rows *= m.Proportions[i]
		}
		for _, q := range parameters {
			if q.Part == loss.Expert && (len(m.Sigma) == 1 || q.Index == i) {
				coefficients++
			}
		}
		s.SigmaCorrected = append(s.SigmaCorrected, infer.NoiseCorrected(sigma, rows, coefficients))
		lower, upper := infer.NoiseInterval(sigma, s.Sigma[i], 0.95, rows, coefficients)
		s.SigmaInterval = append(s.SigmaInterval, []float64{lower, upper})
	}
	for _, interval := range s.SigmaInterval {
		if math.IsInf(interval[1], 0) {
			s.SigmaInterval = nil
		}
	}
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
