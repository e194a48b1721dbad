// Package warn says what is doubtful of a fit: experts of which there may be too many, a gate that rests on a few rows,
// and a target that the activation does not reach or that normal noise cannot have.
package warn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/explore"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/vacancy"
)

// Add adds to m, the model of a fit to p, what is doubtful of it: q are its parameters in the units of the fit with the
// model's order of experts, l the likelihood of all of them, and maximum says whether q is a maximum of it. The doubts
// are those of the number of its experts, nil where nobody has asked for them.
func Add(ctx context.Context, m *fitted.Model, p *problem.Problem, l *loss.Likelihood, q *model.Params, maximum bool,
	doubts []search.Doubt) error {
	if maximum && m.K > 1 {
		if err := tooMany(ctx, m, p, q, doubts); err != nil {
			return err
		}
	}
	if err := OfGate(ctx, m, l, q); err != nil {
		return err
	}
	if err := ofRange(ctx, m, p); err != nil {
		return err
	}
	if p.Collinear != "" {
		m.Fit.Warn(fitted.WarnCollinear, "%s", p.Collinear)
	}
	if err := ofRepeated(ctx, m, p); err != nil {
		return err
	}
	return ofTarget(m, p)
}

// OfWeights warns of weights that do not look like counts of rows.
func OfWeights(f *fitted.Fit, p *problem.Problem) {
	if w := p.Weights; w.Doubt {
		f.Warn(fitted.WarnWeights, "%s", infer.Uncounted(w.Rows, w.Total))
	}
}

// tooMany warns of experts that suggest a k too large, by the doubts of it; nil to ask for them. It takes the standard
// errors from those that may be one.
func tooMany(ctx context.Context, m *fitted.Model, p *problem.Problem, q *model.Params,
	doubts []search.Doubt) (err error) {
	if doubts == nil {
		if doubts, err = vacancy.Doubts(ctx, p, q, m.Proportions); err != nil {
			return err
		}
	}
	columns, _ := p.Shape.Estimated().Columns(q)
	for _, d := range doubts {
		said := ""
		switch i := d.Experts; d.By {
		case search.FewRows:
			said = fmt.Sprintf("expert %d has %.0f rows for %d coefficients%s", i[0]+1, d.Size, len(columns),
				offer(m, p, q, d.AsOne, i))
		case search.NearlyEqual:
			over, twins := "", ""
			if p.Grouped() {
				over = " over the rows of a group"
			}
			if twinLeaves(q, i[0], i[1]) {
				twins = ": they are twin leaves, and have no gate to estimate between them"
			}
			said = fmt.Sprintf("experts %d and %d are nearly equal, their means %.2g sigma apart%s%s%s", i[0]+1, i[1]+1,
				d.Size, over, twins, offer(m, p, q, d.AsOne, i))
		default:
			why := ""
			switch len(i) {
			case 0:
				i = d.AsOne.Experts[:]
			case 1:
				why = fmt.Sprintf("the data hardly ask for expert %d", i[0]+1)
			case 2:
				why = fmt.Sprintf("the data hardly ask for experts %d and %d", i[0]+1, i[1]+1)
			}
			said = strings.TrimPrefix(why+offer(m, p, q, d.AsOne, i), "; ")
		}
		m.Fit.Warn(fitted.WarnTooMany, "k may be too large: %s", said)
	}
	return nil
}

// offer adds what two experts are as one to the model, and says it; "" where it has been said. Where that is better by
// BIC, or was not tried, the experts in doubt have no standard errors.
func offer(m *fitted.Model, p *problem.Problem, q *model.Params, as *search.Merge, doubted []int) string {
	if as == nil {
		withoutErrors(m, q, doubted, p.Shape.Tied)
		return "; " + without(doubted)
	}
	best := fitted.Merge{Experts: [2]int{as.Experts[0] + 1, as.Experts[1] + 1}, LogLikelihood: as.LogLikelihood,
		BIC: as.BIC}
	if slices.ContainsFunc(m.Fit.Merges, func(o fitted.Merge) bool { return o.Experts == best.Experts }) {
		return ""
	}
	m.Fit.Merges = append(m.Fit.Merges, best)
	said := fmt.Sprintf("; experts %d and %d as one: log-likelihood %+.3g, BIC ", best.Experts[0], best.Experts[1],
		best.LogLikelihood)
	if best.BIC > 0 {
		return said + fmt.Sprintf("worse by %.3g", best.BIC)
	}
	withoutErrors(m, q, doubted, p.Shape.Tied)
	return said + fmt.Sprintf("better by %.3g, and %s", -best.BIC, without(doubted))
}

