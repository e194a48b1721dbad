// Package criterion chooses among fits of several numbers of experts: by BIC, BIC corrected for few rows, ICL, the rows
// that were left out, or the least number that the data leave.
package criterion

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/problem"
)

// Choice is the criterion by which the number of experts is chosen.
type Choice string

// The criteria. "" is ByBICc.
const (
	// ByBICc is BIC with its correction for few rows, p·log n·n/(n − p − 2) − 2ℓ of p parameters and n rows (McQuarrie
	// 1999); it is BIC where no noise is estimated. None is finite where there are no more rows than p + 2.
	ByBICc Choice = "bicc"
	ByBIC  Choice = "bic"
	ByICL  Choice = "icl"
	// ByHeldOut is the log-likelihood of rows that were left out, as crossvalidation has it.
	ByHeldOut Choice = "heldout"
	// BySet is the least k that the data leave: see [Fits.Left].
	BySet Choice = "set"
)

// Choices lists them.
func Choices() []Choice { return []Choice{ByBICc, ByBIC, ByICL, ByHeldOut, BySet} }

// Name is what it is called.
func (c Choice) Name() string { return string(c) }

// Check refuses what is none of them.
func (c Choice) Check() error {
	if c != "" && !slices.Contains(Choices(), c) {
		return problem.Refuse("choice by %s: want %s, %s, %s, %s or %s", c, ByBICc, ByBIC, ByICL, ByHeldOut, BySet)
	}
	return nil
}

// Choose returns the fit of a range that is chosen, with the table of them all; heldOut is the k that crossvalidation
// chooses, 0 where the choice is by another criterion, and bound their lower bound, if there is one.
func (c Choice) Choose(fits Fits, heldOut int, bound *fitted.AtLeast) (best *fitted.Model) {
	ks, left := slices.Sorted(maps.Keys(fits)), fits.Left(bound)
	switch {
	case heldOut > 0:
		best = fits[heldOut].Model
	case c == BySet && len(left) > 0:
		best = fits[left[0]].Model
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
	if heldOut == 0 && Choice(best.Fit.ChosenBy) != BySet {
		fits.warnOfPassedOver(best, c)
	}
	for _, k := range ks {
		candidate := fits[k].Candidate
		if v := fits[k].BICc(); Choice(best.Fit.ChosenBy) == ByBICc && !math.IsInf(v, 1) {
			candidate.BICc = &v
		}
		best.Fit.Selection = append(best.Fit.Selection, candidate)
	}
	return best
}

// least is the fit of the least criterion.
func (f Fits) least(ks []int, by Choice) (best *fitted.Model) {
	for _, k := range ks {
		if best == nil || by.prefers(f[k], f[best.K]) {
			best = f[k].Model
		}
	}
	return best
}

// warnOfPassedOver warns where the fit of the least criterion has not converged, and another was chosen.
func (f Fits) warnOfPassedOver(chosen *fitted.Model, by Choice) {
	best := f[chosen.K]
	least := best
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if by.of(f[k]) < by.of(least) {
			least = f[k]
		}
	}
	name, less := "BIC", best.Candidate.BIC-least.Candidate.BIC
	switch {
	case by == ByICL:
		name, less = "ICL", by.of(best)-by.of(least)
	case by != ByBIC && !(less > 0):
		name, less = "BIC corrected for few rows", by.of(best)-by.of(least)
	}
	if least.Candidate.K != chosen.K {
		chosen.Fit.Warn(fitted.WarnStopped, "k = %d has not converged (%s) and was passed over, though its %s is %.4g "+
			"less than that of k = %d: fit it by itself to see more", least.Candidate.K, least.Model.Fit.Status, name,
			less, chosen.K)
	}
}

// prefers says whether a fit is chosen before another: it has converged, or its criterion is less.
func (c Choice) prefers(a, other Fit) bool {
	return Preferred(a.Candidate.Converged, other.Candidate.Converged, c.of(a), c.of(other))
}

// of is the criterion of a fit.
func (c Choice) of(f Fit) float64 {
	switch c {
	case ByICL:
		return f.Candidate.ICL
	case ByBIC:
		return f.Candidate.BIC
	}
	return f.BICc()
}

