package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/splitmerge"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/relu"
)

// TestScreeningPart: 2000 rows in whole blocks, or 20 for each parameter, where
// the data have twice as many, and more than 400,000 rows times parameters; else all.
func TestScreeningPart(t *testing.T) {
	for _, c := range []struct{ n, k, d, want int }{
		{500, 2, 3, 500},
		{3999, 2, 3, 3999},
		{40_000, 2, 3, 40_000},
		{40_001, 2, 3, 8 * 256},
		{100_000, 2, 3, 8 * 256},
		{100_000, 5, 50, 36 * 256}, // 451 parameters
		{18_039, 5, 50, 18_039},
		{18_040, 5, 50, 36 * 256},
	} {
		all := &model.Data{N: c.n, D: c.d, Blocks: make([]model.Block, (c.n+255)/256)}
		part, err := ScreeningPart(t.Context(), &problem.Problem{Rows: all, Shape: problem.Shape{K: c.k, D: c.d}})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := part.Dims()
		if got != c.want {
			t.Errorf("k = %d, d = %d: %d of %d rows, want %d", c.k, c.d, got, c.n, c.want)
		}
	}
}

// TestWaves: the first starts once each and in order, then the cycle, in fours,
// or twos for one expert, up to the budget.
func TestWaves(t *testing.T) {
	start := func(kind string) starts.Start { return starts.Start{Kind: kind} }
	task := &Task{
		Steps:   coreSteps(),
		Problem: &problem.Problem{Shape: problem.Shape{K: 2}}, Starts: 10,
		First: []starts.Start{start("a"), start("b")}, Cycle: []starts.Start{start("u"), start("v"), start("w")},
	}
	waves := func() (out []string) {
		for from := 0; from < task.Starts; {
			kinds := ""
			for _, c := range task.wave(from) {
				kinds += c.Kind
				from++
			}
			out = append(out, kinds)
		}
		return out
	}
	if got := fmt.Sprint(waves()); got != "[abuv wuvw uv]" {
		t.Errorf("waves %s", got)
	}
	task.Starts = 1
	if got := fmt.Sprint(waves()); got != "[a]" {
		t.Errorf("one start: %s", got)
	}
	task.Starts, task.Problem.Shape.K = 5, 1
	if got := fmt.Sprint(waves()); got != "[ab uv w]" {
		t.Errorf("one expert: %s", got)
	}
}

// trap is a problem with a start that leads EM to a maximum far below the top, in
// 40 iterations, and one that leads it to the top.
func trap(t *testing.T) (p *problem.Problem, top *optim.Result, hopeless, good *model.Params) {
	t.Helper()
	p, truth := drawn(t, relu.Family, 4, 8, 1500, 0.1, 3, problem.Request{})
	top = climbed(t, p, p.Rows, truth)
	start := starts.Random(p, measure(t, p))
	var ends []float64
	for _, seed := range []uint64{5, 0} {
		q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, climbed(t, p, p.Rows, q).Value)
		hopeless, good = good, q
	}
	if ends[0] < top.Value+0.3 || ends[1] > top.Value+0.01 {
		t.Fatalf("the starts lead to %v, the top is at %v", ends, top.Value)
	}
	return p, top, hopeless, good
}

