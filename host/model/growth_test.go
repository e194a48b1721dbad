package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

func shapeOf(t *testing.T, text string) model.Hierarchy {
	t.Helper()
	h, err := model.ParseHierarchy(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestShapesNext: the shapes next to some, written out by hand.
func TestShapesNext(t *testing.T) {
	for _, c := range []struct {
		shape                 string
		splits, merges, joins []string
	}{
		{"1", []string{"2"}, nil, nil},
		{"2", []string{"2x(1,2)"}, []string{"1"}, nil},
		{"3", []string{"3x(1,1,2)"}, []string{"1"}, nil},
		{"2x(2,1)", []string{"2x(1,2x(1,2))", "2x2"}, []string{"1", "2"}, []string{"3"}},
		{"2x2", []string{"2x(2,2x(1,2))"}, []string{"1", "2x(1,2)"}, []string{"3x(1,1,2)"}},
		{"2x(1,2x(1,2))", []string{"2x(1,2x(1,2x(1,2)))", "2x(1,2x2)", "2x(2,2x(1,2))"}, []string{"1", "2", "2x(1,2)"}, []string{"2x(1,3)", "3x(1,1,2)"}},
		{"2x(2,2x2)", []string{"2x(2,2x(2,2x(1,2)))", "2x(2x(1,2),2x2)"}, nil, []string{"2x(2,3x(1,1,2))", "3x(1,1,2x2)", "3x2"}},
	} {
		h := shapeOf(t, c.shape)
		for what, pair := range map[string]struct {
			got  []model.Hierarchy
			want []string
		}{"splits": {h.Splits(), c.splits}, "merges": {h.Merges(), c.merges}, "joins": {h.Joins(), c.joins}} {
			if pair.want == nil && h.Depth() > 1 {
				continue // not written out
			}
			var names []string
			for _, other := range pair.got {
				names = append(names, other.String())
			}
			if !slices.Equal(names, pair.want) {
				t.Errorf("%s of %s: %v, want %v", what, c.shape, names, pair.want)
			}
		}
		if h.String() != c.shape {
			t.Errorf("%s has become %s", c.shape, h)
		}
	}
}

// TestSorted: the sorted shape is the same for any order of the branches, and parameters
// that follow the permutation are the same mixture: the leaves' probabilities move along.
func TestSorted(t *testing.T) {
	want := shapeOf(t, "3x(1,2x(1,2),2x2)")
	rng := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"3x(1,2x(1,2),2x2)", "3x(2x(2,1),2x2,1)", "3x(2x2,1,2x(2,1))"} {
		h := shapeOf(t, text)
		sorted, perm := h.Sorted()
		if !sorted.Equal(want) {
			t.Errorf("%s sorted is %s, want %s", text, sorted, want)
		}
		p := model.NewParams(h.Leaves(), 2)
		p.Tree = h
		for i := range p.Gating {
			p.Gating[i] = rng.NormFloat64()
		}
		q := p.Relabel(perm)
		if !q.Tree.Equal(want) {
			t.Errorf("parameters under %s relabelled are under %s", text, q.Tree)
		}
		b := &model.Block{N: 1, X: []float64{0.3, -1.2}}
		was, is := make([]float64, p.K), make([]float64, p.K)
		p.GateLogits(was, b)
		mixture.GateOf(p.Tree).Scores(was, p, b.N)
		q.GateLogits(is, b)
		mixture.GateOf(q.Tree).Scores(is, q, b.N)
		moved := make([]float64, p.K)
		for i, j := range perm {
			moved[j] = was[i]
		}
		if !floats.EqualApprox(moved, is, 1e-14) { // rounding of sums of a few numbers near 1
			t.Errorf("%s: scores %s, want %s", text, fmt.Sprint(is), fmt.Sprint(moved))
		}
	}
}
