package problem

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Normal says whether the noise is normal: what is written out for that alone asks.
func (s Shape) Normal() bool { return mixture.Normal(s.Density()) }

// Density is the law of y under an expert.
func (s Shape) Density() mixture.Density { return mixture.DensityOf(s.Family) }

// LawOf returns log f(y; mean, ψ) of a row under the density of this name, nil of normal noise: what a second
// computation takes.
func LawOf(family string) func(b *model.Block, t int, mean float64, psi []float64) float64 {
	d := mixture.DensityOf(family)
	if mixture.Normal(d) {
		return nil
	}
	return func(b *model.Block, t int, mean float64, psi []float64) float64 {
		row := d
		if trials := b.Role[model.Trials]; trials != nil {
			row = mixture.OfTrials(d, trials[t:t+1])
		}
		out := []float64{0}
		row.LogDensity(out, []float64{0}, b.Y[t:t+1], []float64{mean}, psi)
		return out[0]
	}
}

// certain is a mean log-likelihood, without its sign, below which all targets had to be what they are.
const certain = 1e-6

// Explained says whether parameters of this mean log-likelihood, or of it without its sign, give every target of a law
// with finitely many values a probability next to 1, as a sigmoid does whose coefficients are infinite.
func (s Shape) Explained(logLikelihood float64) bool {
	domain := s.Density().Domain()
	return domain.Whole && !math.IsInf(domain.Most, 1) && math.Abs(logLikelihood) < certain
}

// own is how many parameters of the density are estimated.
func (s Shape) own() int {
	own := len(s.Density().Own()) - s.given()
	switch {
	case s.Sigma > 0:
		return 0
	case s.PerExpert:
		return s.K * own
	}
	return own
}

// EstimatesNoise says whether a fit estimates parameters of the density, as sigma.
func (s Shape) EstimatesNoise() bool { return s.own() > 0 }

// given is how many of the density's own parameters, the last of them, are known.
func (s Shape) given() int {
	if s.Dof > 0 {
		return 1
	}
	return 0
}

// OwnGiven names the own parameters beside sigma that are known.
func (s Shape) OwnGiven() (names []string) {
	own := s.Density().Own()
	for _, q := range own[len(own)-s.given():] {
		names = append(names, q.Name)
	}
	return names
}

// checkFamily refuses a density that is not known, and what stands beside one that is not normal and
// does not know it.
func checkFamily(r Request) error {
	if !mixture.Known(r.Family) {
		return Refuse("there is no family %q of the target; there are %s", r.Family, strings.Join(mixture.Densities(),
			", "))
	}
	d := mixture.DensityOf(r.Family)
	if r.Zero && !mixture.Counts(d) {
		return Refuse("an expert that is always 0 is for counts, family poisson or negative-binomial, not for the "+
			"family %s", d.Name())
	}
	if r.Zero && r.Tree.Depth() > 1 {
		return Refuse("an expert that is always 0 is for one gate, not for a tree")
	}
	if r.Dof != 0 {
		if err := checkDof(d, r.Dof); err != nil {
			return err
		}
	}
	if mixture.Normal(d) {
		return nil
	}
	switch {
	case r.Output != "":
		return Refuse("output scale %s is for normal noise, not for the family %s", r.Output, d.Name())
	case r.Leaves != nil:
		return Refuse("the family %s is for experts of one activation, not for leaves of several",
			d.Name())
	}
	if r.Noise == nil {
		return nil
	}
	switch perExpert, sigma := r.Noise.level(); {
	case len(d.Own()) == 0 && (perExpert || sigma != 0):
		return Refuse("the family %s has no parameter but its mean: it takes no sigma, and no noise per expert",
			d.Name())
	case sigma != 0 && d.Own()[0].Name != mixture.Sigma:
		return Refuse("the family %s has no sigma: its %s is estimated", d.Name(), d.Own()[0].Name)
	case len(d.Own()) > 1 && sigma != 0:
		return Refuse("the family %s has %d parameters of its own, and estimates them together: leave sigma out",
			d.Name(), len(d.Own()))
	}
	return nil
}

// checkDof refuses degrees of freedom of a density that has none, or not so many.
func checkDof(d mixture.Density, dof float64) error {
	own := d.Own()
	if d != (mixture.StudentT{}) {
		return Refuse("the family %s has no degrees of freedom, and %v are given", d.Name(), dof)
	}
	if last := own[len(own)-1]; !(dof >= last.Least && dof <= last.Most) {
		return Refuse("dof = %v, want a number from %v to %v", dof, last.Least, last.Most)
	}
	return nil
}

// Narrower returns the same data under the density of which that of p is the wider one, see [mixture.Narrower]; nil
// where there is none, or it does not know the rows' offsets.
func (p *Problem) Narrower() *Problem {
	d := mixture.Narrower(p.Shape.Density())
	if d == nil || mixture.Normal(d) && p.Schema.Roles[model.Offsets] != "" {
		return nil
	}
	q := *p
	q.Shape.Family, q.Shape.Dof, q.plain = d.Name(), 0, nil
	q.Shape.PerExpert = p.Shape.PerExpert && len(d.Own()) > 0
	if mixture.Normal(d) {
		q.Shape.Family, q.Link = "", nil
	}
	return &q
}

