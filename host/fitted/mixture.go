package fitted

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
)

// mixture is the distribution of y at one row, as the model has it:
//
//	F(y) = Σ_i p_i·Φ((y − m_i)/σ_i)
//
// with p_i = P(z=i|x), which add up to 1, and m_i = g(⟨a_i,x⟩).
type mixture struct{ p, mean, sigma []float64 }

// newMixture returns room for a row's distribution under p, with its noise.
func newMixture(p *model.Params) mixture {
	m := mixture{make([]float64, p.K), make([]float64, p.K), make([]float64, p.K)}
	for i := range m.sigma {
		m.sigma[i] = p.SigmaOf(i)
	}
	return m
}

// cdf returns F(y).
func (m *mixture) cdf(y float64) float64 {
	sum := 0.0
	for i, p := range m.p {
		sum += p * math.Erfc((m.mean[i]-y)/(m.sigma[i]*math.Sqrt2))
	}
	return min(sum/2, 1)
}

// density returns F′(y).
func (m *mixture) density(y float64) float64 {
	sum := 0.0
	for i, p := range m.p {
		e := (y - m.mean[i]) / m.sigma[i]
		sum += p / m.sigma[i] * math.Exp(-0.5*min(e*e, maxSquare))
	}
	return sum / math.Sqrt(2*math.Pi)
}

// interval returns the central interval that y lies in with probability level,
// between the quantiles at (1−level)/2 and (1+level)/2. The upper one is the
// lower one of −y: so both are as accurate in the tails.
func (m *mixture) interval(level float64) (lower, upper float64) {
	tail := (1 - level) / 2
	lower = m.quantile(tail)
	mirrored := mixture{m.p, make([]float64, len(m.p)), m.sigma}
	for i, v := range m.mean {
		mirrored.mean[i] = -v
	}
	return lower, -mirrored.quantile(tail)
}

// quantile returns y with F(y) = q, 0 < q < 1, to about 14 digits of y: Newton
// steps held inside a bracket that bisection halves wherever they would leave it
// or are slow. The experts' own quantiles bracket it: below the least of them
// every Φ is under q, above the greatest over it. Where F is level at q, between
// experts far apart, any y there is a quantile, and one is returned.
func (m *mixture) quantile(q float64) float64 {
	z := distuv.UnitNormal.Quantile(q)
	lo, hi, least := math.Inf(1), math.Inf(-1), math.Inf(1)
	for i, p := range m.p {
		if p > 0 {
			own := m.mean[i] + z*m.sigma[i]
			lo, hi, least = min(lo, own), max(hi, own), min(least, m.sigma[i])
		}
	}
	y := lo/2 + hi/2
	step, before := hi-lo, hi-lo
	// Bisection alone crosses all of float64 in fewer iterations.
	for range 2200 {
		excess, slope := m.cdf(y)-q, m.density(y)
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
