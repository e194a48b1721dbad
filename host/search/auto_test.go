package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// TestJoin: what was found otherwise agrees if it is within the tolerance of the best of all, and
// of the starts those that did.
func TestJoin(t *testing.T) {
	const within = 0.25
	agreed := func(value float64) *Candidate {
		c := ended(value, optim.Converged, false)
		c.Agrees = true
		return c
	}
	type candidates = []*Candidate
	for name, c := range map[string]struct {
		best        float64
		all, others candidates
		want        string // what agrees of all
	}{
		"both at the best": {-1, candidates{agreed(-1), ended(3, optim.Converged, false)},
			candidates{ended(-1, optim.Converged, false), ended(-0.75, optim.Converged, false), ended(-0.7, optim.Converged, false)}, "[true false true true false]"},
		"what cannot agree": {-1, candidates{agreed(-1)}, candidates{ended(-1, optim.Converged, true), ended(-1, optim.IterationLimit, false)}, "[true false false]"},
		"held by a ridge":   {-2, candidates{agreed(-1.75), agreed(-1.5)}, candidates{ended(-2, optim.Converged, false)}, "[true true true]"},
		"nothing otherwise": {-2, candidates{agreed(-1.5), agreed(-1.5)}, nil, "[true true]"},
	} {
		f := &Found{Best: ended(c.best, optim.Converged, false), All: c.all, others: c.others}
		f.All = joined(f.All, f.others, f.Best, within)
		var got []bool
		for _, c := range f.All {
			got = append(got, c.Agrees)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: agree %v, want %s", name, got, c.want)
		}
	}
}

// TestTurnTo: starts that have met the best before have met no other optimum, unless that is the same.
func TestTurnTo(t *testing.T) {
	const n = 100
	for _, c := range []struct {
		value  float64
		agrees bool
	}{{-1 - SameOptimum(n), true}, {-1 - 1.01*SameOptimum(n), false}} {
		met, missed := ended(-1, optim.Converged, false), ended(0, optim.Converged, false)
		met.Agrees = true
		f := &Found{Best: met, All: []*Candidate{met, missed}}
		to := ended(c.value, optim.Converged, false)
		f.turnTo(to, "step", &problem.Problem{Rows: &model.Data{N: n, D: 1}, Weights: problem.Weights{Total: 2 * n}})
		if want := []Gain{{"step", -2 * n * (1 + c.value)}}; !slices.Equal(to.Gains, want) {
			t.Errorf("%v: gains %+v, want %+v", c.value, to.Gains, want)
		}
		if f.Best != to || met.Agrees != c.agrees || missed.Agrees {
			t.Errorf("%v: agrees %v, want %v", c.value, met.Agrees, c.agrees)
		}
	}
}

