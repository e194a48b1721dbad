package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// below counts the values that are at most bound.
func below(v []float64, bound float64) int {
	n := 0
	for _, x := range v {
		if x <= bound {
			n++
		}
	}
	return n
}

// median returns the median of v, NaN if it is empty.
func median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile interpolates linearly between the values of v in order: p = 0 is the
// least, 1 the largest. It is NaN if there are none.
func Quantile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	at := p * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// slope is the least-squares slope of log y on log x.
func slope(x, y []float64) float64 {
	lx, ly := make([]float64, len(x)), make([]float64, len(y))
	for i := range x {
		lx[i], ly[i] = math.Log(x[i]), math.Log(y[i])
	}
	_, b := stat.LinearRegression(lx, ly, nil, false)
	return b
}

// medians returns the median over a series' runs at each x, x ascending.
func (o *Outcome) medians(series string) (x, y []float64) { return o.means(series, median) }

// geometric returns the geometric mean over a series' runs at each x, x
// ascending.
func (o *Outcome) geometric(series string) (x, y []float64) {
	return o.means(series, func(v []float64) float64 { return stat.GeometricMean(v, nil) })
}

func (o *Outcome) means(series string, mean func([]float64) float64) (x, y []float64) {
	at := map[float64][]float64{}
	for _, c := range o.Of(series) {
		for i, v := range c.X {
			at[v] = append(at[v], c.Y[i])
		}
	}
	x = slices.Sorted(maps.Keys(at))
	for _, v := range x {
		y = append(y, mean(at[v]))
	}
	return x, y
}

// rate is the power of n of a series' medians, with its standard error: least squares on their logarithms, weighted by
// those' variances. A standard error of a median of m is half the distance of the quantiles at 1/2 ± 1/(2√m).
func (o *Outcome) rate(series string) (power, se float64) { return o.rateFrom(series, 0) }

// rateFrom is rate over the medians at n of least and more.
func (o *Outcome) rateFrom(series string, least float64) (power, se float64) {
	x, y := o.medians(series)
	var lx, ly, weights []float64
	for i := range x {
		if x[i] < least {
			continue
		}
		v := o.at(series, x[i])
		by := .5 / math.Sqrt(float64(len(v)))
		s := math.Log(Quantile(v, .5+by)/Quantile(v, .5-by)) / 2
		lx, ly, weights = append(lx, math.Log(x[i])), append(ly, math.Log(y[i])), append(weights, 1/(s*s))
	}
	_, power = stat.LinearRegression(lx, ly, weights, false)
	mean, squares := stat.Mean(lx, weights), 0.0
	for i := range lx {
		squares += weights[i] * (lx[i] - mean) * (lx[i] - mean)
	}
	return power, 1 / math.Sqrt(squares)
}

// everywhere returns the geometric mean of a series at each x, x ascending, whether it is
// drawn or not.
func (o *Outcome) everywhere(series string) (x, y []float64) {
	all := Outcome{Figure: o.Figure, Curves: slices.Concat(o.Curves, o.aside)}
	return all.geometric(series)
}

// recovered is the error at which regressors count as found: the correlation of
// the worst of them with the truth is 0.99 (002 Section 4).
const recovered = 0.01

// stuck is the error above which a run that has ended is in another optimum,
// and not merely slow or noisy.
const stuck = 0.05

// away counts the values above stuck.
func away(v []float64) int { return len(v) - below(v, stuck) }

// signTest is the two-sided p of the exact sign test: how likely a count at least as far from n/2 as this one is where
// each of n pairs falls either way with probability ½.
func signTest(count, n int) float64 {
	if n == 0 {
		return 1
	}
	return min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(min(count, n-count))))
}

func worst(v []float64) float64 { return slices.Max(v) }

func g2(v float64) string { return fmt.Sprintf("%.2g", v) }
