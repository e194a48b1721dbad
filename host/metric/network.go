package metric

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
)

// NetworkError is the distance of a network to the true one after units have
// been matched.
type NetworkError struct {
	Weights    float64 // ‖Ŵ − W‖_F/‖W‖_F
	Output     float64 // ‖v̂ − v‖/‖v‖
	Directions float64 // E_reg of the rows of W: 1 − the least cosine
	Perm       []int   // perm[i] is the true unit that estimate i stands for
}

// Units compares networks unit by unit, in the order that makes
// Σ_i ‖ŵ_i − w_perm(i)‖² + (v̂_i − v_perm(i))²·‖w_perm(i)‖² least. Where φ is
// homogeneous, only v_i·‖w_i‖^p is identified: weights are to be compared at equal
// conventions for v. Where φ is odd, up to a constant, (v_i, w_i) and (−v_i, −w_i) are the
// same unit up to that constant, and both networks are compared with v_i > 0. It panics if est and truth differ in K or
// D.
func Units(est, truth *model.Network, odd bool) NetworkError {
	if est.K != truth.K || est.D != truth.D {
		panic(fmt.Sprintf("metric: estimate has k = %d, d = %d, truth has k = %d, d = %d", est.K, est.D, truth.K,
			truth.D))
	}
	if odd {
		est, truth = positive(est), positive(truth)
	}
	k := est.K
	cost := make([]float64, k*k)
	for i := range k {
		for j := range k {
			apart, dv := floats.Distance(est.Unit(i), truth.Unit(j), 2), est.Output[i]-truth.Output[j]
			norm := floats.Norm(truth.Unit(j), 2)
			cost[i*k+j] = apart*apart + dv*dv*norm*norm
		}
	}
	e := NetworkError{Perm: Assign(k, cost)}
	var w, v float64
	for i, j := range e.Perm {
		apart, dv := floats.Distance(est.Unit(i), truth.Unit(j), 2), est.Output[i]-truth.Output[j]
		w, v = w+apart*apart, v+dv*dv
		e.Directions = max(e.Directions, oneLessCos(est.Unit(i), truth.Unit(j)))
	}
	e.Weights = math.Sqrt(w) / floats.Norm(truth.Weights, 2)
	e.Output = math.Sqrt(v) / floats.Norm(truth.Output, 2)
	return e
}

// positive turns the units with v_i < 0 around.
func positive(n *model.Network) *model.Network {
	n = n.Clone()
	for i, v := range n.Output {
		if v < 0 {
			n.Output[i] = -v
			floats.Scale(-1, n.Unit(i))
		}
	}
	return n
}
