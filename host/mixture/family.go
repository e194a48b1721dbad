package mixture

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Family is the density of y around an expert's mean m with scale σ,
//
//	log f(y; m, σ) = −|e|^p/p − log σ − c,  e = (y − m)/σ:
//
// symmetric, with a degree p of its deviance |y − m|^p, whose posterior mean is
// σ^p at the maximum of the likelihood. Its residual is u(t) = |t|^(p−1)·sign t, so
// that ∂log f/∂m = u(y − m)/σ^p.
type Family interface {
	Degree() int      // p
	LogNorm() float64 // c
	// Exponents writes e = res/σ to std and scores + log f·exp(c), f that of y in
	// units of exp(logUnit), to dst.
	Exponents(dst, std, scores, res []float64, sigma, logUnit float64)
	// Weigh writes r·u(t) to dst for residuals t. The deviance is u(t)·t.
	Weigh(dst, r, t []float64)
	// AddNoiseScore adds r·∂log f/∂log σ = r·(|e|^p − 1) to dst.
	AddNoiseScore(dst, r, std []float64)
	Tails
}

// Tails is what a family says of any y, however far from its mean.
type Tails interface {
	// LogDensity writes scores + log f(y; mean, σ) to dst.
	LogDensity(dst, scores, y, mean []float64, sigma float64)
	// CDF returns Σ_i p_i·F((y − mean_i)/σ_i), F the distribution function at m = 0, σ = 1.
	CDF(p, mean, sigma []float64, y float64) float64
	// Density returns Σ_i p_i·f(y; mean_i, σ_i).
	Density(p, mean, sigma []float64, y float64) float64
	// Quantile is the inverse of F.
	Quantile(q float64) float64
}

// Power returns σ^p, the unit of the family's deviance.
func Power(f Family, sigma float64) float64 {
	v := sigma
	for range f.Degree() - 1 {
		v *= sigma
	}
	return v
}

// LogScale returns log σ of the posterior mean of the deviance, log(mean)/p.
func LogScale(f Family, mean float64) float64 { return math.Log(mean) / float64(f.Degree()) }

// Gaussian is N(m, σ²): p = 2, c = ½ log 2π, u(t) = t.
type Gaussian struct{}

// Degree implements [Family].
func (Gaussian) Degree() int { return 2 }

// LogNorm implements [Family].
func (Gaussian) LogNorm() float64 { return 0.5 * math.Log(2*math.Pi) }

// Exponents implements [Family].
func (Gaussian) Exponents(dst, std, scores, res []float64, sigma, logUnit float64) {
	kernel.Gaussian(dst, std, scores, res, 1/sigma, math.Log(sigma)-logUnit)
}

// Weigh implements [Family].
func (Gaussian) Weigh(dst, r, t []float64) { kernel.Mul(dst, r, t) }

// AddNoiseScore implements [Family].
func (Gaussian) AddNoiseScore(dst, r, std []float64) {
	for t, e := range std {
		dst[t] += r[t] * (e*e - 1)
	}
}

// LogDensity implements [Tails].
func (Gaussian) LogDensity(dst, scores, y, mean []float64, sigma float64) {
	constant := -0.5*math.Log(2*math.Pi) - math.Log(sigma)
	dst, scores, mean = dst[:len(y)], scores[:len(y)], mean[:len(y)]
	for t, v := range y {
		e := (v - mean[t]) / sigma
		dst[t] = scores[t] + (constant - 0.5*e*e)
	}
}

// CDF implements [Tails].
func (Gaussian) CDF(p, mean, sigma []float64, y float64) float64 {
	sum := 0.0
	for i, v := range p {
		sum += v * math.Erfc((mean[i]-y)/(sigma[i]*math.Sqrt2))
	}
	return min(sum/2, 1)
}

// Density implements [Tails].
func (Gaussian) Density(p, mean, sigma []float64, y float64) float64 {
	sum := 0.0
	for i, v := range p {
		e := (y - mean[i]) / sigma[i]
		sum += v / sigma[i] * math.Exp(-0.5*e*e)
	}
	return sum / math.Sqrt(2*math.Pi)
}

// Quantile implements [Tails].
func (Gaussian) Quantile(q float64) float64 { return distuv.UnitNormal.Quantile(q) }
