// Package remedy tries whether what a certificate's tests see is another law of the target than was fitted: a wider
// density, or counts of which some are always 0.
package remedy

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
)

// remedyRows is about how many rows of the data another density is tried on.
const remedyRows = 1 << 13

// mostLeft is the share of the excess of the worst test that those of the residuals' spread may still have under
// another density where that is named: of many rows something fails under any.
const mostLeft = .05

// remedy is another law of the target that a fit may be tried under.
type remedy struct {
	shape      problem.Shape
	start      *model.Params // where a climb begins, in the units of the fit
	cause, try string
	worst      float64                // how far the worst test of those that judge it is above its mean under the model
	judges     func(test string) bool // whether a test does
}

// Try tries whether what the tests of m, a fit to p, see is the law of the target: the wider density ([mixture.Wider]),
// where that of the residuals fails by most, and of counts a zero expert. A mixture of as many experts under the other
// law, climbed to from m's parameters, that is better by BIC and passes its tests, or has at most [mostLeft] of what
// they had, stands first among what is suggested, and is what to try; of several the one of the least BIC.
func Try(ctx context.Context, p *problem.Problem, m *fitted.Model) error {
	c, law := m.Fit.Certificate, p.Shape.Density()
	all := remedies(p, m)
	if len(all) == 0 {
		return nil
	}
	rows, narrow := model.Part(p.Given, remedyRows), p.Units.Into(m.Params())
	before := loss.NewLikelihood(rows, p.G, narrow, p.Shape.Estimated(), p.Threads)
	value, err := before.Value(ctx, before.Theta(narrow))
	if err != nil {
		return err
	}
	var better []tried
	for _, r := range all {
		to, err := r.climb(ctx, p, rows, value)
		if err != nil {
			return err
		}
		if to.gain > 0 {
			better = append(better, to)
		}
	}
	slices.SortStableFunc(better, func(a, b tried) int { return cmp.Compare(b.gain, a.gain) })
	for _, r := range better {
		if passes, err := r.passes(ctx, p, rows); err != nil {
			return err
		} else if passes {
			r.suggest(c, law)
			return nil
		}
	}
	return nil
}

// suggest puts the remedy first among what is suggested by the verdict on a fit under the law.
func (r remedy) suggest(c *fitted.Certificate, law mixture.Density) {
	others := slices.DeleteFunc(strings.Split(c.Cause, infer.OrCause), func(cause string) bool {
		return cause == infer.ShapeCause(law) // whichever it is
	})
	c.Cause = strings.Join(slices.Insert(others, 0, r.cause), infer.OrCause)
	c.Try = r.try
}

// remedies are those that a suspect model may be tried under.
func remedies(p *problem.Problem, m *fitted.Model) (out []remedy) {
	if !widens(p) {
		return nil
	}
	law, narrow := p.Shape.Density(), p.Units.Into(m.Params())
	if wider, worst := mixture.Wider(law), worstOfSpread(m.Fit.Certificate); wider != nil && worst != 0 {
		shape := p.Shape
		shape.Family = wider.Name()
		out = append(out, remedy{shape, shape.Adopt(narrow), infer.WiderCause(law), "--family " + wider.Name(), worst,
			infer.OfSpread})
	}
	if worst := worstOf(m.Fit.Certificate); mixture.Counts(law) && !p.Shape.Zero && !p.Grouped() && worst != nil {
		shape := p.Shape
		shape.Zero = true
		out = append(out, remedy{shape, besideZero(shape, narrow), infer.ZeroCause(law), "--zero-expert",
			excessOf(*worst), func(string) bool { return true }})
	}
	return out
}

// besideZero returns q with a zero expert, of a probability that is small where the gate has intercepts.
func besideZero(shape problem.Shape, q *model.Params) *model.Params {
	const rare = -2.0 // the log of its odds against the last expert
	out := shape.Adopt(q)
	copy(out.Gating, q.Gating)
	copy(out.GatingIntercepts, q.GatingIntercepts)
	for i := range out.GatingIntercepts {
		out.GatingIntercepts[i] -= rare
	}
	return out
}

// tried is a remedy with the fit under it of some rows.
type tried struct {
	remedy
	gain float64 // by how much half the BIC falls on them
	rows float64 // their weight
	with *model.Params
}

// climb fits some rows under the remedy, beside a fit whose mean negative log-likelihood of them is value.
func (r remedy) climb(ctx context.Context, p *problem.Problem, rows model.Rows, value float64) (tried, error) {
	after := loss.NewLikelihood(rows, p.G, r.start, r.shape.Estimated(), p.Threads)
	run, err := climb.Climb(ctx, after, after.Theta(r.start), nil)
	if err != nil {
		return tried{}, err
	}
	n, more := after.Rows(), float64(r.shape.Parameters()-p.Shape.Parameters())
	return tried{r, n*(value-run.Value) - more/2*math.Log(n), n, after.Params(run.X)}, nil
}

// passes says whether the tests that judge the remedy pass the rows, or fail by little beside those of the fit.
func (r tried) passes(ctx context.Context, p *problem.Problem, rows model.Rows) (bool, error) {
	tested, err := specification.Tests(ctx, rows, p.G, r.with, r.shape.Estimated(), p.Seed, p.Threads)
	if many := (*specification.TooManyError)(nil); errors.As(err, &many) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, t := range tested.Tests {
		left := (t.Statistic - float64(t.DF)) * p.Weights.Total / r.rows
		if r.judges(t.Name) && t.PValue < infer.Level && left > mostLeft*r.worst {
			return false, nil
		}
	}
	return true, nil
}

// widens says whether the fit could have been one of another density.
func widens(p *problem.Problem) bool {
	return p.Shape.Sigma == 0 && p.Shape.Output == nil && p.Shape.Tree.Depth() <= 1 && p.Leaves == nil &&
		p.Schema.Scale == ""
}

// worstOfSpread is how far the worst test is above its mean under the model, if it fails and is of the spread of the
// residuals; 0 else.
func worstOfSpread(c *fitted.Certificate) float64 {
	worst := worstOf(c)
	if worst == nil || !infer.OfSpread(worst.Name) {
		return 0
	}
	return excessOf(*worst)
}

// worstOf is the worst test of a model that is suspect, nil where it passes.
func worstOf(c *fitted.Certificate) *fitted.CertificateTest {
	if c == nil || c.Model != infer.Suspect || len(c.Tests) == 0 {
		return nil
	}
	worst := slices.MaxFunc(c.Tests, func(a, b fitted.CertificateTest) int {
		return cmp.Compare(excessOf(a), excessOf(b))
	})
	if worst.Verdict != infer.Suspect {
		return nil
	}
	return &worst
}

// excessOf is how far a test is above its mean under the model.
func excessOf(t fitted.CertificateTest) float64 { return t.Statistic - float64(t.DF) }
