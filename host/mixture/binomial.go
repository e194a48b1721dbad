package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Binomial is the law of y successes of N trials, each of probability m: the mean is N·m.
//
//	log f = log N!/(y!(N−y)!) + y·log m + (N−y)·log(1 − m)
//
// The zero value is of one trial, y 0 or 1; see [Tried].
type Binomial struct {
	trials []float64 // of the rows; nil: one each
}

// Name returns "binomial".
func (Binomial) Name() string { return "binomial" }

// Own returns nothing.
func (Binomial) Own() []OwnParameter { return nil }

// Domain is successes of the trials, of probabilities between 0 and 1. Where there are trials no target is above them.
func (d Binomial) Domain() Domain {
	most := 1.0
	for _, n := range d.trials {
		most = max(most, n)
	}
	return Domain{Most: most, Whole: true, MostMean: 1}
}

func (d Binomial) of(t int) float64 {
	if d.trials == nil {
		return 1
	}
	return d.trials[t]
}

// mostShare is where 1 − m has no digits any more.
const mostShare = 1 - 0x1p-53

// LogDensity implements [Density].
func (d Binomial) LogDensity(dst, scores, y, mean, _ []float64) {
	for t, v := range y {
		n, m := d.of(t), min(max(mean[t], math.SmallestNonzeroFloat64), mostShare)
		log := 0.0
		if v > 0 {
			log += v * math.Log(m)
		}
		if v < n {
			log += (n - v) * math.Log1p(-m)
		}
		if n > 1 {
			log += logFactorial(n) - logFactorial(v) - logFactorial(n-v)
		}
		dst[t] = scores[t] + log
	}
}

// Derive implements [Density]: (y − Nm)/(m(1−m)), y/m² + (N−y)/(1−m)², N/(m(1−m)).
func (d Binomial) Derive(to Terms, y, mean, _ []float64) {
	for t, v := range y {
		n, m := d.of(t), min(max(mean[t], leastMean), mostShare)
		in, out := 1/m, 1/(1-m)
		to.Score[t] = v*in - (n-v)*out
		to.Information[t] = v*in*in + (n-v)*out*out
		to.Expected[t] = n * in * out
	}
}

// CDF implements [Law], of the first row's trials.
func (d Binomial) CDF(y, mean float64, _ []float64) float64 {
	n := d.of(0)
	switch {
	case y < 0:
		return 0
	case y >= n || mean <= 0:
		return 1
	case mean >= 1:
		return 0
	}
	y = math.Floor(y)
	return mathext.RegIncBeta(n-y, y+1, 1-mean)
}

// Quantile implements [Law], of the first row's trials.
func (d Binomial) Quantile(q, mean float64, _ []float64) float64 {
	n := d.of(0)
	sd := math.Sqrt(n * mean * (1 - mean))
	return leastWhole(q, n*mean+sd*distuv.UnitNormal.Quantile(q), sd/4, n, func(y float64) float64 {
		return d.CDF(y, mean, nil)
	})
}
