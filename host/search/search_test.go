package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

func activation(t testing.TB, family sdk.Family) sdk.Activation {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

func load(t testing.TB, src dataset.Source, act sdk.Activation, r problem.Request) *problem.Problem {
	t.Helper()
	r.Seed, r.Threads = 1, max(r.Threads, 1)
	p, err := problem.Load(t.Context(), src, act, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func measure(t testing.TB, p *problem.Problem) *moment.Evidence {
	t.Helper()
	e, err := moment.Measure(t.Context(), p, moment.Want{Transform: moment.Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// drawn is a problem of k experts on a sample of the papers' design, with its
// truth.
func drawn(t testing.TB, family sdk.Family, k, d, n int, sigma float64, seed uint64, r problem.Request) (*problem.Problem, *model.Params) {
	t.Helper()
	act := activation(t, family)
	s, err := sample.New(sample.Config{Activation: act, K: k, D: d, N: n, Sigma: sigma, Design: sample.Paper, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	r.K = k
	return load(t, s, act, r), s.Truth
}

// parallels is a problem of k experts on parallel lines y = level(row) + x/2 with
// noise 0.3, proportions that do not depend on x, and intercepts.
func parallels(t testing.TB, n, k int, level func(row int) float64, r problem.Request) *problem.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for i := range y {
		x.Set(i, 0, rng.NormFloat64())
		y[i] = level(i) + x.At(i, 0)/2 + 0.3*rng.NormFloat64()
	}
	r.K, r.Intercepts, r.Gate = k, problem.BothIntercepts, problem.Constant{}
	return load(t, dataset.Matrix(x, y), activation(t, identity.Family), r)
}

// at are parameters on parallel lines of these levels.
func at(p *problem.Problem, sigma float64, levels ...float64) *model.Params {
	q := p.Shape.Blank(sigma)
	for i := range q.K {
		q.Regressor(i)[0] = 0.5
		q.RegressorIntercepts[i] = levels[i]
	}
	return q
}

// from is a start at q.
func from(q *model.Params) Start {
	return Start{Kind: "fixed", Draw: func(context.Context, *rand.Rand) (*model.Params, error) { return q.Clone(), nil }}
}

func likelihood(p *problem.Problem, rows model.Rows) *loss.Likelihood {
	return loss.NewLikelihood(rows, p.G, p.Shape.Blank(1), p.Shape.Free(), 1)
}

// climbed is the maximum that q leads to.
func climbed(t testing.TB, p *problem.Problem, rows model.Rows, q *model.Params) *optim.Result {
	t.Helper()
	l := likelihood(p, rows)
	r, err := Climb(t.Context(), l, l.Theta(q), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != optim.Converged {
		t.Fatalf("a climb ended with status %v", r.Status)
	}
	return r
}

// coreSteps are the steps of this package.
func coreSteps() Steps {
	return Steps{
		Refined: []Step{OtherStarts(), SplitMerge(), Reheating(), RowExchange()},
		Last:    []Step{Perturbation(), Polish()},
	}
}

// run searches, and takes what it finds for good.
func run(t testing.TB, task *Task, s State) (*Candidate, []*Candidate) {
	t.Helper()
	best, all, err := Run(t.Context(), task, s, func(context.Context, *Candidate, []*Candidate) (int, error) { return 0, nil })
	if err != nil {
		t.Fatal(err)
	}
	return best, all
}

// same compares candidates bit by bit, but for what they leave to a search that
// goes on.
var same = cmp.Options{cmpopts.IgnoreUnexported(Candidate{}), cmp.AllowUnexported(Groups{}), cmp.Comparer(func(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b)
})}

// copies are candidates with memory of their own.
func copies(all []*Candidate) []*Candidate {
	out := make([]*Candidate, len(all))
	for i, c := range all {
		copied, run := *c, *c.Run
		run.X, run.Trace = slices.Clone(run.X), slices.Clone(run.Trace)
		copied.Run, copied.Params = &run, c.Params.Clone()
		out[i] = &copied
	}
	return out
}

// ended is a candidate that ended with this value and status.
func ended(value float64, status optim.Status, degenerate bool) *Candidate {
	return &Candidate{Run: &optim.Result{Value: value, Status: status}, Degenerate: degenerate}
}
