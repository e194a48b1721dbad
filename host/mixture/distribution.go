package mixture

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
)

// Distribution is that of y at one row,
//
//	F(y) = Σ_i p_i·F_i(y),  F_i of mean m_i and own parameters ψ_i, of normal noise Sigma,
//
// with p_i = P(z=i|x), which add up to 1, or, with an expert that is always 0, to what that leaves.
type Distribution struct {
	P, Mean, Sigma []float64
	density        Density     // of the row
	psi            [][]float64 // of densities other than normal
	mirror         []float64   // −Mean
	zero           bool        // what P leaves of 1 is at 0
}

// NewDistribution returns room for a row's distribution under p, with its noise;
// P and Mean are to be filled in.
func NewDistribution(m Mixture, p *model.Params) *Distribution {
	k := func() []float64 { return make([]float64, p.K) }
	d := &Distribution{P: k(), Mean: k(), Sigma: k(), density: m.Of(p).Density, psi: make([][]float64, p.K),
		mirror: k(), zero: p.Zero}
	for i := range d.Sigma {
		d.Sigma[i], d.psi[i] = p.SigmaOf(i), p.OwnOf(nil, i)
	}
	return d
}

// Clone returns a copy that does not change with d; the density is the same.
func (d *Distribution) Clone() *Distribution {
	c := *d
	c.P, c.Mean, c.mirror = slices.Clone(d.P), slices.Clone(d.Mean), slices.Clone(d.mirror)
	c.psi = make([][]float64, len(d.psi))
	for i, psi := range d.psi {
		c.psi[i] = slices.Clone(psi)
	}
	return &c
}

// Reset leaves a distribution of a density other than normal without experts, for [Distribution.Add].
func (d *Distribution) Reset() { d.P, d.Mean, d.psi = d.P[:0], d.Mean[:0], d.psi[:0] }

// Add adds an expert with probability p, mean m and a copy of ψ.
func (d *Distribution) Add(p, m float64, psi []float64) {
	at := len(d.psi)
	d.P, d.Mean, d.psi = append(d.P, p), append(d.Mean, m), slices.Grow(d.psi, 1)[:at+1]
	d.psi[at] = append(d.psi[at][:0], psi...)
}

// OfTrials has the distribution be of a row with so many trials, one value.
func (d *Distribution) OfTrials(trials []float64) { d.density = OfTrials(d.density, trials) }

// CDF returns F(y).
func (d *Distribution) CDF(y float64) float64 {
	if Normal(d.density) {
		return normals(d.P, d.Mean, d.Sigma, y)
	}
	sum := 0.0
	for i, p := range d.P {
		if p > 0 {
			sum += p * d.density.CDF(y, d.Mean[i], d.psi[i])
		}
	}
	if y >= 0 {
		sum += d.atZero()
	}
	return min(sum, 1)
}

// Density returns F′(y), or the probability of y where it takes whole numbers alone.
func (d *Distribution) Density(y float64) float64 {
	if Normal(d.density) {
		return normalDensity(d.P, d.Mean, d.Sigma, y)
	}
	sum := 0.0
	for i, p := range d.P {
		if p > 0 {
			sum += p * math.Exp(d.logDensityOf(i, y))
		}
	}
	if y == 0 {
		sum += d.atZero()
	}
	return sum
}

// LogTerm returns the logarithm of p_i·F_i′(y).
func (d *Distribution) LogTerm(i int, y float64) float64 {
	return math.Log(d.P[i]) + d.logDensityOf(i, y)
}

// LogDensity returns log F′(y), or of the probability of y, also where that is below the smallest number.
func (d *Distribution) LogDensity(y float64) float64 {
	terms := make([]float64, 0, len(d.P)+1)
	for i, p := range d.P {
		if p > 0 {
			terms = append(terms, d.LogTerm(i, y))
		}
	}
	if zero := d.atZero(); y == 0 && zero > 0 {
		terms = append(terms, math.Log(zero))
	}
	if len(terms) == 0 {
		return math.Inf(-1)
	}
	return floats.LogSumExp(terms)
}

// logDensityOf is log F_i′(y), or of the probability of y under expert i.
func (d *Distribution) logDensityOf(i int, y float64) float64 {
	if Normal(d.density) {
		e := (y - d.Mean[i]) / d.Sigma[i]
		return -e*e/2 - math.Log(d.Sigma[i]) - logNorm
	}
	log := []float64{0}
	d.density.LogDensity(log, []float64{0}, []float64{y}, d.Mean[i:i+1], d.psi[i])
	return log[0]
}

