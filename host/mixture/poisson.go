package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Poisson is the law of counts y of mean m > 0, log f = y·log m − m − log y!.
type Poisson struct{}

// Name returns "poisson".
func (Poisson) Name() string { return "poisson" }

// Own returns nothing.
func (Poisson) Own() []OwnParameter { return nil }

// Domain is counts, of means above 0.
func (Poisson) Domain() Domain { return counts }

// counts go up to 2^53, above which numbers leave whole ones out.
var counts = Domain{Most: 1 << 53, Whole: true, MostMean: math.Inf(1)}

// nextTo is where log(m/y) − (m/y − 1) is small beside either of the two.
const nextTo = 0.05

// LogDensity implements [Density]. Large counts go by Stirling's series, whose terms do not cancel (Loader 2000).
func (Poisson) LogDensity(dst, scores, y, mean, _ []float64) {
	dst = dst[:len(y)]
	for t, v := range y {
		dst[t] = min(max(mean[t], math.SmallestNonzeroFloat64), math.MaxFloat64)
		if v >= stirlingFrom && dst[t] > leastMean {
			dst[t] /= v
		}
	}
	kernel.Log(dst, dst)
	last, rest := 0.0, 0.0 // a count, and what of log f does not know the mean
	for t, v := range y {
		m := mean[t]
		if v < stirlingFrom {
			dst[t] = scores[t] + (v*dst[t] - m - logFactorial(v))
			continue
		}
		if v != last {
			last, rest = v, 0.5*math.Log(2*math.Pi*v)+stirling(v)
		}
		e := (m - v) / v
		less := dst[t] - e
		if math.Abs(e) < nextTo || m <= leastMean {
			less = logLess(max(m, math.SmallestNonzeroFloat64), v)
		}
		dst[t] = scores[t] + (v*less - rest)
	}
}

// Derive implements [Density]: y/m − 1, y/m², 1/m.
func (Poisson) Derive(d Terms, y, mean, _ []float64) {
	for t, v := range y {
		inv := 1 / max(mean[t], leastMean)
		d.Score[t], d.Information[t], d.Expected[t] = v*inv-1, v*inv*inv, inv
	}
}

// CDF implements [Law].
func (Poisson) CDF(y, mean float64, _ []float64) float64 {
	switch {
	case y < 0:
		return 0
	case mean <= 0 || math.IsInf(y, 1):
		return 1
	}
	return mathext.GammaIncRegComp(math.Floor(y)+1, mean)
}

// Quantile implements [Law].
func (p Poisson) Quantile(q, mean float64, _ []float64) float64 {
	sd := math.Sqrt(mean)
	return leastWhole(q, mean+sd*distuv.UnitNormal.Quantile(q), sd/4, math.Inf(1), func(y float64) float64 {
		return p.CDF(y, mean, nil)
	})
}
