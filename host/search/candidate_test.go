package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestAgree: what counts as the best, in which order the others follow, and how
// many are enough, on candidates whose answers are known.
func TestAgree(t *testing.T) {
	const within = 0.25
	nan, inf := math.NaN(), math.Inf(1)
	type candidates = []*Candidate
	for name, c := range map[string]struct {
		all    candidates
		k      int
		order  string // value and, where it agrees, a star
		enough bool
	}{
		"three": {candidates{ended(-1, optim.Converged, false), ended(-1.25, optim.Converged, false), ended(-1.125, optim.Converged, false)},
			2, "-1.25* -1.125* -1*", true},
		"one beyond the tolerance": {candidates{ended(-0.96875, optim.Converged, false), ended(-1.25, optim.Converged, false), ended(-1.125, optim.Converged, false)},
			2, "-1.25* -1.125* -0.96875", false},
		"two of one expert":   {candidates{ended(-1, optim.Converged, false), ended(-1, optim.Converged, false)}, 1, "-1* -1*", true},
		"two of two experts":  {candidates{ended(-1, optim.Converged, false), ended(-1, optim.Converged, false)}, 2, "-1* -1*", false},
		"one of one expert":   {candidates{ended(-1, optim.Converged, false), ended(2, optim.Converged, false)}, 1, "-1* 2", false},
		"one on its way":      {candidates{ended(-1, optim.Converged, false), ended(-1, optim.IterationLimit, false), ended(-1, optim.Converged, false)}, 2, "-1* -1 -1*", false},
		"one that was ended":  {candidates{ended(-1, optim.Stopped, false), ended(-1, optim.Converged, false), ended(-1, optim.Converged, false)}, 2, "-1 -1* -1*", false},
		"a degenerate one":    {candidates{ended(-9, optim.Converged, true), ended(-1, optim.Converged, false), ended(-2, optim.Converged, false)}, 2, "-2* -1 -9", false},
		"degenerate but near": {candidates{ended(-2, optim.Converged, true), ended(-2, optim.Converged, false), ended(-2, optim.Converged, false)}, 2, "-2* -2* -2", false},
		"all degenerate":      {candidates{ended(-2, optim.Converged, true), ended(-2, optim.Converged, true), ended(-2, optim.Converged, true)}, 2, "-2 -2 -2", false},
		"failures": {candidates{ended(nan, optim.Diverged, false), ended(inf, optim.Diverged, false), ended(5, optim.Converged, true), ended(7, optim.Converged, false)},
			2, "7* 5 NaN +Inf", false},
	} {
		enough := Agree(c.all, c.k, within)
		var order string
		for i, c := range c.all {
			if i > 0 {
				order += " "
			}
			order += fmt.Sprint(c.Run.Value)
			if c.Agrees {
				order += "*"
			}
		}
		if order != c.order || enough != c.enough {
			t.Errorf("%s: %s, enough %v, want %s, %v", name, order, enough, c.order, c.enough)
		}
	}
	if got := SameOptimum(1000); got != 0.5/1000 {
		t.Errorf("%v of mean log-likelihood over 1000 rows, want half a unit of the total", got)
	}
}

// TestBestOf: degenerate and failed candidates are nothing to be measured by.
func TestBestOf(t *testing.T) {
	wave := []*Candidate{ended(-9, optim.Converged, true), ended(math.Inf(-1), optim.Diverged, false), ended(math.NaN(), optim.Diverged, false), ended(-1, optim.Stopped, false), ended(2, optim.Converged, false)}
	for best, want := range map[float64]float64{math.Inf(1): -1, 0: -1, -1.5: -1.5} {
		if got := BestOf(wave, best); got != want {
			t.Errorf("best %v of the wave and %v, want %v", got, best, want)
		}
	}
}

