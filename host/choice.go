package host

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/sdk"
)

// Choice is the criterion by which [FitRange] chooses the number of experts.
type Choice string

// The criteria. "" is ByBIC.
const (
	ByBIC Choice = "bic"
	ByICL Choice = "icl"
	// ByHeldOut is the log-likelihood of rows that were left out, as [CrossValidate] has it of ten parts: the least k
	// whose is within one standard error of the highest, of their differences by rows.
	ByHeldOut Choice = "heldout"
	// BySet is the least k that the data leave: see [FitRange].
	BySet Choice = "set"
)

// Choices lists them.
func Choices() []Choice { return []Choice{ByBIC, ByICL, ByHeldOut, BySet} }

// Name is what it is called.
func (c Choice) Name() string { return string(c) }

// check refuses what is none of them.
func (c Choice) check() error {
	if c != "" && !slices.Contains(Choices(), c) {
		return refuse("choice by %s: want %s, %s, %s or %s", c, ByBIC, ByICL, ByHeldOut, BySet)
	}
	return nil
}

// choiceFolds are the parts of a choice by rows that are left out, where there are as many.
const choiceFolds = 10

// heldOut crossvalidates every k of a range, or those for which there are rows enough without a part.
func heldOut(ctx context.Context, act sdk.Activation, src dataset.Source, from, to int, cfg Config) ([]score, error) {
	held, err := crossValidate(ctx, act, src, from, to, 0, cfg)
	if few := (*problem.FewRowsError)(nil); errors.As(err, &few) && few.K >= from && few.K < to {
		return crossValidate(ctx, act, src, from, few.K, 0, cfg)
	}
	return held, err
}

// choose returns the fit of a range that is chosen, with the table of them all; held is what crossvalidation says of
// the first of them, nil where the choice is by another criterion, and bound their lower bound, if there is one.
func (c Choice) choose(fits rungs, held []score, bound *fitted.AtLeast) (best *fitted.Model) {
	ks, left := slices.Sorted(maps.Keys(fits)), fits.left(bound)
	switch {
	case held != nil:
		best = fits[ks[leastWithinError(held)]].model
	case c == BySet && len(left) > 0:
		best = fits[left[0]].model
	default:
		best = fits.least(ks, c)
	}
	best.Fit.AtLeast, best.Fit.KSet = bound, left
	if c != "" && c != ByBIC {
		best.Fit.ChosenBy = string(c)
	}
	best.Fit.Selection = nil
	for i, k := range ks {
		candidate := fits[k].candidate
		if i < len(held) {
			candidate.HeldOut = &held[i].logLikelihood
		}
		best.Fit.Selection = append(best.Fit.Selection, candidate)
	}
	return best
}

// leastWithinError is the first whose log-likelihood is within a standard error of the highest, that of their
// difference: √n times the standard deviation of the rows' differences.
func leastWithinError(held []score) int {
	top := 0
	for i := range held {
		if held[i].logLikelihood > held[top].logLikelihood {
			top = i
		}
	}
	for i := range held {
		off := floats.SubTo(make([]float64, len(held[i].terms)), held[top].terms, held[i].terms)
		if floats.Sum(off) <= stat.StdDev(off, nil)*math.Sqrt(float64(len(off))) {
			return i
		}
	}
	return top
}

// least is the fit of the least criterion.
func (r rungs) least(ks []int, by Choice) (best *fitted.Model) {
	for _, k := range ks {
		if best == nil || by.prefers(r[k], r[best.K]) {
			best = r[k].model
		}
	}
	return best
}

// prefers says whether a fit is chosen before another: it has converged, or its criterion is less.
func (c Choice) prefers(a, other rung) bool {
	if c == ByICL && a.candidate.Converged == other.candidate.Converged {
		return a.candidate.ICL < other.candidate.ICL
	}
	return preferred(a.model, other.model)
}
