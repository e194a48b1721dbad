package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// wanted is how many starts a certificate asks for, 0 for none.
func wanted(c *infer.Certificate) int {
	if c == nil || c.Optimum != infer.Suspect && !c.Withdrawn {
		return 0
	}
	return infer.StartsWanted
}

// Seen is what else than its candidates a search has seen of the optima; the zero value is nothing.
type Seen struct {
	Survey *Survey // of a small table
	Spare  *Spare  // of the places of experts that hardly count
	// Another search is what the best was held against.
	Another infer.Another
	// Late says that agreement was no evidence, and that a survey was made for that reason, if it could be.
	Late bool
	// Untested says that nobody asks whether the model describes the rows: agreement alone is evidence.
	Untested bool

	tests *tests // the last that were made; nil for none, to make them anew
}

// tests are what those of the model have told at parameters: a search asks for several certificates of one optimum.
type tests struct {
	at     *model.Params
	tested specification.Tested
}

// of makes those at q, unless they are the last.
func (t *tests) of(ctx context.Context, p *problem.Problem, q *model.Params) (specification.Tested, error) {
	if t != nil && reflect.DeepEqual(t.at, q) {
		return t.tested, nil
	}
	made := specification.Tests
	if p.Grouped() {
		made = specification.GroupTests
	}
	tested, err := made(ctx, p.Given, p.G, q, p.Shape.Estimated(), p.Seed, p.Threads)
	if err == nil && t != nil {
		*t = tests{q, tested}
	}
	return tested, err
}

// Certify judges the optimum best, one of all or of what else was seen. Where
// it cannot the certificate is nil and the note says why.
func Certify(ctx context.Context, p *problem.Problem, best *Candidate, all []*Candidate,
	seen Seen) (c *infer.Certificate, note string, err error) {
	evidence := evidenceOf(p, best, all, seen)
	if seen.Untested {
		return infer.Judge(nil, evidence), "", nil
	}
	size, err := p.Spread()
	if err != nil {
		return nil, "", err
	}
	if infer.Exact(best.Params, size) {
		c, note, err := exact(ctx, p, best.Params, evidence)
		if away := residualsOver(p, best); away > mostOver && c != nil {
			c.Optimum = infer.NotJudged
			c.Reason = fmt.Sprintf("sigma was given as %.3g, and the residuals are %.2g times as large: beside them "+
				"no fit is judged; leave sigma to be estimated", p.Shape.Sigma, away)
		}
		return c, note, err
	}
	if p.Shape.Explained(best.Run.Value) {
		c := infer.Judge(nil, evidence)
		c.Optimum, c.More = infer.NotJudged, false
		c.Reason = "the features tell every target with certainty: the likelihood has no maximum, and " +
			"coefficients grow without end"
		return c, "", nil
	}
	// The tests look at the gates against the last expert's: the order is that of
	// the result, whatever it was in the run.
	proportions, order, err := ByProportion(ctx, p, p.Rows, best.Params)
	if err != nil {
		return nil, "", err
	}
	q := best.Params.Relabel(order)
	tested, err := seen.tests.of(ctx, p, q)
	if c, note, err = judged(p, tested, err, evidence); c == nil {
		return nil, note, err
	}
	if p.Weights.Light() {
		c.Withdraw(p.Weights.Rows, p.Weights.Total)
		return c, "", nil
	}
	columns, _ := p.Shape.Estimated().Columns(q)
	c.RestsOn(q, tested.Mass, len(columns))
	if p.Grouped() {
		c.OfGroups(model.Permuted(proportions, order), p.Observations())
	}
	unproven := best.unproven()
	switch {
	case c.Optimum != infer.Pass:
	case unproven != "":
		c.Optimum, c.Reason = infer.NotJudged, unproven
	case p.Shape.Classes() > 1 && rowsEach(p) < leastRowsEach:
		c.Optimum, c.Reason = infer.NotJudged, fmt.Sprintf("%.1f rows a parameter are too few: below %d there may be "+
			"better optima that starts hardly ever meet", rowsEach(p), leastRowsEach)
	case !p.OneGate() && seen.Survey.many():
		c.Optimum, c.Reason = infer.NotJudged, fmt.Sprintf("the survey's starts ended at %d optima near each other; "+
			"where trees have so many, better ones are often missed", seen.Survey.Optima)
	}
	return c, "", nil
}

