package solver

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/internal/stream"
)

// Design is the mixture for which errors are predicted: K experts with unit
// regressors in D > K dimensions and a gate orthogonal to them.
type Design struct {
	K, D        int
	Proportions []float64 // K of them; nil for equal ones
	// Mu is the weight μ of L4 (002 Eq. 7) where its rows are held at unit norm only; 0:
	// they are held orthonormal, and μ does not matter.
	Mu float64
	// Order is that of the tensor beside T̂2: 4 for L4, 3 for the spectral
	// decomposition of T̂3 (001, method 1); 0: 4.
	Order int
	// Gram are the products ⟨a_i, a_j⟩ of the unit regressors; nil: they are orthonormal. [Noise.Samples] takes
	// those alone.
	Gram *mat.SymDense
}

// proportions are those of the experts.
func (d Design) proportions() []float64 {
	if d.Proportions != nil {
		return d.Proportions
	}
	return slices.Repeat([]float64{1 / float64(d.K)}, d.K)
}

// Samples predicts the number of rows at which the moment estimate of the
// regressors reaches E_reg = 1 − min_i |⟨â_i, a_i⟩| ≤ target in half of all data
// sets.
//
// The estimate: U, Λ the K leading eigenpairs of T̂2/c2, whitening W = UΛ^{−1/2},
// û_i the orthonormal vectors that maximise Σ_i T̂4(û_i,û_i,û_i,û_i) of the whitened T̂4/c4,
// which minimises L4, and â_i = UΛ^{1/2}û_i, normalised; of the spectral estimate
// (Order 3) those that maximise Σ_i T̂3(û_i,û_i,û_i)². The delta method at the population,
// with E2, E3 and E4 the errors of T̂2/c2, T̂3/c3 and T̂4/c4 and T2/c2 = Σ p_m a_m a_mᵀ:
//
// Outside the span of the regressors only U errs, by first-order perturbation
// of an eigenspace; along a direction b,
//
//	⟨b, â_i⟩ = E2(b, a_i)/p_i
//
// Inside, in the whitened basis v_m = √p_m·Wᵀa_m, whitening turns the vectors that T4 is
// made of by −½·e_im, e_im = E2(a_i,a_m)/√(p_i·p_m), and with λ_i = 1/p_i
//
//	θ_im = ⟨v_m, û_i⟩ = (E4(v_m,v_i,v_i,v_i) − E4(v_i,v_m,v_m,v_m) − (λ_i − λ_m)·e_im/2)/(λ_i + λ_m)
//
// UΛ^{1/2} brings e_im/2 back:
//
//	⟨a_m, â_i⟩ = [E4(a_m,a_i,a_i,a_i)·p_m/p_i − E4(a_i,a_m,a_m,a_m) + E2(a_i,a_m)]/(p_i+p_m)
//
// For the spectral estimate λ_i = 1/√p_i, and in θ_im the terms of i are weighted by λ_i
// beside λ_i² + λ_m². The result is the same with E3(a_m,a_i,a_i) and E3(a_i,a_m,a_m).
//
// With unit rows that need not be orthogonal (Mu > 0) write û_i = v_i + Σ_{m≠i} θ_im v_m. To
// second order
//
//	L4 = Σ_{i≠m} [2(θ_im − e_im/2)²/p_m + 2μ(θ_im + e_im/2)²/p_i
//	            + 4θ_im(Σ_{j≠i} E4(v_i,v_m,v_j,v_j) − μE4(v_i,v_i,v_i,v_m))]
//
// At its minimum, after the pseudo-inverse (v_i − Σ θ_mi v_m) and UΛ^{1/2},
//
//	⟨a_m, â_i⟩ = τ·[μE2(a_i,a_m)/p_m + Σ_{j≠m} E4(a_i,a_m,a_j,a_j)/p_j − μE4(a_i,a_m,a_m,a_m)/p_m]
//	τ = 1/(1 + μ·p_i/p_m)
//
// This holds as long as the rows stay near those sought: of many experts, where an
// error of T̂4 is negative enough for all rows to end up along it, they do not.
//
// A row's share in these is a polynomial in its coordinates x_j along the a_j
// times q2, q3 or q4; its y comes from expert r with probability p_r and then
// depends on x_r alone, so variances and covariances are mixtures over r of
// products of one-dimensional expectations (see pair and outside). Of all
// errors only ⟨a_m,â_i⟩ and ⟨a_i,â_m⟩ are correlated.
//
// Then 2n(1 − ⟨â_i,a_i⟩) is a sum of squared normal variables, D−K outside and K−1
// inside, and the prediction is the median of the largest of the K sums, over
// twice the target. The median comes from 20 000 draws with a fixed seed
// (fewer from K = 21 on), which find it to about 1 %. Means of heavy-tailed rows are closer to 0 in the median
// than normal ones of their variance, so the prediction is on the high side. It is
// +Inf where a transform that the estimate needs does not exist.
func (n Noise) Samples(design Design, target float64) float64 {
	if !n.Learns(design.Order) {
		return math.Inf(1)
	}
	if design.Gram != nil {
		panic("solver: Samples is of orthonormal regressors")
	}
	return medianLargest(n.errors(design)) / (2 * target)
}

