package model

import "slices"

// Order returns the permutation that puts the branches of every gate in the order of
// their proportions, the largest first, as far as they may stand for each other: expert i
// becomes expert order[i]. Branches of another shape or of other activations (kinds, nil
// where all are the same) stay in their places.
func (h Hierarchy) Order(kinds []int, proportions []float64) []int {
	leaves, _ := ordered(h, 0, kinds, proportions)
	out := make([]int, len(leaves))
	for rank, i := range leaves {
		out[i] = rank
	}
	return out
}

// ordered returns the leaves of h, which begin at from, in their new order, and the sum of
// their proportions.
func ordered(h Hierarchy, from int, kinds []int, proportions []float64) (leaves []int, mass float64) {
	if len(h.Branches) == 0 {
		return []int{from}, proportions[from]
	}
	type branch struct {
		h      Hierarchy
		leaves []int
		mass   float64
		placed bool
	}
	all := make([]branch, len(h.Branches))
	for c, b := range h.Branches {
		own, sum := ordered(b, from, kinds, proportions)
		all[c] = branch{h: b, leaves: own, mass: sum}
		from, mass = from+len(own), mass+sum
	}
	alike := func(a, b *branch) bool {
		return a.h.Equal(b.h) && (kinds == nil || slices.EqualFunc(a.leaves, b.leaves,
			func(i, j int) bool { return kinds[i] == kinds[j] }))
	}
	for c := range all {
		best := -1
		for d := range all {
			if b := &all[d]; !b.placed && alike(b, &all[c]) && (best < 0 || b.mass > all[best].mass) {
				best = d
			}
		}
		all[best].placed = true
		leaves = append(leaves, all[best].leaves...)
	}
	return leaves, mass
}
