package search

import (
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// TestReworkLeavesAlone what is under one gate, shrank, or has not converged.
func TestReworkLeavesAlone(t *testing.T) {
	p, top, _ := stuck(t)
	under := *p
	under.Shape.Tree = tree(t, "2x(1,2)")
	for name, c := range map[string]struct {
		p *problem.Problem
		c *Candidate
	}{
		"one gate":   {p, &Candidate{Run: top}},
		"degenerate": {&under, &Candidate{Run: top, Degenerate: true}},
		"on its way": {&under, &Candidate{Run: &optim.Result{Status: optim.IterationLimit}}},
	} {
		was := c.c.Run
		if got, err := Make(t.Context(), &Task{Problem: c.p, Part: p.Rows}, []Step{SplitMerge()}, c.c, 0); err != nil || got != c.c || c.c.Run != was {
			t.Errorf("%s: %+v, error %v", name, c.c.Run, err)
		}
	}
}

// TestSomeOf: the activations of some experts in their order, and one that all have as it is.
func TestSomeOf(t *testing.T) {
	a, b := activation(t, identity.Family), activation(t, tanh.Family)
	got, ok := someOf(model.PerExpert{a, b, a}, []int{1, 2}).(model.PerExpert)
	if !ok || len(got) != 2 || got[0] != b || got[1] != a {
		t.Errorf("%v", got)
	}
	if got := someOf(b, []int{1, 2}); got != b {
		t.Errorf("%v", got)
	}
}
