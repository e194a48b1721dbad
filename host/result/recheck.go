package result

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/recheck"
	"github.com/gatedlearning/moe/host/search/climb"
)

// checked returns a [*recheck.Error] where the log-likelihood that a model states is not that
// of its parameters, as they are in its file. The passes of l had them as passes, with the
// experts in the model's order.
func checked(ctx context.Context, m *fitted.Model, p *problem.Problem, l *loss.Likelihood, passes *model.Params) error {
	of := func(q *model.Params) recheck.Mixture { return recheck.Under(q, problem.LawOf(q.Family)) }
	return recheck.Fit{
		Rows: p.Given, Act: p.G, Result: of(p.Units.Into(m.Params())), Passes: of(passes),
		LogLikelihood: m.Fit.LogLikelihood, Shift: shiftOf(p.Units), Targets: targetsOf(p),
		Workers: p.Threads, Grouped: p.Grouped(),
		Widened: func(ctx context.Context, times float64) (float64, error) {
			q := passes.Clone()
			floats.Scale(times, q.Sigma)
			return l.LogLikelihood(ctx, q)
		},
	}.Check(ctx)
}

// checkedVector is [checked] of several targets under one gate.
func checkedVector(ctx context.Context, v *fitted.Vector, problems []*problem.Problem, rows model.Rows, l *loss.Vector,
	passes *model.VectorParams) error {
	p, file := problems[0], v.VectorParams()
	result := each(file, problems, (*problem.Units).Into) // which leaves the noise
	of := func(q *model.VectorParams) recheck.Mixture {
		if q.Family == "" {
			return recheck.OfVector(q, nil)
		}
		noises := joint.NoisesOf(q)
		return recheck.OfVector(q, func(i int, y, mean []float64) float64 {
			return noises[min(i, len(noises)-1)].LogDensity(y, mean)
		})
	}
	return recheck.Fit{
		Rows: rows, Act: p.G, Result: of(result), Passes: of(passes),
		LogLikelihood: v.SharedGate.Fit.LogLikelihood, Shift: shiftOf(p.Units), Targets: targetsOf(problems...),
		Workers: p.Threads,
		Widened: func(ctx context.Context, times float64) (float64, error) {
			q := passes.Clone()
			for _, n := range q.Noise {
				floats.Scale(times, n.Scale)
			}
			return l.LogLikelihood(ctx, q)
		},
	}.Check(ctx)
}

// loosened is by how much the bound on the gate's logits is loosened to see what it costs, and
// mostHeldBack what it may cost without a word.
const (
	loosened     = 1000
	mostHeldBack = 1e-6
)

// bounded is a likelihood L of parameters P with a bound on its gate's logits.
type bounded[L, P any] interface {
	climb.Likelihood
	Theta(p P) []float64
	AtBound(p P) bool
	Loosened(times float64) L
}

// boundNote says how much of the log-likelihood the bound on the gate's logits costs at the best; "" where
// that is next to nothing. Both climbs go on from the same point, the one within the bound as well as
// the other: what either gains beside is no cost.
func boundNote[L bounded[L, P], P any](ctx context.Context, within L, best P) (string, error) {
	if !within.AtBound(best) {
		return "", nil
	}
	theta := within.Theta(best)
	tight, err := climb.Climb(ctx, within, theta, nil)
	if err != nil {
		return "", err
	}
	loose, err := climb.Climb(ctx, within.Loosened(loosened), theta, nil)
	if err != nil {
		return "", err
	}
	cost := (tight.Value - loose.Value) * within.Rows()
	if !(cost > mostHeldBack) {
		return "", nil
	}
	return fmt.Sprintf("the gate is held where the rounding of its logits stays below 1e-6: with logits %d times as "+
		"large the log-likelihood is %.3g higher", loosened, cost), nil
}

// targetsOf is what was taken off the target of every problem.
func targetsOf(problems ...*problem.Problem) (out []float64) {
	for _, p := range problems {
		out = append(out, p.Taken())
	}
	return out
}

// shiftOf is how many of its units the mean of every feature is; nil where the units are the
// user's.
func shiftOf(u *problem.Units) []float64 {
	if u == nil {
		return nil
	}
	out := make([]float64, len(u.SD))
	for j, sd := range u.SD {
		out[j] = math.Abs(u.Mean[j]) / sd
	}
	return out
}
