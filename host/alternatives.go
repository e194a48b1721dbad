package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// Alternative is one of several descriptions of a model of the same rows: From to To experts of Config, whose K is not
// looked at.
type Alternative struct {
	Activation sdk.Activation
	Source     dataset.Source
	From, To   int
	Config     Config
	// Settings are what tells it from the others, by their names: the table of all has them.
	Settings map[string]string
	// Refused says why it is none that can be fitted; nil of one that is tried.
	Refused error
}

// Comparison is what [Compare] has found: which alternative is chosen, and how many experts of it.
type Comparison struct {
	Chosen int // its place among the alternatives
	K      int

	scores []score              // of the chosen alternative, from its least k on
	table  []fitted.Description // of all; nil where there is one alternative, whose ks are in Fit.Selection
}

// Compare fits every number of experts of all alternatives without each of ten parts of the rows, as [CrossValidate]
// does, and chooses by the log-likelihood of the rows that were left out: of those within one standard error of the
// highest it takes the one of the fewest parameters, and among these of the highest. The standard error is that of the
// two's difference,
//
//	√n · sd(d_1, …, d_n),  d_r = w_r·(log p(y_r|x_r) − log q(y_r|x_r))
//
// over the n rows, or groups of rows, for densities p and q that were fitted without the row's part. The parts are the
// same for all, by the seed of the first, and several fits are made at a time, by the threads of the first.
//
// An alternative that does not fit the rows, or that cannot be fitted to those of some part, is not chosen, and
// Fit.Descriptions says why; where there is no other, its error is returned. Of a range those ks are compared for which
// the rows without a part are enough. Families of whole numbers and of others are refused beside each other, whose
// probabilities and densities do not compare. Experts have one activation.
//
// The fit of the chosen one to all rows is [Fit] or [FitRange] with [Comparison.Config].
func Compare(ctx context.Context, all []Alternative) (*Comparison, error) {
	var tried []Alternative
	var place []int
	var families []string
	for i, a := range all {
		switch {
		case a.Refused != nil:
			continue
		case a.From < 1 || a.To < a.From:
			return nil, refuse("k from %d to %d, want 1 or more, the smaller first", a.From, a.To)
		case a.Config.Leaves != nil:
			return nil, refuse("descriptions are compared of experts of one activation, not of leaves of several")
		}
		tried, place, families = append(tried, a), append(place, i), append(families, a.Config.Family)
	}
	if len(tried) == 0 {
		return nil, refuse("there is nothing to compare")
	}
	if err := Comparable(families); err != nil {
		return nil, err
	}
	found, err := crossValidate(ctx, tried, 0)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i], err = asFarAsRows(ctx, tried[i], found[i]); err != nil {
			return nil, err
		}
	}
	return chosenOf(all, place, found)
}

