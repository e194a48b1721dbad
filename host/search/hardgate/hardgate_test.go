package hardgate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/separation"
)

var (
	halves     = searchtest.Halves
	lopsided   = searchtest.Lopsided
	supremum   = searchtest.Supremum
	climbed    = searchtest.Climbed
	likelihood = searchtest.Likelihood
)

// TestReheatLeavesAlone what separates nothing, and tables that are too large for it.
func TestReheatLeavesAlone(t *testing.T) {
	p, start := halves(t, 100, 1)
	run := climbed(t, p, p.Rows, start)
	c := &search.Candidate{Run: run, Params: likelihood(p, p.Rows).Params(run.X), Rows: 100}
	task := &search.Task{Problem: p, Part: p.Rows}
	if err := Reheat(t.Context(), task, c); err != nil || c.Run != run {
		t.Errorf("%+v, error %v", c.Run, err)
	}
	large := *p
	large.Rows = &model.Data{N: 1_000_000, D: 2}
	c.Groups = separation.UnderOne([]int{0, 1})
	task.Problem = &large
	if err := Reheat(t.Context(), task, c); err != nil || c.Run != run {
		t.Errorf("of many rows: %+v, error %v", c.Run, err)
	}
}

// wrongGate is a candidate on halves whose gate is hard and wrong by the rows between its boundary and the right one: a climb
// leaves it there.
func wrongGate(t testing.TB, p *problem.Problem) *search.Candidate {
	t.Helper()
	q := lopsided(p, 1)
	q.Gating[0], q.Gating[1] = 2e5, 1e6
	c, l := new(search.Candidate), likelihood(p, p.Rows)
	run, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
	if err == nil {
		c.Run = run
		err = c.Stand(t.Context(), l, run)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, top := -c.Run.Value*float64(p.N()), supremum(t, p); c.Groups == nil || !(got < top-10) {
		t.Fatalf("groups %v, log-likelihood %v, the supremum is %v", c.Groups, got, top)
	}
	return c
}

// TestReheat: a gate that is hard and wrong reaches the supremum once ridges have made it soft again, and one that is right stays as it is.
func TestReheat(t *testing.T) {
	const n = 300
	p, _ := halves(t, n, 1e9)
	task := &search.Task{Problem: p, Part: p.Rows}
	c := wrongGate(t, p)
	for range 2 {
		was := c.Run
		if err := Reheat(t.Context(), task, c); err != nil {
			t.Fatal(err)
		}
		if got, top := -c.Run.Value*n, supremum(t, p); math.Abs(got-top) > climb.Slack || c.Groups == nil || c.Ridge != 0 || c.Run.Status != optim.Converged {
			t.Errorf("log-likelihood %v (%v), groups %v, ridge %v; the supremum is %v", got, c.Run.Status, c.Groups, c.Ridge, top)
		}
		if right := math.Abs(was.Value*n+supremum(t, p)) < climb.Slack; right != (c.Run == was) {
			t.Errorf("it was right: %v, and is as it was: %v", right, c.Run == was)
		}
	}
}

// TestExchanged: of the best and what was found otherwise that is the best which is so after exchanges; the best is not looked at twice.
func TestExchanged(t *testing.T) {
	const n = 300
	p, _ := halves(t, n, 1e9)
	wrong := wrongGate(t, p)
	run := climbed(t, p, p.Rows, lopsided(p, 0)) // soft: nothing is exchanged
	soft := &search.Candidate{Run: run, Params: likelihood(p, p.Rows).Params(run.X), Rows: n}
	soft.Run.Value = wrong.Run.Value - 1e-3
	for _, others := range [][]*search.Candidate{{soft, wrong}, {soft}} {
		task := &search.Task{Problem: p, Part: p.Rows, Others: others}
		best, err := search.OtherStarts().Try(t.Context(), task, &search.Candidate{Run: &optim.Result{Value: math.Inf(1)}}, 0)
		if err != nil || best != soft.Refined() {
			t.Fatal(best, err)
		}
		got, err := RowExchange().Try(t.Context(), task, best, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(others) == 1 {
			if got != best || got.Run != run {
				t.Errorf("%+v", got)
			}
		} else if value, top := -got.Run.Value*n, supremum(t, p); got != wrong.Refined() || math.Abs(value-top) > climb.Slack {
			t.Errorf("the best has %v, the supremum is %v", value, top)
		}
	}
}

// TestSizes: up to which rows times parameters gates are reheated and rows exchanged: exactly those sizes and no more. Two experts of two features and intercepts have ten parameters.
func TestSizes(t *testing.T) {
	p, start := halves(t, 100, 1)
	run := climbed(t, p, p.Rows, start)
	of := func(n int) *problem.Problem {
		large := *p
		large.Rows = &model.Data{N: n, D: 2}
		return &large
	}
	if got := of(123).Size(); got != 1230 {
		t.Fatalf("123 rows of ten parameters are %d", got)
	}
	// What is too large is left alone, and what is not is read, which these rows cannot be.
	for n, left := range map[int]bool{mostExchanged / 10: false, mostExchanged/10 + 1: true} {
		touched := func(fn func(task *search.Task, c *search.Candidate) error) (yes bool) {
			defer func() { yes = recover() != nil || yes }()
			c := &search.Candidate{Run: run, Params: start, Rows: n, Groups: separation.UnderOne([]int{0, 1})}
			err := fn(&search.Task{Problem: of(n)}, c)
			return err != nil || c.Run != run
		}
		if got := touched(func(task *search.Task, c *search.Candidate) error { return Reheat(t.Context(), task, c) }); got == left {
			t.Errorf("%d rows: reheated %v", n, got)
		}
		if got := touched(func(task *search.Task, c *search.Candidate) error {
			return Exchange(t.Context(), task, c, rand.New(rand.NewPCG(1, 1)))
		}); got == left {
			t.Errorf("%d rows: exchanged %v", n, got)
		}
	}
}

// TestExchange: a gate that is hard, and wrong by the rows between its boundary and the
// right one, stays as it is where its ridge is taken off, and reaches the supremum by exchanges.
func TestExchange(t *testing.T) {
	const n = 500
	p, _ := halves(t, n, 1e9)
	task := &search.Task{Problem: p, Part: p.Rows}
	l := likelihood(p, p.Rows)
	c, top := wrongGate(t, p), supremum(t, p)
	var first *model.Params
	for range 2 {
		trial := *c
		if err := Exchange(t.Context(), task, &trial, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		if got := -trial.Run.Value * n; got < top-climb.Slack || trial.Run.Status != optim.Converged || trial.Groups == nil {
			t.Errorf("log-likelihood %v (%v), the supremum is %v", got, trial.Run.Status, top)
		}
		if v, err := l.LogLikelihood(t.Context(), trial.Params); err != nil || math.Abs(v+trial.Run.Value*n) > climb.Slack {
			t.Errorf("log-likelihood %v at parameters that are said to have %v", v, -trial.Run.Value*n)
		}
		if first != nil && !slices.Equal(first.Gating, trial.Params.Gating) {
			t.Error("the same draws lead to different gates")
		}
		first = trial.Params
	}
}