// partOf is a search in which the rows of p are a part of twice as many.
func partOf(t *testing.T, p *problem.Problem) *Task {
	t.Helper()
	data, err := model.InMemory(t.Context(), p.Rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	twice := *p
	twice.Rows = &model.Data{N: 2 * data.N, D: data.D, Blocks: slices.Concat(data.Blocks, data.Blocks)}
	return &Task{Steps: coreSteps(), Problem: &twice, Part: p.Rows}
}

// ridged is the likelihood as the screening has it.
func ridged(p *problem.Problem) *loss.Likelihood {
	l := likelihood(p, p.Rows)
	l.PenaliseGate(starts.ScreenRidge)
	return l
}

// TestBegin: a start goes on to where EM crawls, unless it runs on a part of the rows
// and cannot catch up with the best.
func TestBegin(t *testing.T) {
	p, top, hopeless, good := trap(t)
	l := ridged(p)
	for name, c := range map[string]struct {
		start *model.Params
		best  float64
		ends  bool
	}{
		"hopeless, alone":          {hopeless, math.Inf(1), false},
		"hopeless":                 {hopeless, top.Value, true},
		"hopeless beside the like": {hopeless, 0.275, false}, // it crawls from 0.2716 on
		"hopeless on all rows":     {hopeless, top.Value, false},
		"on its way":               {good, top.Value, false},
	} {
		task := partOf(t, p)
		if name == "hopeless on all rows" {
			task.Problem = p
		}
		alone, err := climb.Approach(t.Context(), l, l.Theta(c.start), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := &Candidate{start: from(c.start)}
		if err := task.begin(t.Context(), got, nil, c.best); err != nil {
			t.Fatal(err)
		}
		path := got.Run.Trace
		if !slices.Equal(path, alone.Trace[:len(path)]) || got.Rows != 1500 || !cmp.Equal(got.Params, l.Params(got.Run.X)) {
			t.Errorf("%s: path %v on %d rows, alone %v", name, path, got.Rows, alone.Trace)
		}
		if stopped := got.Run.Status == optim.Stopped; stopped != c.ends || (len(path) < len(alone.Trace)) != c.ends {
			t.Errorf("%s: %v after %d of %d iterations", name, got.Run.Status, got.Run.Iterations, alone.Iterations)
		}
	}
}

// TestComplete: what has begun goes on to its maximum, unless it is too far
// behind the best for another hundred iterations, or has ended already.
func TestComplete(t *testing.T) {
	p, top, hopeless, good := trap(t)
	task := partOf(t, p)
	l := ridged(p)
	ends := func(start *model.Params) float64 {
		r, err := climb.Climb(t.Context(), l, l.Theta(start), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Value
	}
	begun := func(start *model.Params) *Candidate {
		r, err := climb.Approach(t.Context(), l, l.Theta(start), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &Candidate{Run: r, Params: l.Params(r.X), Rows: 1500}
	}
	low := begun(hopeless).Run.Value
	for name, c := range map[string]struct {
		start  *model.Params
		best   float64
		status optim.Status
		value  float64
	}{
		"near the top":         {good, top.Value, optim.Converged, ends(good)},
		"as good as the best":  {good, ends(good) - 0.4/1500, optim.Converged, ends(good)},
		"alone":                {hopeless, math.Inf(1), optim.Converged, ends(hopeless)},
		"the best of its wave": {hopeless, low, optim.Converged, ends(hopeless)},
		"behind":               {hopeless, top.Value, optim.Stopped, low},
	} {
		got := begun(c.start)
		before := got.Run.Iterations
		if err := task.complete(t.Context(), got, c.best, 1); err != nil {
			t.Fatal(err)
		}
		if got.Run.Status != c.status || math.Abs(got.Run.Value-c.value) > 1e-9 {
			t.Errorf("%s: %v at %v, want %v at %v", name, got.Run.Status, got.Run.Value, c.status, c.value)
		}
		if went := got.Run.Iterations > before; went != (c.status == optim.Converged) || !cmp.Equal(got.Params, l.Params(got.Run.X)) {
			t.Errorf("%s: %d iterations, had made %d", name, got.Run.Iterations, before)
		}
	}
	for _, status := range []optim.Status{optim.Stopped, optim.Converged} {
		got := begun(good)
		got.Run.Status = status
		was := got.Run
		if err := task.complete(t.Context(), got, math.Inf(1), 1); err != nil || got.Run != was {
			t.Errorf("a run that is %v went on, error %v", status, err)
		}
	}
}

// TestWaveDoesNotSeeItself: a start is not measured against what others of its
// wave have come to while it runs, also where they come first: a hopeless one
// beside the top goes as far as it would alone, and then not to its maximum but on
// by moves. In the next wave it is cut short.
func TestWaveDoesNotSeeItself(t *testing.T) {
	p, top, hopeless, _ := trap(t)
	l := ridged(p)
	best := from(l.Params(top.X))
	alone, err := climb.Approach(t.Context(), l, l.Theta(hopeless), nil)
	if err != nil {
		t.Fatal(err)
	}
	task := partOf(t, p)
	task.First, task.Starts = []starts.Start{best, from(hopeless), best, best, best, from(hopeless)}, 6
	_, all := run(t, task, State{Least: 6})
	var whole, cut int
	for _, c := range all {
		n := 0
		for n < min(len(c.Run.Trace), len(alone.Trace)) && c.Run.Trace[n] == alone.Trace[n] {
			n++
		}
		switch {
		case n == len(alone.Trace):
			whole++
			if len(c.Run.Trace) == n || c.Run.Trace[n] < alone.Value {
				t.Errorf("goes on from %v to %v: not by a move", alone.Value, c.Run.Trace[n:])
			}
		case n > 0:
			cut++
		}
	}
	if whole != 1 || cut != 1 {
		t.Errorf("of the two hopeless starts %d went as far as alone and %d were cut short, want one each", whole, cut)
	}
}

// hard is a search of several waves, with starts of several kinds, of which most
// end below the best.
func hard(t *testing.T, threads int) *Task {
	p, _ := drawn(t, relu.Family, 5, 10, 3000, 0.1, 3, problem.Request{Threads: threads})
	part := model.Part(p.Rows, 1024)
	e := measure(t, p)
	projected, err := model.InMemory(t.Context(), e.Subspace.Project(part), 1)
	if err != nil {
		t.Fatal(err)
	}
	return &Task{Steps: coreSteps(), Problem: p, Part: part, First: []starts.Start{starts.KMeans(p, part)}, Cycle: []starts.Start{starts.Random(p, e), starts.Subspace(p, e, projected)}, Starts: 16}
}

// until is a rule that wants so many starts.
func until(wanted int) StoppingRule {
	return func(_ context.Context, _ *Candidate, all []*Candidate) (int, error) {
		if len(all) < wanted {
			return wanted, nil
		}
		return 0, nil
	}
}

// TestSearchIsReproducible: the same best and the same candidates to the last
// bit at any number of threads, and from any state that was handed out on the way,
// which nothing changes afterwards.
func TestSearchIsReproducible(t *testing.T) {
	testslow.Mark(t)
	var states, kept []State
	task := hard(t, 1)
	task.Checkpoint = func(s State) {
		states = append(states, s)
		s.Candidates = copies(s.Candidates)
		kept = append(kept, s)
	}
	best, all, err := Run(t.Context(), task, State{}, until(14))
	if err != nil {
		t.Fatal(err)
	}
	lows, done, between := 0, 0, 0
	for _, c := range all {
		if !c.Agrees {
			lows++
		}
	}
	for _, s := range kept {
		switch {
		case s.Done:
			done++
		case s.Least > 0:
			between++
		}
	}
	if len(all) != 16 || lows < 3 || done < 2 || between < 1 {
		t.Fatalf("%d candidates, %d of them below the best; of %d states %d end a screening and %d are on the way to what the rule wanted: too easy", len(all), lows, len(kept), done, between)
	}
	if diff := cmp.Diff(kept, states, same); diff != "" {
		t.Errorf("the search went on to change a state that it had handed out:\n%s", diff)
	}
	for threads := 2; threads <= 3; threads++ {
		again, candidates, err := Run(t.Context(), hard(t, threads), State{}, until(14))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all, candidates, same) + cmp.Diff(best, again, same); diff != "" {
			t.Errorf("%d threads: another result:\n%s", threads, diff)
		}
	}
	for i, s := range kept {
		again, candidates, err := Run(t.Context(), hard(t, 1+i%2), s, until(14))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all, candidates, same) + cmp.Diff(best, again, same); diff != "" {
			t.Errorf("from state %d of %d (%d starts, done %v): another result:\n%s", i+1, len(kept), len(s.Candidates), s.Done, diff)
		}
	}
}

// TestStreams: every start has the random numbers of its own stream, also in
// later waves and in a search that was taken up again.
func TestStreams(t *testing.T) {
	p, _, _ := stuck(t)
	top := at(p, 0.3, -2, 2, 20)
	var mu sync.Mutex
	var got []uint64
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Starts: 11, Cycle: []starts.Start{{Draw: func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, rng.Uint64())
		return top.Clone(), nil
	}}}}
	var want []uint64
	for i := range task.Starts {
		want = append(want, stream.New(1, stream.Start, i).Uint64())
	}
	var states []State
	task.Checkpoint = func(s State) { states = append(states, s) }
	run(t, task, State{Least: 11})
	if !slices.Equal(got, want) {
		t.Errorf("numbers %v, want %v", got, want)
	}
	got, task.Checkpoint = nil, nil
	if run(t, task, states[0]); !slices.Equal(got, want[len(states[0].Candidates):]) {
		t.Errorf("taken up after %d starts: numbers %v, want the last of %v", len(states[0].Candidates), got, want)
	}
}

