package mixture_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/internal/testslow"
)

// families are the densities of targets that are not normal, with own parameters between which tests draw.
var families = map[string]struct {
	density mixture.Density
	own     [][2]float64
	other   func(mean float64, psi []float64) law // the same by gonum
}{
	"student-t": {mixture.StudentT{}, [][2]float64{{0.1, 10}, {1, 30}}, func(m float64, psi []float64) law {
		return distuv.StudentsT{Mu: m, Sigma: psi[0], Nu: psi[1]}
	}},
	"gamma": {mixture.Gamma{}, [][2]float64{{0.3, 50}}, func(m float64, psi []float64) law {
		return distuv.Gamma{Alpha: psi[0], Beta: psi[0] / m}
	}},
	"binomial": {mixture.Binomial{}, nil, func(m float64, psi []float64) law {
		return distuv.Binomial{N: 1, P: m}
	}},
	"poisson": {mixture.Poisson{}, nil, func(m float64, psi []float64) law {
		return distuv.Poisson{Lambda: m}
	}},
	// The mixture of Poisson laws over a gamma law of their means, by quadrature.
	"negative-binomial": {mixture.NegativeBinomial{}, [][2]float64{{0.5, 40}}, func(m float64, psi []float64) law {
		return mixed{m, psi[0]}
	}},
}

type law = interface {
	LogProb(y float64) float64
	CDF(y float64) float64
}

// mixed is ∫ Poisson(y; λ)·gamma(λ; m, θ) dλ, over log λ by the trapezium rule.
type mixed struct{ m, theta float64 }

func (l mixed) over(of func(lambda float64) float64) float64 {
	at := distuv.Gamma{Alpha: l.theta, Beta: l.theta / l.m}
	sum := 0.0
	const step = 1.0 / 64
	for u := -60.0; u < 8; u += step {
		lambda := l.m * math.Exp(u)
		sum += step * lambda * math.Exp(at.LogProb(lambda)) * of(lambda)
	}
	return sum
}

func (l mixed) LogProb(y float64) float64 {
	return math.Log(l.over(func(lambda float64) float64 { return math.Exp(distuv.Poisson{Lambda: lambda}.LogProb(y)) }))
}

func (l mixed) CDF(y float64) float64 {
	return l.over(func(lambda float64) float64 { return distuv.Poisson{Lambda: lambda}.CDF(y) })
}

// logOf is log f of one target.
func logOf(d mixture.Density, y, mean float64, psi []float64) float64 {
	dst := make([]float64, 1)
	d.LogDensity(dst, []float64{0}, []float64{y}, []float64{mean}, psi)
	return dst[0]
}

// derivativesOf are the derivatives of one target.
func derivativesOf(d mixture.Density, y, mean float64, psi []float64) mixture.Terms {
	t := mixture.NewTerms(len(d.Own())).First(1)
	d.Derive(t, []float64{y}, []float64{mean}, psi)
	return t
}

// TestFamilies: log f and F against gonum's, all derivatives against differences, quantiles against F, the
// expected information against the sum or integral of the observed.
func TestFamilies(t *testing.T) {
	testslow.Mark(t)
	for name, c := range families {
		rng := rand.New(rand.NewPCG(1, 7))
		d := mixture.DensityOf(name)
		if d.Name() != c.density.Name() {
			t.Fatalf("%s is %T", name, d)
		}
		whole := d.Domain().Whole
		for range 60 {
			mean := math.Exp(2 * rng.NormFloat64())
			switch domain := d.Domain(); {
			case domain.LeastMean != 0:
				mean = 3 * rng.NormFloat64()
			case domain.MostMean == 1:
				mean /= 1 + mean
			}
			var psi []float64
			for _, ends := range c.own {
				psi = append(psi, ends[0]*math.Pow(ends[1]/ends[0], rng.Float64()))
			}
			q := 0.001 + 0.998*rng.Float64()
			y := d.Quantile(q, mean, psi)
			near := func(what string, got, want, within float64) {
				t.Helper()
				if !(math.Abs(got-want) <= within*(1+math.Abs(want))) {
					t.Errorf("%s: %s is %v at y %v, mean %v, ψ %v, want %v", name, what, got, y, mean, psi, want)
				}
			}
			other := c.other(mean, psi)
			near("log f", logOf(d, y, mean, psi), other.LogProb(y), 1e-11)
			near("F", d.CDF(y, mean, psi), other.CDF(y), 1e-10)
			if at := d.CDF(y, mean, psi); whole {
				if !(at >= q) || y > 0 && !(d.CDF(y-1, mean, psi) < q) {
					t.Errorf("%s: quantile %v of %v, where F is %v", name, y, q, at)
				}
				near("F beside whole numbers", d.CDF(y+0.5, mean, psi), at, 0)
			} else {
				near("F at a quantile", at, q, 1e-9)
			}
			checkDerivatives(t, d, y, mean, psi)
			near("information in the mean", expected(d, mean, psi), derivativesOf(d, y, mean, psi).Expected[0], 1e-6)
		}
	}
}

