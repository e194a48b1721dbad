package checkpoint

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/starts"
)

// TestScreening: candidates go through JSON and back to the last bit, those that failed too; of another shape, and with
// parameters that no likelihood has, they are refused.
func TestScreening(t *testing.T) {
	p := model.NewParams(2, 1)
	copy(p.Regressors, []float64{1.0 / 3, -2})
	copy(p.Gating, []float64{math.Pi})
	p.Sigma[0] = 0.1
	failed := p.Clone()
	failed.Regressors[0] = math.Inf(1)
	state := search.State{Least: 3, Candidates: []*search.Candidate{
		{Kind: starts.KindRandom, Rows: 7, Agrees: true, Params: p,
			Run: &optim.Result{X: []float64{1, 2}, Value: 0.7, Status: optim.Converged, Iterations: 4, Trace: []float64{1, 0.7}}},
		{Kind: starts.KindRandom, Params: failed, Run: &optim.Result{Value: math.Inf(1), Status: optim.NotRun}},
	}}
	c := &Checkpoint{Screening: screening{Least: state.Least, Done: state.Done}}
	for _, candidate := range state.Candidates {
		c.Screening.Starts = append(c.Screening.Starts, saveCandidate(candidate))
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	read := func() *Checkpoint {
		c := new(Checkpoint)
		if err := json.Unmarshal(data, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	got, err := read().State(p)
	if err != nil {
		t.Fatal(err)
	}
	if got.Least != state.Least || len(got.Candidates) != len(state.Candidates) {
		t.Fatalf("least %d, %d candidates", got.Least, len(got.Candidates))
	}
	for i, candidate := range got.Candidates {
		if diff := cmp.Diff(saveCandidate(state.Candidates[i]), saveCandidate(candidate)); diff != "" {
			t.Errorf("candidate %d (−) through JSON (+):\n%s", i, diff)
		}
	}
	for name, change := range map[string]func(c *Checkpoint){
		"a parameter too few": func(c *Checkpoint) { c.Screening.Starts[0].Params = c.Screening.Starts[0].Params[1:] },
		"no value":            func(c *Checkpoint) { c.Screening.Starts[0].Value = nil },
		"not finite":          func(c *Checkpoint) { c.Screening.Starts[0].Params[0] = math.NaN() },
		"noise of 0":          func(c *Checkpoint) { s := c.Screening.Starts[0].Params; s[len(s)-1] = 0 },
		"no starts":           func(c *Checkpoint) { c.Screening.Done, c.Screening.Starts = true, nil },
	} {
		c := read()
		change(c)
		if _, err := c.State(p); !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read().StateOfSeveral(3); !errors.As(err, new(*Error)) {
		t.Errorf("two parameters of three: %v", err)
	}
}