// TestJudgeIsAsked after every screening, of the best as refined on all rows,
// and obeyed: at least so many starts, at least one more, up to the budget.
func TestJudgeIsAsked(t *testing.T) {
	p, _, _ := pairs(t, 2048, 512, 0.43, 0.56)
	good := from(at(p, 0.5, -11, -9, 10))
	for name, c := range map[string]struct {
		starts int
		wants  []int // at each call, the last for ever
		asked  string
	}{
		"content":          {12, []int{0}, "[4]"},
		"two more":         {12, []int{6, 0}, "[4 8]"},
		"a wave more":      {12, []int{8, 0}, "[4 8]"},
		"many more":        {16, []int{11, 0}, "[4 12]"},
		"fewer than there": {12, []int{2, 0}, "[4 8]"},
		"never content":    {10, []int{5}, "[4 8 10]"},
	} {
		task := &Task{Steps: coreSteps(), Problem: p, Part: firstBlocks(p, 2), Cycle: []starts.Start{good}, Starts: c.starts}
		var asked []int
		best, all, err := Run(t.Context(), task, State{}, func(_ context.Context, best *Candidate, all []*Candidate) (int, error) {
			if best.Rows != 2048 || all[0].Rows != 512 || all[0].refined != best {
				t.Errorf("%s: asked about a best of %d rows, the candidates are of %d", name, best.Rows, all[0].Rows)
			}
			if asked = append(asked, len(all)); len(asked) > 5 {
				t.Fatalf("%s: asked at %v candidates and on", name, asked)
			}
			return c.wants[min(len(asked), len(c.wants))-1], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(asked); got != c.asked || fmt.Sprint(len(all)) != strings.Trim(got[strings.LastIndexAny(got, "[ "):], "[ ]") {
			t.Errorf("%s: asked at %s candidates, want %s; ended with %d", name, got, c.asked, len(all))
		}
		// What comes back is what became of them: the best on all rows, those that
		// were no contenders on the part.
		if all[0].Run != best.Run || all[0].Rows != 2048 || all[1].Rows != 512 {
			t.Errorf("%s: candidates of %d and %d rows", name, all[0].Rows, all[1].Rows)
		}
	}
	bad := errors.New("bad")
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Cycle: []starts.Start{good}, Starts: 4}
	if _, _, err := Run(t.Context(), task, State{}, func(context.Context, *Candidate, []*Candidate) (int, error) { return 0, bad }); err != bad {
		t.Errorf("error %v, want the rule's", err)
	}
}

// TestContenderOfBefore: a candidate that was refined when it was the best is refined again
// once more starts have been made, though it is out of the running on the part: what it came to on
// all rows is not forgotten.
func TestContenderOfBefore(t *testing.T) {
	p, _, _ := stuck(t)
	low, top := from(at(p, 2, 0, 19.5, 20.5)), from(at(p, 0.3, -2, 2, 20))
	task := &Task{Steps: coreSteps(), Problem: p, Part: firstBlocks(p, 2), First: []starts.Start{low, low, low, low}, Cycle: []starts.Start{top}, Starts: 8}
	best, all, err := Run(t.Context(), task, State{}, until(8))
	if err != nil {
		t.Fatal(err)
	}
	if best.Run.Value > 2 || all[0].Rows != 900 {
		t.Errorf("best %v on %d rows", best.Run.Value, all[0].Rows)
	}
	again := 0
	for _, c := range all[1:] {
		switch {
		case c.Contended && c.Rows == 900:
			again++
		case c.Contended || c.Rows != 512:
			t.Errorf("a candidate at %v is of %d rows, want those of the part", c.Run.Value, c.Rows)
		}
	}
	if again != 1 {
		t.Errorf("%d candidates refined again, want the one that was the best of four alike", again)
	}
	// Of the same optimum the first goes on, and whoever went on before.
	alike := make([]*Candidate, 4)
	for i := range alike {
		alike[i] = &Candidate{Run: &optim.Result{Value: 1 + 1e-9*float64(i)}, Contended: i == 2}
	}
	if got := contenders(alike, 900); !slices.Equal(got, []*Candidate{alike[0], alike[2]}) {
		t.Errorf("%d contenders", len(got))
	}
}

// TestScreeningEnds with the wave in which enough agree, and tells how far it is;
// a finished screening is not made again.
func TestScreeningEnds(t *testing.T) {
	p, _, _ := stuck(t)
	top := from(at(p, 0.3, -2, 2, 20))
	var told []string
	var state State
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Cycle: []starts.Start{top}, Starts: 12}
	task.Screening = func(done, total int) { told = append(told, fmt.Sprintf("%d of %d", done, total)) }
	task.Checkpoint = func(s State) { state = s }
	best, all := run(t, task, State{})
	if got := strings.Join(told, ", "); len(all) != 4 || got != "0 of 12, 1 of 12, 2 of 12, 3 of 12, 4 of 12" {
		t.Errorf("%d starts, told of %s", len(all), got)
	}
	if !state.Done || len(state.Candidates) != 4 {
		t.Fatalf("the last state has %d candidates and done %v", len(state.Candidates), state.Done)
	}
	told = nil
	if again, _ := run(t, task, state); len(told) > 0 || !cmp.Equal(best, again, same) {
		t.Errorf("taken up behind the screening: told of %v", told)
	}
}

