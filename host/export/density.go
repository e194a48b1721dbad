package export

import (
	"math"

	"github.com/gatedlearning/moe/host/mixture"
)

// remote is how far an expert's mean is from y. From most on its density is 0 in float64, and of experts that are all
// as far the nearest has the row.
type remote struct {
	off  ref // −1 where log f is a number at every mean
	most float64
}

// Where densities are 0: |y − m|/σ of normal noise, and the mean of counts. What is there is 0 beside what is not, also
// where the gate's scores are large.
const (
	farNormal = 1e150
	farCount  = 1e300
)

// farStudent is where 1 + e²/ν is e²/ν to the last digit, as in package mixture.
const farStudent = 1e100

// logDensity is log f(y; m, ψ) of the family, as [mixture.Density.LogDensity], but for terms of y alone: those are the
// same for every expert, and no posterior has them. The logarithm of the mean is [builder.logMean].
func (b *builder) logDensity(y, m ref, logMean func() ref, psi []float64) (ref, remote) {
	none := remote{off: -1}
	times := func(v float64, r ref) ref { return b.make(opMul, b.num(v), r) }
	family := mixture.DensityOf(b.m.Family)
	most := func(at float64) ref { // log f where y = m = at
		out := []float64{0}
		family.LogDensity(out, []float64{0}, []float64{at}, []float64{at}, psi)
		return b.num(out[0])
	}
	switch family.(type) {
	case mixture.Gaussian:
		off := b.make(opAbs, b.make(opDiv, b.make(opSub, y, m), b.num(psi[0])))
		z := b.make(opMin, off, b.num(farNormal))
		return b.make(opAdd, times(-0.5, b.make(opMul, z, z)), b.num(-math.Log(psi[0]))), remote{off, farNormal}
	case mixture.StudentT:
		off := b.make(opAbs, b.make(opDiv, b.make(opSub, y, m), b.num(psi[0])))
		z := b.make(opMin, off, b.num(farStudent))
		near := b.make(opLog1p, b.make(opDiv, b.make(opMul, z, z), b.num(psi[1])))
		half := b.make(opLog, b.make(opAbs, b.make(opSub, times(0.5, y), times(0.5, m))))
		far := b.make(opSub, b.make(opAdd, half, b.num(math.Ln2)), b.num(math.Log(psi[0])))
		far = b.make(opSub, times(2, far), b.num(math.Log(psi[1])))
		tail := b.where(b.make(opLess, b.num(farStudent), off), far, near)
		return b.make(opAdd, times(-(psi[1]+1)/2, tail), most(0)), none
	case mixture.Gamma:
		less, off := b.logLess(y, m, logMean())
		return b.make(opAdd, times(psi[0], less), most(1)), remote{off, farRatio}
	case mixture.Poisson:
		m = b.within(m)
		return b.make(opSub, b.make(opMul, y, logMean()), m), remote{m, farCount}
	case mixture.Binomial: // as likely at a mean of 0 or 1 as at those next to it
		m = b.within(m)
		trials := b.num(1)
		if b.trials >= 0 {
			trials = b.trials
		}
		no := b.make(opMul, b.make(opSub, trials, y), b.make(opLog1p, b.make(opNeg, m)))
		return b.make(opAdd, b.make(opMul, y, logMean()), no), none
	case mixture.NegativeBinomial:
		if len(b.m.Own["theta"]) > 1 {
			b.refuse("the posterior of negative binomial noise with a theta for each expert, which needs the gamma " +
				"function")
		}
		theta := psi[0] // log Γ(y+θ) − log Γ(θ) is the same for all
		over := b.make(opLog1p, b.make(opMin, b.make(opDiv, m, b.num(theta)), b.num(math.MaxFloat64)))
		return b.make(opSub, b.make(opMul, y, logMean()), b.make(opMul, b.make(opAdd, y, b.num(theta)), over)), none
	}
	b.refuse("the posterior of its noise, " + b.m.Family)
	return b.num(0), none
}

// within is a mean as densities take it: 0 is the smallest number above it, and what is beyond the numbers the largest.
func (b *builder) within(m ref) ref {
	most := math.MaxFloat64
	if b.m.Family == "binomial" {
		most = 1 - 0x1p-53
	}
	return b.make(opMin, b.make(opMax, m, b.num(math.SmallestNonzeroFloat64)), b.num(most))
}

// smallMean is the logarithm below which that of a mean comes from the index: there SQL has 0 for the power.
const smallMean = leastPower

// logMean is the logarithm of expert i's mean at z, as densities take it ([builder.within]). Means that vanish as a
// power of the index are not rounded first.
func (b *builder) logMean(i int, m, z ref, offset, scale float64) ref {
	m = b.within(m)
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
	small := b.make(opMax, tail, b.num(-1074*math.Ln2)) // the logarithm of the least
	return b.where(b.make(opLess, tail, b.num(smallMean)), small, log)
}

// The logarithms of y/m beyond which densities of gamma noise are 0, and beyond which the ratio is no number.
const (
	farRatio  = 600
	mostRatio = 709
)

// logLess is log(y/m) − (y − m)/m, in which little cancels, and log(y/m). Far below a mean it goes by that, as the
// ratio may be no number; far above one no density is left.
func (b *builder) logLess(y, m, logMean ref) (less, off ref) {
	d := b.make(opSub, b.make(opLog, y), logMean)
	near := b.make(opAnd, b.make(opLess, b.num(-farRatio), d), b.make(opLess, d, b.num(farRatio)))
	m = b.where(near, m, y)
	e := b.make(opDiv, b.make(opSub, y, m), m)
	log := b.where(b.make(opLess, e, b.num(-0.5)), b.make(opLog, b.make(opDiv, y, m)), b.make(opLog1p, e))
	less = b.where(near, b.make(opSub, log, e), b.make(opAdd, d, b.num(1)))
	return less, b.make(opMin, d, b.num(mostRatio))
}

// never is the score of what does not give y, in every language a number.
const never = -math.MaxFloat64

// refuse keeps the first thing that cannot be said.
func (b *builder) refuse(what string) {
	if b.err == nil {
		b.err = &UnsupportedError{What: what}
	}
}
