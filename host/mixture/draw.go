package mixture

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// rander is what a [Density] may be that has a way to draw targets which costs less than its quantile.
type rander interface {
	rand(rng *rand.Rand, mean float64, psi []float64) float64
}

// Draw returns a target drawn from d.
func Draw(rng *rand.Rand, d Density, mean float64, psi []float64) float64 {
	if r, ok := d.(rander); ok {
		return r.rand(rng, mean, psi)
	}
	return FromNormal(d, mean, psi, rng.NormFloat64())
}

func (StudentT) rand(rng *rand.Rand, mean float64, psi []float64) float64 {
	return distuv.StudentsT{Mu: mean, Sigma: psi[0], Nu: psi[1], Src: rng}.Rand()
}

func (Gamma) rand(rng *rand.Rand, mean float64, psi []float64) float64 {
	return max(mean*gammaOfMeanOne(rng, psi[0]), math.SmallestNonzeroFloat64)
}

// gammaOfMeanOne draws from the gamma law of this shape and mean 1.
func gammaOfMeanOne(rng *rand.Rand, shape float64) float64 {
	return distuv.Gamma{Alpha: shape, Beta: 1, Src: rng}.Rand() / shape
}

// mostDrawn is the mean above which counts are not whole numbers any more, where only the quantile is careful.
const mostDrawn = 1 << 50

func (d Poisson) rand(rng *rand.Rand, mean float64, psi []float64) float64 {
	if !(mean < mostDrawn) {
		return FromNormal(d, mean, psi, rng.NormFloat64())
	}
	return distuv.Poisson{Lambda: max(mean, 0), Src: rng}.Rand()
}

// rand draws a Poisson count whose mean is drawn from the gamma law of shape θ.
func (d NegativeBinomial) rand(rng *rand.Rand, mean float64, psi []float64) float64 {
	return Poisson{}.rand(rng, mean*gammaOfMeanOne(rng, psi[0]), nil)
}
