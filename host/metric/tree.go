package metric

import (
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// unequal is the cost of matching what may not stand for each other: more than that of
// all leaves together, which is at most 1 each.
const unequal = 1e9

// bottleneckOf is bottleneck over the permutations of a tree's leaves that are made of
// permutations of the branches of its gates: an assignment at every gate, whose costs
// are those of the branches below. It is exact, and takes the cube of the branches.
func bottleneckOf(h model.Hierarchy, cost []float64) (float64, []int) {
	k := h.Leaves()
	if h.Depth() <= 1 {
		return bottleneck(k, cost)
	}
	least := func(n int, cost []float64) []int {
		_, perm := bottleneck(n, cost)
		return perm
	}
	level, _ := match(h, 0, h, 0, k, cost, least, func(a, b float64) float64 { return max(a, b) })
	// Of the permutations that attain it the one with the smallest sum.
	allowed := slices.Clone(cost)
	for i, c := range cost {
		if c > level {
			allowed[i] = unequal
		}
	}
	_, perm := match(h, 0, h, 0, k, allowed, Assign, func(a, b float64) float64 { return a + b })
	return level, perm
}

// match returns the least cost of matching the leaves of tree a, which begin at from, to
// those of b, which begin at to, and for each of the former its partner. Trees of
// different shapes do not match.
func match(a model.Hierarchy, from int, b model.Hierarchy, to, k int, cost []float64,
	assign func(n int, cost []float64) []int, plus func(x, y float64) float64) (float64, []int) {
	n := len(a.Branches)
	if n != len(b.Branches) {
		return unequal, nil
	}
	if n == 0 {
		return cost[from*k+to], []int{to}
	}
	costs, perms := make([]float64, n*n), make([][]int, n*n)
	at := from
	for i, branch := range a.Branches {
		target := to
		for j, other := range b.Branches {
			costs[i*n+j], perms[i*n+j] = match(branch, at, other, target, k, cost, assign, plus)
			costs[i*n+j] = min(costs[i*n+j], unequal)
			target += other.Leaves()
		}
		at += branch.Leaves()
	}
	sum, perm := 0.0, []int(nil)
	for i, j := range assign(n, costs) {
		if perms[i*n+j] == nil {
			return unequal, nil
		}
		sum, perm = plus(sum, costs[i*n+j]), append(perm, perms[i*n+j]...)
	}
	return sum, perm
}