// TestKindsOfStarts: which starts are made once and which in turn. Clusters are tried where
// there are intercepts or the inputs are not standard normal, the subspace where several
// experts have one, the spectral estimate beside transforms of minimum variance, and the user's
// start before all others.
func TestKindsOfStarts(t *testing.T) {
	plain, truth := drawn(t, relu.Family, 2, 5, 3000, 0.1, 2, problem.Request{})
	both, _ := drawn(t, relu.Family, 2, 5, 3000, 0.1, 2, problem.Request{Intercepts: problem.BothIntercepts})
	gate, _ := drawn(t, relu.Family, 2, 5, 3000, 0.1, 2, problem.Request{Intercepts: problem.GateIntercepts})
	constant, _ := drawn(t, relu.Family, 2, 5, 3000, 0.1, 2, problem.Request{Intercepts: problem.GateIntercepts, Gate: problem.Constant{}})
	one, _ := drawn(t, relu.Family, 1, 5, 3000, 0.1, 2, problem.Request{})
	leaves, _ := drawn(t, relu.Family, 4, 8, 3000, 0.1, 2, problem.Request{Tree: tree(t, "2x2")})
	flat := *plain
	flat.Shape.Tree = tree(t, "2")
	handed := func(*problem.Problem, *moment.Evidence, *moment.Estimate, model.Rows) (first, cycle []starts.Start) {
		return []starts.Start{{Kind: "a"}}, []starts.Start{{Kind: "b"}, {Kind: "c"}}
	}
	odd := *plain
	odd.Inputs = &problem.Inputs{Far: "something"}
	for name, c := range map[string]struct {
		p         *problem.Problem
		transform moment.Transform
		s         Settings
		nowhere   bool // there is no subspace
		want      string
	}{
		"plain":               {p: plain, want: "moments; span span random"},
		"a tree of one gate":  {p: &flat, want: "moments; span span random"},
		"minimum variance":    {p: plain, transform: moment.Optimal, want: "moments spectral; span span random"},
		"the user's":          {p: plain, s: Settings{Own: truth}, want: "own moments; span span random"},
		"intercepts":          {p: both, want: "moments; kmeans span random"},
		"in the gate":         {p: gate, want: "moments; kmeans span random"},
		"a constant gate":     {p: constant, want: "moments; span span random"},
		"odd inputs":          {p: &odd, want: "moments; kmeans span random"},
		"no subspace":         {p: plain, nowhere: true, want: "moments; random"},
		"intercepts, nowhere": {p: both, nowhere: true, want: "moments; kmeans random"},
		"one expert":          {p: one, want: "moments; random"},
		"a tree":              {p: leaves, want: "; random"},
		"a tree, handed in":   {p: leaves, s: Settings{Own: truth, Steps: Steps{Tree: handed}}, want: "own a; b c"},
	} {
		e, err := moment.Measure(t.Context(), c.p, moment.Want{Transform: cmp.Or(c.transform, moment.Polynomial)})
		if err != nil {
			t.Fatal(err)
		}
		estimate, obstacle, err := moment.EstimateParams(t.Context(), c.p, e, 0)
		if err != nil || estimate == nil {
			t.Fatalf("%s: no estimate: %s, error %v", name, obstacle, err)
		}
		if c.nowhere {
			e.Subspace = nil
		}
		task, err := NewTask(t.Context(), c.p, e, estimate, c.s)
		if err != nil {
			t.Fatal(err)
		}
		kinds := func(starts []starts.Start) string {
			var out []string
			for _, s := range starts {
				out = append(out, s.Kind)
			}
			return strings.Join(out, " ")
		}
		if got := kinds(task.First) + "; " + kinds(task.Cycle); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	e := measure(t, plain)
	task, err := NewTask(t.Context(), plain, e, nil, Settings{})
	if err != nil || len(task.First) != 0 {
		t.Errorf("without an estimate: %+v first, error %v", task.First, err)
	}
}

// TestAutoNotes: inputs that are not standard normal are noted, those that are are not, and
// no note is empty.
func TestAutoNotes(t *testing.T) {
	const n = 256
	for _, odd := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(4, 4))
		x, y := mat.NewDense(n, 1, nil), make([]float64, n)
		for r := range y {
			x.Set(r, 0, rng.NormFloat64())
			if odd {
				x.Set(r, 0, 10*rng.ExpFloat64())
			}
			y[r] = x.At(r, 0)*float64(1-2*(r%2)) + 0.1*rng.NormFloat64()
		}
		p := load(t, dataset.Matrix(x, y), activation(t, tanh.Family), problem.Request{K: 1})
		found, err := Auto(t.Context(), p, measure(t, p), Settings{Starts: 2, Steps: coreSteps()})
		if err != nil {
			t.Fatal(err)
		}
		noted := slices.ContainsFunc(found.Notes, func(s string) bool { return strings.HasPrefix(s, "the inputs are not N(0, I)") })
		if noted != odd || slices.Contains(found.Notes, "") {
			t.Errorf("odd inputs %v: notes %q", odd, found.Notes)
		}
	}
}

