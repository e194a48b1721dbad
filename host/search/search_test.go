package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/host/search/starts"
)

var (
	quadrants  = searchtest.Quadrants
	normal     = searchtest.Normal
	anywhere   = searchtest.Anywhere
	activation = searchtest.Activation
	load       = searchtest.Load
	measure    = searchtest.Measure
	drawn      = searchtest.Drawn
	parallels  = searchtest.Parallels
	at         = searchtest.At
	likelihood = searchtest.Likelihood
	tree       = searchtest.Tree
	climbed    = searchtest.Climbed
	halves     = searchtest.Halves
	lopsided   = searchtest.Lopsided
	supremum   = searchtest.Supremum
	stuck      = searchtest.Stuck
)

// from is a start at q.
func from(q *model.Params) starts.Start {
	return starts.Start{Kind: "fixed", Draw: func(context.Context, *rand.Rand) (*model.Params, error) { return q.Clone(), nil }}
}

// coreSteps are the steps of this package.
func coreSteps() Steps {
	return Steps{
		Refined: []Step{OtherStarts()},
		Last:    []Step{Perturbation(), ExactNewton()},
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
var same = cmp.Options{cmpopts.IgnoreUnexported(Candidate{}), cmp.AllowUnexported(separation.Groups{}), cmp.Comparer(func(a, b float64) bool {
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