// TestDegenerateNeverBest: with noise per expert an expert on three rows has the
// higher likelihood, and is set aside for the optimum that describes the data.
func TestDegenerateNeverBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	x, y := mat.NewDense(150, 1, nil), make([]float64, 150)
	for i := range y {
		x.Set(i, 0, rng.NormFloat64())
		y[i] = []float64{-1, 1, 1}[i%3] + x.At(i, 0)/2 + 0.3*rng.NormFloat64()
	}
	for i := range 3 { // on a line of slope 300, which no other row is near
		x.Set(i, 0, 0.3+float64(i)/1000)
		y[i] = 0.85 + 0.3*float64(i)
	}
	p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 3, Intercepts: problem.BothIntercepts, Gate: problem.Constant{}, Noise: problem.PerExpert{}})
	good, shrunk := at(p, 0.5, -1, 0.5, 1.5), at(p, 0.3, -1, 1, 0)
	shrunk.Regressor(2)[0], shrunk.RegressorIntercepts[2], shrunk.Sigma[2] = 300, 0.85-300*0.3, 0.003
	shrunk = p.Units.Into(shrunk)
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, First: []starts.Start{from(good), from(shrunk), from(good), from(good)}, Starts: 4}
	best, all := run(t, task, State{})
	last := all[3]
	if !last.Degenerate || last.Agrees || last.Run.Status != optim.Converged {
		t.Errorf("last of the candidates: degenerate %v, agrees %v, %v", last.Degenerate, last.Agrees, last.Run.Status)
	}
	if last.Run.Value >= best.Run.Value-SameOptimum(150) {
		t.Fatalf("the degenerate maximum %v is not above the other, %v: the data decide nothing", last.Run.Value, best.Run.Value)
	}
	if best.Degenerate || Count(all, func(c *Candidate) bool { return c.Agrees }) != 3 {
		t.Errorf("best is degenerate: %v; %d agree", best.Degenerate, Count(all, func(c *Candidate) bool { return c.Agrees }))
	}
	// It is seen where it began, and where it ended.
	begun := &Candidate{start: from(shrunk)}
	if err := task.begin(t.Context(), begun, nil, math.Inf(1)); err != nil || !begun.Degenerate {
		t.Errorf("begun: degenerate %v, error %v", begun.Degenerate, err)
	}
	begun.Degenerate = false
	if err := task.complete(t.Context(), begun, math.Inf(1), 1); err != nil || !begun.Degenerate {
		t.Errorf("completed: degenerate %v, error %v", begun.Degenerate, err)
	}
	for _, s := range best.Params.Sigma {
		if s < 0.1 {
			t.Errorf("noise levels %v of data with 0.3", best.Params.Sigma)
		}
	}
}

// TestDraw: every candidate has the random numbers of its own stream, whatever
// the threads, and no more run at once than there are threads.
func TestDraw(t *testing.T) {
	const first, n = 7, 9
	want := make([]uint64, n)
	for i := range want {
		want[i] = stream.New(3, stream.Survey, first+i).Uint64()
	}
	for _, threads := range []int{1, 2, 5} {
		all := make([]*Candidate, n)
		for i := range all {
			all[i] = new(Candidate)
		}
		got := make([]uint64, n)
		var running, most atomic.Int64
		err := Draw(t.Context(), &problem.Problem{Seed: 3, Threads: threads}, all, stream.Survey, first, func(_ context.Context, c *Candidate, rng *rand.Rand) error {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			got[slices.Index(all, c)] = rng.Uint64()
			time.Sleep(time.Millisecond) // lets others begin, if they may
			running.Add(-1)
			return nil
		})
		if err != nil || !slices.Equal(got, want) || most.Load() > int64(threads) {
			t.Errorf("%d threads: numbers %v, want %v; %d at once, error %v", threads, got, want, most.Load(), err)
		}
	}
}

// TestCandidateClimbs: to a maximum on the rows, where it carries its path on if
// it was on those rows before; iterations add up.
func TestCandidateClimbs(t *testing.T) {
	p := parallels(t, 1024, 2, func(row int) float64 { return []float64{-2, 2}[row%2] }, problem.Request{})
	before := optim.Result{Value: 9, Iterations: 5, Trace: []float64{11, 9}}
	l := likelihood(p, p.Rows)
	want := climbed(t, p, p.Rows, at(p, 1, -1, 1))
	for rows, old := range map[int][]float64{1024: before.Trace, 256: nil} {
		run := before
		c := &Candidate{Run: &run, Params: at(p, 1, -1, 1), Rows: rows}
		if err := c.climb(t.Context(), ofOne{l}, 1024); err != nil {
			t.Fatal(err)
		}
		if c.Run.Value != want.Value || c.Rows != 1024 || c.Run.Iterations != want.Iterations+5 || !slices.Equal(c.Run.Trace, slices.Concat(old, want.Trace)) {
			t.Errorf("from %d rows: value %v after %d iterations by %v; alone %v after %d by %v", rows, c.Run.Value, c.Run.Iterations, c.Run.Trace, want.Value, want.Iterations, want.Trace)
		}
		if got := l.Theta(c.Params); !slices.Equal(got, c.Run.X) {
			t.Errorf("parameters %v of a run that ended at %v", got, c.Run.X)
		}
	}
}

