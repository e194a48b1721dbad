package solver

import (
	"math"
	"slices"
)

// Design is the mixture for which [Noise.Samples] predicts: K experts with
// orthonormal regressors in D dimensions, a gate orthogonal to them, and the
// weight μ of L4.
type Design struct {
	K, D        int
	Proportions []float64 // K of them; nil for equal ones
	Mu          float64   // weight of the diagonal terms in L4
}

// Samples predicts the number of rows at which the moment estimate of the
// regressors reaches E_reg = 1 − min_i |⟨â_i, a_i⟩| ≤ target in half of all data
// sets. It returns +Inf where the transforms identify nothing.
//
// The estimate: U, Λ the K leading eigenpairs of T̂2, whitening W = UΛ^{−1/2},
// û_i the unit vectors that minimise L4 of the whitened T̂4, and
// â_i = UΛ^{1/2}û_i, normalised. The delta method at the population, with
// E2 = T̂2 − T2 and E4 = T̂4 − T4 (both over c) and T2 = Σ p_m a_m a_mᵀ:
//
// Outside the span of the regressors only U errs, by first-order perturbation
// of an eigenspace; along a direction b,
//
//	⟨b, â_i⟩ = E2(b, a_i)/p_i
//
// Inside, write û_i = v_i + Σ_{m≠i} θ_im v_m in the whitened basis
// v_m = √p_m·Wᵀa_m. To second order L4 is Σ_{i≠m} 2(θ_im − e_im/2)²/p_m +
// 2μ(θ_im + e_im/2)²/p_i plus the noise of T̂4, with e_im = E2(a_i,a_m)/√(p_i p_m) what
// the whitening adds. Setting its derivative to zero and mapping back by
// UΛ^{1/2}, which brings e_im/2 once more,
//
//	⟨a_m, â_i⟩ = τ/p_i·[E2(a_i,a_m) − Σ_j c_j·E4(a_i,a_m,a_j,a_j)]
//	c_j = p_m/p_j for j ≠ i,  c_i = −μ·p_m/p_i,  τ = 1/(1 + μ·p_m/p_i)
//
// One row adds to the bracket ψ = q2·x_i·x_m − q4·(c_i·He3(x_i)·x_m +
// c_m·x_i·He3(x_m) + Σ_{j≠i,m} c_j·x_i·x_m·He2(x_j)), x_j its coordinate along
// a_j. Its y comes from expert r with probability p_r and then depends on x_r
// alone, so E[ψ²] is a mixture over r of products of one-dimensional
// expectations (inside). Likewise for E2(b, a_i) (outside).
//
// Then n·2(1 − ⟨â_i,a_i⟩) is a weighted sum of D−K squared normal variables with
// the outside variance and K−1 with the inside ones. Its distribution is taken
// as a scaled χ² of the same mean and variance (Wilson and Hilferty's
// cube root), the K experts as independent, and the prediction is the median of
// their maximum, over twice the target.
func (n Noise) Samples(design Design, target float64) float64 {
	p := design.Proportions
	if p == nil {
		p = slices.Repeat([]float64{1 / float64(design.K)}, design.K)
	}
	experts := make([]scaledChi, design.K)
	for i := range experts {
		out := n.outside(p, i)
		experts[i].add(out, design.D-design.K)
		for m := range experts {
			if m != i {
				experts[i].add(n.inside(p, i, m, design.Mu), 1)
			}
		}
	}
	return medianOfMax(experts) / (2 * target)
}

// outside returns the variance of one row's share in E2(b, a_i)/p_i.
func (n Noise) outside(p []float64, i int) float64 {
	return (p[i]*n.q22z + (1-p[i])*n.q22) / (p[i] * p[i])
}

// inside returns the variance of one row's share in ⟨a_m, â_i⟩.
func (n Noise) inside(p []float64, i, m int, mu float64) float64 {
	c := make([]float64, len(p))
	for j := range c {
		c[j] = p[m] / p[j]
	}
	c[i] = -mu * p[m] / p[i]
	var v float64
	for r, pr := range p {
		if r == i || r == m {
			// (q2·Z − c_r·q4·He3(Z))·x, x the other of x_i and x_m.
			v += pr * (n.q22z - 2*c[r]*n.q24[3] + c[r]*c[r]*n.q44[3])
			v += pr * n.others(c, i, m, r) * n.q44[1]
			continue
		}
		// (q2 − c_r·q4·He2(Z))·x_i·x_m.
		v += pr * (n.q22 - 2*c[r]*n.q24[2] + c[r]*c[r]*n.q44[2])
		v += pr * n.others(c, i, m, r) * n.q44[0]
	}
	tau := 1 / (1 + mu*p[m]/p[i])
	return v * tau * tau / (p[i] * p[i])
}

// others returns Σ_{j≠r} c_j²·q!, the Hermite norms of the terms of ψ in which
// expert r's own coordinate has no Hermite factor of its own: q = 3 for j = i
// and m, 2 for the rest.
func (n Noise) others(c []float64, i, m, r int) float64 {
	var s float64
	for j, v := range c {
		switch {
		case j == r:
		case j == i || j == m:
			s += 6 * v * v
		default:
			s += 2 * v * v
		}
	}
	return s
}

// scaledChi is a weighted sum of squared standard normal variables, known by
// its mean and variance.
type scaledChi struct{ mean, variance float64 }

func (c *scaledChi) add(weight float64, count int) {
	c.mean += weight * float64(count)
	c.variance += 2 * weight * weight * float64(count)
}

// cdf returns P(sum ≤ x) by Wilson and Hilferty: with ν = 2·mean²/variance,
// (x/mean)^{1/3} is about N(1 − 2/(9ν), 2/(9ν)).
func (c scaledChi) cdf(x float64) float64 {
	v := c.variance / (9 * c.mean * c.mean) // 2/(9ν)
	z := (math.Cbrt(x/c.mean) - (1 - v)) / math.Sqrt(v)
	return math.Erfc(-z/math.Sqrt2) / 2
}

// medianOfMax returns the median of the maximum of independent variables, by
// bisection between 0 and a bound that it exceeds with probability below 1/2.
func medianOfMax(list []scaledChi) float64 {
	var hi float64
	for _, c := range list {
		if math.IsInf(c.mean, 0) || math.IsNaN(c.mean) {
			return math.Inf(1)
		}
		hi += 2 * c.mean // Markov and the union bound
	}
	lo := 0.0
	for range 60 {
		mid := (lo + hi) / 2
		below := 1.0
		for _, c := range list {
			below *= c.cdf(mid)
		}
		if below < 0.5 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}