// Limit returns q with the last of its own parameters as large as it may be, where a density is next to the narrower
// one; nil where that parameter is known, or the density is no wider one.
func (s Shape) Limit(q *model.Params) *model.Params {
	own := s.Density().Own()
	if mixture.Narrower(s.Density()) == nil || s.given() > 0 {
		return nil
	}
	q = q.Clone()
	values := q.Sigma
	if len(own) > 1 {
		values = q.Own[len(own)-2]
	}
	fill(values, own[len(own)-1].Most)
	return q
}

// TwoValued says whether the density is one of targets that are 0 or 1.
func (p *Problem) TwoValued() bool {
	return p.Shape.Density().Domain().Most == 1 && p.Schema.Roles[model.Trials] == ""
}

// Link is where the starts of a fit begin whose density is not normal: at predictors z at which g(z) is near y.
type Link struct {
	z, g           []float64 // g on a grid, ascending in g
	mean           float64   // of the targets, or their shares of the trials
	Centre, Spread float64   // mean and twice the standard deviation of the working predictors, which the middle halves
}

// Of returns the working predictor of a target: z with g(z) nearest to the middle between y and
// the targets' mean, which is inside of the range of means where y is at its end.
func (l *Link) Of(y float64) float64 { return l.Nearest((y + l.mean) / 2) }

// Nearest returns z with g(z) nearest to v.
func (l *Link) Nearest(v float64) float64 {
	at, found := slices.BinarySearch(l.g, v)
	if !found && (at == len(l.g) || at > 0 && v-l.g[at-1] < l.g[at]-v) {
		at--
	}
	return l.z[at]
}

const (
	linkEnd  = 8.0 // of the grid
	linkStep = 1.0 / 64
)

// newLink returns that of g, and refuses a g whose values are no means of the density.
func newLink(ctx context.Context, p *Problem) (*Link, error) {
	var z []float64
	for v := -linkEnd; v <= linkEnd; v += linkStep {
		z = append(z, v)
	}
	g := make([]float64, len(z))
	if err := p.Activation.Eval(ctx, g, z); err != nil {
		return nil, err
	}
	d := p.Shape.Density()
	domain := d.Domain()
	for i, v := range g {
		if !(v > domain.LeastMean && v < domain.MostMean) {
			return nil, Refuse("%s is %.4g at %.4g, and the family %s has means %s: it wants another activation",
				p.Activation.Info().Name, v, z[i], d.Name(), between(domain.LeastMean, domain.MostMean))
		}
	}
	order := make([]int, len(z))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g[a], g[b]) })
	l := new(Link)
	for _, i := range order {
		l.z, l.g = append(l.z, z[i]), append(l.g, g[i])
	}
	return l, nil
}

// between says which numbers lie between two, in words.
func between(least, most float64) string {
	switch {
	case math.IsInf(most, 1):
		return fmt.Sprintf("above %g", least)
	case math.IsInf(least, -1):
		return fmt.Sprintf("below %g", most)
	}
	return fmt.Sprintf("between %g and %g", least, most)
}

// admitTargets refuses rows whose target the density does not take, and a zero expert of targets of which none is 0.
func (p *Problem) admitTargets(ctx context.Context, rows model.Rows) error {
	at, d, zeros := 0, p.Shape.Density(), false
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		if row, wrong := mixture.Outside(d, b); row >= 0 {
			return &dataset.Error{File: p.Schema.Name, Msg: fmt.Sprintf("row %d: %s", at+row+1, wrong)}
		}
		at += b.N
		zeros = zeros || slices.Contains(b.Y, 0)
		return nil
	})
	if err == nil && p.Shape.Zero && !zeros {
		err = &dataset.Error{File: p.Schema.Name, Msg: fmt.Sprintf("no %s is 0, and a zero expert has no rows: fit "+
			"without it", p.Schema.Target)}
	}
	return err
}

// begin takes the targets of the rows.
func (l *Link) begin(ctx context.Context, rows model.Rows) error {
	each := func(fn func(b *model.Block, t int)) error {
		return model.InOrder(ctx, rows, func(b *model.Block) error {
			for t := range b.Y {
				fn(b, t)
			}
			return nil
		})
	}
	n, _ := rows.Dims()
	if err := each(func(b *model.Block, t int) { l.mean += share(b, t) / float64(n) }); err != nil {
		return err
	}
	squares := 0.0
	err := each(func(b *model.Block, t int) {
		z := l.OfRow(b, t)
		l.Centre += z / float64(n)
		squares += z * z / float64(n)
	})
	l.Spread = 2 * math.Sqrt(max(0, squares-l.Centre*l.Centre))
	return err
}

// share is a row's target, or its share of the row's trials: what g(z) is the mean of.
func share(b *model.Block, t int) float64 {
	if trials := b.Role[model.Trials]; trials != nil {
		return b.Y[t] / trials[t]
	}
	return b.Y[t]
}

// OfRow is [Link.Of] of row t of a block without the row's offset: what is left for the experts.
func (l *Link) OfRow(b *model.Block, t int) float64 {
	z := l.Of(share(b, t))
	if offset := b.Role[model.Offsets]; offset != nil {
		z -= offset[t]
	}
	return z
}

// Working returns rows whose targets are the working predictors; those given where there is no link.
func (l *Link) Working(rows model.Rows) model.Rows {
	if l == nil {
		return rows
	}
	_, d := rows.Dims()
	return model.Map(rows, d, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		dst.Y = make([]float64, src.N)
		for t := range src.Y {
			dst.Y[t] = l.OfRow(src, t)
		}
	})
}