// leastRowsEach are the rows a parameter below which nobody can tell of an optimum that it is the best: a handful of
// rows near a plane by chance makes one that a start in thousands meets. Of eight that starts agreed on with fewer, on
// small tables of R, three were not the best.
const leastRowsEach = 3

// rowsEach are the rows of p a parameter.
func rowsEach(p *problem.Problem) float64 { return p.Count() / float64(p.Shape.Parameters()) }

// judged is the certificate of tests, or the note why there is none: too many terms.
func judged(p *problem.Problem, tested specification.Tested, err error,
	e infer.Evidence) (*infer.Certificate, string, error) {
	if many := (*specification.TooManyError)(nil); errors.As(err, &many) {
		return nil, "no certificate: " + many.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	if p.InTime {
		tested = tested.InTime()
	}
	c := infer.Judge(slices.Clone(tested.Tests), e)
	c.Untested, c.NotMade, c.Overlap = tested.Untested, tested.NotMade, tested.Overlap
	return c, "", nil
}

// mostOver is how many times a noise level that was given the residuals may be of a fit that is
// said to be exact.
const mostOver = 100

// residualsOver returns how many times the noise level that was given the residuals are, in the
// root mean square, by the log-likelihood; 0 where it was estimated.
func residualsOver(p *problem.Problem, best *Candidate) float64 {
	sigma := p.Shape.Sigma
	if sigma == 0 {
		return 0
	}
	return math.Sqrt(max(0, 2*(best.Run.Value-math.Log(sigma)-0.5*math.Log(2*math.Pi))))
}

// exact is the certificate of a fit whose residuals are rounding beside the target's size. Where the target
// takes two values that says nothing about the optimum either: any two experts that are those
// values fit it exactly, whatever the gate. Where one row, or a few, is all of that root mean square it says nothing of
// the others, and where noise has heavy tails a sigma of nothing says that some rows are fitted exactly, and not that
// all are.
func exact(ctx context.Context, p *problem.Problem, q *model.Params,
	e infer.Evidence) (*infer.Certificate, string, error) {
	c := infer.Judge(nil, e)
	c.Reason, c.More = "the fit is exact to rounding", false
	far, err := p.Outlier()
	if err != nil {
		return nil, "", err
	}
	if far != nil && !infer.Exact(q, far.Others) {
		c.Optimum = infer.NotJudged
		c.Reason = HiddenBy(far, q)
	}
	a, b, two, err := p.TwoValues()
	if two {
		c.Optimum = infer.NotJudged
		c.Reason = fmt.Sprintf("the target takes two values, %g and %g, which experts fit exactly: the likelihood of "+
			"normal noise has no maximum there, and a model of two classes is wanted", a, b)
	}
	if law := p.Shape.Density(); err == nil && !mixture.Normal(law) {
		var off int
		if off, err = missed(ctx, p, q); off > 0 {
			c.Optimum = infer.NotJudged
			c.Reason = fmt.Sprintf("sigma is next to nothing, and %d rows are far from every expert: the likelihood "+
				"of the family %s has no maximum where experts fit many rows exactly", off, law.Name())
		}
	}
	return c, "", err
}

// missed is how many rows are farther than rounding from the means of all experts of q.
func missed(ctx context.Context, p *problem.Problem, q *model.Params) (rows int, err error) {
	means, room := q.Output(p.G), make([]float64, q.K*model.BlockRows)
	size, err := p.Spread()
	if err != nil {
		return 0, err
	}
	most := mostOver * infer.ExactNoise * size
	err = model.InOrder(ctx, p.Rows, func(b *model.Block) error {
		res, err := q.Residuals(ctx, means, room, b)
		if err != nil {
			return err
		}
		for t := range b.N {
			near := math.Inf(1)
			for i := range q.K {
				near = min(near, math.Abs(res[i*b.N+t]))
			}
			if near > most {
				rows++
			}
		}
		return nil
	})
	return rows, err
}

// HiddenBy says that a row hides the others from a fit at q: its noise is rounding beside that row alone.
func HiddenBy(far *problem.Outlier, q *model.Params) string {
	return fmt.Sprintf("row %d, whose target is %.4g, hides the others: sigma %.4g is next to nothing beside its "+
		"distance from them, and not beside their spread, %.4g; look at that row", far.Row, far.Y, slices.Min(q.Sigma),
		far.Others)
}

// evidenceOf is what these starts, and those of a survey, are evidence of for best.
func evidenceOf(p *problem.Problem, best *Candidate, all []*Candidate, seen Seen) infer.Evidence {
	s := seen.Survey
	e := infer.Evidence{Flat: p.OneGate(), Another: seen.Another}
	kinds := map[string]bool{}
	for _, c := range all {
		if c.Agrees {
			e.Agreeing++
		}
		if !c.Degenerate && !c.Failed() {
			e.Starts++
			kinds[c.Kind] = true
		}
	}
	e.Care = seen.care(0, false)
	if s == nil || len(s.Best) == 0 {
		e.Kinds = len(kinds)
		return e
	}
	// The best may be one that only the survey has found, or only the screening.
	reaches := func(c *Candidate) bool {
		if c.refined != nil {
			c = c.refined
		}
		return !c.Degenerate && c.Run.Value <= best.Run.Value+SameOptimum(p.Count())
	}
	if reaches(s.Best[0]) {
		e.Agreeing += s.Met
		e.Met = s.Met
	}
	e.Survey, e.Surveyed = true, s.metBy(e.Met).evidence()
	e.Care = seen.care(e.Met, s.Few)
	e.Starts += s.Starts
	for _, kind := range s.Kinds {
		kinds[kind] = true
	}
	e.Kinds = len(kinds)
	return e
}

// care is what starts on all rows are evidence of, of which so many of the survey's have met the best. It is the zero
// value where no more is asked than that a few agree. Where spare experts were placed anew that must be conclusive,
// whatever the survey has met, since it looks at their places; of several, which are placed one at a time, a survey
// must have met the best too and little else; of few rows a survey counts, as what the other experts are is as open,
// but not for an optimum that no spare expert placed anew has met. Where no expert is spare it is the survey or the
// placing, whichever says more.
func (s Seen) care(met int, few bool) infer.Care {
	if !s.Late && s.Spare == nil {
		return infer.Care{}
	}
	var of *Survey
	var surveyed infer.Care
	if s.Survey != nil {
		of = s.Survey.metBy(met)
		surveyed = of.evidence()
	}
	surveyed.Taken = true
	v := s.Spare
	if v == nil {
		return surveyed
	}
	surveyed.Spares = v.Experts
	placed := infer.Care{Taken: true, Spares: v.Experts, Starts: v.Starts, Met: v.Met, Unseen: v.Unseen(),
		Placed: true}
	switch {
	case v.Starts == 0, few && s.Survey != nil && (v.Experts == 0 || v.Met > 0):
		return surveyed
	case v.Experts == 0:
		if placed.Conclusive() || placed.Met > surveyed.Met && !surveyed.Conclusive() {
			return placed
		}
		return surveyed
	case v.Experts > 1 && placed.Conclusive() && !of.beside():
		return surveyed
	}
	return placed
}

// ByProportion returns the experts' proportions and the permutation that puts the
// largest first, of those that may stand for each other: expert i becomes expert
// order[i].
func ByProportion(ctx context.Context, p *problem.Problem, rows model.Rows,
	q *model.Params) (proportions []float64, perm []int, err error) {
	proportions, err = loss.NewLikelihood(rows, p.G, q, p.Shape.Free(), p.Threads).Proportions(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return proportions, q.Hierarchy().Order(p.Shape.Kinds, proportions), nil
}
