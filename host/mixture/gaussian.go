package mixture

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Gaussian is N(m, s²), the noise of 002 Eq. 1. [Posterior] computes it from residuals by kernels of
// its own: its methods here are what any density has.
type Gaussian struct{}

// logNorm is ½ log 2π, the constant of −log f.
var logNorm = 0.5 * math.Log(2*math.Pi)

// Name returns "gaussian".
func (Gaussian) Name() string { return "gaussian" }

// Own returns the noise level σ.
func (Gaussian) Own() []OwnParameter { return ownSigma }

var ownSigma = []OwnParameter{{Name: Sigma, Start: 1, Most: math.Inf(1)}}

// Domain is all numbers.
func (Gaussian) Domain() Domain {
	inf := math.Inf(1)
	return Domain{Least: -inf, Most: inf, LeastMean: -inf, MostMean: inf, Scale: true}
}

// Exponents writes e = res/σ to std and scores + log f + logNorm, f that of y in units of
// exp(logUnit), to dst.
func (Gaussian) Exponents(dst, std, scores, res []float64, sigma, logUnit float64) {
	kernel.Gaussian(dst, std, scores, res, 1/sigma, math.Log(sigma)-logUnit)
}

// LogDensity implements [Density].
func (Gaussian) LogDensity(dst, scores, y, mean, psi []float64) {
	sigma := psi[0]
	constant := -0.5*math.Log(2*math.Pi) - math.Log(sigma)
	dst, scores, mean = dst[:len(y)], scores[:len(y)], mean[:len(y)]
	for t, v := range y {
		e := (v - mean[t]) / sigma
		dst[t] = scores[t] + (constant - 0.5*e*e)
	}
}

// Derive implements [Density]: e/σ, 1/σ²; e² − 1, 2e², 2e/σ.
func (Gaussian) Derive(t Terms, y, mean, psi []float64) {
	inv := 1 / psi[0]
	for r, v := range y {
		e := (v - mean[r]) * inv
		t.Score[r], t.Information[r], t.Expected[r] = e*inv, inv*inv, inv*inv
		t.OwnScore[0][r], t.OwnInformation[0][r], t.Cross[0][r] = e*e-1, 2*e*e, 2*e*inv
	}
}

// CDF implements [Law].
func (Gaussian) CDF(y, mean float64, psi []float64) float64 {
	return 0.5 * math.Erfc((mean-y)/(psi[0]*math.Sqrt2))
}

// Quantile implements [Law].
func (Gaussian) Quantile(q, mean float64, psi []float64) float64 {
	return mean + distuv.UnitNormal.Quantile(q)*psi[0]
}

// normals is Σ_i p_i·N(mean_i, sigma_i²) and its density, in fewer steps than the sum over the experts' own.
func normals(p, mean, sigma []float64, y float64) float64 {
	sum := 0.0
	for i, v := range p {
		sum += v * math.Erfc((mean[i]-y)/(sigma[i]*math.Sqrt2))
	}
	return min(sum/2, 1)
}

func normalDensity(p, mean, sigma []float64, y float64) float64 {
	sum := 0.0
	for i, v := range p {
		e := (y - mean[i]) / sigma[i]
		sum += v / sigma[i] * math.Exp(-0.5*e*e)
	}
	return sum / math.Sqrt(2*math.Pi)
}
