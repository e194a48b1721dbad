package metric

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// automorphisms lists the permutations that leave a tree, whose leaves begin at from, as it
// is, one by one: perm[i] is where leaf from+i goes.
func automorphisms(h model.Hierarchy, from int, kinds []int) (out [][]int) {
	var onto func(a model.Hierarchy, from int, b model.Hierarchy, to int) [][]int
	onto = func(a model.Hierarchy, from int, b model.Hierarchy, to int) (out [][]int) {
		if len(a.Branches) != len(b.Branches) || a.Leaves() != b.Leaves() {
			return nil
		}
		if len(a.Branches) == 0 {
			if kinds[from] != kinds[to] {
				return nil
			}
			return [][]int{{to}}
		}
		starts := []int{to}
		for _, branch := range b.Branches {
			starts = append(starts, starts[len(starts)-1]+branch.Leaves())
		}
		var place func(i, at int, taken []bool, so []int)
		place = func(i, at int, taken []bool, so []int) {
			if i == len(a.Branches) {
				out = append(out, slices.Clone(so))
				return
			}
			for j, branch := range b.Branches {
				if taken[j] {
					continue
				}
				taken[j] = true
				for _, perm := range onto(a.Branches[i], at, branch, starts[j]) {
					place(i+1, at+len(perm), taken, append(so[:len(so):len(so)], perm...))
				}
				taken[j] = false
			}
		}
		place(0, from, make([]bool, len(b.Branches)), nil)
		return out
	}
	return onto(h, from, h, from)
}

// TestEregOfATree: the assignment at every gate is the best of all automorphisms, listed.
func TestEregOfATree(t *testing.T) {
	for _, c := range []struct {
		shape string
		kinds []int // nil: all the same
		count int
	}{
		{"2x2", nil, 8},
		{"2x2x2", nil, 128},
		{"3x2", nil, 48},
		{"2x(1,2)", nil, 2},
		{"3x(1,2x(1,2),2x(1,2))", nil, 8},
		{"2x2", []int{0, 1, 1, 0}, 2},
		{"2x3", []int{0, 0, 1, 0, 1, 0}, 8},
		{"2x(3,1)", []int{0, 1, 2, 0}, 1},
	} {
		h, err := model.ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		k := h.Leaves()
		kinds := c.kinds
		if kinds == nil {
			kinds = make([]int, k)
		}
		all := automorphisms(h, 0, kinds)
		if len(all) != c.count {
			t.Fatalf("%s: %d automorphisms listed, want %d", c.shape, len(all), c.count)
		}
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 13))
			est, truth := random(k, 3, rng), random(k, 3, rng)
			est.Tree, truth.Tree = h, h
			worst, least := math.Inf(1), math.Inf(1)
			for _, perm := range all {
				most, sum := 0.0, 0.0
				for i, j := range perm {
					v := oneLessCos(est.Regressor(i), truth.Regressor(j))
					most, sum = max(most, v), sum+v
				}
				if most < worst {
					worst, least = most, sum
				} else if most == worst {
					least = min(least, sum)
				}
			}
			got, perm := EregOf(est, truth, c.kinds)
			sum := 0.0
			for i, j := range perm {
				sum += oneLessCos(est.Regressor(i), truth.Regressor(j))
			}
			if got != worst || math.Abs(sum-least) > 1e-12 {
				t.Errorf("%s, seed %d: E_reg %v with sum %v by %v, want %v and %v", c.shape, seed, got, sum, perm, worst, least)
			}
			// A tree and itself with its branches in another order are no distance apart.
			moved := truth.Relabel(all[seed%uint64(len(all))])
			ereg, perm := EregOf(moved, truth, c.kinds)
			if egating := Egating(moved, truth, perm); ereg > 1e-15 || egating > 1e-15 {
				t.Errorf("%s, seed %d: relabelled, E_reg %v, E_gating %v", c.shape, seed, ereg, egating)
			}
		}
	}
}