// Learns says whether both transforms of an estimate of order 3 or 4 exist.
func (n Noise) Learns(order int) bool {
	if order == 3 {
		return n.q22 > 0 && n.q33[0] > 0
	}
	return n.q22 > 0 && n.q44[0] > 0
}

// MeanError is n·Σ_i E[1 − ⟨â_i,a_i⟩], a closed form that orders transforms by their noise; +Inf where one does not
// exist, or the regressors are linearly dependent. The regressors need not be orthonormal: with b_i the rows of A's
// pseudo-inverse, ⟨b_i, a_j⟩ = [i = j], and β_i = b_i/√p_i the derivation of [Noise.Samples] goes through as it
// stands, where E(v_i, …) of the whitened tensors are E(β_i, …) of the others. To first order
//
//	⟨b, â_i⟩ = E2(b, b_i)/p_i    b outside the span
//	â_i = a_i + Σ_{m≠i} c_im·a_m in it, up to its norm
//	c_im = √(p_m/p_i)·[λ_i·E_r(β_i,…,β_i,β_m) − λ_m·E_r(β_m,…,β_m,β_i) + E2(β_i,β_m)/p_m]·p_i·p_m/(p_i+p_m)
//
// with λ_i = 1 for r = 4 and 1/√p_i for r = 3, and 2(1 − ⟨â_i,a_i⟩) is the square of what of the error is orthogonal
// to a_i: Σ_{m,l} c_im·c_il·(⟨a_m,a_l⟩ − ⟨a_i,a_m⟩⟨a_i,a_l⟩) in the span.
//
// A row of expert r has x = z·a_r + ξ with ξ ⟂ a_r and β_j ⟂ a_r but for j = r. The Hermite tensor of x splits into
// those of z and of ξ, so that a contraction is Σ_j He_j(z)·S_{n−j}(ξ): parts that are uncorrelated given z, and a
// covariance is one of He_j(z)² and of products of the β (see spanned). With y, which depends on z alone, they give
// the expectations that a [Noise] has.
//
// With unit rows (Mu > 0) the regressors must be orthonormal.
func (n Noise) MeanError(design Design) float64 {
	if !n.Learns(design.Order) {
		return math.Inf(1)
	}
	if design.Mu == 0 || design.Order == 3 {
		f, ok := newForm(design)
		if !ok {
			return math.Inf(1)
		}
		return f.of(n, design.Order) / 2
	}
	if design.Gram != nil {
		panic("solver: unit rows of regressors that are not orthonormal")
	}
	s := n.errors(design)
	var sum float64
	for _, v := range s.outside {
		sum += float64(s.outer) * v
	}
	for _, p := range s.pairs {
		sum += p.vi + p.vm
	}
	return sum / 2
}

// errorLaw is the distribution of 2n(1 − ⟨â_i,a_i⟩) for all experts.
type errorLaw struct {
	outside []float64 // of each expert, variance along one direction outside the span
	pairs   []pair
	outer   int // number of such directions, D − K
}

// pair holds the covariance matrix of ⟨a_m, â_i⟩ and ⟨a_i, â_m⟩, times n.
type pair struct {
	i, m         int
	vi, vm, both float64
}

func (n Noise) errors(design Design) errorLaw {
	p := design.proportions()
	s := errorLaw{outer: design.D - design.K}
	for i := range p {
		s.outside = append(s.outside, (p[i]*n.q22z+(1-p[i])*n.q22)/(p[i]*p[i]))
		for m := range i {
			if design.Order == 3 || design.Mu == 0 {
				s.pairs = append(s.pairs, n.orthonormalPair(p, i, m, design.Order))
				continue
			}
			a, b := newShare(p, i, m, design.Mu), newShare(p, m, i, design.Mu)
			s.pairs = append(s.pairs, pair{i, m, n.covariance(p, i, m, a, a), n.covariance(p, i, m, b, b),
				n.covariance(p, i, m, a, b)})
		}
	}
	return s
}

