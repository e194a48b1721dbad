package crossvalidation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/problem"
)

// Comparison is what [Compare] has found: which alternative is chosen, and how many experts of it.
type Comparison struct {
	Chosen   int // its place among the alternatives
	K        int
	From, To int // the range of the chosen alternative
	// Table is of all; nil where there is one alternative of one target, whose ks are in Fit.Selection.
	Table []fitted.Description
	Notes []string // for the user, of the chosen alternative

	folds   int
	targets []string // of the chosen alternative
	scores  []score  // likewise, from its least k on
}

// Ks is how many numbers of experts of the chosen alternative were looked at.
func (x *Comparison) Ks() int { return len(x.scores) }

// Into puts into the table of all fits of the chosen alternative what the rows that were left out say of each: of
// several targets those of this one.
func (x *Comparison) Into(selection []fitted.Candidate, target string) {
	for i := range x.scores[:min(len(x.scores), len(selection))] {
		s := &x.scores[i]
		if !s.sound() {
			continue
		}
		selection[i].HeldOut = &s.predictive.logLikelihood
		for j := range s.targets {
			if len(s.targets) > 1 && x.targets[j] == target {
				selection[i].HeldOut = &s.targets[j].predictive
			}
		}
	}
}

// Tell puts the table and the notes, and what is doubtful of the comparison, into the fit of the chosen alternative to
// all rows.
func (x *Comparison) Tell(f *fitted.Fit) {
	if x.Table != nil {
		f.ChosenBy, f.Descriptions = string(criterion.ByHeldOut), x.Table
	}
	f.Notes = append(f.Notes, x.Notes...)
	most := 0
	for i := range x.scores {
		most = max(most, x.scores[i].certain)
	}
	if most > 0 {
		f.Warn(fitted.WarnNewRows, "crossvalidation: %s", Certain(most, x.folds))
	}
}

// Certain is the sentence on fits without so many of the parts in which the features tell every target.
func Certain(parts, of int) string {
	return fmt.Sprintf("without a part the features tell every target with certainty in %d of %d fits: the likelihood "+
		"has no finite maximum there, and coefficients grow without end", parts, of)
}

// Compare fits every number of experts of all alternatives without each part of the rows, and chooses by the
// log-likelihood of the rows that were left out: of those within one standard error of the highest it takes the one of
// the fewest parameters, and among these of the highest. What is far behind after some parts is left. Where an
// alternative does not fit the rows the table says why; where there is no other, its error is returned. Of a range
// those ks are compared for which the rows without a part are enough.
func Compare(ctx context.Context, all []Alternative, by Parting) (*Comparison, error) {
	var tried []Alternative
	var place []int
	for i, a := range all {
		if a.Refused == nil {
			tried, place = append(tried, a), append(place, i)
		}
	}
	found, err := crossValidate(ctx, tried, by, true)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i], err = asFarAsRows(ctx, tried[i], found[i], by); err != nil {
			return nil, err
		}
	}
	return chosenOf(all, place, found)
}

// asFarAsRows tries an alternative again with the ks for which the rows without a part are enough, where they are not
// for the largest.
func asFarAsRows(ctx context.Context, a Alternative, t crossed, by Parting) (crossed, error) {
	for {
		few := (*problem.FewRowsError)(nil)
		if !errors.As(t.err, &few) || few.K < a.From || few.K >= a.To {
			return t, nil
		}
		a.To = few.K
		again, err := crossValidate(ctx, []Alternative{a}, by, false)
		if err != nil {
			return t, err
		}
		t = again[0]
	}
}

// unfit says whether an error is of a description beside its rows, and not of what computes.
func unfit(err error) bool {
	request, data := (*problem.RequestError)(nil), (*dataset.Error)(nil)
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
		for j, s := range t.scores {
			if rows == 0 && s.left == nil {
				rows = len(s.weights)
			}
			if s.left == nil && len(s.weights) != rows {
				return nil, problem.Refuse("descriptions of %d and %d rows do not compare", rows, len(s.weights))
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
		return nil, problem.Refuse("no description has a finite log-likelihood for rows that were not fitted")
	}
	c := &Comparison{Chosen: of[at], K: ks[at], From: all[of[at]].From, To: all[of[at]].To}
	for i, t := range found {
		if place[i] == c.Chosen {
			c.scores, c.folds, c.Notes, c.targets = t.scores, t.table.folds, t.table.notes(), t.table.targets()
		}
	}
	if len(all) == 1 && !all[0].Several {
		c.Notes = append(c.Notes, leftNotes(all[0].From, c.scores)...)
		return c, nil
	}
	for i, a := range all {
		if a.Settings == nil {
			a.Settings = map[string]string{}
		}
		reason := a.Refused
		if reason == nil {
			reason = reasons[i]
		}
		if reason != nil {
			c.Table = append(c.Table, fitted.Description{Settings: a.Settings, Reason: reason.Error()})
			continue
		}
		for j := range scores {
			if of[j] == i {
				c.Table = append(c.Table, scores[j].described(ks[j], a.Settings, &scores[top], j == at))
			}
		}
		if n := slices.IndexFunc(place, func(p int) bool { return p == i }); len(found[n].scores) <= a.To-a.From {
			c.Table = append(c.Table, fitted.Description{K: a.From + len(found[n].scores), Settings: a.Settings,
				Reason: "without a part the rows do not determine so many experts"})
		}
	}
	return c, nil
}

// leftNotes say which numbers of experts were left, of scores from that of so many on.
func leftNotes(from int, scores []score) (notes []string) {
	for i := range scores {
		if s := &scores[i]; s.left != nil {
			notes = append(notes, fmt.Sprintf("crossvalidation: k = %d was left %s", from+i, s.left))
		}
	}
	return notes
}

// sameHeight is a difference of log-likelihoods that is rounding, and the stopping of climbs: models of one expert are
// the same whatever is said of the noise of several.
const sameHeight = 1e-6

// sameRow is a difference that is nothing in the mean log-likelihood of rows, whatever its standard error: a law whose
// own parameter ends at its bound is next to the simpler law there, as negative binomial of the largest theta is next
// to Poisson, and differs from it by as little in every row.
const sameRow = 1e-8

// simplest is the score of the fewest parameters within a standard error of the highest, top, or within sameRow a row,
// and of these the highest, the first of those alike; −1 where none is finite.
func simplest(scores []score) (at, top int) {
	height := func(i int) float64 { return scores[i].predictive.logLikelihood }
	at, top = -1, -1
	for i := range scores {
		if scores[i].sound() && (top < 0 || height(i) > height(top)) {
			top = i
		}
	}
	for i := range scores {
		if !scores[i].sound() {
			continue
		}
		if by, se := scores[i].below(&scores[top]); by > max(se, sameRow*scores[i].observed) {
			continue
		}
		if at < 0 || scores[i].parameters < scores[at].parameters ||
			scores[i].parameters == scores[at].parameters && height(i) > height(at)+sameHeight {
			at = i
		}
	}
	return at, top
}

// Comparable refuses families of which some are of whole numbers alone, and some are not.
func Comparable(families []string) error {
	var whole, others []string
	for _, name := range families {
		list := &others
		if mixture.Known(name) && mixture.DensityOf(name).Domain().Whole {
			list = &whole
		}
		if name = cmp.Or(name, mixture.Gaussian{}.Name()); !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	if len(whole) > 0 && len(others) > 0 {
		return problem.Refuse("family %s beside %s: the probability of a whole number and a density do not compare",
			strings.Join(whole, ", "), strings.Join(others, ", "))
	}
	return nil
}
