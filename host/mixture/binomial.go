package mixture

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Binomial is the law of y successes in n trials, each of probability m:
//
//	log f = log n!/(y!(n − y)!) + y·log m + (n − y)·log(1 − m)
//
// Its mean is that of one trial. The zero value has one trial in every row; [OfTrials] gives others.
type Binomial struct {
	trials []float64 // of the rows of a block, or one that all have; nil: one each
}

// OfTrials returns d with the trials of a block's rows, or with one number of trials that all have; d itself where
// there are none.
// It panics where d is not [Binomial].
func OfTrials(d Density, trials []float64) Density {
	if trials == nil {
		return d
	}
	if _, ok := d.(Binomial); !ok {
		panic("mixture: trials of the density " + d.Name())
	}
	return Binomial{trials}
}

// OfRow returns the law of row t of the block whose trials d has; d itself where all rows have the same.
func OfRow(d Density, t int) Density {
	if of, ok := d.(Binomial); ok && len(of.trials) > 1 {
		return Binomial{of.trials[t : t+1]}
	}
	return d
}

// Name returns "binomial".
func (Binomial) Name() string { return "binomial" }

// Own returns nothing.
func (Binomial) Own() []OwnParameter { return nil }

// Domain is 0 up to the trials, of probabilities between. Of rows with trials of their own it is that of the first.
func (d Binomial) Domain() Domain { return Domain{Most: d.trialsOf(0), Whole: true, MostMean: 1} }

// trialsOf is how many trials row t has.
func (d Binomial) trialsOf(t int) float64 {
	switch len(d.trials) {
	case 0:
		return 1
	case 1:
		return d.trials[0]
	}
	return d.trials[t]
}

// mostShare is where 1 − m has no digits any more.
const mostShare = 1 - 0x1p-53

// LogDensity implements [Density].
func (d Binomial) LogDensity(dst, scores, y, mean, _ []float64) {
	var room [128]float64
	for from := 0; from < len(y); from += len(room) {
		to := min(from+len(room), len(y))
		dst, scores, y, mean, logs := dst[from:to], scores[from:to], y[from:to], mean[from:to], room[:to-from]
		for t, m := range mean {
			dst[t] = min(max(m, math.SmallestNonzeroFloat64), mostShare)
			logs[t] = 1 - dst[t]
		}
		kernel.Log(logs, logs)
		kernel.Log(dst, dst)
		for t, v := range y {
			m := min(max(mean[t], math.SmallestNonzeroFloat64), mostShare)
			left := 1 - m
			dst[t] = scores[t] + logBinomial(v, d.trialsOf(from+t), m, dst[t], logs[t]+((1-left)-m)/left)
		}
	}
}

// logBinomial takes log m and log(1 − m) too. It goes by Stirling's series where both counts are large, whose terms do
// not cancel (Loader 2000).
func logBinomial(y, n, m, logM, logLeft float64) float64 {
	switch rest := n - y; {
	case y < 0 || rest < 0: // never of a table that was admitted
		return math.Inf(-1)
	case rest == 0:
		return n * logM
	case y == 0:
		return n * logLeft
	case y < stirlingFrom || rest < stirlingFrom:
		return logChoose(n, min(y, rest)) + y*logM + rest*logLeft
	default:
		return y*logLess(n*m, y) + rest*logLess(n*(1-m), rest) - 0.5*math.Log(2*math.Pi*y*(rest/n)) +
			(stirling(n) - stirling(y) - stirling(rest))
	}
}

// logChoose returns log n!/(y!(n − y)!) of a small y.
func logChoose(n, y float64) float64 {
	if n <= mostChosen {
		return logFactorial(n) - logFactorial(y) - logFactorial(n-y)
	}
	sum := 0.0
	for j := range int(y) {
		sum += math.Log((n - float64(j)) / float64(j+1))
	}
	return sum
}

// mostChosen is up to where logarithms of factorials, of which log 32! = 81.6 is the largest, may be subtracted: all
// digits of a log density but the last two are left.
const mostChosen = 32

// Derive implements [Density]: y/m − (n−y)/(1−m), y/m² + (n−y)/(1−m)², n/(m(1−m)).
func (d Binomial) Derive(to Terms, y, mean, _ []float64) {
	for t, v := range y {
		m, n := min(max(mean[t], leastMean), mostShare), d.trialsOf(t)
		in, out := 1/m, 1/(1-m)
		to.Score[t] = v*in - (n-v)*out
		to.Information[t] = v*in*in + (n-v)*out*out
		to.Expected[t] = n * (in * out)
	}
}

// CDF implements [Law].
func (d Binomial) CDF(y, mean float64, _ []float64) float64 {
	n, m := d.trialsOf(0), min(max(mean, 0), 1)
	switch y = math.Floor(y); {
	case y < 0:
		return 0
	case y >= n:
		return 1
	case n == 1:
		return 1 - m
	}
	if none := n * math.Log1p(-m); y < fewTerms && none > -700 { // (1−m)^n is a number
		p, odds := math.Exp(none), m/(1-m)
		sum := p
		for j := 0.0; j < y; j++ {
			p *= odds * ((n - j) / (j + 1))
			sum += p
		}
		return min(sum, 1)
	}
	return incompleteBeta(n-y, y+1, 1-m, m)
}

// fewTerms is how many terms of a sum are fewer steps than the incomplete beta function.
const fewTerms = 64

// Quantile implements [Law].
func (d Binomial) Quantile(q, mean float64, _ []float64) float64 {
	n := d.trialsOf(0)
	sd := math.Sqrt(n * mean * (1 - mean))
	return leastWhole(q, n*mean+sd*distuv.UnitNormal.Quantile(q), sd/4, n, func(y float64) float64 {
		return d.CDF(y, mean, nil)
	})
}