// TestNoStartIsFinite: an error about the data, and no result; one that fails
// among others is the last of them.
func TestNoStartIsFinite(t *testing.T) {
	p, _, _ := stuck(t)
	hopeless := from(at(p, 1e-200, -2e200, 2e200, 2e200))
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Cycle: []starts.Start{hopeless}, Starts: 6}
	_, _, err := Run(t.Context(), task, State{}, until(0))
	if fault := (*dataset.Error)(nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), "no start reached a finite likelihood") {
		t.Errorf("error %v", err)
	}
	task.First = []starts.Start{hopeless, from(at(p, 0.3, -2, 2, 20))}
	best, all := run(t, task, State{})
	if best.Failed() || len(all) != 6 || !all[5].Failed() || all[5].Agrees {
		t.Errorf("%d candidates, best %v", len(all), best.Run.Value)
	}
}

// TestStartFails: an error of a start ends the search.
func TestStartFails(t *testing.T) {
	p, _, _ := stuck(t)
	bad := errors.New("bad")
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Starts: 4, Cycle: []starts.Start{{Kind: "bad", Draw: func(context.Context, *rand.Rand) (*model.Params, error) { return nil, bad }}}}
	if _, _, err := Run(t.Context(), task, State{}, until(0)); err != bad {
		t.Errorf("error %v, want the start's", err)
	}
}

