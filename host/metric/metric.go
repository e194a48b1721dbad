// Package metric measures how far estimated parameters are from the true ones
// when the experts' order and the regressors' signs and norms are free
// (002 Section 4). [Ereg] is the error of the regressors, [Egating] that of the gate
// in the order that Ereg found.
package metric

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
)

// Ereg is the error of the regressors (002 Section 4),
//
//	E_reg = 1 − max_perm min_i |⟨â_i, a_perm(i)⟩| / (‖â_i‖‖a_perm(i)‖),
//
// and the permutation that attains it: perm[i] is the true expert that
// estimate i stands for. Where several permutations attain it, the one with
// the largest sum of |⟨â_i, a_perm(i)⟩| is taken. A row of zeros has inner
// product 0 with everything. Under a tree the permutations are those that leave it as it
// is. It panics if est and truth differ in K, D or the tree.
func Ereg(est, truth *model.Params) (float64, []int) { return EregOf(est, truth, nil) }

// EregOf is [Ereg] where only experts of the same kind may stand for each other, such as
// those of the same activation; nil kinds are all the same.
func EregOf(est, truth *model.Params, kinds []int) (float64, []int) {
	mustMatch(est, truth)
	k := est.K
	apart := make([]float64, k*k) // 1 − |cos|
	for i := range k {
		for j := range k {
			apart[i*k+j] = oneLessCos(est.Regressor(i), truth.Regressor(j))
			if kinds != nil && kinds[i] != kinds[j] {
				apart[i*k+j] = unequal
			}
		}
	}
	return bottleneckOf(est.Hierarchy(), apart)
}

// Egating is the error of the gate once it bears the truth's labels, by perm as
// [Ereg] returns it ([model.Params.Relabel]: the gate that then stands last is taken
// off all others);
//
//	E_gating = 1 − min_{i<k} |⟨ŵ_i, w_i⟩| / (‖ŵ_i‖‖w_i‖).
//
// It is 0 for k = 1. It panics if est and truth differ in K or D.
func Egating(est, truth *model.Params, perm []int) float64 {
	mustMatch(est, truth)
	relabelled := est.Relabel(perm)
	worst := 0.0
	for i := range est.Gates() {
		worst = max(worst, oneLessCos(relabelled.Gate(i), truth.Gate(i)))
	}
	return worst
}

// oneLessCos is 1 − |cos(u, v)|, as ½‖û ∓ v̂‖² so that small errors keep their
// digits and none is negative. It is 1 where u or v is zero.
func oneLessCos(u, v []float64) float64 {
	nu, nv := floats.Norm(u, 2), floats.Norm(v, 2)
	if nu == 0 || nv == 0 {
		return 1
	}
	var plus, minus float64
	for i := range u {
		a, b := u[i]/nu, v[i]/nv
		plus += (a + b) * (a + b)
		minus += (a - b) * (a - b)
	}
	return math.Min(1, math.Min(plus, minus)/2)
}

func mustMatch(est, truth *model.Params) {
	if est.K != truth.K || est.D != truth.D {
		panic(fmt.Sprintf("metric: estimate has k = %d, d = %d, truth has k = %d, d = %d", est.K, est.D, truth.K,
			truth.D))
	}
	if !est.Hierarchy().Equal(truth.Hierarchy()) {
		panic(fmt.Sprintf("metric: the estimate is the tree %s, the truth %s", est.Hierarchy(), truth.Hierarchy()))
	}
}

// Nearest is the permutation that gives each expert of q the place of the one of best whose regressor, with its
// intercept, is nearest, by the sum of squares.
func Nearest(q, best *model.Params) []int {
	k := q.K
	cost := make([]float64, k*k)
	for i := range k {
		for j := range k {
			for f, a := range q.Regressor(i) {
				cost[i*k+j] += (a - best.Regressor(j)[f]) * (a - best.Regressor(j)[f])
			}
			if q.RegressorIntercepts != nil {
				b := q.RegressorIntercepts[i] - best.RegressorIntercepts[j]
				cost[i*k+j] += b * b
			}
		}
	}
	return Assign(k, cost)
}
