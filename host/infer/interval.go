package infer

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval returns the confidence interval of a coefficient with standard error
// se, estimate ± z·se with z the normal quantile at (1+level)/2. level is between
// 0 and 1.
func Interval(estimate, se, level float64) (lower, upper float64) {
	half := quantile(level) * se
	return estimate - half, estimate + half
}

// NoiseInterval returns the confidence interval of a noise level σ > 0 with
// standard error se: that of log σ, exponentiated. It is never below 0, and for
// few rows closer to its level than [Interval].
func NoiseInterval(sigma, se, level float64) (lower, upper float64) {
	factor := math.Exp(quantile(level) * se / sigma)
	return sigma / factor, sigma * factor
}

func quantile(level float64) float64 { return distuv.UnitNormal.Quantile((1 + level) / 2) }
