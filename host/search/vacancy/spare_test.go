package vacancy

import (
	"testing"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search"
)

// TestReached: one that has not converged hides neither a lower one that has, nor that there is something above the best.
func TestReached(t *testing.T) {
	at := func(value float64, status optim.Status) *search.Candidate {
		return &search.Candidate{Run: &optim.Result{Value: value, Status: status}}
	}
	const best, same = 1, 0.01
	for _, c := range []struct {
		name    string
		climbed []*search.Candidate
		top     int
		met     bool
	}{
		{"the best itself", []*search.Candidate{at(1.005, optim.Converged), at(2, optim.Converged)}, 0, true},
		{"only worse ones", []*search.Candidate{at(1.1, optim.Converged)}, 0, false},
		{"a better one", []*search.Candidate{at(0.5, optim.Converged)}, 0, false},
		{"a better one behind one that has not converged",
			[]*search.Candidate{at(0.5, optim.IterationLimit), at(0.6, optim.Converged), at(1, optim.Converged)}, 1, false},
		{"the best behind a better one that has not converged",
			[]*search.Candidate{at(0.5, optim.IterationLimit), at(1, optim.Converged)}, 1, false},
		{"none has converged, and none is better", []*search.Candidate{at(1, optim.IterationLimit)}, 0, true},
	} {
		top, met := reached(c.climbed, best, same)
		if top != c.climbed[c.top] || met != c.met {
			t.Errorf("%s: value %v, met %v, want number %d, %v", c.name, top.Run.Value, met, c.top, c.met)
		}
	}
}