// without says that experts in doubt have no standard errors.
func without(doubted []int) string {
	if len(doubted) == 1 {
		return fmt.Sprintf("expert %d has no standard errors", doubted[0]+1)
	}
	return "the two have no standard errors"
}

// withoutErrors takes their standard errors from experts and from the gates that tell them from each other, or one
// from all.
func withoutErrors(m *fitted.Model, q *model.Params, experts, shared []int) {
	gates := GatesOf(q, experts)
	m.StandardErrors.Without(experts, gates, shared)
	if m.HAC != nil {
		m.HAC.StandardErrors.Without(experts, gates, shared)
	}
	if m.Penalised != nil {
		m.Penalised.StandardErrors.Without(experts, gates, shared)
	}
}

// GatesOf are the rows of the gates of q that tell two experts from each other, or one from all.
func GatesOf(q *model.Params, experts []int) (gates []int) {
	for _, g := range q.GateNodes() {
		branch := func(i int) int {
			return slices.IndexFunc(g.Ends, func(end int) bool { return g.From <= i && i < end })
		}
		at := make([]int, len(experts))
		for e, i := range experts {
			at[e] = branch(i)
		}
		if slices.Contains(at, -1) || len(at) > 1 && at[0] == at[1] {
			continue // they are not told apart here
		}
		last := slices.Contains(at, len(g.Ends)-1) // to which the others are relative
		for c := range len(g.Ends) - 1 {
			if last || slices.Contains(at, c) {
				gates = append(gates, g.Row(c))
			}
		}
	}
	return gates
}

const (
	// leastInDoubt is the number of rows in doubt between two experts, and leastOfBlind the share of those that a gate
	// which knows nothing would leave, below both of which a gate nearly separates them.
	leastInDoubt = 1
	leastOfBlind = 0.05
)

// sharing says what of the rows two experts share, Σ p_i·p_j, under parameters P.
type sharing[P any] interface {
	Shared(ctx context.Context, p P) ([]float64, error)
}

// OfGate warns of one gate, of parameters q, that has a finite optimum and hardly a row in doubt between two groups
// of experts: its coefficients are large, and rest on these rows. It says too what of it is infinite.
func OfGate[P any](ctx context.Context, m *fitted.Model, l sharing[P], q P) error {
	if names := m.Fit.Endless; len(names) > 0 {
		const most = 6
		move, infinite, more := "move", "they are", ""
		if len(names) == 1 {
			move, infinite = "moves", "it is"
		}
		if n := len(names) - most; n > 0 {
			names, more = names[:most], fmt.Sprintf(" and %d more", n)
		}
		m.Fit.Warn(fitted.WarnGate, "the gate is certain of every row that %s%s %s, as where an expert has no row of "+
			"a factor's level: %s infinite at the maximum of the likelihood", strings.Join(names, ", "), more,
			move, infinite)
	}
	k, shares := m.Classes(), slices.Clone(m.Proportions)
	if k == 1 || m.Hierarchy != "" || len(m.Fit.Separation) > 0 {
		return nil
	}
	shared, err := l.Shared(ctx, q)
	if err != nil {
		return err
	}
	rows := float64(m.Fit.N)
	if m.Fit.Weight > 0 {
		rows = m.Fit.Weight
	}
	if m.ZeroExpert {
		shares = append(shares, m.ZeroProportion())
	}
	groups, doubt := make([]int, k), 0.0
	for i := range groups {
		groups[i] = i
	}
	for i := range k {
		for j := i + 1; j < k; j++ {
			s := shared[i*k+j]
			doubt += s
			if s < leastInDoubt && s < leastOfBlind*rows*shares[i]*shares[j] {
				continue
			}
			from, to := groups[i], groups[j]
			for e, g := range groups {
				if g == from {
					groups[e] = to
				}
			}
		}
	}
	if slices.ContainsFunc(groups, func(g int) bool { return g != groups[0] }) {
		m.Fit.Warn(fitted.WarnGate, "the gate nearly separates the rows of some experts from those of others: in all "+
			"%.2g of the %d are in doubt between two experts, and its coefficients rest on those", doubt, m.Fit.N)
	}
	return nil
}

// twinLeaves says whether experts i and j are leaves of one gate of a tree.
func twinLeaves(p *model.Params, i, j int) bool {
	leafOf := func(g model.GateNode, i int) bool {
		c := slices.Index(g.Ends, i+1)
		if c < 0 {
			return false
		}
		from, to := g.Branch(c)
		return to == from+1
	}
	return p.Tree.Depth() > 1 && slices.ContainsFunc(p.Tree.Gates(),
		func(g model.GateNode) bool { return leafOf(g, i) && leafOf(g, j) })
}

