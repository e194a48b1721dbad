package mixture

import (
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Gate is P(z|x), a softmax of scores s(x), which are functions of K−1 linear
// predictors η_j = ⟨w_j,x⟩ + v_j: the rows of model.Params.Gating. Any tree of
// softmaxes over K experts has as many. With model.Params.Zero the K classes here are one more than the experts; of
// sums over them below its terms are 0, as its scores by anything but the gate are.
type Gate interface {
	// Scores replaces the linear predictors of n rows, K rows of n values of which the last is
	// 0, by s_i(x).
	Scores(dst []float64, p *model.Params, n int)
	// Slope writes c̄_j = ∂log p(y|x)/∂η_j = Σ_i r_i·c_ij to dst, N values, with
	// c_ij = ∂log P(z=i|x)/∂η_j and r the posterior.
	Slope(dst []float64, j int, r *Posterior)
}

// CurvedGate is a gate with second derivatives. Each method writes N values.
type CurvedGate interface {
	Gate
	// Complete writes −Σ_i r_i·∂²log P(z=i|x)/∂η_j∂η_m, j ≤ m: the information of
	// the complete data.
	Complete(dst []float64, j, m int, r *Posterior)
	// Missing writes the posterior covariance of c_·j and c_·m, j ≤ m: what not
	// knowing z takes off that information.
	Missing(dst []float64, j, m int, r *Posterior)
	// Cross writes −r_i·(c_ij − c̄_j)·v: minus the posterior covariance of c_·j with
	// what is v for expert i and 0 for the others.
	Cross(dst []float64, i, j int, v []float64, r *Posterior)
	// Across writes −Σ_i r_i·(c_ij − c̄_j)·v_i, v K rows of N values and mean their
	// posterior mean.
	Across(dst []float64, j int, v, mean []float64, r *Posterior)
}

// Flat is the softmax gate of 002 Eq. 1: s_j = η_j for j < K−1, s_K−1 = 0, so that
// c_ij = δ_ij − p_j. One whose W is 0 is a constant gate.
type Flat struct{}

// Scores implements [Gate].
func (Flat) Scores([]float64, *model.Params, int) {}

// Slope implements [Gate]: r_j − p_j.
func (Flat) Slope(dst []float64, j int, r *Posterior) {
	kernel.Sub(dst, r.PostOf(j), r.PriorOf(j))
}

// Complete implements [CurvedGate]: p_j(δ_jm − p_m).
func (Flat) Complete(dst []float64, j, m int, r *Posterior) {
	covariance(dst, r.PriorOf(j), r.PriorOf(m), j == m)
}

// Missing implements [CurvedGate]: r_j(δ_jm − r_m).
func (Flat) Missing(dst []float64, j, m int, r *Posterior) {
	covariance(dst, r.PostOf(j), r.PostOf(m), j == m)
}

// covariance writes that of two classes' indicators: p(δ − q).
func covariance(dst, p, q []float64, same bool) {
	if same {
		kernel.Variance(dst, p)
	} else {
		kernel.MinusMul(dst, p, q)
	}
}

// Cross implements [CurvedGate]: −r_i(δ_ij − r_j)·v.
func (Flat) Cross(dst []float64, i, j int, v []float64, r *Posterior) {
	ri, rj := r.PostOf(i), r.PostOf(j)
	dst, v, rj = dst[:len(ri)], v[:len(ri)], rj[:len(ri)]
	for t, p := range ri {
		dst[t] = p * rj[t] * v[t]
	}
	if i == j {
		for t, p := range ri {
			dst[t] -= p * v[t]
		}
	}
}

// Across implements [CurvedGate]: −r_j(v_j − mean).
func (Flat) Across(dst []float64, j int, v, mean []float64, r *Posterior) {
	vj := r.of(v, j)
	for t, p := range r.PostOf(j) {
		dst[t] = -p * (vj[t] - mean[t])
	}
}
