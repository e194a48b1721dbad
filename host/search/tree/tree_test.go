package tree

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// TestReworkLeavesAlone what is under one gate, shrank, or has not converged.
func TestReworkLeavesAlone(t *testing.T) {
	p, top, _ := searchtest.Stuck(t)
	under := *p
	under.Shape.Tree = searchtest.Tree(t, "2x(1,2)")
	for name, c := range map[string]struct {
		p *problem.Problem
		c *search.Candidate
	}{
		"one gate":   {p, &search.Candidate{Run: top}},
		"degenerate": {&under, &search.Candidate{Run: top, Degenerate: true}},
		"on its way": {&under, &search.Candidate{Run: &optim.Result{Status: optim.IterationLimit}}},
	} {
		was := c.c.Run
		if got, err := search.Make(t.Context(), &search.Task{Problem: c.p, Part: p.Rows}, []search.Step{SplitMerge()}, c.c, 0); err != nil || got != c.c || c.c.Run != was {
			t.Errorf("%s: %+v, error %v", name, c.c.Run, err)
		}
	}
}

// TestSomeOf: the activations of some experts in their order, and one that all have as it is.
func TestSomeOf(t *testing.T) {
	a, b := searchtest.Activation(t, identity.Family), searchtest.Activation(t, tanh.Family)
	got, ok := someOf(model.PerExpert{a, b, a}, []int{1, 2}).(model.PerExpert)
	if !ok || len(got) != 2 || got[0] != b || got[1] != a {
		t.Errorf("%v", got)
	}
	if got := someOf(b, []int{1, 2}); got != b {
		t.Errorf("%v", got)
	}
}

// TestStarts: the best of a search under one gate is made once, with the moment estimate where there is one; splits, that search and
// random starts take turns. All of them have the shape of the tree.
func TestStarts(t *testing.T) {
	p, _ := searchtest.Drawn(t, relu.Family, 4, 8, 3000, 0.1, 2, problem.Request{Tree: searchtest.Tree(t, "2x2")})
	e := searchtest.Measure(t, p)
	estimate, obstacle, err := moment.EstimateParams(t.Context(), p, e, 0)
	if err != nil || estimate == nil {
		t.Fatalf("no estimate: %s, error %v", obstacle, err)
	}
	kinds := func(starts []starts.Start) (out []string) {
		for _, s := range starts {
			out = append(out, s.Kind)
		}
		return out
	}
	for want, of := range map[string]*moment.Estimate{"flat": nil, "flat moments": estimate} {
		first, cycle := Starts(p, e, of, p.Rows)
		if got := strings.Join(kinds(first), " "); got != want {
			t.Errorf("%s come first, want %s", got, want)
		}
		if got := strings.Join(kinds(cycle), " "); got != "splits flat random" {
			t.Errorf("in turn %s", got)
		}
	}
	small, _ := searchtest.Drawn(t, identity.Family, 3, 5, 300, 0.1, 2, problem.Request{Tree: searchtest.Tree(t, "2x(1,2)")})
	_, cycle := Starts(small, searchtest.Measure(t, small), nil, small.Rows)
	for _, s := range cycle {
		q, err := s.Draw(t.Context(), rand.New(rand.NewPCG(1, 0)))
		if err != nil || q.K != 3 || !q.Hierarchy().Equal(small.Shape.Tree) {
			t.Errorf("%s: %+v, error %v", s.Kind, q, err)
		}
	}
}

// TestSplitMerge: two experts on the rows of one leaf and one on those of two, which no step of EM or Newton's method leaves, reach the
// maximum that the truth leads to; what that is above where they were is recorded, and there the step leaves the tree as it is.
func TestSplitMerge(t *testing.T) {
	const n = 600
	rng := rand.New(rand.NewPCG(3, 3))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		u, v := rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(r, []float64{u, v})
		level := -2.
		switch { // the gate of the root, then that below it
		case rng.Float64() < 1/(1+math.Exp(-2*u)):
		case rng.Float64() < 1/(1+math.Exp(-2*v)):
			level = 2
		default:
			level = 20
		}
		y[r] = level + u/2 + 0.3*rng.NormFloat64()
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family),
		problem.Request{K: 3, Intercepts: problem.BothIntercepts, Tree: searchtest.Tree(t, "2x(1,2)")})
	from := func(sigma float64, levels ...float64) *optim.Result {
		return searchtest.Climbed(t, p, p.Rows, p.Units.Into(searchtest.At(p, sigma, levels...)))
	}
	top, stuck := from(0.3, -2, 2, 20), from(2, 0, 19.5, 20.5)
	lost := (stuck.Value - top.Value) * n
	if lost < 100 {
		t.Fatalf("values %v and %v: nothing gets stuck here", stuck.Value, top.Value)
	}
	task := &search.Task{Problem: p, Part: p.Rows}
	best := &search.Candidate{Run: stuck, Params: searchtest.Likelihood(p, p.Rows).Params(stuck.X), Rows: n}
	for _, gains := range []bool{true, false} {
		was := best.Run
		got, err := search.Make(t.Context(), task, []search.Step{SplitMerge()}, best, 0)
		if err != nil || got != best {
			t.Fatal(got, err)
		}
		if math.Abs(got.Run.Value-top.Value)*n > climb.Slack || got.Run.Status != optim.Converged || got.Params.K != 3 || !got.Params.Hierarchy().Equal(p.Shape.Tree) {
			t.Errorf("mean negative log-likelihood %v (%v), from the truth %v; tree %v", got.Run.Value, got.Run.Status, top.Value, got.Params.Hierarchy())
		}
		if gains == (got.Run == was) || len(got.Gains) != 1 || got.Gains[0].Step != "split and merge" || math.Abs(got.Gains[0].LogLikelihood-lost) > climb.Slack {
			t.Errorf("gains %+v, want %v", got.Gains, lost)
		}
	}
}
