package search

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// withoutRidge is the candidate that comes of q on all rows.
func withoutRidge(t testing.TB, p *problem.Problem, q *model.Params) *Candidate {
	t.Helper()
	task := &Task{Problem: p, Part: p.Rows}
	c := &Candidate{Run: &optim.Result{}, Params: q, Ridge: starts.ScreenRidge}
	if err := task.climbOn(t.Context(), c, p.Rows); err != nil {
		t.Fatal(err)
	}
	if err := task.RemoveRidge(t.Context(), c, p.Shape.Free()); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRemoveRidge: a gate that separates ends within 0.01 of the supremum, converged and
// with its groups; one that does not ends at the maximum, as a climb without a ridge
// does. Neither value has the ridge in it.
func TestRemoveRidge(t *testing.T) {
	p, start := halves(t, 500, 1e9)
	c := withoutRidge(t, p, start)
	top := supremum(t, p)
	if got := -c.Run.Value * 500; got < top-climb.Slack || got > top+1e-6 || c.Run.Status != optim.Converged {
		t.Errorf("log-likelihood %v (%v), the supremum is %v", got, c.Run.Status, top)
	}
	if !reflect.DeepEqual(c.Groups, separation.UnderOne([]int{0, 1})) || c.Ridge != 0 {
		t.Errorf("groups %v, ridge %v", c.Groups, c.Ridge)
	}
	for _, slope := range []float64{1, 30} { // the ridge costs 0.05 and some 20
		p, start := halves(t, 500, slope)
		c := withoutRidge(t, p, start)
		r := climbed(t, p, p.Rows, start)
		if math.Abs(c.Run.Value-r.Value) > 1e-9 || c.Run.Status != optim.Converged || c.Groups != nil || c.Ridge != 0 {
			t.Errorf("slope %v: value %v (%v), groups %v, ridge %v, want %v", slope, c.Run.Value, c.Run.Status, c.Groups, c.Ridge, r.Value)
		}
	}
}

// TestRemoveRidgeFromElsewhere: what ran on other rows, or without a ridge, or with a gate that is hard already, ends within slack
// of the supremum as well.
func TestRemoveRidgeFromElsewhere(t *testing.T) {
	const n = 500
	p, start := halves(t, n, 1e9)
	top := supremum(t, p)
	hard := start.Clone()
	hard.Gating[1] = 50
	for name, c := range map[string]*Candidate{
		"other rows":      {Params: start, Rows: 256, Ridge: starts.ScreenRidge},
		"no ridge":        {Params: start, Rows: n},
		"hard":            {Params: hard, Rows: n},
		"hard, elsewhere": {Params: hard, Rows: 256},
	} {
		c.Run = &optim.Result{}
		if err := (&Task{Problem: p, Part: p.Rows}).RemoveRidge(t.Context(), c, p.Shape.Free()); err != nil {
			t.Fatal(err)
		}
		if got := -c.Run.Value * n; math.Abs(got-top) > climb.Slack || c.Rows != n || c.Groups == nil || c.Ridge != 0 {
			t.Errorf("%s: %v on %d rows, the supremum is %v; groups %v, ridge %v", name, got, c.Rows, top, c.Groups, c.Ridge)
		}
	}
}

// TestRefit: the experts and the noise end at their maximum and the gate stays as it is. The run has converged where nothing is left
// of the gates, and else as it had before.
func TestRefit(t *testing.T) {
	const n = 300
	p, _ := halves(t, n, 1e9)
	q := lopsided(p, 1e9)
	q.Regressors[0] += 0.1
	l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
	for _, c := range []struct {
		groups *separation.Groups
		was    optim.Status
		want   optim.Status
	}{
		{separation.UnderOne([]int{0, 1}), optim.IterationLimit, optim.Converged},
		{separation.UnderOne([]int{0, 1}), optim.Converged, optim.Converged},
		{separation.UnderOne([]int{1, 1}), optim.IterationLimit, optim.IterationLimit},
		{separation.UnderOne([]int{1, 1}), optim.Converged, optim.Converged},
	} {
		got := &Candidate{Params: q, Groups: c.groups, Ridge: 0.1, Run: &optim.Result{Status: c.was, Iterations: 5, Trace: []float64{9, 8}}}
		if err := got.refit(t.Context(), ofOne{l}); err != nil {
			t.Fatal(err)
		}
		if got.Run.Status != c.want || got.Run.Iterations <= 5 || !slices.Equal(got.Run.Trace[:2], []float64{9, 8}) || len(got.Run.Trace) < 3 || got.Ridge != 0 {
			t.Errorf("%+v: %+v", c, got.Run)
		}
		if value := -got.Run.Value * n; math.Abs(value-supremum(t, p)) > 1e-6 || !slices.Equal(got.Params.Gating, q.Gating) {
			t.Errorf("log-likelihood %v, want %v; gate %v, was %v", value, supremum(t, p), got.Params.Gating, q.Gating)
		}
	}
}

// TestHolds: a ridge holds a gate back where it costs more than a unit of log-likelihood, and a gate that does not depend on the
// features is not held by any.
func TestHolds(t *testing.T) {
	p, truth := halves(t, 200, 3)
	l := likelihood(p, p.Rows)
	theta := l.Theta(truth)
	l.PenaliseGate(1)
	unit := 1 / l.Penalty(nil, theta) // the ridge that costs one
	for by, want := range map[float64]bool{0.1: false, 0.99: false, 1.01: true, 2: true, 100: true} {
		l.PenaliseGate(by * unit)
		if got := holds(ofOne{l}, theta); got != want {
			t.Errorf("a cost of %v: held %v", by, got)
		}
	}
	// At a slope of w a ridge of τ costs τ/4·w²: that of the screening a unit at 6.3.
	for slope, want := range map[float64]bool{0: false, 6.2: false, 6.4: true, 1e6: true} {
		q := p.Shape.Blank(1)
		q.Gating[1] = -slope
		if got := Hardens(ofOne{l}, &Candidate{Params: q}); got != want {
			t.Errorf("slope %v: hardens %v", slope, got)
		}
	}
}

// TestRemoveRidgeTakesTheBest of several ways to take a ridge off where it holds a gate back: of ridges that fall by each of the
// factors, and of EM alone. Which of them is the best differs from one start to another.
func TestRemoveRidgeTakesTheBest(t *testing.T) {
	testslow.Mark(t)
	const n = 60
	p := quadrants(t, n, 1)
	e := measure(t, p)
	task := &Task{Problem: p, Part: p.Rows}
	won := make([]int, len(ridgeFactors)+1)
	for seed := range uint64(10) {
		q, err := starts.Random(p, e).Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		c := &Candidate{Run: &optim.Result{}, Params: q, Ridge: starts.ScreenRidge}
		if err := task.climbOn(t.Context(), c, p.Rows); err != nil {
			t.Fatal(err)
		}
		l := loss.NewLikelihood(p.Rows, p.G, c.Params, p.Shape.Free(), 1)
		if !Hardens(ofOne{l}, c) {
			continue
		}
		var ways []*Candidate
		for _, by := range ridgeFactors {
			trial := *c
			if err := trial.lowerRidgeBy(t.Context(), ofOne{l}, by, n); err != nil {
				t.Fatal(err)
			}
			ways = append(ways, &trial)
		}
		alone := *c
		if err := task.MaximiseByEM(t.Context(), &alone, p.Shape.Free()); err != nil {
			t.Fatal(err)
		}
		ways = append(ways, &alone)
		best := slices.MinFunc(ways, Compare)
		for i, way := range ways {
			clear := true
			for j, other := range ways {
				clear = clear && (i == j || Compare(way, other) < 0 && way.Run.Value < other.Run.Value-climb.Slack/n)
			}
			if clear {
				won[i]++
			}
		}
		if err := task.RemoveRidge(t.Context(), c, p.Shape.Free()); err != nil {
			t.Fatal(err)
		}
		if Compare(c, best) > 0 && (c.Degenerate != best.Degenerate || c.Run.Value > best.Run.Value+climb.Slack/n) {
			t.Errorf("seed %d: without a ridge %v, degenerate %v; the best of all ways is %v", seed, c.Run.Value, c.Degenerate, best.Run.Value)
		}
		t.Log(seed, c.Run.Value*n, ways[0].Run.Value*n, ways[1].Run.Value*n, ways[2].Run.Value*n, ways[3].Run.Value*n, ways[0].Degenerate, ways[1].Degenerate, ways[2].Degenerate, ways[3].Degenerate)
	}
	t.Log(won)
	if won[0]+won[1]+won[2] == 0 || won[1]+won[2] == 0 || won[3] == 0 {
		t.Errorf("alone the best were %v: the starts decide nothing", won)
	}
}

// TestMaximiseByEM: a gate that separates ends at the supremum by EM alone, with its groups, and nothing is left to converge; one that does not
// ends at the maximum.
func TestMaximiseByEM(t *testing.T) {
	const n = 300
	for _, slope := range []float64{1e9, 30, 1} {
		p, start := halves(t, n, slope)
		start.Gating[1] = min(slope, 30)
		c := &Candidate{Run: &optim.Result{X: likelihood(p, p.Rows).Theta(start)}, Params: start, Rows: n}
		if err := (&Task{Problem: p, Part: p.Rows}).MaximiseByEM(t.Context(), c, p.Shape.Free()); err != nil {
			t.Fatal(err)
		}
		hard, want := slope > 100, 0.0
		if hard {
			want = supremum(t, p)
		} else {
			want = -climbed(t, p, p.Rows, start).Value * n
		}
		if got := -c.Run.Value * n; got > want+1e-6 || got < want-climb.Slack || (c.Groups != nil) != hard || c.Ridge != 0 || c.Run.Status != optim.Converged {
			t.Errorf("slope %v: %v (%v), want %v; groups %v, ridge %v", slope, got, c.Run.Status, want, c.Groups, c.Ridge)
		}
		l := likelihood(p, p.Rows).WithGate(c.Params)
		grad := make([]float64, l.Dim())
		if _, err := l.Grad(t.Context(), grad, l.Theta(c.Params)); err != nil || floats.Norm(grad, 2) > 1e-6 {
			t.Errorf("slope %v: a gradient of %v in the experts, error %v", slope, floats.Norm(grad, 2), err)
		}
	}
}

// TestSeparateNearBoundary: gates that rows near the boundary share are taken for hard where a climb stopped and nothing is
// lost by it, and made steeper where that gains; a soft gate is not, nor one at which a climb has converged.
func TestSeparateNearBoundary(t *testing.T) {
	for name, c := range map[string]struct {
		gate, apart float64 // of the gate's weight, and of the experts at the boundary
		status      optim.Status
		hard        bool
		steeper     float64
	}{
		"as it is":  {-400, 0, optim.Stalled, true, 1},
		"steeper":   {-400, 1, optim.Stalled, true, 16},
		"soft":      {-4, 1, optim.Stalled, false, 1},
		"converged": {-400, 1, optim.Converged, false, 1},
	} {
		b := model.Block{N: 200, X: make([]float64, 200), Y: make([]float64, 200)}
		for r := range b.N {
			b.X[r] = (float64(r) - 99.5) / 100
			if b.X[r] > 0 {
				b.Y[r] = b.X[r] + c.apart
			}
		}
		q := model.NewParams(2, 1)
		q.Regressors[1], q.Gating[0] = 1, c.gate
		q.RegressorIntercepts, q.GatingIntercepts = []float64{0, c.apart}, []float64{0}
		q.Sigma[0] = 0.1
		l := loss.NewLikelihood(&model.Data{N: b.N, D: 1, Blocks: []model.Block{b}}, activation(t, identity.Family), q, loss.All, 1)
		at := &Candidate{Run: &optim.Result{Status: c.status}, Params: q, Rows: b.N}
		if err := at.separate(t.Context(), ofOne{l}); err != nil {
			t.Fatal(err)
		}
		if hard := at.Groups != nil && at.Groups.All(); hard != c.hard || at.Params.Gating[0] != c.gate*c.steeper {
			t.Errorf("%s: hard %v, gate %v; want %v, %v", name, hard, at.Params.Gating[0], c.hard, c.gate*c.steeper)
		}
	}
}
