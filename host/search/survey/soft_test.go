package survey

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
)

// TestFromSoftStarts: where the gate of the best is hard, in another arrangement than the rows', soft starts
// lead to the supremum, and the search returns it; where it is soft, or there are no such starts,
// none are made.
func TestFromSoftStarts(t *testing.T) {
	p, _ := searchtest.Halves(t, 500, 1e9)
	wrong := searchtest.Lopsided(p, 0)
	wrong.Gating[0], wrong.Gating[1] = 1e4, 1e3 // the boundary is nearly x1 = 0
	l := searchtest.Likelihood(p, p.Rows)
	value, err := l.Value(t.Context(), l.Theta(wrong))
	if err != nil {
		t.Fatal(err)
	}
	worst := &search.Candidate{Run: &optim.Result{Value: value, X: l.Theta(wrong), Status: optim.Converged}, Params: wrong, Rows: p.N()}
	random := starts.Random(p, searchtest.Measure(t, p))
	task := &search.Task{Problem: p, Part: p.Rows, Starts: search.DefaultStarts, Soft: random}
	ends, err := fromSoftStarts(t.Context(), task, worst)
	if err != nil || len(ends) == 0 {
		t.Fatal(ends, err)
	}
	top := searchtest.Supremum(t, p)
	if got := -ends[0].Run.Value * float64(p.N()); math.Abs(got-top) > 0.01 || ends[0].Groups == nil {
		t.Errorf("log-likelihood %.4f (groups %v), the supremum is %.4f", got, ends[0].Groups, top)
	}
	best, err := search.Make(t.Context(), task, []search.Step{SoftStarts(), search.OtherStarts()}, worst, search.OfSpare(0))
	if err != nil {
		t.Fatal(err)
	}
	if got := -best.Run.Value * float64(p.N()); got < top-0.01 || len(task.Others) == 0 {
		t.Errorf("the search returns %.4f of %d others, the supremum is %.4f", got, len(task.Others), top)
	}

	task = &search.Task{Problem: p, Part: p.Rows, Starts: search.DefaultStarts}
	if ends, err := fromSoftStarts(t.Context(), task, worst); len(ends) > 0 || err != nil {
		t.Errorf("%v, %v of no starts", ends, err)
	}
	large := *p
	large.Rows = &model.Data{N: 1_000_000, D: 2}
	task = &search.Task{Problem: &large, Part: p.Rows, Starts: search.DefaultStarts, Soft: random}
	if ends, err := fromSoftStarts(t.Context(), task, worst); len(ends) > 0 || err != nil {
		t.Errorf("%v, %v of a table on which no gate is hardened by EM", ends, err)
	}
	p, truth := searchtest.Halves(t, 500, 1)
	task = &search.Task{Problem: p, Part: p.Rows, Starts: search.DefaultStarts, Soft: starts.Random(p, searchtest.Measure(t, p))}
	if ends, err := fromSoftStarts(t.Context(), task, &search.Candidate{Run: &optim.Result{}, Params: truth}); len(ends) > 0 || err != nil {
		t.Errorf("%v, %v with a soft gate", ends, err)
	}
}

// TestIdleBeside: what has not converged has to be superior.
func TestIdleBeside(t *testing.T) {
	const n = 100
	best := ended(1, optim.Converged, false)
	for _, c := range []struct {
		ahead  float64 // in total log-likelihood
		status optim.Status
		want   bool
	}{
		{2 * climb.Slack, optim.IterationLimit, false}, {climb.Slack / 2, optim.IterationLimit, true}, {-1, optim.IterationLimit, true},
		{-1, optim.Converged, false}, {2 * climb.Slack, optim.Converged, false},
	} {
		if got := idleBeside(ended(1-c.ahead/n, c.status, false), best, n); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
