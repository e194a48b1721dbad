package host

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
)

// remedyRows is about how many rows of the data another density is tried on.
const remedyRows = 1 << 13

// mostLeft is the share of the excess of the worst test that those of the residuals' spread may still have under
// another density where that is named: of many rows something fails under any.
const mostLeft = .05

// tryWider tries whether what the tests of m see is the density: where that of the residuals fails by most, and a
// mixture of as many experts under the wider density ([mixture.Wider]), climbed to from m's parameters, is better by
// BIC and its residuals pass, or have at most [mostLeft] of what they had, that density stands first among what is
// suggested, and is what to try.
func tryWider(ctx context.Context, p *problem.Problem, m *fitted.Model, cfg Config) error {
	c, law := m.Fit.Certificate, p.Shape.Density()
	wider, worst := mixture.Wider(law), worstOfSpread(c)
	if wider == nil || !widens(p, cfg) || worst == 0 {
		return nil
	}
	as := *p
	as.Shape.Family = wider.Name()
	rows := model.Part(p.Rows, remedyRows)
	narrow := p.Units.Into(m.Params())
	start := as.Shape.Adopt(narrow)
	before := loss.NewLikelihood(rows, p.G, narrow, p.Shape.Estimated(), p.Threads)
	value, err := before.Value(ctx, before.Theta(narrow))
	if err != nil {
		return err
	}
	after := loss.NewLikelihood(rows, p.G, start, as.Shape.Estimated(), p.Threads)
	run, err := search.Climb(ctx, after, after.Theta(start), nil)
	if err != nil {
		return err
	}
	n, more := after.Rows(), float64(as.Shape.Parameters()-p.Shape.Parameters())
	if !(n*(value-run.Value) > more/2*math.Log(n)) {
		return nil
	}
	tested, err := infer.Tests(ctx, rows, p.G, after.Params(run.X), as.Shape.Estimated(), p.Seed, p.Threads)
	if many := (*infer.TooManyError)(nil); errors.As(err, &many) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, t := range tested.Tests {
		left := (t.Statistic - float64(t.DF)) * float64(p.N()) / float64(after.N())
		if infer.OfSpread(t.Name) && t.PValue < infer.Level && left > mostLeft*worst {
			return nil
		}
	}
	others := slices.DeleteFunc(strings.Split(c.Cause, infer.OrCause), func(cause string) bool {
		return cause == infer.ShapeCause(law) // whichever it is
	})
	c.Cause = strings.Join(slices.Insert(others, 0, infer.WiderCause(law)), infer.OrCause)
	c.Try = "--family " + wider.Name()
	return nil
}

// widens says whether the fit could have been one of another density.
func widens(p *problem.Problem, cfg Config) bool {
	return Takes(cfg.Method, OptFamily) && p.Shape.Sigma == 0 && p.Shape.Output == nil && p.Shape.Tree.Depth() <= 1 &&
		p.Leaves == nil && p.Schema.Scale == "" && !cfg.Arrangements
}

// worstOfSpread is how far the worst test is above its mean under the model, if it fails and is of the spread of the
// residuals; 0 else.
func worstOfSpread(c *fitted.Certificate) float64 {
	if c == nil || c.Model != infer.Suspect || len(c.Tests) == 0 {
		return 0
	}
	excess := func(t fitted.CertificateTest) float64 { return t.Statistic - float64(t.DF) }
	worst := slices.MaxFunc(c.Tests, func(a, b fitted.CertificateTest) int { return cmp.Compare(excess(a), excess(b)) })
	if worst.Verdict != infer.Suspect || !infer.OfSpread(worst.Name) {
		return 0
	}
	return excess(worst)
}