// atZero is the probability of the expert that is always 0; 0 where there is none.
func (d *Distribution) atZero() float64 {
	if !d.zero {
		return 0
	}
	return max(0, 1-floats.Sum(d.P))
}

// CDFBefore returns P(Y < y), which is CDF(y) but where y has a probability of its own.
func (d *Distribution) CDFBefore(y float64) float64 {
	if d.density.Domain().Whole {
		return d.CDF(math.Ceil(y) - 1)
	}
	return d.CDF(y)
}

// Quantile returns y with F(y) = q, 0 < q < 1, to about 14 digits of y. Where F is
// level at q, between experts far apart, any y there is a quantile, and one is
// returned; where y takes whole numbers alone the least with F(y) ≥ q is.
func (d *Distribution) Quantile(q float64) float64 {
	if !Normal(d.density) {
		return d.bisected(q)
	}
	return d.quantile(d.Mean, q)
}

// Interval returns the central interval that y lies in with probability level, or more where y takes
// whole numbers alone,
// between the quantiles at (1−level)/2 and (1+level)/2. The upper one of [Gaussian] is the
// lower one of −y: so both are as accurate in the tails.
func (d *Distribution) Interval(level float64) (lower, upper float64) {
	tail := (1 - level) / 2
	if !Normal(d.density) {
		return d.bisected(tail), d.bisected(1 - tail)
	}
	for i, v := range d.Mean {
		d.mirror[i] = -v
	}
	return d.quantile(d.Mean, tail), -d.quantile(d.mirror, tail)
}

// bisected is the least y with F(y) ≥ q, by bisection between the least and the largest of the experts' own quantiles,
// to the last digit or the next whole number.
func (d *Distribution) bisected(q float64) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, p := range d.P {
		if p > 0 && !(lo < hi && d.within(i, q, lo, hi)) {
			own := d.density.Quantile(q, d.Mean[i], d.psi[i])
			lo, hi = min(lo, own), max(hi, own)
		}
	}
	if d.atZero() > 0 {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	whole := d.density.Domain().Whole
	if lo == hi || !whole && d.CDF(lo) >= q {
		return lo
	}
	if whole {
		lo-- // F(lo) < q, or the rounding of the sum
	}
	for {
		y := lo/2 + hi/2
		if whole {
			y = math.Floor(y)
		}
		if !(y > lo && y < hi) {
			return hi
		}
		if d.CDF(y) >= q {
			hi = y
		} else {
			lo = y
		}
	}
}

// within says whether the quantile of expert i lies between two numbers, which costs less than to find it.
func (d *Distribution) within(i int, q, lo, hi float64) bool {
	return d.density.CDF(lo, d.Mean[i], d.psi[i]) < q && d.density.CDF(hi, d.Mean[i], d.psi[i]) >= q
}

// quantile takes Newton steps held inside a bracket that bisection halves wherever
// they would leave it or are slow. The experts' own quantiles bracket it: below
// the least of them every F_i is under q, above the greatest over it.
func (d *Distribution) quantile(mean []float64, q float64) float64 {
	z := distuv.UnitNormal.Quantile(q)
	lo, hi, least := math.Inf(1), math.Inf(-1), math.Inf(1)
	for i, p := range d.P {
		if p > 0 {
			own := mean[i] + z*d.Sigma[i]
			lo, hi, least = min(lo, own), max(hi, own), min(least, d.Sigma[i])
		}
	}
	y := lo/2 + hi/2
	step, before := hi-lo, hi-lo
	// Bisection alone crosses all of float64 in fewer iterations.
	for range 2200 {
		excess, slope := normals(d.P, mean, d.Sigma, y)-q, normalDensity(d.P, mean, d.Sigma, y)
		if excess == 0 {
			return y
		}
		if excess < 0 {
			lo = y
		} else {
			hi = y
		}
		next := y - excess/slope
		if !(next > lo && next < hi) || math.Abs(next-y) > before/2 {
			next = lo/2 + hi/2
		}
		before, step = step, math.Abs(next-y)
		y = next
		if step <= 1e-15*math.Abs(y)+1e-14*least {
			return y
		}
	}
	return y
}
