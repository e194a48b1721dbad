package result

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/leaveoneout"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/numeric"
)

const (
	// A row is left out by a fit to the others where the Newton step to it says that its log-likelihood changes, or the
	// square of the distance that the parameters move, in standard errors, is above mostByStep. There are mostRefits
	// such fits at most, taken for refitPasses Hessians each, and refitWork bounds their multiplications.
	mostByStep  = 0.3
	mostRefits  = 64
	refitPasses = 10
	refitWork   = 1 << 31
	// leftOutWork bounds the multiplications of the Newton steps, but for leastLeftOut rows; mostLeftOut is the most
	// rows that are looked at.
	leftOutWork  = 1 << 31
	leastLeftOut = 1 << 12
	mostLeftOut  = 1 << 14
)

// NewRows adds to the model of a fit to p what leaving out each row comes to, and warns where it is not what so many
// parameters explain.
func NewRows(ctx context.Context, p *problem.Problem, m *fitted.Model, s Settings) error {
	left, err := leaveOneOut(ctx, p, m, s)
	if err != nil {
		return err
	}
	switch {
	case left == nil:
	case m.Penalised != nil:
		m.Penalised.LeaveOneOut = left
	default:
		m.Fit.LeaveOneOut = left
	}
	warnOfGap(m)
	return nil
}

// leaveOneOut returns the log-likelihood of the rows, each under the model for new rows of a fit to the others. It is
// nil where the information does not determine the parameters, or a gate of the maximum is certain of rows' experts.
func leaveOneOut(ctx context.Context, p *problem.Problem, m *fitted.Model, s Settings) (*fitted.LeaveOneOut, error) {
	view := m.ForNewRows()
	if view.StandardErrors == nil || s.Beside || m.Penalised == nil && len(m.Fit.Separation)+len(m.Fit.Endless) > 0 {
		return nil, nil
	}
	at := &optimum{infinity: infinity{p: p}, params: p.Shape.Adopt(p.Units.Into(view.Params()))}
	at.l = loss.NewLikelihood(p.Given, p.G, at.params, p.Shape.Estimated(), p.Threads)
	loglik := m.Fit.LogLikelihood
	if s := m.Penalised; s != nil {
		penaliseBy(at.l, m)
		loglik = s.LogLikelihood
	}
	c, err := at.covariance(ctx, infer.Observed)
	if none := (*infer.NoneError)(nil); errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	size := float64(at.l.Dim() * at.l.Dim())
	part := at.l.Part(min(mostLeftOut, max(leastLeftOut, int(leftOutWork/size))))
	left, err := c.LeaveOneOut(ctx, part, at.params, p.Kinks())
	if left == nil || err != nil {
		return nil, err
	}
	out := &fitted.LeaveOneOut{Parameters: len(c.Parameters)}
	for _, same := range at.l.Ties() {
		out.Parameters -= len(same) - 1
	}
	if p.Weights.Given {
		// A row of weight w that is left out whole takes w copies off, and w times what one moves the parameters by: so
		// that of its w log-likelihoods each is lower by w times what it is of one copy.
		out.Explained = float64(out.Parameters) * p.Weights.Typical
	}
	if part != at.l {
		out.Rows = part.N()
	} else {
		most := min(mostRefits, refitWork/(refitPasses*size*float64(p.N())))
		if out.Refitted, err = at.refit(ctx, left, int(most)); err != nil {
			return nil, err
		}
	}
	out.Gap = floats.Sum(left.Terms) * at.l.Rows() / part.Rows()
	out.LogLikelihood = loglik - out.Gap
	if !numeric.Finite(out.LogLikelihood) {
		return nil, nil
	}
	return out, nil
}

