package mixture

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Of rows in groups, all rows t of a group g having one expert and the gate seeing what is constant in a group,
//
//	log p(y_g|x_g) = log Σ_i P(z=i|x_g)·Π_t f(y_gt; m_i(x_gt), ψ_i),
//
// a row's posterior is that of its group, and one row speaks for its group to the gate. [Posterior.Densities] and
// [Posterior.Share] stand in the place of Observe and ObserveMeans. The derivatives are then those of the group's
// complete data, which add up over its rows: [TakeMissing] is of the group's sums, and not of rows.

// SharePosterior makes of K values log P(z=i|x) + Σ_t log f_i, up to a constant, the posterior in their place, and
// returns log Σ exp of them. Where all are −Inf, or one is no number, the posterior is even and the sum what they are.
func SharePosterior(v []float64) float64 {
	top, sum := floats.Max(v), 0.0 // of the numbers among them
	if math.IsInf(top, 0) && floats.HasNaN(v) {
		top = math.NaN()
	}
	for i, a := range v {
		v[i] = math.Exp(a - top)
		sum += v[i]
	}
	if math.IsNaN(sum) {
		for i := range v {
			v[i] = 1 / float64(len(v))
		}
		if math.IsInf(top, 0) {
			return top
		}
		return sum
	}
	for i := range v {
		v[i] /= sum
	}
	return top + math.Log(sum)
}
