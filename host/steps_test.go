package host

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/steps"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestStepsInFile: what a fit's file says that a step has gained is the difference between two searches of which one makes the steps before it
// and the other that step too, and all gains add up to what the fit is above a search that makes none.
func TestStepsInFile(t *testing.T) {
	const n, k, starts = 90, 4, 4
	rng := rand.New(rand.NewPCG(2, 0)) // a table on which two of them gain
	x, y, planes := mat.NewDense(n, 3, normal(rng, 3*n)), make([]float64, n), normal(rng, 3*k)
	for r := range y {
		cell := 0
		for j := range 2 {
			if x.At(r, j) > 0 {
				cell += 1 << j
			}
		}
		y[r] = floats.Dot(planes[3*cell:3*cell+3], x.RawRowView(r)) + float64(cell) + 0.3*rng.NormFloat64()
	}
	p, e, _, m := fitInSteps(t, activation(identity.Family, nil), dataset.Matrix(x, y),
		Config{K: k, Intercepts: BothIntercepts, Seed: 1, Threads: 1, Method: Auto{Starts: starts}})
	path := filepath.Join(t.TempDir(), "model.json")
	if err := m.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	m, err := fitted.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	made := steps.All()
	seen, err := made.Survey(t.Context(), p, e, starts)
	if err != nil {
		t.Fatal(err)
	}
	again := func(context.Context, *problem.Problem, *moment.Evidence, int) (*search.Survey, error) {
		of := *seen
		of.Best = nil
		for _, c := range seen.Best { // a search writes over what it is given
			same := *c
			of.Best = append(of.Best, &same)
		}
		return &of, nil
	}
	reached := func(steps int) float64 { // by a search that makes the first so many
		few := search.Steps{Survey: again, Narrower: made.Narrower, Refined: made.Refined[:min(steps, len(made.Refined))],
			Last: made.Last[:max(steps-len(made.Refined), 0)]}
		found, err := search.Auto(t.Context(), p, e, search.Settings{Starts: starts, Steps: few, Untested: true})
		if err != nil {
			t.Fatal(err)
		}
		return -found.Best.Run.Value * n
	}
	all, sum := slices.Concat(made.Refined, made.Last), 0.0
	for _, s := range m.Fit.Steps {
		at := slices.IndexFunc(all, func(o search.Step) bool { return o.Name == s.Name })
		if at < 0 {
			t.Fatalf("%q is no step of the search", s.Name)
		}
		if gain := reached(at+1) - reached(at); !(s.Gain > climb.Slack) || math.Abs(s.Gain-gain) > 1e-9*n { // rounding of two sums
			t.Errorf("%s: gains %.9g, the searches differ by %.9g", s.Name, s.Gain, gain)
		}
		sum += s.Gain
	}
	if len(m.Fit.Steps) < 2 {
		t.Errorf("%+v tell nothing apart", m.Fit.Steps)
	}
	if got, want := m.Fit.LogLikelihood, reached(len(all)); got != want {
		t.Errorf("log-likelihood %v, by all steps %v", got, want)
	}
	// What gains less than 0.01 is not named.
	if gain := m.Fit.LogLikelihood - reached(0); math.Abs(gain-sum) > climb.Slack {
		t.Errorf("the fit is %v above the first, of which the file says %v", gain, sum)
	}
}
