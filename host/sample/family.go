package sample

import (
	"fmt"
	"math"
	"strings"

	"github.com/gatedlearning/moe/host/mixture"
)

// checkFamily refuses a density that is not known, and noise that it does not have.
func (c *Config) checkFamily() error {
	if !mixture.Known(c.Family) {
		return fmt.Errorf("there is no family %q; there are %s", c.Family, strings.Join(mixture.Densities(), ", "))
	}
	d := mixture.DensityOf(c.Family)
	own := d.Own()
	if c.Trials != 0 && d.Name() != (mixture.Binomial{}).Name() {
		return fmt.Errorf("%d trials, and the family %s has none", c.Trials, d.Name())
	}
	if c.Trials < 0 {
		return fmt.Errorf("trials = %d, want at least 1", c.Trials)
	}
	if len(own) == 0 && c.Sigma != 0 {
		return fmt.Errorf("sigma = %v, and the family %s has no parameter but its mean", c.Sigma, d.Name())
	}
	if len(own) > 0 && !d.Domain().Scale && !(c.Sigma > 0) {
		return fmt.Errorf("sigma = %v, want a number above 0: it is the %s of the family %s", c.Sigma, own[0].Name,
			d.Name())
	}
	if rest := max(0, len(own)-1); len(c.Own) != rest {
		return fmt.Errorf("%d own parameters beside sigma, and the family %s has %d", len(c.Own), d.Name(), rest)
	}
	for q, v := range c.Own {
		if of := own[1+q]; !(v >= of.Least && v <= of.Most && v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s = %v, want a number above 0 from %v to %v", of.Name, v, of.Least, of.Most)
		}
	}
	return nil
}