// TestSplitMerge: where every start leads EM to a maximum with two experts
// merged, the moves are the only way to the highest. There are two starts: three
// that agree would be taken for the top, and left to the certificate.
func TestSplitMerge(t *testing.T) {
	p, top, _ := stuck(t)
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows, First: []starts.Start{from(at(p, 2, 0, 19.5, 20.5)), from(at(p, 2, 0.3, 19, 20.1))}, Starts: 2}
	best, all := run(t, task, State{})
	// Runs end with a Newton step that promised less than 1e−12.
	if math.Abs(best.Run.Value-top.Value) > 1e-9 || best.Run.Status != optim.Converged {
		t.Errorf("value %v (%v), want %v", best.Run.Value, best.Run.Status, top.Value)
	}
	for i, c := range all {
		if !c.Agrees {
			t.Errorf("candidate %d ended at %v and does not agree", i, c.Run.Value)
		}
		if got := floats.Min(c.Run.Trace); math.Abs(got-c.Run.Value) > 1e-12 || len(c.Run.Trace) <= 4 {
			t.Errorf("candidate %d: a path of %d points to %v, value %v", i, len(c.Run.Trace), got, c.Run.Value)
		}
	}
}

// TestSplitMergeGoesOn: where two pairs of lines are merged it takes two moves to
// the top, also where no candidate has been there. Where the merged lines have few
// rows the gain is too small to be seen before the candidate stands at its
// optimum, and is found there, unless another is ahead: then the climb is
// stopped, as it is where there are more rows than these. On few rows there may be
// something higher still than the lines.
func TestSplitMergeGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		lines       []float64
		line        func(row int) int
		start       []float64
		least, most float64 // gain per row
	}{
		"two moves": {[]float64{-42, -38, 0, 38, 42}, func(row int) int { return row % 5 }, []float64{-40, -0.5, 0, 0.5, 40}, 1, 9},
		"a small gain": {[]float64{-0.6, 0.6, 20}, func(row int) int { return min(row%300, 2) }, // three rows on either of the first two
			[]float64{0, 19.5, 20.5}, 5 * SameOptimum(900), splitmerge.ClearGain / 1.5},
	} {
		k := len(c.lines)
		p := parallels(t, 900, k, func(row int) float64 { return c.lines[c.line(row)] }, problem.Request{})
		top, low := climbed(t, p, p.Rows, at(p, 0.3, c.lines...)), climbed(t, p, p.Rows, at(p, 0.6, c.start...))
		if gain := low.Value - top.Value; gain < c.least || gain > c.most {
			t.Fatalf("%s: the top is at %v, the start leads to %v: a gain of %v, want %v to %v", name, top.Value, low.Value, gain, c.least, c.most)
		}
		small := low.Value-top.Value < splitmerge.ClearGain
		for ahead, best := range map[string]float64{"another is at the top": top.Value, "it is the best": low.Value} {
			task := partOf(t, p)
			got := &Candidate{start: from(at(p, 0.6, c.start...))}
			if err := task.begin(t.Context(), got, nil, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
			if err := task.splitMerge(t.Context(), got, rand.New(rand.NewPCG(1, 1)), best, SameOptimum(900), 1); err != nil {
				t.Fatal(err)
			}
			there := got.Run.Value <= top.Value+SameOptimum(900) && got.Run.Status == optim.Converged
			left := got.Run.Status == optim.Stopped
			if behind := small && best == top.Value; there == behind || left != behind {
				t.Errorf("%s, %s: from %v to %v (%v), the top is at %v", name, ahead, low.Value, got.Run.Value, got.Run.Status, top.Value)
			}
		}
	}
}

