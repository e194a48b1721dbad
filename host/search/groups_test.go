package search

import (
	"math"
	"reflect"
	"testing"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// tree is a shape.
func tree(t testing.TB, text string) model.Hierarchy {
	t.Helper()
	h, err := model.ParseHierarchy(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestGroups: under 2x(1,3), of whose second gate the first branch is separated from the other
// two, its row alone is infinite; and after the branches have changed places the row that
// belongs to the same boundary.
func TestGroups(t *testing.T) {
	h := tree(t, "2x(1,3)") // rows: 0 of the first gate, 1 and 2 of the second
	g := &Groups{gates: h.Gates(), of: [][]int{nil, {0, 2, 2}}}
	for row, infinite := range []bool{false, true, false} {
		if g.Infinite(row) != infinite || g.Leads(row) != infinite {
			t.Errorf("row %d: infinite %v, leads %v, want %v", row, g.Infinite(row), g.Leads(row), infinite)
		}
	}
	if (*Groups)(nil).Infinite(1) || (*Groups)(nil).Relabel(h, []int{0, 1, 2, 3}) != nil {
		t.Error("no groups, and something is infinite")
	}
	// Leaf 1 goes last: its branch is then that whose predictor is 0, and both others lead
	// away from it, as one group that the second of them names.
	moved := g.Relabel(h, []int{0, 3, 1, 2})
	if want := (&Groups{gates: h.Gates(), of: [][]int{nil, {1, 1, 2}}}); !reflect.DeepEqual(moved, want) {
		t.Errorf("%+v, want %+v", moved, want)
	}
	for row, want := range [][2]bool{{false, false}, {true, false}, {true, true}} {
		if got := [2]bool{moved.Infinite(row), moved.Leads(row)}; got != want {
			t.Errorf("moved, row %d: infinite and leads %v, want %v", row, got, want)
		}
	}
	// The branches of the first gate change places, and the gates with them.
	turned := g.Relabel(h, []int{3, 0, 1, 2})
	if want := (&Groups{gates: tree(t, "2x(3,1)").Gates(), of: [][]int{nil, {0, 2, 2}}}); !reflect.DeepEqual(turned, want) {
		t.Errorf("turned %+v, want %+v", turned, want)
	}
}

// TestHardenATree: the probabilities of a gate below another become 0 and 1 between its
// groups, and nothing else does.
func TestHardenATree(t *testing.T) {
	p := model.NewParams(4, 1)
	p.Tree = tree(t, "2x(1,3)")
	p.Gating = []float64{0.7, 2, 0.4}
	q := harden(p, &Groups{gates: p.Tree.Gates(), of: [][]int{nil, {0, 2, 2}}})
	b := &model.Block{N: 2, X: []float64{1, -1}}
	was, is := make([]float64, 8), make([]float64, 8)
	mixture.Mixture{}.Prior(was, p, b)
	mixture.Mixture{}.Prior(is, q, b)
	for r, want := range [][]float64{
		{was[0], 1 - was[0], 0, 0},
		{was[1], 0, (1 - was[1]) * was[5] / (was[5] + was[7]), (1 - was[1]) * was[7] / (was[5] + was[7])},
	} {
		for i, v := range want {
			if math.Abs(is[2*i+r]-v) > 1e-12 {
				t.Errorf("row %d, expert %d: %v, want %v", r, i, is[2*i+r], v)
			}
		}
	}
}
