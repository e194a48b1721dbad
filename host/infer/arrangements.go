package infer

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// LogVolume returns ½·log|C|, −½·log|I| of the information whose inverse C is: what Laplace's
// approximation of an optimum's probability has beside its log-likelihood.
func (c *Covariance) LogVolume() (v float64, ok bool) {
	var chol mat.Cholesky
	n := len(c.Parameters)
	scaled := mat.NewSymDense(n, nil)
	for i := range n {
		sd := math.Sqrt(c.Matrix.At(i, i))
		v += math.Log(sd)
		for j := i; j < n; j++ {
			scaled.SetSym(i, j, c.Matrix.At(i, j)/sd/math.Sqrt(c.Matrix.At(j, j)))
		}
	}
	if !chol.Factorize(scaled) {
		return 0, false
	}
	v += chol.LogDet() / 2
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

// Weights returns e^l_i/Σ_j e^l_j; −Inf is no weight. They are nil where all are that.
func Weights(l []float64) []float64 {
	total := floats.LogSumExp(l)
	if math.IsInf(total, -1) {
		return nil
	}
	out := make([]float64, len(l))
	for i, v := range l {
		out[i] = math.Exp(v - total)
	}
	return out
}

// MixtureInterval returns the central interval of Σ_i w_i·N(estimate_i, se_i²): the confidence interval of a
// coefficient that optima of such weights, which add up to 1, estimate differently. Where all of them hold
// it at one value, se 0, both ends are that.
func MixtureInterval(weights, estimates, se []float64, level float64) (lower, upper float64) {
	var w, at, sd []float64
	for i, v := range weights {
		if v > 0 {
			w, at, sd = append(w, v), append(at, estimates[i]), append(sd, se[i])
		}
	}
	if floats.Max(sd) == 0 {
		return at[0], at[0]
	}
	d := mixture.NewDistribution(mixture.Mixture{}, &model.Params{K: len(w), Sigma: sd})
	copy(d.P, w)
	copy(d.Mean, at)
	return d.Interval(level)
}
