package host

import (
	"maps"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/problem"
)

// Choice is the criterion by which [FitRange] chooses the number of experts.
type Choice string

// The criteria. "" is ByBICc.
const (
	// ByBICc is BIC with its correction for few rows, p·log n·n/(n − p − 2) − 2ℓ of p parameters and n rows (McQuarrie
	// 1999); it is BIC where no noise is estimated. None is finite where there are no more rows than p + 2.
	ByBICc Choice = "bicc"
	ByBIC  Choice = "bic"
	ByICL  Choice = "icl"
	// ByHeldOut is the log-likelihood of rows that were left out, as [Compare] has it.
	ByHeldOut Choice = "heldout"
	// BySet is the least k that the data leave: see [FitRange].
	BySet Choice = "set"
)

// Choices lists them.
func Choices() []Choice { return []Choice{ByBICc, ByBIC, ByICL, ByHeldOut, BySet} }

// Name is what it is called.
func (c Choice) Name() string { return string(c) }

// check refuses what is none of them.
func (c Choice) check() error {
	if c != "" && !slices.Contains(Choices(), c) {
		return refuse("choice by %s: want %s, %s, %s, %s or %s", c, ByBICc, ByBIC, ByICL, ByHeldOut, BySet)
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
	switch {
	case c == ByICL || c == ByHeldOut || c == BySet:
		best.Fit.ChosenBy = string(c)
	case best != fits.least(ks, ByBIC):
		best.Fit.ChosenBy = string(ByBICc)
	}
	best.Fit.AtLeast, best.Fit.KSet, best.Fit.Selection = bound, left, nil
	for i, k := range ks {
		candidate := fits[k].candidate
		if v := fits[k].bicc(); Choice(best.Fit.ChosenBy) == ByBICc && !math.IsInf(v, 1) {
			candidate.BICc = &v
		}
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
	return preferred(a.candidate.Converged, other.candidate.Converged, c.of(a), c.of(other))
}

// of is the criterion of a fit.
func (c Choice) of(r rung) float64 {
	switch c {
	case ByICL:
		return r.candidate.ICL
	case ByBIC:
		return r.candidate.BIC
	}
	return r.bicc()
}

// preferred says whether the first of two fits is chosen: it alone has converged, or its criterion is less.
func preferred(converged, otherConverged bool, criterion, other float64) bool {
	if converged != otherConverged {
		return converged
	}
	return criterion < other
}

// rung is the fit of a k, and rungs the last of each.
type (
	rung struct {
		candidate  fitted.Candidate
		model      *fitted.Model
		parameters int
		few        float64 // by what few rows multiply the penalty of BIC, see [ByBICc]
	}
	rungs map[int]rung
)

// rungOf is a fit of p.
func rungOf(p *problem.Problem, c fitted.Candidate, m *fitted.Model) rung {
	r := rung{candidate: c, model: m, parameters: p.Shape.Parameters(), few: 1}
	if p.Shape.EstimatesNoise() {
		r.few = fewness(p.Weights.Total, r.parameters)
	}
	return r
}

// fewness is n/(n − p − 2) of n rows and p parameters, +Inf where there are no more rows than p + 2.
func fewness(n float64, p int) float64 { return n / max(0, n-float64(p)-2) }

// bicc is the criterion of [ByBICc].
func (r rung) bicc() float64 {
	c := r.candidate
	return r.few*(c.BIC+2*c.LogLikelihood) - 2*c.LogLikelihood
}

// aic3c is AIC with a penalty of 3 a parameter (Bozdogan 1994), corrected likewise.
func (r rung) aic3c() float64 { return 3*r.few*float64(r.parameters) - 2*r.candidate.LogLikelihood }

// warnOfEdge warns of a choice of k at an end of the range that was fitted.
func warnOfEdge(m *fitted.Model, from, to int) {
	best, more := "has the least BIC", "have less BIC"
	switch Choice(m.Fit.ChosenBy) {
	case ByBICc:
		best, more = "has the least BIC corrected for few rows", "have less"
	case ByICL:
		best, more = "has the least ICL", "have less ICL"
	case ByHeldOut:
		best, more = "is chosen by crossvalidation", "be better"
	case BySet:
		best, more = "is the least that the data leave", "be enough"
	}
	switch {
	case from == to:
	case m.K == to:
		m.Fit.Warn(fitted.WarnLargerK, "k = %d, the largest that was fitted, %s: a larger k may %s", m.K, best, more)
	case m.K == from && from > 1:
		m.Fit.Warn(fitted.WarnSmallerK, "k = %d, the smallest that was fitted, %s: a smaller k may %s", m.K, best, more)
	}
}