// orthonormalPair is the pair of an estimate by orthonormal vectors from T̂3 or T̂4:
// ⟨a_m,â_i⟩ and ⟨a_i,â_m⟩ as combinations of E_r(a_m,a_i,…), E_r(a_i,a_m,…) and E2(a_i,a_m).
// A row has q_r·He_{r−1}(x_i)·x_m, q_r·x_i·He_{r−1}(x_m) and q2·x_i·x_m in these.
func (n Noise) orthonormalPair(p []float64, i, m, order int) pair {
	// E[q_r²], E[q_r²·Z²] and E[q_r²·He_{r−1}²], E[q2·q_r·Z·He_{r−1}], E[He_{r−1}²].
	none, first, all, cross, norm := n.q44[0], n.q44[1], n.q44[3], n.q24[3], 6.
	if order == 3 {
		none, first, all, cross, norm = n.q33[0], n.q33[1], n.q33[2], n.q23, 2
	}
	sum := p[i] + p[m]
	x := [3]float64{p[m] / (p[i] * sum), -1 / sum, 1 / sum}
	y := [3]float64{-1 / sum, p[i] / (p[m] * sum), 1 / sum}
	covariance := func(x, y [3]float64) float64 {
		var v float64
		for r, pr := range p {
			// Of the three: variances, and the covariances with the third.
			d, with := [3]float64{norm * none, norm * none, n.q22}, [2]float64{}
			switch r {
			case i:
				d, with = [3]float64{all, norm * first, n.q22z}, [2]float64{cross, 0}
			case m:
				d, with = [3]float64{norm * first, all, n.q22z}, [2]float64{0, cross}
			}
			for j := range 3 {
				v += pr * d[j] * x[j] * y[j]
			}
			for j := range 2 {
				v += pr * with[j] * (x[j]*y[2] + x[2]*y[j])
			}
		}
		return v
	}
	return pair{i, m, covariance(x, x), covariance(y, y), covariance(x, y)}
}

// share is a row's share in ⟨a_m, â_i⟩,
//
//	two·q2·x_i·x_m + q4·(four_i·He3(x_i)·x_m + four_m·x_i·He3(x_m) + Σ_{j≠i,m} four_j·x_i·x_m·He2(x_j))
type share struct {
	two  float64
	four []float64
}

func newShare(p []float64, i, m int, mu float64) share {
	tau := 1 / (1 + mu*p[i]/p[m])
	s := share{two: tau * mu / p[m], four: make([]float64, len(p))}
	for j := range p {
		s.four[j] = tau / p[j]
	}
	s.four[m] *= -mu
	return s
}

// covariance returns E[a·b] for two shares of the same pair of experts. Given
// that y comes from expert r, the terms of q4 other than r's own are orthogonal
// to it and to each other, with norms E[He3²] = 6 for i and m, E[He2²] = 2 for
// the rest.
func (n Noise) covariance(p []float64, i, m int, a, b share) float64 {
	product := func(j int) float64 {
		if j == i || j == m {
			return 6 * a.four[j] * b.four[j]
		}
		return 2 * a.four[j] * b.four[j]
	}
	var all float64
	for j := range p {
		all += product(j)
	}
	var v float64
	for r, pr := range p {
		cross := a.two*b.four[r] + b.two*a.four[r]
		own, others := a.four[r]*b.four[r], all-product(r)
		if r == i || r == m {
			// (two·q2·Z + four_r·q4·He3(Z))·x, x the other of x_i and x_m.
			v += pr * (a.two*b.two*n.q22z + cross*n.q24[3] + own*n.q44[3] + others*n.q44[1])
			continue
		}
		// (two·q2 + four_r·q4·He2(Z))·x_i·x_m.
		v += pr * (a.two*b.two*n.q22 + cross*n.q24[2] + own*n.q44[2] + others*n.q44[0])
	}
	return v
}

// medianLargest returns the median over draws of the largest sum: 20 000 draws,
// fewer where there are more than 200 pairs, so that the work stays bounded.
func medianLargest(s errorLaw) float64 {
	draws := max(400, 20000*200/max(200, len(s.pairs)))
	rng := stream.New(1, stream.Study, 0)
	chi := distuv.ChiSquared{K: float64(s.outer), Src: rng}
	largest := make([]float64, draws)
	sums := make([]float64, len(s.outside))
	for t := range largest {
		for i, v := range s.outside {
			sums[i] = v * chi.Rand()
		}
		for _, p := range s.pairs {
			x, y := p.draw(rng)
			sums[p.i] += x * x
			sums[p.m] += y * y
		}
		largest[t] = slices.Max(sums)
	}
	slices.Sort(largest)
	return (largest[draws/2-1] + largest[draws/2]) / 2
}

// draw returns one pair of errors, by Cholesky of its covariance matrix.
func (p pair) draw(rng *rand.Rand) (x, y float64) {
	a, b := rng.NormFloat64(), rng.NormFloat64()
	if p.vi <= 0 {
		return 0, math.Sqrt(max(p.vm, 0)) * b
	}
	slope := p.both / math.Sqrt(p.vi)
	return math.Sqrt(p.vi) * a, slope*a + math.Sqrt(max(p.vm-slope*slope, 0))*b
}