// checkDerivatives holds them to central differences, of log f and of each other.
func checkDerivatives(t *testing.T, d mixture.Density, y, mean float64, psi []float64) {
	t.Helper()
	const h = 1e-5
	step := h * max(math.Abs(mean), 1e-3)
	if d.Domain().MostMean == 1 {
		step *= 1 - mean
	}
	got, left, right := derivativesOf(d, y, mean, psi), derivativesOf(d, y, mean-step, psi), derivativesOf(d, y, mean+step, psi)
	check := func(what string, got, want, scale float64) {
		t.Helper()
		if math.Abs(got-want) > 3e-6*(scale+math.Abs(want)) { // h² and rounding over h
			t.Errorf("%s: %s %v at y %v, mean %v, ψ %v; differences say %v", d.Name(), what, got, y, mean, psi, want)
		}
	}
	unit := math.Sqrt(got.Expected[0])
	check("score", got.Score[0], (logOf(d, y, mean+step, psi)-logOf(d, y, mean-step, psi))/(2*step), unit)
	check("information", got.Information[0], (left.Score[0]-right.Score[0])/(2*step), unit*unit)
	for q := range psi {
		times := func(by float64) []float64 {
			out := slices.Clone(psi)
			out[q] *= math.Exp(by)
			return out
		}
		less, more := derivativesOf(d, y, mean, times(-h)), derivativesOf(d, y, mean, times(h))
		check("own score", got.OwnScore[q][0], (logOf(d, y, mean, times(h))-logOf(d, y, mean, times(-h)))/(2*h), 1)
		check("cross", got.Cross[q][0], (less.Score[0]-more.Score[0])/(2*h), unit)
		for p := range psi {
			check("own information", got.OwnInformation[mixture.OwnAt(p, q)][0], (less.OwnScore[p][0]-more.OwnScore[p][0])/(2*h), 1)
		}
	}
}

// expected is the mean of the observed information over y.
func expected(d mixture.Density, mean float64, psi []float64) float64 {
	sum := 0.0
	if d.Domain().Whole {
		for y, mass := 0.0, 0.0; mass < 1-1e-12 && y < 1e6; y++ {
			p := math.Exp(logOf(d, y, mean, psi))
			mass += p
			sum += p * derivativesOf(d, y, mean, psi).Information[0]
		}
		return sum
	}
	// y as the quantile at q: the integral over q, in a logistic variable.
	return quad.Fixed(func(u float64) float64 {
		q := 1 / (1 + math.Exp(-u))
		return q * (1 - q) * derivativesOf(d, d.Quantile(q, mean, psi), mean, psi).Information[0]
	}, -34, 34, 400, nil, 0)
}

// TestFamiliesAtEdges: means next to an edge of their range and beyond what numbers hold, targets of any size and
// dispersions at their ends have finite log densities and derivatives, but where the density is below the smallest number.
func TestFamiliesAtEdges(t *testing.T) {
	means := []float64{0, 5e-324, 1e-300, 1e-100, 1e-9, 1, 1e9, 1e100, 1e260}
	targets := []float64{0, 5e-324, 1e-300, 1, 7, 1e6, 1e15, 1e100, 1e300}
	for name, c := range families {
		d := c.density
		domain := d.Domain()
		var all [][]float64
		switch own := d.Own(); len(own) {
		case 0:
			all = [][]float64{nil}
		case 1:
			all = [][]float64{{own[0].Least}, {1}, {own[0].Most}}
		default:
			all = [][]float64{{1e-100, 1}, {1, 1}, {1, 1000}, {1e100, 1}}
		}
		for _, psi := range all {
			for _, m := range means {
				switch {
				case domain.LeastMean != 0:
					m = -m
				case m > domain.MostMean:
					continue
				}
				for _, y := range targets {
					if y < domain.Least || y > domain.Most || domain.Whole && y != math.Trunc(y) {
						continue
					}
					log, got := logOf(d, y, m, psi), derivativesOf(d, y, m, psi)
					if math.IsNaN(log) || math.IsInf(log, 1) || math.IsInf(log, -1) && domain.Whole && y < 1e100 && m < 1e100 {
						t.Errorf("%s: log f(%v; %v, %v) is %v", name, y, m, psi, log)
					}
					values := slices.Concat(got.Score, got.Information, got.Expected)
					for _, rows := range [][][]float64{got.OwnScore, got.OwnInformation, got.Cross} {
						values = append(values, slices.Concat(rows...)...)
					}
					for _, v := range values {
						if math.IsNaN(v) {
							t.Errorf("%s: derivatives %+v at y %v, mean %v, ψ %v", name, got, y, m, psi)
							break
						}
					}
					if p := d.CDF(y, m, psi); !(p >= 0 && p <= 1) {
						t.Errorf("%s: F(%v; %v, %v) is %v", name, y, m, psi, p)
					}
				}
			}
		}
	}
}

