package sample

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/mixture"
)

// checkFamily refuses a density that is not known, and noise that it does not have.
func (c *Config) checkFamily() error {
	if !mixture.Known(c.Family) {
		return fmt.Errorf("there is no density %q; there are %s", c.Family, strings.Join(mixture.Densities(), ", "))
	}
	if d := mixture.DensityOf(c.Family); d.Own() == 0 && c.Sigma != 0 {
		return fmt.Errorf("sigma = %v, and the density %s has no parameter but its mean", c.Sigma, d.Name())
	}
	return nil
}

// target returns the y of a mean that a normal number stands for: the quantile of the density at the probability
// of smaller ones.
func target(d mixture.Density, mean, sigma, noise float64) float64 {
	q := distuv.UnitNormal.CDF(noise)
	return d.Quantile(min(max(q, math.SmallestNonzeroFloat64), 1-0x1p-53), mean, sigma)
}