// TestSplitMergeIsJudged: a half that shrinks onto a few far rows makes the
// candidate degenerate.
func TestSplitMergeIsJudged(t *testing.T) {
	p := parallels(t, 300, 3, func(row int) float64 {
		if row < 3 {
			return 60
		}
		return []float64{-2, 2}[row%2]
	}, problem.Request{Noise: problem.PerExpert{}})
	l := likelihood(p, p.Rows)
	q := at(p, 1, -2, 1.9, 2.1)
	q.Sigma[2] = 10 // for the three far rows
	r := &optim.Result{X: l.Theta(q), Status: optim.IterationLimit}
	var err error
	if r.Value, err = l.Value(t.Context(), r.X); err != nil {
		t.Fatal(err)
	}
	c := &Candidate{Run: r, Params: q, Rows: 300}
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows}
	if err := c.MarkDegenerate(t.Context(), l); err != nil || c.Degenerate {
		t.Fatalf("degenerate before any move: %v, error %v", c.Degenerate, err)
	}
	if err := task.splitMerge(t.Context(), c, rand.New(rand.NewPCG(1, 1)), r.Value-9, SameOptimum(300), 1); err != nil || c.Run.Value > r.Value-0.1 || !c.Degenerate {
		t.Errorf("from %v to %v, noise %v, degenerate %v, error %v", r.Value, c.Run.Value, c.Params.Sigma, c.Degenerate, err)
	}
}