// withinBIC is by how much BIC may be above the least for a k to be left, however few parameters tell the two apart.
const withinBIC = 20

// Left are the ks from a bound on, if there is one, whose BIC, corrected for few rows, is within withinBIC of the
// least, or that a penalty of 3 a parameter prefers to the k of the least, which are larger ones: experts that overlap
// gain too little for log n a parameter. docs/studies/inference.md says on which tables both were chosen, and how often
// the set held k on others.
func (f Fits) Left(bound *fitted.AtLeast) (ks []int) {
	var best Fit
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if bound != nil && k < bound.K {
			continue
		}
		if ks = append(ks, k); len(ks) == 1 || f[k].BICc() < best.BICc() {
			best = f[k]
		}
	}
	return slices.DeleteFunc(ks, func(k int) bool {
		return !(f[k].BICc() <= best.BICc()+withinBIC || f[k].aic3c() <= best.aic3c())
	})
}

// Preferred says whether the first of two fits is chosen: it alone has converged, or its criterion is less.
func Preferred(converged, otherConverged bool, criterion, other float64) bool {
	if converged != otherConverged {
		return converged
	}
	return criterion < other
}

// Fit is the fit of a number of experts.
type Fit struct {
	Candidate  fitted.Candidate
	Model      *fitted.Model
	Vector     *fitted.Vector // of several targets, in the place of Model
	Parameters int
	Few        float64 // by what few rows multiply the penalty of BIC, see [Fewness]
	Certain    bool    // the features tell every target with certainty, and the likelihood has no finite maximum
}

// Fits are those of several numbers of experts.
type Fits map[int]Fit

// Of is a fit of p.
func Of(p *problem.Problem, c fitted.Candidate, m *fitted.Model) Fit {
	f := Fit{Candidate: c, Model: m, Parameters: p.Shape.Parameters(), Few: 1}
	f.Certain = p.Shape.Explained(m.Fit.LogLikelihood / p.Weights.Total)
	if p.Shape.EstimatesNoise() {
		f.Few = Fewness(p.Weights.Total, f.Parameters)
	}
	return f
}

// Fewness is n/(n − p − 2) of n rows and p parameters, +Inf where there are no more rows than p + 2.
func Fewness(n float64, p int) float64 { return n / max(0, n-float64(p)-2) }

// BICc is the criterion of [ByBICc].
func (f Fit) BICc() float64 {
	c := f.Candidate
	return f.Few*(c.BIC+2*c.LogLikelihood) - 2*c.LogLikelihood
}

// aic3c is AIC with a penalty of 3 a parameter (Bozdogan 1994), corrected likewise.
func (f Fit) aic3c() float64 { return 3*f.Few*float64(f.Parameters) - 2*f.Candidate.LogLikelihood }

// WarnOfEdge warns of a choice of k at an end of the range that was fitted.
func WarnOfEdge(f *fitted.Fit, k, from, to int) {
	best, more := "has the least BIC", "have less BIC"
	switch Choice(f.ChosenBy) {
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
	case k == to:
		f.Warn(fitted.WarnLargerK, "k = %d, the largest that was fitted, %s: a larger k may %s", k, best, more)
	case k == from && from > 1:
		f.Warn(fitted.WarnSmallerK, "k = %d, the smallest that was fitted, %s: a smaller k may %s", k, best, more)
	}
}

// nestedRounding is by how much the log-likelihood of a mixture may be below that of one that it contains.
const nestedRounding = 1e-6

// Falls says where the log-likelihood falls with k, of mixtures that contain those before them.
func Falls(all []fitted.Candidate) (notes []string) {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.Converged && b.LogLikelihood < a.LogLikelihood-nestedRounding {
			notes = append(notes, fmt.Sprintf("k = %d has a log-likelihood %.3g below that of k = %d, which it "+
				"contains: a better optimum of it exists; see --starts", b.K, a.LogLikelihood-b.LogLikelihood, a.K))
		}
	}
	return notes
}
