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

// NoiseCorrected returns the estimate σ·√(rows/(rows−coefficients)) of a noise level
// whose estimate by maximum likelihood is σ > 0, from the residuals of so many rows
// around experts with so many coefficients in all: the maximum divides the residuals'
// squares by the rows, and so lies low by half the coefficients over the rows. Experts
// that share rows lose a little more. It is σ where there are no more rows than
// coefficients.
func NoiseCorrected(sigma, rows, coefficients float64) float64 {
	if rows > coefficients {
		return sigma * math.Sqrt(rows/(rows-coefficients))
	}
	return sigma
}

// NoiseInterval returns the confidence interval of a noise level with standard error
// se: that of log σ, exponentiated, and never below 0. Its centre is
// [NoiseCorrected], not σ itself, which may lie below it.
func NoiseInterval(sigma, se, level, rows, coefficients float64) (lower, upper float64) {
	return NoiseIntervalOf(sigma, se, quantile(level), rows, coefficients)
}

// NoiseIntervalOf is [NoiseInterval] of so many standard errors to either side.
func NoiseIntervalOf(sigma, se, critical, rows, coefficients float64) (lower, upper float64) {
	centre := NoiseCorrected(sigma, rows, coefficients)
	factor := math.Exp(critical * se / sigma)
	return centre / factor, centre * factor
}

func quantile(level float64) float64 { return distuv.UnitNormal.Quantile((1 + level) / 2) }