// TestCandidateGoesOnByNewton: one that has converged on enough rows takes no step of EM on more.
func TestCandidateGoesOnByNewton(t *testing.T) {
	p := parallels(t, 1024, 2, func(row int) float64 { return []float64{-2, 2}[row%2] }, problem.Request{})
	l := likelihood(p, p.Rows)
	start := at(p, 1, -1, 1)
	near, err := climb.Near(t.Context(), l, l.Theta(start), nil)
	if err != nil {
		t.Fatal(err)
	}
	far := climbed(t, p, p.Rows, start)
	if slices.Equal(near.Trace, far.Trace) || math.Abs(near.Value-far.Value) > 1e-12 {
		t.Fatalf("by %v, and with EM by %v", near.Trace, far.Trace)
	}
	enough := climb.NearRows * l.Dim()
	for _, c := range []struct {
		rows   int
		status optim.Status
		want   *optim.Result
	}{
		{enough, optim.Converged, near}, {enough - 1, optim.Converged, far}, {enough, optim.Stalled, far}, {1024, optim.Converged, far},
	} {
		one := &Candidate{Run: &optim.Result{Status: c.status}, Params: start, Rows: c.rows}
		if err := one.climb(t.Context(), ofOne{l}, 1024); err != nil || !slices.Equal(one.Run.Trace, c.want.Trace) {
			t.Errorf("%v on %d rows, then by %v, want %v, error %v", c.status, c.rows, one.Run.Trace, c.want.Trace, err)
		}
	}
}

// TestDegenerateWhereverTheZeroIs: two crossing lines with noise 0.2, far from 0 by 1,000
// times their spread, are as admissible as at 0; an expert of three rows is not, nor
// one whose noise is 0.001 of the target's deviation.
func TestDegenerateWhereverTheZeroIs(t *testing.T) {
	const n = 300
	for _, zero := range []float64{0, 1000, -1e5} {
		rng := rand.New(rand.NewPCG(9, 9))
		x, y := mat.NewDense(n, 1, nil), make([]float64, n)
		for r := range y {
			x.Set(r, 0, rng.NormFloat64())
			y[r] = zero + x.At(r, 0)*float64(1-2*(r%2)) + 0.2*rng.NormFloat64()
		}
		p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}})
		q := p.Shape.Blank(0.2)
		q.Regressors[0], q.Regressors[1] = 1, -1
		q.RegressorIntercepts[0], q.RegressorIntercepts[1] = zero, zero
		tiny := q.Clone()
		tiny.Sigma[1] = 0.001
		few := q.Clone()
		few.RegressorIntercepts[1] += 100 // nobody is there
		for _, c := range []struct {
			name string
			q    *model.Params
			want bool
		}{{"two lines", q, false}, {"little noise", tiny, true}, {"few rows", few, true}} {
			l := loss.NewLikelihood(p.Rows, p.G, c.q, p.Shape.Free(), 1)
			got, err := l.Degenerate(t.Context(), c.q)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("zero at %v, %s: degenerate %v", zero, c.name, got)
			}
		}
	}
}

// TestBeats: a candidate beats another that it comes before, by more than slack of the total.
func TestBeats(t *testing.T) {
	const n = 50
	of := func(loglik float64, degenerate bool) *Candidate { return ended(-loglik/n, optim.Converged, degenerate) }
	for name, c := range map[string]struct {
		c, other *Candidate
		want     bool
	}{
		"higher":             {of(3+2*climb.Slack, false), of(3, false), true},
		"not by enough":      {of(3+climb.Slack/2, false), of(3, false), false},
		"lower":              {of(3-2*climb.Slack, false), of(3, false), false},
		"itself":             {of(3, false), of(3, false), false},
		"degenerate":         {of(9, true), of(3, false), false},
		"both are":           {of(9, true), of(3, true), true},
		"failed":             {of(math.Inf(1), false), of(3, false), false},
		"not degenerate":     {of(9, false), of(3, true), true},
		"lower than a spike": {of(1, false), of(3, true), false},
	} {
		if got := c.c.Beats(c.other, n); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
