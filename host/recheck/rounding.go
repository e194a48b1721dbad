package recheck

import (
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// unit is the rounding of one operation.
const unit = 0x1p-53

// rounding returns by how much two computations of log p(y|x) of row t, which is v, may differ for nothing but the
// rounding of y, means and logits: log Σ_i r_i·exp(Δ_i), r the posterior and Δ_i what rounding
// does to the log of P(z=i|x)·f_i(y). With e = (y − μ)/σ, and δ the rounding of e in units of
// its own, Δ_i is Σ_c(|e|·δ + δ²/2) and what the gate adds. It follows on term of the row.
func (r *room) rounding(b *model.Block, t int, v float64) float64 {
	if math.IsInf(v, 0) {
		return 0
	}
	m := r.m
	if m.law != nil { // that of a probability next to 1 alone
		return 8 * unit
	}
	for j := range m.k - 1 {
		r.logitError[j] = r.size(m.gating, m.gateIntercepts, j, b, t)
	}
	r.gateRounding(t)
	terms := make([]float64, m.k)
	for i := range m.k {
		n := m.noiseOf(i)
		delta := r.gateError[i]
		for c, s := range n.Scale {
			at := i*m.m + c
			z, mean, slope, y := r.z[at*r.n+t], r.mean[at*r.n+t], math.Abs(r.slope[at*r.n+t]), b.Y[c*b.N+t]
			predictor := r.size(m.regressors, m.intercepts, at, b, t)
			offset, scale := m.output(i)
			r.err[c] = slope*(predictor+8*unit*math.Abs(z)) + 8*unit*(math.Abs(mean)+math.Abs(offset)+math.Abs(scale)) +
				2*unit*math.Abs(y)
			if r.targets != nil { // put on the intercept and taken off
				r.err[c] += 2 * unit * math.Abs(r.targets[c])
			}
			own := r.err[c]
			for a := range c {
				own += math.Abs(lower(n, c, a)) * (r.err[a] + 4*unit*math.Abs(b.Y[a*b.N+t]-r.mean[(i*m.m+a)*r.n+t]))
			}
			e := math.Abs(r.e[at])
			own = own/s + 8*unit*e
			delta += e*own + own*own/2 + 4*unit*math.Abs(math.Log(s))
		}
		if n.Lower != nil {
			delta += r.ofCovariance(n, i)
		}
		terms[i] = r.joint[i] - v + delta
	}
	return max(0, logSumExp(terms))
}

// ofCovariance is what the rounding of Σ, of which a file has σ and correlations, does to the
// log-density of expert i in the row: with ε σ_a·σ_b the rounding of an entry,
// ½ε·(Σ_a σ_a|Σ⁻¹t|_a)² of the residuals t, and ½ε·Σ_ab σ_a·σ_b·|Σ⁻¹_ab| of the determinant.
func (r *room) ofCovariance(n model.VectorNoise, i int) float64 {
	m, cov := r.m.m, n.Covariance()
	sigma := func(a int) float64 { return math.Sqrt(cov.At(a, a)) }
	u := func(c, b int) float64 {
		if c == b {
			return 1
		}
		return lower(n, c, b)
	}
	pull, inverse := 0.0, 0.0
	for a := range m {
		own := 0.0
		for c := a; c < m; c++ {
			own += u(c, a) / n.Scale[c] * r.e[i*m+c]
		}
		pull += sigma(a) * math.Abs(own)
		for b := range m {
			entry := 0.0
			for c := max(a, b); c < m; c++ {
				entry += u(c, a) / n.Scale[c] * u(c, b) / n.Scale[c]
			}
			inverse += sigma(a) * sigma(b) * math.Abs(entry)
		}
	}
	return 4 * float64(m) * unit * (pull*pull + inverse)
}

// size bounds by what two roundings of row at of coef, ⟨row, x⟩ + its intercept, differ.
func (r *room) size(coef, intercepts []float64, at int, b *model.Block, t int) float64 {
	d, sum := r.m.d, 0.0
	for j := range d {
		x := math.Abs(b.X[j*b.N+t])
		if r.shift != nil { // taken off and put back
			x += 3 * (1 + r.shift[j])
		}
		sum += math.Abs(coef[at*d+j]) * x
	}
	if intercepts != nil {
		sum += math.Abs(intercepts[at])
	}
	return 2 * float64(d+3) * unit * sum
}

// gateRounding writes what the rounding of the predictors of row t does to log P(z=i|x): the
// sum of log Σ_c q_c·exp(δ_c + δ_b), over the branches c beside b, of the nodes on the way.
func (r *room) gateRounding(t int) {
	r.gateError[0] = 0
	above := make([]float64, len(r.nodes))
	for at, node := range r.nodes {
		z, delta := make([]float64, len(node.rows)), make([]float64, len(node.rows))
		for c, row := range node.rows {
			if row >= 0 {
				z[c], delta[c] = r.logits[row*r.n+t], r.logitError[row]
			}
		}
		norm := logSumExp(z)
		for b, to := range node.branches {
			terms := make([]float64, len(z))
			for c, v := range z {
				if terms[c] = v - norm; c != b {
					terms[c] += delta[c] + delta[b]
				}
			}
			v := above[at] + max(0, logSumExp(terms)+8*unit*math.Abs(z[b]-norm))
			if to < 0 {
				r.gateError[^to] = v
			} else {
				above[to] = v
			}
		}
	}
}
