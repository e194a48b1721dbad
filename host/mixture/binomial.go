package mixture

import "math"

// Binomial is the law of one trial, y 0 or 1, of probability m:
//
//	log f = y·log m + (1 − y)·log(1 − m)
type Binomial struct{}

// Name returns "binomial".
func (Binomial) Name() string { return "binomial" }

// Own returns nothing.
func (Binomial) Own() []OwnParameter { return nil }

// Domain is 0 and 1, of probabilities between.
func (Binomial) Domain() Domain { return Domain{Most: 1, Whole: true, MostMean: 1} }

// mostShare is where 1 − m has no digits any more.
const mostShare = 1 - 0x1p-53

// LogDensity implements [Density].
func (Binomial) LogDensity(dst, scores, y, mean, _ []float64) {
	for t, v := range y {
		m := min(max(mean[t], math.SmallestNonzeroFloat64), mostShare)
		if v > 0 {
			dst[t] = scores[t] + math.Log(m)
		} else {
			dst[t] = scores[t] + math.Log1p(-m)
		}
	}
}

// Derive implements [Density]: (y − m)/(m(1−m)), y/m² + (1−y)/(1−m)², 1/(m(1−m)).
func (Binomial) Derive(to Terms, y, mean, _ []float64) {
	for t, v := range y {
		m := min(max(mean[t], leastMean), mostShare)
		in, out := 1/m, 1/(1-m)
		to.Score[t] = v*in - (1-v)*out
		to.Information[t] = v*in*in + (1-v)*out*out
		to.Expected[t] = in * out
	}
}

// CDF implements [Law].
func (Binomial) CDF(y, mean float64, _ []float64) float64 {
	switch {
	case y < 0:
		return 0
	case y >= 1:
		return 1
	}
	return 1 - min(max(mean, 0), 1)
}

// Quantile implements [Law].
func (d Binomial) Quantile(q, mean float64, _ []float64) float64 {
	if q <= d.CDF(0, mean, nil) {
		return 0
	}
	return 1
}