// TestSplitMergeLeavesAlone what has nothing to be mended: a degenerate candidate,
// whose likelihood would gain by any move, and one that failed.
func TestSplitMergeLeavesAlone(t *testing.T) {
	p, top, merged := stuck(t)
	task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows}
	for name, c := range map[string]*Candidate{
		"degenerate": {Run: merged, Degenerate: true},
		"failed":     {Run: &optim.Result{X: merged.X, Value: math.Inf(1), Status: optim.Diverged}},
	} {
		c.Params, c.Rows = likelihood(p, p.Rows).Params(merged.X), 900
		was := c.Run
		if err := task.splitMerge(t.Context(), c, rand.New(rand.NewPCG(1, 1)), top.Value, SameOptimum(900), 1); err != nil || c.Run != was {
			t.Errorf("%s: moved from %v to %v, error %v", name, was.Value, c.Run.Value, err)
		}
	}
}

// TestManyExperts: of many experts with many parameters the first starts go alone and the next fill up their wave, and
// twelve are enough where the best is one that the data have told and none came near, or four where two of these agree.
func TestManyExperts(t *testing.T) {
	task := func(k, d int) *Task {
		p := &problem.Problem{Shape: problem.Shape{K: k, D: d}}
		return &Task{
			Problem: p, Starts: 32,
			First: []starts.Start{{Kind: starts.KindMoments}, {Kind: starts.KindSpectral}}, Cycle: []starts.Start{{Kind: starts.KindSpan}},
		}
	}
	at := func(kind string, value float64, status optim.Status) *Candidate {
		return &Candidate{Kind: kind, Run: &optim.Result{Value: value, Status: status}}
	}
	all := []*Candidate{at(starts.KindSpectral, 1, optim.Converged)}
	for range 11 {
		all = append(all, at(starts.KindSpan, 2, optim.Stopped))
	}
	for _, c := range []struct {
		k, d int
		many bool
	}{{3, 10, false}, {16, 10, false}, {8, 200, false}, {16, 40, true}, {32, 64, true}, {15, 60, false}} {
		s := task(c.k, c.d)
		if s.many() != c.many {
			t.Errorf("k = %d, d = %d: many %v", c.k, c.d, s.many())
		}
		first, second := len(s.wave(0)), len(s.wave(2))
		if want := map[bool]int{false: waveSize, true: 2}[c.many]; first != want || second != want {
			t.Errorf("k = %d, d = %d: waves of %d and %d starts", c.k, c.d, first, second)
		}
		if third := len(s.wave(4)); third != waveSize {
			t.Errorf("k = %d, d = %d: a wave of %d starts", c.k, c.d, third)
		}
		if s.ahead(all) != c.many || s.ahead(all[:11]) {
			t.Errorf("k = %d, d = %d: the best is ahead: %v", c.k, c.d, s.ahead(all))
		}
	}
	s := task(16, 40)
	two := append([]*Candidate{at(starts.KindMoments, 1, optim.Converged)}, all[:3]...)
	if Agree(two, 16, 1e-5); !s.ahead(two) || s.ahead(two[:3]) {
		t.Error("two starts that the data have told agree")
	}
	for name, other := range map[string]*Candidate{
		"a random best":    at(starts.KindSpan, 0.5, optim.Converged),
		"another optimum":  at(starts.KindSpan, 1.1, optim.Converged),
		"a best cut short": at(starts.KindMoments, 0.9, optim.Stopped),
	} {
		some := append([]*Candidate{other}, all...)
		Agree(some, 16, 1e-5)
		if s.ahead(some) {
			t.Errorf("%s: twelve starts are enough", name)
		}
	}
}

