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

// Own returns nothing.
func (Poisson) Own() []mixture.OwnParameter { return nil }

// Domain is counts, of means above 0.
func (Poisson) Domain() mixture.Domain {
	return mixture.Domain{Most: math.Inf(1), Whole: true, MostMean: math.Inf(1)}
}

// LogDensity implements [mixture.Density].
func (Poisson) LogDensity(dst, scores, y, mean, _ []float64) {
	for t, v := range y {
		lg, _ := math.Lgamma(v + 1)
		dst[t] = scores[t] + v*math.Log(mean[t]) - mean[t] - lg
	}
}

// Derive implements [mixture.Density].
func (Poisson) Derive(d mixture.Terms, y, mean, _ []float64) {
	for t, v := range y {
		m := mean[t]
		d.Score[t], d.Information[t], d.Expected[t] = v/m-1, v/(m*m), 1/m
	}
}

// CDF implements [mixture.Law].
func (Poisson) CDF(y, mean float64, _ []float64) float64 {
	if y < 0 {
		return 0
	}
	return mathext.GammaIncRegComp(math.Floor(y)+1, mean)
}

// Quantile implements [mixture.Law].
func (p Poisson) Quantile(q, mean float64, _ []float64) float64 {
	y := 0.0
	for p.CDF(y, mean, nil) < q {
		y++
	}
	return y
}

// Logistic is the logistic law of mean m and scale s: F(y) = 1/(1 + exp(−(y − m)/s)).
type Logistic struct{}

// Name returns "logistic".
func (Logistic) Name() string { return "logistic" }

// Own returns s.
func (Logistic) Own() []mixture.OwnParameter { return mixture.Gaussian{}.Own() }

// Domain is all numbers.
func (Logistic) Domain() mixture.Domain { return mixture.Gaussian{}.Domain() }

// LogDensity implements [mixture.Density]: −|e| − 2·log(1 + exp(−|e|)) − log s, with e = (y − m)/s.
func (Logistic) LogDensity(dst, scores, y, mean, psi []float64) {
	s := psi[0]
	for t, v := range y {
		e := math.Abs(v-mean[t]) / s
		dst[t] = scores[t] - e - 2*math.Log1p(math.Exp(-e)) - math.Log(s)
	}
}

// Derive implements [mixture.Density], with h = tanh(e/2).
func (Logistic) Derive(d mixture.Terms, y, mean, psi []float64) {
	s := psi[0]
	for t, v := range y {
		e := (v - mean[t]) / s
		h := math.Tanh(e / 2)
		slope := (1 - h*h) / 2
		d.Score[t], d.Information[t], d.Expected[t] = h/s, slope/(s*s), 1/(3*s*s)
		d.OwnScore[0][t], d.OwnInformation[0][t], d.Cross[0][t] = e*h-1, e*h+e*e*slope, (h+e*slope)/s
	}
}

// CDF implements [mixture.Law].
func (Logistic) CDF(y, mean float64, psi []float64) float64 {
	return 1 / (1 + math.Exp((mean-y)/psi[0]))
}

// Quantile implements [mixture.Law].
func (Logistic) Quantile(q, mean float64, psi []float64) float64 {
	return mean + psi[0]*(math.Log(q)-math.Log1p(-q))
}

// Plain is the normal density without its kernels: what any density goes through.
type Plain struct{ mixture.Gaussian }

// Name returns "plain".
func (Plain) Name() string { return "plain" }
