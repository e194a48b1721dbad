package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// NegativeBinomial is the law of counts y of mean m > 0 and variance m + m²/θ, NB2 (Cameron & Trivedi 1998):
//
//	log f = log Γ(y+θ) − log Γ(θ) − log y! + θ·log(θ/(θ+m)) + y·log(m/(θ+m))
//
// which is that of [Poisson] as θ grows.
type NegativeBinomial struct{}

// Name returns "negative-binomial".
func (NegativeBinomial) Name() string { return "negative-binomial" }

// Own returns θ.
func (NegativeBinomial) Own() []OwnParameter { return ownTheta }

var ownTheta = []OwnParameter{{Name: "theta", Start: 1, Least: 1e-6, Most: 1e8}}

// Domain is counts, of means above 0.
func (NegativeBinomial) Domain() Domain { return counts }

// LogDensity implements [Density].
func (NegativeBinomial) LogDensity(dst, scores, y, mean, psi []float64) {
	theta := psi[0]
	for t, v := range y {
		m := max(mean[t], math.SmallestNonzeroFloat64)
		log := -(v + theta) * math.Log1p(m/theta)
		if v > 0 {
			rise, _, _ := rising(theta, v)
			log += rise + v*math.Log(m) - logFactorial(v)
		}
		dst[t] = scores[t] + log
	}
}

// Derive implements [Density].
func (NegativeBinomial) Derive(d Terms, y, mean, psi []float64) {
	theta := psi[0]
	for t, v := range y {
		m := max(mean[t], leastMean)
		sum := m + theta
		d.Score[t] = theta * (v/m - 1) / sum
		d.Information[t] = v/m/m - (v+theta)/sum/sum
		d.Expected[t] = theta / sum / m
		_, first, second := rising(theta, v)
		// That of log f by θ, and its derivative.
		by := first + (v/theta - (v-m)/sum - math.Log1p(m/theta))
		by2 := second - v/theta/theta + m/theta/sum + (v-m)/sum/sum
		d.OwnScore[0][t], d.OwnInformation[0][t] = theta*by, -theta*(by+theta*by2)
		d.Cross[0][t] = -theta * (v - m) / sum / sum
	}
}

// CDF implements [Law].
func (NegativeBinomial) CDF(y, mean float64, psi []float64) float64 {
	theta := psi[0]
	switch {
	case y < 0:
		return 0
	case mean <= 0 || math.IsInf(y, 1):
		return 1
	case y > 1e9: // the gamma law of the Poisson laws' means, to 1/y
		return mathext.GammaIncReg(theta, theta*(y/mean))
	}
	return mathext.RegIncBeta(theta, math.Floor(y)+1, theta/(theta+mean))
}

// Quantile implements [Law].
func (d NegativeBinomial) Quantile(q, mean float64, psi []float64) float64 {
	sd := math.Sqrt(mean) * math.Sqrt(1+mean/psi[0])
	return leastWhole(q, mean+sd*distuv.UnitNormal.Quantile(q), sd/4, math.Inf(1), func(y float64) float64 {
		return d.CDF(y, mean, psi)
	})
}