// TestCostlyStarts: of ten experts with 500 parameters a start is cut short on all rows too where it cannot catch up with
// the best, and is moved all the same; that is done one after the other and ends when enough agree, those at the best
// optimum last.
func TestCostlyStarts(t *testing.T) {
	p, top, hopeless, _ := trap(t)
	for _, c := range []struct {
		k, d         int
		costly, many bool
	}{
		{4, 8, false, false}, {10, 10, false, false}, {9, 30, false, false}, {10, 30, true, false}, {15, 60, true, false},
		{16, 40, false, true},
	} {
		of := *p
		of.Shape.K, of.Shape.D = c.k, c.d
		task := partOf(t, p)
		task.Problem, task.Part = &of, p.Rows
		if task.costly() != c.costly || task.many() != c.many || (task.hopeless(top.Value) != nil) != (c.costly || c.many) {
			t.Errorf("k = %d, d = %d: costly %v, many %v", c.k, c.d, task.costly(), task.many())
		}
		there := ended(1, optim.Converged, false)
		there.Agrees = true // it has no parameters to be moved from
		wave := []*Candidate{there, ended(2, optim.Stopped, true), ended(3, optim.Stopped, true), ended(3, optim.Stopped, true)}
		if !c.costly {
			wave = wave[1:]
		}
		asked := 0
		err := task.move(t.Context(), []*Candidate{there}, wave, 0, 1e-5, func() bool { asked++; return asked == 2 })
		if want := map[bool]int{true: 2}[c.costly]; err != nil || asked != want {
			t.Errorf("k = %d, d = %d: it was asked %d times whether enough agree, want %d, error %v", c.k, c.d, asked, want, err)
		}
	}
	of := *p
	of.Shape.K, of.Shape.D = 10, 30
	task := partOf(t, p)
	task.Problem, task.Part = &of, p.Rows
	l := ridged(p)
	got := &Candidate{Params: hopeless, start: from(hopeless)}
	run, err := task.approach()(t.Context(), l, l.Theta(hopeless), task.hopeless(top.Value))
	if err != nil || run.Status != optim.Stopped {
		t.Fatalf("%v, error %v", run.Status, err)
	}
	got.Run, got.Params, got.Rows = run, l.Params(run.X), p.N()
	if err := task.complete(t.Context(), got, top.Value, 1); err != nil || got.Run != run {
		t.Errorf("it was taken from %v to %v, error %v", run.Value, got.Run.Value, err)
	}
	task.Problem = p // which its parameters are of
	if err := task.splitMerge(t.Context(), got, rand.New(rand.NewPCG(1, 1)), top.Value, SameOptimum(p.Count()), 2); err != nil ||
		!(got.Run.Value < run.Value-splitmerge.ClearGain) {
		t.Errorf("moved from %v to %v, error %v", run.Value, got.Run.Value, err)
	}
}