// TestRepeated: what would pass though the data hardly ask for an expert is held against a second search by other random
// numbers. Where that ends apart the higher is taken, and none passes; else nothing but the reason changes.
func TestRepeated(t *testing.T) {
	p, _ := drawn(t, identity.Family, 2, 3, 600, 0.1, 2, problem.Request{})
	const lower = 1.5
	for name, c := range map[string]struct {
		first, second float64 // below the optimum
		spares        int
		optimum       string
		reason        string
		gains         float64 // of the second search
	}{
		"no spare expert":    {0, lower, 0, infer.Pass, "found nothing better", 0},
		"the same optimum":   {0, 0, 1, infer.Pass, "; a second search ended there too", 0},
		"a second lower":     {0, lower, 1, infer.NotJudged, "ask for 1 expert, and two searches ended 1.5 apart;", 0},
		"a second higher":    {lower, 0, 1, infer.NotJudged, "ask for 1 expert, and two searches ended 1.5 apart;", lower},
		"hardly another one": {0, 0.4, 1, infer.Pass, "; a second search ended there too", 0},
	} {
		searches := map[uint64]bool{}
		steps := coreSteps()
		steps.Last = []Step{inPlace("lower", nil, func(_ context.Context, t *Task, best *Candidate, when Occasion) error {
			by := c.second
			if t.Problem.Seed == p.Seed {
				by = c.first
			}
			if searches[t.Problem.Seed] = true; when == atRefinement {
				by = 0
			}
			best.Run.Value += by / t.Problem.Weights.Total
			return nil
		})}
		steps.Places.Missed = func(context.Context, *problem.Problem, *model.Params) (m Missed, err error) {
			m.Spare = make([]int, c.spares)
			return m, nil
		}
		steps.Places.Place = func(_ context.Context, _ *Task, _ *Candidate, m Missed, _ bool, _ int) (*Spare, error) {
			return &Spare{Experts: len(m.Spare), Starts: 48, Optima: 1, Met: 24}, nil
		}
		saved := 0
		found, err := Auto(t.Context(), p, measure(t, p), Settings{Starts: 12, Steps: steps,
			Follow: Follow{Checkpoint: func(State) { saved++ }}})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(1, c.spares) + 1; len(searches) != want || saved == 0 {
			t.Errorf("%s: %d searches, want %d; %d checkpoints", name, len(searches), want, saved)
		}
		if got := found.Certificate; got.Optimum != c.optimum || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %s, %q", name, got.Optimum, got.Reason)
		}
		gained := 0.0
		for _, g := range found.Best.Gains {
			if g.Step == "another search" {
				gained = g.LogLikelihood
			}
		}
		if math.Abs(gained-c.gains) > 1e-6 {
			t.Errorf("%s: gains %v", name, found.Best.Gains)
		}
	}
}

// TestWanted: only a suspect optimum asks for more starts.
func TestWanted(t *testing.T) {
	if got := wanted(nil); got != 0 {
		t.Errorf("no certificate asks for %d", got)
	}
	for verdict, want := range map[string]int{infer.Pass: 0, infer.NotJudged: 0, infer.Suspect: infer.StartsWanted} {
		if got := wanted(&infer.Certificate{Optimum: verdict}); got != want {
			t.Errorf("%s asks for %d starts, want %d", verdict, got, want)
		}
	}
}

// TestOneExpertAlone begins with two starts a wave, and they are enough.
func TestOneExpertAlone(t *testing.T) {
	p, _ := drawn(t, identity.Family, 1, 3, 300, 0.1, 2, problem.Request{})
	found, err := Auto(t.Context(), p, measure(t, p), Settings{Starts: DefaultStarts, Steps: coreSteps()})
	if err != nil || len(found.All) != 2 || found.Survey != nil {
		t.Fatalf("%+v, error %v", found, err)
	}
}

// TestUnmet: an optimum that would pass, and that fewer than three starts have met, is given starts up to twelve, of targets of two values however many have met it; not after a survey.
func TestUnmet(t *testing.T) {
	p := parallels(t, 60, 2, func(r int) float64 { return float64(r%2) * 10 }, problem.Request{})
	met := func(agree, of int) (all []*Candidate) {
		for i := range of {
			c := ended(-1, optim.Converged, false)
			c.Agrees = i < agree
			all = append(all, c)
		}
		return all
	}
	pass := &infer.Certificate{Optimum: infer.Pass}
	bits := parallels(t, 60, 2, func(int) float64 { return 0 }, problem.Request{})
	bits.Shape.Family = "binomial"
	for name, c := range map[string]struct {
		got, want int
	}{
		"two":             {unmet(p, met(2, 4), pass, nil), 12},
		"three":           {unmet(p, met(3, 4), pass, nil), 0},
		"twelve":          {unmet(p, met(1, 12), pass, nil), 0},
		"a survey":        {unmet(p, met(1, 4), pass, new(Survey)), 0},
		"a single expert": {unmet(p.With(1), met(1, 4), pass, nil), 0},
		"suspect":         {unmet(p, met(1, 4), &infer.Certificate{Optimum: infer.Suspect}, nil), 0},
		"none":            {unmet(p, met(1, 4), nil, nil), 0},
		"0 and 1":         {unmet(bits, met(4, 4), pass, nil), 12},
		"0 and 1, twelve": {unmet(bits, met(4, 12), pass, nil), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d starts, want %d", name, c.got, c.want)
		}
	}
}
