package survey

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/hardgate"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// targetsTask is the search for k experts of these targets under one gate.
func targetsTask(t testing.TB, of sdk.Family, k, threads int, x *mat.Dense, ys ...[]float64) *search.VectorTask {
	t.Helper()
	task := &search.VectorTask{Starts: 8, Survey: Several, Steps: search.Steps{ // a quarter of the work
		Refined: []search.Step{search.OtherStarts(), hardgate.Reheating()}, Last: []search.Step{search.Perturbation(), search.ExactNewton()},
	}}
	var rows []model.Rows
	for _, y := range ys {
		p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, of), problem.Request{K: k, Threads: threads, Intercepts: problem.BothIntercepts})
		task.Problems, task.Evidence = append(task.Problems, p), append(task.Evidence, searchtest.Measure(t, p))
		rows = append(rows, p.Rows)
	}
	task.Rows = model.Beside(rows)
	return task
}

// cellsOf are the rows of k experts of two targets, each of which has those for which its logit is the largest: random ones of two features.
func cellsOf(seed uint64, n, k int, of func(z float64) float64) (x *mat.Dense, ys [2][]float64) {
	rng := rand.New(rand.NewPCG(seed, 17))
	x = mat.NewDense(n, 2, searchtest.Normal(rng, 2*n))
	gate, experts := mat.NewDense(k, 3, searchtest.Normal(rng, 3*k)), mat.NewDense(2*k, 3, searchtest.Normal(rng, 6*k))
	for r := range n {
		row, logit := []float64{x.At(r, 0), x.At(r, 1), 1}, make([]float64, k)
		for i := range logit {
			logit[i] = floats.Dot(gate.RawRowView(i), row)
		}
		for c := range ys {
			ys[c] = append(ys[c], of(floats.Dot(experts.RawRowView(2*floats.MaxIdx(logit)+c), row))+0.3*rng.NormFloat64())
		}
	}
	return x, ys
}

var severalTables = flag.Int("severaltables", 3, "tables of TestSeveral, some three seconds each")

// TestSeveral: the search with a survey ends nowhere below that without it, and higher on some tables; it says what it saw, and is the same at any
// number of threads.
func TestSeveral(t *testing.T) {
	testslow.Mark(t)
	higher := 0
	for seed := range uint64(*severalTables) {
		family, g := identity.Family, func(z float64) float64 { return z }
		if seed%2 == 1 {
			family, g = relu.Family, func(z float64) float64 { return max(z, 0) }
		}
		const n = 90
		x, ys := cellsOf(seed, n, 4, g)
		task := targetsTask(t, family, 4, 2, x, ys[:]...)
		with, err := search.Vector(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		task.Survey = nil
		without, err := search.Vector(t.Context(), task)
		if err != nil || without.Survey != nil {
			t.Fatal(without, err)
		}
		gain := n * (without.Best.Run.Value - with.Best.Run.Value)
		t.Logf("seed %d: %.4f without, %.4f more with %d starts and %d moves at %d optima, %s", seed, -n*without.Best.Run.Value, gain,
			with.Survey.Starts, with.Survey.Moves, with.Survey.Optima, with.Best.Run.Status)
		if gain < -1e-6 {
			t.Errorf("seed %d: %v below the search without a survey", seed, -gain)
		}
		if gain > 0.5 {
			higher++
		}
		if s := with.Survey; s.Starts < leastSurveyed || s.Moves == 0 || len(s.Kinds) < 4 || len(s.Best) == 0 {
			t.Errorf("seed %d: %d starts of %v, %d moves, %d optima", seed, s.Starts, s.Kinds, s.Moves, len(s.Best))
		}
		if seed == 0 {
			again, err := search.Vector(t.Context(), targetsTask(t, family, 4, 1, x, ys[:]...))
			if err != nil || !slices.Equal(again.Best.Run.X, with.Best.Run.X) || again.Survey.Moves != with.Survey.Moves {
				t.Errorf("other bytes with one thread, error %v", err)
			}
		}
	}
	if higher < 2 {
		t.Errorf("%d of %d tables end higher with a survey", higher, *severalTables)
	}
}

// TestSeveralOfOneTarget: of one target the best optimum is that of the survey for one.
func TestSeveralOfOneTarget(t *testing.T) {
	testslow.Mark(t)
	x, ys := cellsOf(3, 200, 3, func(z float64) float64 { return z })
	task := targetsTask(t, identity.Family, 3, 1, x, ys[0])
	p := task.Problems[0]
	got, err := Several(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Small(t.Context(), p, task.Evidence[0], task.Starts)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got.Best[0], want.Best[0]; a.Run.Status != optim.Converged || 200*(a.Run.Value-b.Run.Value) > 1e-6 {
		t.Errorf("%v at %v, want %v", a.Run.Status, -200*a.Run.Value, -200*b.Run.Value)
	}
}

// TestSeveralIsOfSmallTables: of one expert, of a table beyond the scope or for a small budget there is none.
func TestSeveralIsOfSmallTables(t *testing.T) {
	x, ys := cellsOf(1, 100, 2, func(z float64) float64 { return z })
	for name, change := range map[string]func(*search.VectorTask){
		"one expert": func(task *search.VectorTask) { task.Problems[0].Shape.K = 1 },
		"few starts": func(task *search.VectorTask) { task.Starts = leastStarts - 1 },
		"large": func(task *search.VectorTask) {
			p := *task.Problems[0]
			p.Rows = &model.Data{N: surveys.smooth.largest, D: 2}
			task.Problems[0] = &p
		},
	} {
		task := targetsTask(t, identity.Family, 2, 1, x, ys[:]...)
		change(task)
		if got, err := Several(t.Context(), task); got != nil || err != nil {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}

// TestMoveOfSeveral: a move leaves one gate to all targets; all but the expert that is given up stay as they are, and
// that one is refitted for every target, or has the other's lines.
func TestMoveOfSeveral(t *testing.T) {
	x, ys := cellsOf(5, 120, 3, func(z float64) float64 { return z })
	task := targetsTask(t, identity.Family, 3, 1, x, ys[:]...)
	s := &surveyor{problem: task.Problems[0], several: &several{VectorTask: task}}
	data, err := model.InMemory(t.Context(), task.Rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.several.take(data)
	s.rows = s.several.tables[0]
	start, err := task.Random().Vector(t.Context(), rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	from := []*search.Candidate{{Vector: start}}
	for seed := range uint64(20) {
		got, err := s.fromOneOf(from).Vector(t.Context(), rand.New(rand.NewPCG(seed, 2)))
		if err != nil {
			t.Fatal(err)
		}
		changed := 0
		for i := range 3 {
			if !slices.Equal(got.Regressor(i, 0), start.Regressor(i, 0)) {
				changed++
				for c := range 2 {
					if slices.Equal(got.Regressor(i, c), start.Regressor(i, c)) {
						t.Errorf("seed %d: expert %d has moved, and not for target %d", seed, i, c)
					}
				}
			} else if !slices.Equal(got.Regressor(i, 1), start.Regressor(i, 1)) {
				t.Errorf("seed %d: expert %d has moved for target 1 alone", seed, i)
			}
		}
		if changed != 1 {
			t.Errorf("seed %d: %d experts have moved", seed, changed)
		}
	}
}
