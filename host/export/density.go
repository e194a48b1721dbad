package export

import (
	"math"

	"github.com/gatedlearning/moe/host/mixture"
)

// logDensity is log f(y; m, ψ) of the family, as [mixture.Density.LogDensity], but for terms of y alone: those are the
// same for every expert, and no posterior has them.
func (b *builder) logDensity(y, m ref, psi []float64) ref {
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
	case mixture.Gamma: // ν·(log(y/m) − (y − m)/m), in which little cancels
		off := b.make(opDiv, b.make(opSub, y, m), m)
		far := b.make(opLess, off, b.num(-0.5))
		log := b.where(far, b.make(opLog, b.make(opDiv, y, m)), b.make(opLog1p, off))
		return b.make(opAdd, times(psi[0], b.make(opSub, log, off)), most(1))
	case mixture.Poisson:
		return b.make(opSub, b.make(opMul, y, b.make(opLog, m)), m)
	case mixture.Binomial: // as likely at a mean of 0 or 1 as at those next to it
		m = b.make(opMin, b.make(opMax, m, b.num(math.SmallestNonzeroFloat64)), b.num(1-0x1p-53))
		trials := b.num(1)
		if b.trials >= 0 {
			trials = b.trials
		}
		no := b.make(opMul, b.make(opSub, trials, y), b.make(opLog1p, b.make(opNeg, m)))
		return b.make(opAdd, b.make(opMul, y, b.make(opLog, m)), no)
	case mixture.NegativeBinomial:
		if len(b.m.Own["theta"]) > 1 {
			b.refuse("the posterior of negative binomial noise with a theta for each expert, which needs the gamma " +
				"function")
		}
		theta := psi[0] // log Γ(y+θ) − log Γ(θ) is the same for all
		over := b.make(opLog1p, b.make(opDiv, m, b.num(theta)))
		return b.make(opSub, b.make(opMul, y, b.make(opLog, m)), b.make(opMul, b.make(opAdd, y, b.num(theta)), over))
	}
	b.refuse("the posterior of its noise, " + b.m.Family)
	return b.num(0)
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
