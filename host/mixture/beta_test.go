package mixture

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// TestDistributionOfLargeCounts: of counts in the thousands and more the distribution functions are sums of the
// probabilities, and those of negative binomials with the largest theta Poisson's.
func TestDistributionOfLargeCounts(t *testing.T) {
	binomial := OfTrials(Binomial{}, []float64{60_000})
	for _, c := range []struct {
		name string
		law  Density
		mean float64
		psi  []float64
		sd   float64
	}{
		{"negative binomial", NegativeBinomial{}, 3e4, []float64{2e4}, math.Sqrt(3e4 * 2.5)},
		{"negative binomial, above theta", NegativeBinomial{}, 3e5, []float64{1.1e4}, math.Sqrt(3e5 * (1 + 3e5/1.1e4))},
		{"binomial", binomial, 0.4, nil, math.Sqrt(6e4 * .24)},
	} {
		mean := c.mean
		if c.name == "binomial" {
			mean *= 60_000
		}
		from, sum, log := math.Floor(mean-9*c.sd), 0.0, []float64{0}
		last := from
		for _, z := range []float64{-6, -3, -1, -.01, 0, .01, 1, 3, 6} {
			y := math.Floor(mean + z*c.sd)
			for ; last <= y; last++ {
				c.law.LogDensity(log, []float64{0}, []float64{last}, []float64{c.mean}, c.psi)
				sum += math.Exp(log[0])
			}
			if got := c.law.CDF(y, c.mean, c.psi); math.Abs(got-sum) > 1e-6*math.Min(1, 1e3*sum) { // the second term's size
				t.Errorf("%s: F at %g standard deviations is %.9g, the sum %.9g", c.name, z, got, sum)
			}
		}
	}
	for _, mean := range []float64{3e5, 3e8, 5e9} {
		for _, z := range []float64{-6, -1, 0, 1, 6} {
			y := math.Floor(mean + z*math.Sqrt(mean))
			// Of so many successes the variance is larger by mean/theta, 1e-8 and less of it.
			got, want := NegativeBinomial{}.CDF(y, mean, []float64{1e8 * mean}), mathext.GammaIncRegComp(y+1, mean)
			if math.Abs(got-want) > 1e-6*math.Min(1, 1e3*want) {
				t.Errorf("mean %g: F at %g standard deviations is %.9g, Poisson's %.9g", mean, z, got, want)
			}
		}
	}
}
