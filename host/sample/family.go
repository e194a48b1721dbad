package sample

import (
	"fmt"
	"strings"

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
