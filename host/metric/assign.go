package metric

import (
	"math"
	"slices"
)

// bottleneck solves the assignment problem min over permutations of the
// largest cost[i*k+perm[i]], and of the permutations that attain it returns
// the one with the smallest sum.
func bottleneck(k int, cost []float64) (float64, []int) {
	levels := slices.Clone(cost)
	slices.Sort(levels)
	levels = slices.Compact(levels)
	// The smallest level whose entries hold a perfect matching.
	at, _ := slices.BinarySearchFunc(levels, true, func(level float64, _ bool) int {
		if canMatch(k, cost, level) {
			return 0
		}
		return -1
	})
	level := levels[at]
	// Forbidden entries cost more than any k allowed ones together.
	allowed := slices.Clone(cost)
	for i, c := range cost {
		if c > level {
			allowed[i] = float64(k) * (1 + level)
		}
	}
	return level, Assign(k, allowed)
}

// canMatch reports whether the entries of cost up to level hold a perfect
// matching, by augmenting paths.
func canMatch(k int, cost []float64, level float64) bool {
	owner := make([]int, k) // of each column
	for j := range owner {
		owner[j] = -1
	}
	var augment func(i int, seen []bool) bool
	augment = func(i int, seen []bool) bool {
		for j := range k {
			if cost[i*k+j] > level || seen[j] {
				continue
			}
			seen[j] = true
			if owner[j] < 0 || augment(owner[j], seen) {
				owner[j] = i
				return true
			}
		}
		return false
	}
	for i := range k {
		if !augment(i, make([]bool, k)) {
			return false
		}
	}
	return true
}

// Assign returns the permutation that minimises the sum of cost[i*k+perm[i]],
// by the Hungarian method with potentials u, v: shortest augmenting paths in
// O(k³). Index 0 of the work arrays stands for "none". Costs that are not finite count as more
// than any sum of the others.
func Assign(k int, cost []float64) []int {
	cost = bounded(k, cost)
	u, v := make([]float64, k+1), make([]float64, k+1)
	row := make([]int, k+1) // matched to each column
	for i := 1; i <= k; i++ {
		augmentShortest(k, cost, i, u, v, row)
	}
	perm := make([]int, k)
	for j := 1; j <= k; j++ {
		perm[row[j]-1] = j - 1
	}
	return perm
}

// bounded returns costs whose sums are finite, in the same order: those given, where none is
// larger than 1e300.
func bounded(k int, cost []float64) []float64 {
	const large = 1e300
	most, within := 0.0, true
	for _, c := range cost {
		if finite := !math.IsNaN(c) && !math.IsInf(c, 0); finite {
			most = max(most, math.Abs(c))
		} else {
			within = false
		}
	}
	if within && most <= large {
		return cost
	}
	out := make([]float64, len(cost))
	for i, c := range cost {
		switch {
		case math.IsNaN(c) || math.IsInf(c, 1):
			out[i] = 3 * float64(k)
		case math.IsInf(c, -1):
			out[i] = -3 * float64(k)
		case most > 0:
			out[i] = c / most
		}
	}
	return out
}

// augmentShortest adds row i to the matching along a shortest path.
func augmentShortest(k int, cost []float64, i int, u, v []float64, row []int) {
	from := make([]int, k+1) // previous column on the path
	slack := make([]float64, k+1)
	for j := range slack {
		slack[j] = math.Inf(1)
	}
	used := make([]bool, k+1)
	row[0] = i
	j0 := 0
	for row[j0] != 0 {
		used[j0] = true
		i0, j1, delta := row[j0], 0, math.Inf(1)
		for j := 1; j <= k; j++ {
			if used[j] {
				continue
			}
			if c := cost[(i0-1)*k+j-1] - u[i0] - v[j]; c < slack[j] {
				slack[j], from[j] = c, j0
			}
			if slack[j] < delta {
				delta, j1 = slack[j], j
			}
		}
		for j := range used {
			if used[j] {
				u[row[j]] += delta
				v[j] -= delta
			} else {
				slack[j] -= delta
			}
		}
		j0 = j1
	}
	for j0 != 0 {
		row[j0] = row[from[j0]]
		j0 = from[j0]
	}
}
