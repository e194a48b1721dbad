package host

import (
	"maps"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
)

// Choice is the criterion by which [FitRange] chooses the number of experts.
type Choice string

// The criteria. "" is ByBIC.
const (
	ByBIC Choice = "bic"
	ByICL Choice = "icl"
	// ByHeldOut is the log-likelihood of rows that were left out, as [Compare] has it.
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

// choose returns the fit of a range that is chosen, with the table of them all; held is what crossvalidation says of
// them, nil where the choice is by another criterion, and bound their lower bound, if there is one.
func (c Choice) choose(fits rungs, held *Comparison, bound *fitted.AtLeast) (best *fitted.Model) {
	ks, left := slices.Sorted(maps.Keys(fits)), fits.left(bound)
	switch {
	case held != nil:
		best = fits[held.K].model
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
		if held != nil && i < len(held.scores) && held.scores[i].sound() {
			candidate.HeldOut = &held.scores[i].logLikelihood
		}
		best.Fit.Selection = append(best.Fit.Selection, candidate)
	}
	return best
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
