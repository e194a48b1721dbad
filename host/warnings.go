package host

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/problem"
)

const (
	// fewRowsPerCoefficient is the number of rows, for each of its coefficients,
	// below which an expert may be there for chance: a hyperplane through so few
	// can be found in noise.
	fewRowsPerCoefficient = 5
	// nearlyEqual is the distance of two experts' means, in units of σ, within
	// which their densities overlap by more than 80 %, and sameNoise the ratio of
	// noise levels up to which they count as the same.
	nearlyEqual = 0.5
	sameNoise   = 1.5
)

// warn adds a warning to the model.
func warn(m *fitted.Model, format string, args ...any) {
	m.Fit.Warnings = append(m.Fit.Warnings, fmt.Sprintf(format, args...))
}

// warnOfTooMany warns of experts that suggest a k too large: one of few rows, or
// two that are nearly the same.
func warnOfTooMany(ctx context.Context, m *fitted.Model, p *problem.Problem, out *outcome, order []int) error {
	if m.K == 1 || !out.joint || out.best.Degenerate {
		return nil
	}
	q := out.best.Params.Relabel(order)
	columns, _ := p.Shape.Estimated().Columns(q)
	for i, share := range m.Proportions {
		if rows := share * p.Weights.Total; rows < float64(fewRowsPerCoefficient*len(columns)) {
			warn(m, "k may be too large: expert %d has %.0f rows for %d coefficients", i+1, rows, len(columns))
		}
	}
	pairs, err := infer.Distances(ctx, p.Given, p.G, q, p.Threads)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		a, b := q.SigmaOf(pair.I), q.SigmaOf(pair.J)
		if pair.Distance < nearlyEqual && max(a, b) < sameNoise*min(a, b) {
			warn(m, "k may be too large: experts %d and %d are nearly equal, their means %.2g sigma apart", pair.I+1, pair.J+1, pair.Distance)
		}
	}
	return nil
}

// warnOfTwoValues warns of a target of two classes.
func warnOfTwoValues(m *fitted.Model, p *problem.Problem) error {
	a, b, two, err := p.TwoValues()
	if two && m.K > 1 {
		warn(m, "the target takes two values, %g and %g, which two experts fit exactly whatever the gate: noise about them is not normal, and a model of two classes is wanted", a, b)
	}
	return err
}

// warnOfEdge warns of a choice of k at an end of the range that was fitted.
func warnOfEdge(m *fitted.Model, from, to int) {
	switch {
	case from == to:
	case m.K == to:
		warn(m, "k = %d, the largest that was fitted, has the least BIC: a larger k may have less", m.K)
	case m.K == from && from > 1:
		warn(m, "k = %d, the smallest that was fitted, has the least BIC: a smaller k may have less", m.K)
	}
}
