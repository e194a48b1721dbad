package host

import (
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
)

// The families that are more than a density by its name: lognormal is normal noise of log y, only student-t has
// degrees of freedom, and only binomial has trials.
const (
	Lognormal = "lognormal"
	StudentT  = "student-t"
	Binomial  = "binomial"
)

// Families lists the laws of the target, in order.
func Families() []string {
	all := append(mixture.Densities(), Lognormal)
	slices.Sort(all)
	return all
}

// DensityName is [Config.Family] of a family: normal noise is that of [Lognormal], of another target.
func DensityName(family string) string {
	if family == Lognormal || family == fitted.Normal {
		return ""
	}
	return family
}

// Counts says whether a family is of counts, which may have an expert that is always 0.
func Counts(family string) bool {
	name := DensityName(family)
	return mixture.Known(name) && mixture.Counts(mixture.DensityOf(name))
}

// Discrete says whether the targets of a family are whole numbers alone, which have probabilities.
func Discrete(family string) bool {
	name := DensityName(family)
	return mixture.Known(name) && mixture.DensityOf(name).Domain().Whole
}

// ActivationOf is the activation of experts that are linear in a family: the inverse of its link.
func ActivationOf(family string) string {
	switch family {
	case mixture.Poisson{}.Name(), mixture.NegativeBinomial{}.Name(), mixture.Gamma{}.Name():
		return "exp"
	case mixture.Binomial{}.Name():
		return "sigmoid"
	}
	return "identity"
}