// refit fits the others from o without each row on which much rests, those of most influence first, puts what that says
// in the place of the step, and returns how many these are.
func (o *optimum) refit(ctx context.Context, left *leaveoneout.Rows, most int) (refitted int, err error) {
	influence := func(t int) float64 {
		if v := max(math.Abs(left.Terms[t]), left.Moves[t]); !left.Lost[t] && !math.IsNaN(v) {
			return v
		}
		return math.Inf(1)
	}
	var rows []int
	for t := range left.Terms {
		if influence(t) > mostByStep {
			rows = append(rows, t)
		}
	}
	all, err := o.l.LogLikelihood(ctx, o.params)
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(influence(b), influence(a)) })
	for _, t := range rows[:min(len(rows), most)] {
		without, err := o.l.Without(t)
		if err != nil {
			return 0, err
		}
		run, err := optim.Newton(ctx, without.Exact(o.p.Kinks()), without.Theta(o.params), optim.Settings{})
		if err != nil {
			return 0, err
		}
		if run.Status != optim.Converged {
			continue
		}
		rest, err := without.LogLikelihood(ctx, o.params)
		if err != nil {
			return 0, err
		}
		out, err := o.rowAt(ctx, without, without.Params(run.X))
		if err != nil {
			return 0, err
		}
		left.Terms[t] = (all - rest) - out
		refitted++
	}
	return refitted, nil
}

// rowAt is the log-likelihood at p of the row that others are without.
func (o *optimum) rowAt(ctx context.Context, others *loss.Likelihood, p *model.Params) (float64, error) {
	all, err := o.l.LogLikelihood(ctx, p)
	if err != nil {
		return 0, err
	}
	rest, err := others.LogLikelihood(ctx, p)
	return all - rest, err
}

const (
	// fewRows is the number of rows a parameter below which more than one expert is warned of.
	fewRows = 10
	// muchBetter is the leave-one-out log-likelihood by which one expert is better where that is said.
	muchBetter = 2
)

// FewRows warns of several experts of few rows a parameter, and says by how much one expert is better, if it is, where
// each row is left out; alone fits that of the problem it is given. A group tells the gate as much as one row does, so
// that groups count for the gate's parameters, and rows for all.
func FewRows(ctx context.Context, p *problem.Problem, m *fitted.Model, s Settings,
	alone func(context.Context, *problem.Problem) (*fitted.Model, error)) error {
	rows, of := p.Weights.Total/float64(p.Shape.Parameters()), "rows a parameter"
	if _, columns := p.Shape.Estimated().Columns(m.Params()); p.Grouped() && len(columns) > 0 {
		gate := len(columns) * model.Gates(p.Shape.Classes())
		if groups := p.Observations() / float64(gate); groups < rows {
			rows, of = groups, "groups a parameter of the gate"
		}
	}
	if m.K == 1 || !(rows < fewRows) || s.Beside || p.Weights.Doubt || m.Fit.Status == Shrunk {
		return nil
	}
	better, err := betterAlone(ctx, p, m, s, alone)
	if err != nil {
		return err
	}
	beside := ""
	if better > muchBetter {
		beside = fmt.Sprintf(", and k = 1 is better by %.1f where each row is left out", better)
	}
	m.Fit.Warn(fitted.WarnNewRows, "%.1f %s: BIC is unsafe here%s; moe crossvalidate, or --choose "+
		"heldout of a range of k, goes by rows that fits have not seen", rows, of, beside)
	return nil
}

// betterAlone is by how much the leave-one-out log-likelihood of one expert is above that of m; 0 where one is unknown.
func betterAlone(ctx context.Context, p *problem.Problem, m *fitted.Model, s Settings,
	alone func(context.Context, *problem.Problem) (*fitted.Model, error)) (float64, error) {
	if m.LeftOut() == nil || p.Leaves != nil || p.Shape.Tree.Depth() > 1 {
		return 0, nil
	}
	one := p.With(1)
	of, err := alone(ctx, one)
	if err != nil {
		return 0, err
	}
	left, err := leaveOneOut(ctx, one, of, s)
	if left == nil || err != nil {
		return 0, err
	}
	return left.LogLikelihood - m.LeftOut().LogLikelihood, nil
}

// gapFactor times the gap that is expected, by the number of parameters, is that from which on fits are warned of.
const gapFactor = 3

// warnOfGap warns where leaving out each row costs more than so many parameters explain.
func warnOfGap(m *fitted.Model) {
	if left := m.LeftOut(); left != nil && left.Gap > gapFactor*left.Expected() {
		m.Fit.Warn(fitted.WarnNewRows, "leaving out each row costs %.0f of log-likelihood, of which %d parameters "+
			"explain about %.0f: single rows carry much of the fit, or the noise is another than the model's",
			left.Gap, left.Parameters, left.Expected())
	}
}
