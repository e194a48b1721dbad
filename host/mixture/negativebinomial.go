package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/internal/kernel"
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

var ownTheta = []OwnParameter{{Name: "theta", Start: 1, Least: 1e-6, Most: 1e8, Reciprocal: true}}

// Domain is counts, of means above 0.
func (NegativeBinomial) Domain() Domain { return counts }

// LogDensity implements [Density].
func (NegativeBinomial) LogDensity(dst, scores, y, mean, psi []float64) {
	theta, of := psi[0], rises{theta: psi[0]}
	var room [128]float64
	for from := 0; from < len(y); from += len(room) {
		to := min(from+len(room), len(y))
		dst, scores, y, mean, logs := dst[from:to], scores[from:to], y[from:to], mean[from:to], room[:to-from]
		logFromOne(logs, mean, theta)
		for t, m := range mean {
			dst[t] = min(max(m, math.SmallestNonzeroFloat64), math.MaxFloat64)
		}
		kernel.Log(dst, dst)
		for t, v := range y {
			log := -(v + theta) * logs[t]
			if v > 0 {
				rise := of.at(v)
				log += rise.value + v*dst[t] - logFactorial(v)
			}
			dst[t] = scores[t] + log
		}
	}
}

// logFromOne writes log(1 + m/θ) to dst.
func logFromOne(dst, mean []float64, theta float64) {
	for t, m := range mean {
		dst[t] = 1 + min(m/theta, math.MaxFloat64)
	}
	kernel.Log(dst, dst)
	for t, m := range mean {
		if x := m / theta; !(x > nextTo) {
			dst[t] = math.Log1p(x)
		}
	}
}

// Derive implements [Density].
func (NegativeBinomial) Derive(d Terms, y, mean, psi []float64) {
	theta, of := psi[0], rises{theta: psi[0]}
	logs := d.OwnScore[0][:len(y)]
	logFromOne(logs, mean, theta)
	for t, v := range y {
		m := max(mean[t], leastMean)
		sum := m + theta
		d.Score[t] = theta * (v/m - 1) / sum
		d.Information[t] = v/m/m - (v+theta)/sum/sum
		d.Expected[t] = theta / sum / m
		rise := of.at(v)
		// That of log f by θ, and its derivative.
		by := rise.first + (v/theta - (v-m)/sum - logs[t])
		by2 := rise.second - v/theta/theta + m/theta/sum + (v-m)/sum/sum
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
	case y > 1e9 && theta < largeBeta: // the gamma law of the Poisson laws' means, to 1/y
		return mathext.GammaIncReg(theta, theta*(y/mean))
	}
	return incompleteBeta(theta, math.Floor(y)+1, theta/(theta+mean), mean/(theta+mean))
}

// Quantile implements [Law].
func (d NegativeBinomial) Quantile(q, mean float64, psi []float64) float64 {
	sd := math.Sqrt(mean) * math.Sqrt(1+mean/psi[0])
	return leastWhole(q, mean+sd*distuv.UnitNormal.Quantile(q), sd/4, math.Inf(1), func(y float64) float64 {
		return d.CDF(y, mean, psi)
	})
}