// Comparable refuses families of which some are of whole numbers alone, and some are not.
func Comparable(families []string) error {
	var whole, others []string
	for _, name := range families {
		list := &others
		if Discrete(name) {
			list = &whole
		}
		if name == "" {
			name = mixture.Gaussian{}.Name()
		}
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	if len(whole) > 0 && len(others) > 0 {
		return refuse("family %s beside %s: the probability of a whole number and a density do not compare",
			strings.Join(whole, ", "), strings.Join(others, ", "))
	}
	return nil
}

// asFarAsRows tries an alternative again with the ks for which the rows without a part are enough, where they are not
// for the largest.
func asFarAsRows(ctx context.Context, a Alternative, t crossed) (crossed, error) {
	for {
		few := (*problem.FewRowsError)(nil)
		if !errors.As(t.err, &few) || few.K < a.From || few.K >= a.To {
			return t, nil
		}
		a.To = few.K
		again, err := crossValidate(ctx, []Alternative{a}, 0)
		if err != nil {
			return t, err
		}
		t = again[0]
	}
}

// unfit says whether an error is of a description beside its rows, and not of what computes.
func unfit(err error) bool {
	request, data := (*RequestError)(nil), (*dataset.Error)(nil)
	return errors.As(err, &request) || errors.As(err, &data)
}

// chosenOf is the comparison of what was found of those of all alternatives at these places.
func chosenOf(all []Alternative, place []int, found []crossed) (*Comparison, error) {
	var scores []score
	var of, ks []int // the alternative and the k of a score
	reasons, rows := make([]error, len(all)), 0
	for i, t := range found {
		if t.err != nil {
			if reasons[place[i]] = t.err; !unfit(t.err) {
				return nil, t.err
			}
			continue
		}
		if rows == 0 {
			rows = len(t.scores[0].terms)
		}
		for j, s := range t.scores {
			if len(s.terms) != rows {
				return nil, refuse("descriptions of %d and %d rows do not compare", rows, len(s.terms))
			}
			scores, of, ks = append(scores, s), append(of, place[i]), append(ks, all[place[i]].From+j)
		}
	}
	at, top := simplest(scores)
	if at < 0 {
		for _, i := range place {
			if reasons[i] != nil {
				return nil, reasons[i]
			}
		}
		return nil, refuse("no description has a finite log-likelihood for rows that were not fitted")
	}
	c := &Comparison{Chosen: of[at], K: ks[at]}
	for i, t := range found {
		if place[i] == c.Chosen {
			c.scores = t.scores
		}
	}
	if len(all) == 1 {
		return c, nil
	}
	for i, a := range all {
		if reason := firstError(a.Refused, reasons[i]); reason != nil {
			c.table = append(c.table, fitted.Description{Settings: a.Settings, Reason: reason.Error()})
			continue
		}
		for j := range scores {
			if of[j] == i {
				c.table = append(c.table, scores[j].described(ks[j], a.Settings, &scores[top], j == at))
			}
		}
		if n := slices.IndexFunc(place, func(p int) bool { return p == i }); len(found[n].scores) <= a.To-a.From {
			c.table = append(c.table, fitted.Description{K: a.From + len(found[n].scores), Settings: a.Settings,
				Reason: "without a part the rows do not determine so many experts"})
		}
	}
	return c, nil
}

// Config is the configuration of the alternative that was chosen, for the fit of it to all rows: [FitRange] takes
// the number of experts that was, and the model has the table of all.
func (x *Comparison) Config(c Config) Config {
	c.K, c.compared = x.K, x
	return c
}

// k is the number of experts that is chosen; 0 of none.
func (x *Comparison) k() int {
	if x == nil {
		return 0
	}
	return x.K
}

// into puts into the table of a range's fits what the rows that were left out say of each.
func (x *Comparison) into(selection []fitted.Candidate) {
	if x == nil {
		return
	}
	for i := range x.scores[:min(len(x.scores), len(selection))] {
		if x.scores[i].sound() {
			selection[i].HeldOut = &x.scores[i].logLikelihood
		}
	}
}

// sourceKey tells the tables of alternatives apart.
func (a Alternative) sourceKey() any {
	if reflect.ValueOf(a.Source).Comparable() {
		return a.Source
	}
	return new(byte) // of a table that nothing says to be another
}

// sound says whether there is a log-likelihood to compare.
func (s *score) sound() bool { return numeric.Finite(s.logLikelihood) }

// below is how far the log-likelihood is below another's, and the standard error of that.
func (s *score) below(other *score) (by, standardError float64) {
	off := floats.SubTo(make([]float64, len(s.terms)), other.terms, s.terms)
	return floats.Sum(off), stat.StdDev(off, nil) * math.Sqrt(float64(len(off)))
}

// described is a score as files have it, beside the highest.
func (s *score) described(k int, settings map[string]string, top *score, chosen bool) fitted.Description {
	d := fitted.Description{K: k, Settings: settings, Parameters: s.parameters, Converged: s.converged, Chosen: chosen}
	if !s.sound() {
		d.Reason = fmt.Sprintf("log-likelihood %v of the rows that were left out", s.logLikelihood)
		return d
	}
	by, se := s.below(top)
	d.HeldOut, d.Below, d.StandardError = &s.logLikelihood, &by, &se
	return d
}

// sameHeight is a difference of log-likelihoods that is rounding, and the stopping of climbs: models of one expert are
// the same whatever is said of the noise of several.
const sameHeight = 1e-6

// simplest is the score of the fewest parameters within a standard error of the highest, top, and of these the
// highest, the first of those alike; −1 where none is finite.
func simplest(scores []score) (at, top int) {
	at, top = -1, -1
	for i := range scores {
		if scores[i].sound() && (top < 0 || scores[i].logLikelihood > scores[top].logLikelihood) {
			top = i
		}
	}
	for i := range scores {
		if !scores[i].sound() {
			continue
		}
		if by, se := scores[i].below(&scores[top]); by > se {
			continue
		}
		if at < 0 || scores[i].parameters < scores[at].parameters ||
			scores[i].parameters == scores[at].parameters &&
				scores[i].logLikelihood > scores[at].logLikelihood+sameHeight {
			at = i
		}
	}
	return at, top
}
