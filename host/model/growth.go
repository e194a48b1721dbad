package model

import (
	"cmp"
	"slices"
)

// Splits returns the shapes that h becomes when one of its leaves becomes a gate of two.
// Shapes that differ by the order of branches are one; they come as [Hierarchy.Sorted]
// has them, in its order.
func (h Hierarchy) Splits() []Hierarchy { return distinct(h.splits()) }

// Merges returns the shapes that h becomes when one of its branches, or all of it, becomes
// a leaf, as [Hierarchy.Splits] does; none of a leaf.
func (h Hierarchy) Merges() []Hierarchy { return distinct(h.merges()) }

// Joins returns the shapes that h becomes when the branches of a gate under another one become
// branches of that, as [Hierarchy.Splits] does; none of one gate.
func (h Hierarchy) Joins() []Hierarchy { return distinct(h.joins()) }

func (h Hierarchy) splits() []Hierarchy {
	if len(h.Branches) == 0 {
		return []Hierarchy{FlatHierarchy(2)}
	}
	return h.within(Hierarchy.splits)
}

func (h Hierarchy) merges() []Hierarchy {
	if len(h.Branches) == 0 {
		return nil
	}
	return append(h.within(Hierarchy.merges), Hierarchy{})
}

func (h Hierarchy) joins() []Hierarchy {
	out := h.within(Hierarchy.joins)
	for c, b := range h.Branches {
		if len(b.Branches) > 0 {
			out = append(out, Hierarchy{slices.Concat(h.Branches[:c], b.Branches, h.Branches[c+1:])})
		}
	}
	return out
}

// within returns h with one branch replaced by each of what it becomes.
func (h Hierarchy) within(become func(Hierarchy) []Hierarchy) (out []Hierarchy) {
	for c, b := range h.Branches {
		for _, other := range become(b) {
			branches := slices.Clone(h.Branches)
			branches[c] = other
			out = append(out, Hierarchy{branches})
		}
	}
	return out
}

// distinct returns the shapes sorted, each once.
func distinct(all []Hierarchy) []Hierarchy {
	for i, h := range all {
		all[i], _ = h.Sorted()
	}
	slices.SortFunc(all, compareShapes)
	return slices.CompactFunc(all, Hierarchy.Equal)
}

// compareShapes puts shapes of fewer leaves first.
func compareShapes(a, b Hierarchy) int {
	return cmp.Or(cmp.Compare(a.Leaves(), b.Leaves()), cmp.Compare(a.String(), b.String()))
}

// Sorted returns the shape with the branches of every gate in an order of their own, those
// of fewer leaves first, and the permutation that leads there: leaf i becomes leaf perm[i].
// Two shapes whose branches differ by their order alone have the same.
func (h Hierarchy) Sorted() (sorted Hierarchy, perm []int) {
	sorted, order := h.sorted(0)
	perm = make([]int, len(order))
	for at, i := range order {
		perm[i] = at
	}
	return sorted, perm
}

// sorted returns the sorted shape and its leaves, which begin at from, in their new order.
func (h Hierarchy) sorted(from int) (out Hierarchy, leaves []int) {
	if len(h.Branches) == 0 {
		return h, []int{from}
	}
	type branch struct {
		h      Hierarchy
		leaves []int
	}
	all := make([]branch, len(h.Branches))
	for c, b := range h.Branches {
		all[c].h, all[c].leaves = b.sorted(from)
		from += len(all[c].leaves)
	}
	slices.SortStableFunc(all, func(a, b branch) int { return compareShapes(a.h, b.h) })
	out.Branches = make([]Hierarchy, len(all))
	for c, b := range all {
		out.Branches[c] = b.h
		leaves = append(leaves, b.leaves...)
	}
	return out, leaves
}
