package search

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/relu"
)

// TestMake: steps are made in their order where they apply, each from what the last has come to, with the occasion; what
// they gained is recorded once a step, whichever candidate they turn to, and what gains nothing is not.
func TestMake(t *testing.T) {
	p, _ := drawn(t, relu.Family, 2, 3, 50, 0.1, 1, problem.Request{})
	n := float64(p.N())
	var made []string
	to := func(name string, value float64) Step {
		return Step{name, func(_ *Task, c *Candidate) bool { return c.Run.Value > value },
			func(_ context.Context, task *Task, c *Candidate, when Occasion) (*Candidate, error) {
				if task.Problem != p || when != 6 {
					t.Errorf("%s: another problem, or occasion %d", name, when)
				}
				made = append(made, name)
				return ended(value, optim.Converged, false), nil
			}}
	}
	idle := inPlace("idle", nil, func(context.Context, *Task, *Candidate, Occasion) error { return nil })
	first := ended(3, optim.Converged, false)
	first.Gains = []Gain{{"before", 1}}
	got, err := Make(t.Context(), &Task{Problem: p}, []Step{to("a", 2), to("above", 5), idle, to("b", 0), to("a", -0.5)}, first, 6)
	if err != nil || got.Run.Value != -0.5 || !slices.Equal(made, []string{"a", "b", "a"}) {
		t.Fatalf("%v made, the best %+v, error %v", made, got, err)
	}
	if want := []Gain{{"before", 1}, {"a", 1.5 * n}, {"b", 2 * n}}; !slices.Equal(got.Gains, want) {
		t.Errorf("gains %+v, want %+v", got.Gains, want)
	}
	if !slices.Equal(first.Gains, []Gain{{"before", 1}}) {
		t.Errorf("those of the first are now %+v", first.Gains)
	}
	bad := errors.New("bad")
	fails := inPlace("fails", nil, func(context.Context, *Task, *Candidate, Occasion) error { return bad })
	if _, err := Make(t.Context(), &Task{Problem: p}, []Step{fails}, first, 6); err != bad {
		t.Errorf("error %v, want %v", err, bad)
	}
}

// TestOccasions: no two of them are the same.
func TestOccasions(t *testing.T) {
	seen := map[Occasion]bool{atRefinement: true, atSurvey: true}
	for i := range 100 {
		for _, o := range []Occasion{OfSpare(i), BesideFit(i)} {
			if o < 0 || seen[o] {
				t.Errorf("%d is another's", o)
			}
			seen[o] = true
		}
	}
}
