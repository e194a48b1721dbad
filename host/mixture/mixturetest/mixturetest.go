// Package mixturetest has densities for tests, as a program that registers its own would write them, and an activation
// whose values are means of counts.
package mixturetest

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/mixture"
)

// Exp is the activation g = exp.
type Exp struct{}

// Eval writes exp(z) to dst.
func (Exp) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = math.Exp(v)
	}
	return nil
}

// Deriv writes the derivative, which is exp(z), to dst.
func (e Exp) Deriv(ctx context.Context, dst, z []float64) error { return e.Eval(ctx, dst, z) }

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
