package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCritical compares the critical value with draws of what it is the quantile of: of independent normal
// values their sum over the root of the Bartlett kernel's long-run variance of their deviations from the mean. A
// share of 0.95 of 40,000 draws is known to 0.0011, so a quantile where the density of |t| is 0.117 or less
// to 0.0093/scale; four of these and 1 % for a series of 400 in the place of the limit.
func TestCritical(t *testing.T) {
	const draws, n = 40_000, 400
	for _, share := range []float64{0.02, 0.1, 0.3} {
		rng := rand.New(rand.NewPCG(31, uint64(1000*share)))
		b := int(share * n)
		got := make([]float64, draws)
		v := make([]float64, n)
		for i := range got {
			sum := 0.0
			for r := range v {
				v[r] = rng.NormFloat64()
				sum += v[r]
			}
			longRun, window := 0.0, 0.0
			for r := range n + b - 1 {
				if r < n {
					window += v[r] - sum/n
				}
				if r >= b {
					window -= v[r-b] - sum/n
				}
				longRun += window * window / float64(b)
			}
			got[i] = math.Abs(sum) / math.Sqrt(longRun)
		}
		slices.Sort(got)
		quantile := got[draws*95/100]
		c := Covariance{Kind: Dependent, Bandwidth: b, rows: n}
		if want := c.Critical(); math.Abs(quantile-want) > (4*0.0093+0.01)*want/1.96*want/1.96 {
			t.Errorf("bandwidth %d of %d rows: critical value %.3f, of draws %.3f", b, n, want, quantile)
		}
	}
	if c := (&Covariance{Kind: Robust}); math.Abs(c.Critical()-1.959964) > 1e-6 {
		t.Errorf("critical value %v for independent rows", c.Critical())
	}
}