// ofTarget warns of a target of two classes, of few values, and of many rows at one value: experts may sit on
// these.
func ofTarget(m *fitted.Model, p *problem.Problem) error {
	if p.Link != nil || m.K == 1 {
		return nil
	}
	a, b, two, err := p.TwoValues()
	if err != nil {
		return err
	}
	if two {
		m.Fit.Warn(fitted.WarnTarget, "the target takes two values, %g and %g, which two experts fit exactly "+
			"whatever the gate: noise about them is not normal, and a model of two classes is wanted",
			p.Schema.Scale.Back(a), p.Schema.Scale.Back(b))
		return nil
	}
	switch c := p.Facts.Values; {
	case c.Has(explore.FewValues):
		m.Fit.Warn(fitted.WarnTarget, "the target takes %d values only, and an expert may sit on one of them, as "+
			"normal noise cannot: --k 1 models its mean", *c.Distinct)
	case c.Has(explore.Massed):
		m.Fit.Warn(fitted.WarnTarget, "%.1f %% of the targets are %s, and an expert may sit there: fit the rows of "+
			"other targets apart", 100*float64(c.Common.Rows)/float64(p.N()), c.Common.Value)
	}
	return nil
}

// ofRange warns where g does not reach much of the target: where more than a twentieth
// of the rows lie outside its range, and what they leave is no noise about the fitted
// means, since its mean is not 0, or rises with them.
func ofRange(ctx context.Context, m *fitted.Model, p *problem.Problem) error {
	if p.Shape.Output != nil || p.Leaves != nil || p.Link != nil {
		return nil
	}
	lo, hi, err := problem.Range(ctx, p.G)
	if err != nil || math.IsInf(lo, 0) && math.IsInf(hi, 0) {
		return err
	}
	r, err := residualsOf(ctx, m, p, lo, hi)
	const most = 0.05 // of the rows outside the range
	if err != nil || float64(r.outside) <= most*float64(p.N()) || !r.offScale(!math.IsInf(hi-lo, 0)) {
		return err
	}
	reaches := fmt.Sprintf("goes from %.4g to %.4g", lo, hi)
	switch {
	case math.IsInf(lo, 0):
		reaches = fmt.Sprintf("is at most %.4g", hi)
	case math.IsInf(hi, 0):
		reaches = fmt.Sprintf("is at least %.4g", lo)
	}
	m.Fit.Warn(fitted.WarnRange, "%s %s, and %d of %d targets, which go from %.4g to %.4g, lie beyond: "+
		"--output-scale shared fits c + s*%s in its place",
		m.Activation.Name, reaches, r.outside, p.N(), r.least, r.most, m.Activation.Name)
	return nil
}

// residuals are sums over the rows of y, of the fitted mean, and of what is left.
type residuals struct {
	n, y, yy          float64
	mean, means, left float64 // Σ m, Σ m², Σ (y − m)
	lefts, both       float64 // Σ (y − m)², Σ m·(y − m)
	least, most       float64 // of y
	outside           int     // of y outside the range of g
}

func residualsOf(ctx context.Context, m *fitted.Model, p *problem.Problem, lo, hi float64) (residuals, error) {
	r := residuals{least: math.Inf(1), most: math.Inf(-1)}
	predictor := predict.NewPredictor(p.Units.Into(m.Params()), p.G, p.Schema.Name)
	return r, model.InOrder(ctx, p.Given, func(b *model.Block) error {
		prediction, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		for t, y := range b.Y {
			mean := prediction.Mean[t]
			e := y - mean
			r.n, r.y, r.yy = r.n+1, r.y+y, r.yy+y*y
			r.mean, r.means, r.left = r.mean+mean, r.means+mean*mean, r.left+e
			r.lefts, r.both = r.lefts+e*e, r.both+mean*e
			r.least, r.most = min(r.least, y), max(r.most, y)
			if y < lo || y > hi {
				r.outside++
			}
		}
		return nil
	})
}

// offScale says whether the residuals' mean is more than a quarter of the target's
// standard deviation, or, of a bounded g, the slope of the target on the fitted mean is
// more than 1.5, where it is 1 at the truth; both by more than five standard errors.
func (r residuals) offScale(bounded bool) bool {
	const errors, share, steeper = 5, 0.25, 0.5
	left, mean := r.left/r.n, r.mean/r.n
	sd := math.Sqrt(max(0, r.lefts/r.n-left*left))
	ySD := math.Sqrt(max(0, r.yy/r.n-(r.y/r.n)*(r.y/r.n)))
	if math.Abs(left) > max(share*ySD, errors*sd/math.Sqrt(r.n)) {
		return true
	}
	spread := math.Sqrt(max(0, r.means/r.n-mean*mean))
	slope := (r.both/r.n - mean*left) / (spread * spread)
	return bounded && slope > max(steeper, errors*sd/(spread*math.Sqrt(r.n)))
}
