package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Gamma is the law of y > 0 of mean m > 0 and shape ν, with variance m²/ν:
//
//	log f = ν·log(ν/m) − log Γ(ν) + (ν−1)·log y − ν·y/m
type Gamma struct{}

// Name returns "gamma".
func (Gamma) Name() string { return "gamma" }

// Own returns ν.
func (Gamma) Own() []OwnParameter { return ownShape }

var ownShape = []OwnParameter{{Name: "shape", Start: 1, Least: 1e-4, Most: 1e12}}

// Domain is numbers above 0, of means above 0.
func (Gamma) Domain() Domain {
	return Domain{Least: math.SmallestNonzeroFloat64, Most: math.Inf(1), MostMean: math.Inf(1)}
}

// LogDensity implements [Density], as ν·(log(y/m) − y/m + 1) − log y + ν·log ν − ν − log Γ(ν).
func (Gamma) LogDensity(dst, scores, y, mean, psi []float64) {
	nu := psi[0]
	constant := shapeConstant(nu)
	for t, v := range y {
		m := min(max(mean[t], math.SmallestNonzeroFloat64), math.MaxFloat64)
		dst[t] = scores[t] + (nu*logLess(v, m) - math.Log(v) + constant)
	}
}

// shapeConstant returns ν·log ν − ν − log Γ(ν).
func shapeConstant(nu float64) float64 {
	if nu < stirlingFrom {
		lg, _ := math.Lgamma(nu)
		return nu*math.Log(nu) - nu - lg
	}
	return 0.5*math.Log(nu/(2*math.Pi)) - stirling(nu)
}

// shapeTerms returns ν·(log ν − ψ(ν)) and ν·(ν·ψ′(ν) − 1).
func shapeTerms(nu float64) (first, second float64) {
	if nu < stirlingFrom {
		return nu * (math.Log(nu) - mathext.Digamma(nu)), nu * (nu*mathext.Zeta(2, nu) - 1)
	}
	return -nu * digammaLess(nu), nu * nu * trigammaLess(nu)
}

// Derive implements [Density].
func (Gamma) Derive(d Terms, y, mean, psi []float64) {
	nu := psi[0]
	first, second := shapeTerms(nu)
	for t, v := range y {
		m := max(mean[t], leastMean)
		e := (v - m) / m
		own := nu*logLess(v, m) + first
		d.Score[t] = nu * e / m
		d.Information[t], d.Expected[t] = nu*(1+2*e)/m/m, nu/m/m
		d.OwnScore[0][t], d.OwnInformation[0][t], d.Cross[0][t] = own, second-own, -nu*e/m
	}
}

// CDF implements [Law].
func (Gamma) CDF(y, mean float64, psi []float64) float64 {
	if y <= 0 {
		return 0
	}
	x := y / max(mean, math.SmallestNonzeroFloat64)
	if math.IsInf(x*psi[0], 1) {
		return 1
	}
	return mathext.GammaIncReg(psi[0], psi[0]*x)
}

// Quantile implements [Law].
func (d Gamma) Quantile(q, mean float64, psi []float64) float64 {
	lo, hi := 0.0, max(mean, math.SmallestNonzeroFloat64)
	for ; d.CDF(hi, mean, psi) < q; hi *= 2 {
		lo = hi
	}
	return bisect(lo, hi, func(y float64) bool { return d.CDF(y, mean, psi) >= q })
}

// bisect returns the least number above lo ≥ 0 of which it holds, to the last digit: it holds of hi,
// and of all above a number of which it does. Where lo is far below hi it halves the exponent first.
func bisect(lo, hi float64, holds func(v float64) bool) float64 {
	for {
		y := lo/2 + hi/2
		if hi > 4*lo {
			y = math.Sqrt(max(lo, math.SmallestNonzeroFloat64)) * math.Sqrt(hi)
		}
		if !(y > lo && y < hi) {
			return hi
		}
		if holds(y) {
			hi = y
		} else {
			lo = y
		}
	}
}
