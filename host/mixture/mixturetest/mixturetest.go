// Package mixturetest has densities for tests, as a program that registers its own would write them.
package mixturetest

import (
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/gatedlearning/moe/host/mixture"
)

// Poisson is the law of counts y of mean m: log f = y·log m − m − log y!.
type Poisson struct{}

// Name returns "poisson".
func (Poisson) Name() string { return "poisson" }

// Own returns 0.
func (Poisson) Own() int { return 0 }

// Domain is counts, of means above 0.
func (Poisson) Domain() mixture.Domain {
	return mixture.Domain{Most: math.Inf(1), Whole: true, MostMean: math.Inf(1)}
}

// LogDensity implements [mixture.Density].
func (Poisson) LogDensity(dst, scores, y, mean []float64, _ float64) {
	for t, v := range y {
		lg, _ := math.Lgamma(v + 1)
		dst[t] = scores[t] + v*math.Log(mean[t]) - mean[t] - lg
	}
}

// Derive implements [mixture.Density].
func (Poisson) Derive(d mixture.Terms, y, mean []float64, _ float64) {
	for t, v := range y {
		m := mean[t]
		d.Score[t], d.Information[t], d.Expected[t] = v/m-1, v/(m*m), 1/m
	}
}

// CDF implements [mixture.Law].
func (Poisson) CDF(y, mean, _ float64) float64 {
	if y < 0 {
		return 0
	}
	return mathext.GammaIncRegComp(math.Floor(y)+1, mean)
}

// Quantile implements [mixture.Law].
func (p Poisson) Quantile(q, mean, s float64) float64 {
	y := 0.0
	for p.CDF(y, mean, s) < q {
		y++
	}
	return y
}

// Logistic is the logistic law of mean m and scale s: F(y) = 1/(1 + exp(−(y − m)/s)).
type Logistic struct{}

// Name returns "logistic".
func (Logistic) Name() string { return "logistic" }

// Own returns 1: s.
func (Logistic) Own() int { return 1 }

// Domain is all numbers.
func (Logistic) Domain() mixture.Domain { return mixture.Gaussian{}.Domain() }

// LogDensity implements [mixture.Density]: −|e| − 2·log(1 + exp(−|e|)) − log s, with e = (y − m)/s.
func (Logistic) LogDensity(dst, scores, y, mean []float64, s float64) {
	for t, v := range y {
		e := math.Abs(v-mean[t]) / s
		dst[t] = scores[t] - e - 2*math.Log1p(math.Exp(-e)) - math.Log(s)
	}
}

// Derive implements [mixture.Density], with h = tanh(e/2).
func (Logistic) Derive(d mixture.Terms, y, mean []float64, s float64) {
	for t, v := range y {
		e := (v - mean[t]) / s
		h := math.Tanh(e / 2)
		slope := (1 - h*h) / 2
		d.Score[t], d.Information[t], d.Expected[t] = h/s, slope/(s*s), 1/(3*s*s)
		d.OwnScore[t], d.OwnInformation[t], d.Cross[t] = e*h-1, e*h+e*e*slope, (h+e*slope)/s
	}
}

// CDF implements [mixture.Law].
func (Logistic) CDF(y, mean, s float64) float64 { return 1 / (1 + math.Exp((mean-y)/s)) }

// Quantile implements [mixture.Law].
func (Logistic) Quantile(q, mean, s float64) float64 { return mean + s*(math.Log(q)-math.Log1p(-q)) }

// Plain is the normal density without its kernels: what any density goes through.
type Plain struct{ mixture.Gaussian }

// Name returns "plain".
func (Plain) Name() string { return "plain" }
