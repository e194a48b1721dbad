package export

import (
	"math"

	"github.com/gatedlearning/moe/host/mixture"
)

// logDensity is log f(y; m, ψ) of the family, as [mixture.Density.LogDensity], but for terms of y alone: those are the
// same for every expert, and no posterior has them. The logarithm of the mean is [builder.logMean].
func (b *builder) logDensity(y, m ref, logMean func() ref, psi []float64) ref {
	times := func(v float64, r ref) ref { return b.make(opMul, b.num(v), r) }
	family := mixture.DensityOf(b.m.Family)
	most := func(at float64) ref { // log f where y = m = at
		out := []float64{0}
		family.LogDensity(out, []float64{0}, []float64{at}, []float64{at}, psi)
		return b.num(out[0])
	}
	switch family.(type) {
	case mixture.Gaussian:
		z := b.make(opDiv, b.make(opSub, y, m), b.num(psi[0]))
		return b.make(opAdd, times(-0.5, b.make(opMul, z, z)), b.num(-math.Log(psi[0])))
	case mixture.StudentT:
		z := b.make(opDiv, b.make(opSub, y, m), b.num(psi[0]))
		tail := b.make(opLog1p, b.make(opDiv, b.make(opMul, z, z), b.num(psi[1])))
		return b.make(opAdd, times(-(psi[1]+1)/2, tail), most(0))
	case mixture.Gamma:
		return b.make(opAdd, times(psi[0], b.logLess(y, m, logMean())), most(1))
	case mixture.Poisson:
		return b.make(opSub, b.make(opMul, y, logMean()), m)
	case mixture.Binomial: // as likely at a mean of 0 or 1 as at those next to it
		m = b.make(opMin, b.make(opMax, m, b.num(math.SmallestNonzeroFloat64)), b.num(1-0x1p-53))
		trials := b.num(1)
		if b.trials >= 0 {
			trials = b.trials
		}
		no := b.make(opMul, b.make(opSub, trials, y), b.make(opLog1p, b.make(opNeg, m)))
		return b.make(opAdd, b.make(opMul, y, logMean()), no)
	case mixture.NegativeBinomial:
		if len(b.m.Own["theta"]) > 1 {
			b.refuse("the posterior of negative binomial noise with a theta for each expert, which needs the gamma " +
				"function")
		}
		theta := psi[0] // log Γ(y+θ) − log Γ(θ) is the same for all
		over := b.make(opLog1p, b.make(opMin, b.make(opDiv, m, b.num(theta)), b.num(math.MaxFloat64)))
		return b.make(opSub, b.make(opMul, y, logMean()), b.make(opMul, b.make(opAdd, y, b.num(theta)), over))
	}
	b.refuse("the posterior of its noise, " + b.m.Family)
	return b.num(0)
}

// smallMean is the logarithm below which that of a mean comes from the index: there SQL has 0 for the power.
const smallMean = leastPower

// logMean is the logarithm of expert i's mean at z, as densities take it: a mean of 0 is the smallest number above it.
// Means that vanish as a power of the index are not rounded first.
func (b *builder) logMean(i int, m, z ref, offset, scale float64) ref {
	least, most := math.SmallestNonzeroFloat64, math.MaxFloat64
	if b.m.Family == "binomial" {
		most = 1 - 0x1p-53
	}
	m = b.make(opMin, b.make(opMax, m, b.num(least)), b.num(most))
	little := b.make(opLess, m, b.num(0x1p-1000)) // subnormal numbers, of which math.Log is wrong on some processors
	scaled := b.make(opMul, b.make(opMin, m, b.num(1)), b.num(0x1p100))
	log := b.make(opLog, b.where(little, scaled, m))
	log = b.make(opSub, log, b.where(little, b.num(100*math.Ln2), b.num(0)))
	named := b.m.Activation
	if b.m.Leaves != nil {
		named = b.m.Leaves[i]
	}
	slope := 1.0
	switch {
	case named.Table != nil || b.m.Approximation != nil || offset != 0 || !(scale > 0):
		return log
	case named.Name == "softplus": // e^{βz}/β
		slope = named.Params["beta"]
		scale /= slope
	case named.Name != "exp" && named.Name != "sigmoid":
		return log
	}
	tail := b.make(opAdd, b.make(opMul, b.num(slope), z), b.num(math.Log(scale)))
	small := b.make(opMax, tail, b.num(-1074*math.Ln2)) // the logarithm of least
	return b.where(b.make(opLess, tail, b.num(smallMean)), small, log)
}

// The logarithms of y/m beyond which log f of gamma goes by them, as the ratio may be no number, and beyond which it is
// none of float64.
const (
	farRatio  = 600
	mostRatio = 709
)

// logLess is log(y/m) − (y − m)/m, in which little cancels. Far above, where every density is 0, it is linear in
// log(y/m): the nearest mean has the least.
func (b *builder) logLess(y, m, logMean ref) ref {
	d := b.make(opSub, b.make(opLog, y), logMean)
	near := b.make(opAnd, b.make(opLess, b.num(-farRatio), d), b.make(opLess, d, b.num(farRatio)))
	m = b.where(near, m, y)
	off := b.make(opDiv, b.make(opSub, y, m), m)
	log := b.where(b.make(opLess, off, b.num(-0.5)), b.make(opLog, b.make(opDiv, y, m)), b.make(opLog1p, off))
	above := b.make(opMin, d, b.num(mostRatio))
	steps := b.make(opMul, b.num(math.Exp(farRatio)), b.make(opSub, above, b.num(farRatio-1)))
	far := b.where(b.make(opLess, d, b.num(0)), b.make(opAdd, d, b.num(1)), b.make(opSub, above, steps))
	return b.where(near, b.make(opSub, log, off), far)
}

// never is a log density that no expert's is near, and a number in every language.
const never = -1e300

// atZero is log f(y) of an expert that is always 0, but for what [builder.logDensity] leaves out, which is 0 there.
func (b *builder) atZero(y ref) ref {
	return b.where(b.make(opEqual, y, b.num(0)), b.num(0), b.num(never))
}

// refuse keeps the first thing that cannot be said.
func (b *builder) refuse(what string) {
	if b.err == nil {
		b.err = &UnsupportedError{What: what}
	}
}