// TestPoissonLimit: the negative binomial of the largest θ has the log density of the Poisson law to the order of
// y²/θ, and of y up to 1e6 the derivative by log θ that the expansion in 1/θ has: ((y−m)² − y)/2θ off it.
func TestPoissonLimit(t *testing.T) {
	const theta = 1e8
	for _, m := range []float64{0.1, 3, 200, 1e4} {
		for _, y := range []float64{0, 1, 5, 16, 17, 40, 1000, 1e4} {
			psi := []float64{theta}
			got, want := logOf(mixture.NegativeBinomial{}, y, m, psi), logOf(mixture.Poisson{}, y, m, nil)
			off := (y - (y-m)*(y-m)) / (2 * theta)
			// The next term is of the order of (y+m)³/θ².
			within := 1e-11*(1+math.Abs(want)) + math.Pow(y+m+1, 3)/(theta*theta)
			if math.Abs(got-want+off) > within {
				t.Errorf("log f(%v; %v) is %v, Poisson's %v less %v", y, m, got, want, off)
			}
			score := derivativesOf(mixture.NegativeBinomial{}, y, m, psi).OwnScore[0][0]
			if math.Abs(score-off) > 1e-9+within {
				t.Errorf("the derivative of log f(%v; %v) by log θ is %v, want %v", y, m, score, off)
			}
		}
	}
}

// TestTailsOfFamilies: quantiles from 1e−300 to 1 − 2^−53 and of means from 1e−9 to 1e15 are where F says.
func TestTailsOfFamilies(t *testing.T) {
	for name, c := range families {
		if name == "student-t" {
			continue // gonum's, at any scale
		}
		for _, m := range []float64{1e-9, 0.1, 7, 1e4, 1e9, 1e15} {
			if m > c.density.Domain().MostMean {
				continue
			}
			psi := []float64{2}[:len(c.own)]
			for _, q := range []float64{1e-300, 1e-9, 0.3, 0.9999, 1 - 0x1p-53} {
				y := c.density.Quantile(q, m, psi)
				before := y - 1
				if !c.density.Domain().Whole {
					before = y * (1 - 1e-9)
				}
				if !(c.density.CDF(y, m, psi) >= q) || y > c.density.Domain().Least && y < 1e15 && !(c.density.CDF(before, m, psi) <= q) {
					t.Errorf("%s of mean %v: the quantile at %v is %v, where F is %v and before it %v", name, m, q, y, c.density.CDF(y, m, psi), c.density.CDF(before, m, psi))
				}
			}
		}
	}
}

// TestTrials: the law of several trials against gonum's and R's dbinom and pbinom, its derivatives against differences, the
// rows of a block against one by one.
func TestTrials(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 200 {
		n, mean := math.Floor(math.Exp(9*rng.Float64())), 1/(1+math.Exp(3*rng.NormFloat64()))
		d := mixture.OfTrials(mixture.Binomial{}, []float64{n})
		q := 0.001 + 0.998*rng.Float64()
		y, other := d.Quantile(q, mean, nil), distuv.Binomial{N: n, P: mean}
		if got, want := logOf(d, y, mean, nil), other.LogProb(y); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
			t.Errorf("log f of %v of %v at %v is %v, want %v", y, n, mean, got, want)
		}
		if got, want := d.CDF(y, mean, nil), other.CDF(y); math.Abs(got-want) > 1e-10 {
			t.Errorf("F of %v of %v at %v is %v, want %v", y, n, mean, got, want)
		}
		if !(d.CDF(y, mean, nil) >= q) || y > 0 && !(d.CDF(y-1, mean, nil) < q) {
			t.Errorf("quantile %v of %v of %v trials at %v", y, q, n, mean)
		}
		if n <= 100 {
			checkDerivatives(t, d, y, mean, nil)
			if got, want := derivativesOf(d, y, mean, nil).Expected[0], n/(mean*(1-mean)); math.Abs(got-want) > 1e-12*want {
				t.Errorf("information %v, want %v", got, want)
			}
		}
	}
	y, n, m := []float64{0, 7, 500, 12345, 5e8}, []float64{3, 40, 1000, 1e6, 1e9}, []float64{0.3, 0.1, 0.51, 0.0124, 0.5}
	rows, logs := mixture.OfTrials(mixture.Binomial{}, n), make([]float64, 5)
	rows.LogDensity(logs, make([]float64, 5), y, m, nil)
	below := []float64{0.343, 0.95809805732664, 0.27390144426950, 0.31158082143318}
	for r, want := range []float64{-1.0700248318162, -2.8539813315561, -3.8799590027640, -5.7469255793528, -10.5874242713679} {
		if math.Abs(logs[r]-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("row %d: log f %v, R has %v", r+1, logs[r], want)
		}
		if r < len(below) && math.Abs(mixture.OfRow(rows, r).CDF(y[r], m[r], nil)-below[r]) > 1e-9 {
			t.Errorf("row %d: F %v, R has %v", r+1, mixture.OfRow(rows, r).CDF(y[r], m[r], nil), below[r])
		}
	}
}
