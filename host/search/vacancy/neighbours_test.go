package vacancy

import (
	"context"
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
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestHalved: with an expert in two that are the same the likelihood is that of before, where the gate has intercepts,
// whichever expert it is; where they are apart by so many rms of its residuals their mean is the expert.
func TestHalved(t *testing.T) {
	vacant(t, func(name string, p *problem.Problem, two *model.Params, _ *rand.Rand) {
		if !Nested(p) {
			return
		}
		task := visitor{&search.Task{Steps: coreSteps(), Problem: p, Part: p.Rows}}
		s, err := task.structure(t.Context(), two)
		if err != nil {
			t.Fatal(err)
		}
		want := logLikelihood(t, p.With(2), two)
		for i := range two.K {
			if got := logLikelihood(t, p, halved(p.Shape, two, i, s, 0)); math.Abs(got-want) > 1e-9*float64(p.N()) { // rounding of the terms
				t.Errorf("%s, expert %d: log-likelihood %.9g, before %.9g", name, i, got, want)
			}
			apart := halved(p.Shape, two, i, s, 2)
			distance := 0.0
			for c := range two.D {
				a, b := apart.Regressor(0)[c], apart.Regressor(i + 1)[c]
				distance += (a - b) * (a - b) / 4
				if math.Abs((a+b)/2-two.Regressor(i)[c]) > 1e-12 {
					t.Errorf("%s, expert %d: the mean of %v and %v is not %v", name, i, a, b, two.Regressor(i)[c])
				}
			}
			if two.RegressorIntercepts != nil {
				d := apart.RegressorIntercepts[0] - apart.RegressorIntercepts[i+1]
				distance += d * d / 4
			}
			if want := 4 * s.RSS[i] / s.Mass[i]; math.Abs(distance/want-1) > 1e-9 {
				t.Errorf("%s, expert %d: half a distance of %.9g, want %.9g", name, i, math.Sqrt(distance), math.Sqrt(want))
			}
		}
	})
}

// TestMerged: two experts that are the same become one, and the likelihood is that of before, wherever they stand and
// whatever their shares; of others the mean by mass.
func TestMerged(t *testing.T) {
	p, _ := searchtest.Drawn(t, identity.Family, 3, 5, 500, 0.3, 4, problem.Request{K: 3, Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}})
	q := searchtest.Anywhere(p, rand.New(rand.NewPCG(6, 6)))
	want := logLikelihood(t, p, q)
	task := visitor{&search.Task{Steps: coreSteps(), Problem: p.With(4), Part: p.Rows}}
	s, err := task.structure(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range q.K {
		four := halved(p.With(4).Shape, q, i, s, 0)
		// A third of the rows and two thirds: a logit up, the other down.
		four.GatingIntercepts[0] += math.Log(2. / 3)
		mass := []float64{1, 0, 0, 0}
		if other := i + 1; other < 3 {
			four.GatingIntercepts[other] += math.Log(4. / 3)
		} else { // the last one's is 0
			for e := range four.GatingIntercepts {
				four.GatingIntercepts[e] -= math.Log(4. / 3)
			}
		}
		mass[i+1] = 2
		for _, pair := range [][2]int{{0, i + 1}, {i + 1, 0}} {
			if got := logLikelihood(t, p, merged(four, pair[0], pair[1], mass)); math.Abs(got-want) > 1e-9*float64(p.N()) { // rounding of the terms
				t.Errorf("expert %d: log-likelihood %.9g, before %.9g", i, got, want)
			}
		}
	}
	one := merged(p.With(2).Shape.Adopt(leaveOut(q, 0)), 1, 0, []float64{3, 1})
	two := leaveOut(q, 0)
	for c, v := range one.Regressor(0) {
		if want := (3*two.Regressor(0)[c] + two.Regressor(1)[c]) / 4; math.Abs(v-want) > 1e-12 {
			t.Errorf("coefficient %d of one of two experts: %v, want %v", c, v, want)
		}
	}
}

// TestBeat: from the fit of an expert less, and of one more, the search comes to the optimum of three lines, from where it was at one in which
// two of them have one expert; and to nothing from where it is at the best already.
func TestBeat(t *testing.T) {
	p := searchtest.Parallels(t, 600, 3, func(r int) float64 { return float64(3 * (r % 3)) }, problem.Request{})
	of := func(levels ...float64) search.Neighbour {
		p := p.With(len(levels))
		run := searchtest.Climbed(t, p, p.Rows, searchtest.At(p, 0.3, levels...))
		return search.Neighbour{Params: searchtest.Likelihood(p, p.Rows).Params(run.X), Value: run.Value}
	}
	two, three, four := of(1.5, 6), of(0, 3, 6), of(0, 3, 5.7, 6.3)
	task := visitor{&search.Task{Steps: coreSteps(), Problem: p, Part: p.Rows}}
	s, err := task.structure(t.Context(), two.Params)
	if err != nil {
		t.Fatal(err)
	}
	// Two that are the same, one on the lines that they share.
	q := halved(p.Shape, two.Params, 0, s, 0)
	poor := search.Neighbour{Params: q, Value: -logLikelihood(t, p, q) / float64(p.N())}
	for name, from := range map[string]search.Neighbour{ByJoin: two, ByLoss: four} {
		c, begun, err := Beat(t.Context(), p, poor, []search.Neighbour{from}, coreSteps())
		if err != nil {
			t.Fatal(err)
		}
		if c == nil || c.Run.Value > three.Value+search.SameOptimum(p.Count()) || begun.From != from.Params.K {
			t.Errorf("%s: %+v, %+v; want %v", name, c, begun, three.Value)
		} else if want := (poor.Value - c.Run.Value) * float64(p.N()); math.Abs(begun.Gain-want) > 1e-6*want {
			t.Errorf("%s: gains %v, want %v", name, begun.Gain, want)
		}
		if c, begun, err := Beat(t.Context(), p, search.Neighbour{Params: three.Params, Value: three.Value - 1}, []search.Neighbour{from}, coreSteps()); c != nil || begun != nil || err != nil {
			t.Errorf("%s beats the best: %+v, %+v, %v", name, c, begun, err)
		}
	}
}

// TestContain: a mixture that is below one that it contains, by as little as that may be, ends above that, whatever the search on the part.
func TestContain(t *testing.T) {
	p := searchtest.Parallels(t, 600, 3, func(r int) float64 { return float64(3 * (r % 2)) }, problem.Request{})
	two := searchtest.Climbed(t, p.With(2), p.Rows, searchtest.At(p.With(2), 0.3, 0, 3))
	below := &search.Candidate{Run: &optim.Result{Value: two.Value + 2*rising/float64(p.N()), Status: optim.Converged}}
	task := visitor{&search.Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Starts: search.DefaultStarts}}
	c, by, err := task.contain(t.Context(), below, search.Neighbour{Params: searchtest.Likelihood(p.With(2), p.Rows).Params(two.X), Value: two.Value}, nil)
	if err != nil || c == nil || by != BySplit || c.Run.Value > two.Value+rising/float64(p.N()) {
		t.Errorf("%+v by %q, %v; want at most %v", c, by, err, two.Value)
	}
}

// TestVisit: of three lines under two experts, at the lower of two optima, a search goes on from the fit of an expert more, and of one
// less, to the higher. What that came of and gained is recorded, the last steps are made of it on that occasion, and from the higher
// nothing comes of either.
func TestVisit(t *testing.T) {
	p, high, low := searchtest.Lower(t, 140)
	e, n := searchtest.Measure(t, p), float64(p.N())
	lost := (low.Value - high.Value) * n
	of := func(p *problem.Problem, run *optim.Result) search.Neighbour {
		return search.Neighbour{Params: searchtest.Likelihood(p, p.Rows).Params(run.X), Value: run.Value}
	}
	fit := func(sigma float64, levels ...float64) search.Neighbour {
		p := p.With(len(levels))
		return of(p, searchtest.Climbed(t, p, p.Rows, searchtest.At(p, sigma, levels...)))
	}
	for _, from := range []search.Neighbour{fit(8, 0), fit(0.3, -10, 0, 10)} {
		for _, best := range []*optim.Result{low, high} {
			var when []search.Occasion
			s := search.Steps{Places: search.Places{Visit: Places().Visit}, Last: []search.Step{{Name: "last",
				Try: func(_ context.Context, _ *search.Task, c *search.Candidate, at search.Occasion) (*search.Candidate, error) {
					when = append(when, at)
					return c, nil
				}}}}
			found, err := search.Auto(t.Context(), p, e, search.Settings{Starts: 1, Untested: true, Steps: s, Own: p.Units.OutOf(of(p, best).Params), From: []search.Neighbour{from}})
			if err != nil {
				t.Fatal(err)
			}
			k, gained := from.Params.K, best == low
			if math.Abs(found.Best.Run.Value-high.Value)*n > climb.Slack || found.Best.Run.Status != optim.Converged {
				t.Errorf("k = %d, from %v: %v (%v), the higher has %v", k, best.Value, found.Best.Run.Value, found.Best.Run.Status, high.Value)
			}
			if (found.Begun != nil) != gained || slices.Contains(when, search.BesideFit(k)) != gained || len(found.Best.Gains) > 0 != gained {
				t.Errorf("k = %d, from %v: begun %+v, gains %+v, last steps at %v", k, best.Value, found.Begun, found.Best.Gains, when)
			} else if gained && (found.Begun.From != k || math.Abs(found.Begun.Gain-lost) > climb.Slack || len(found.Best.Gains) != 1 ||
				found.Best.Gains[0].Step != "fits of fewer or more experts" || math.Abs(found.Best.Gains[0].LogLikelihood-lost) > climb.Slack) {
				t.Errorf("k = %d: begun %+v, gains %+v, want %v", k, found.Begun, found.Best.Gains, lost)
			}
		}
	}
}

// TestVisitSeparates: from one line the search comes to two that a hard gate separates, within slack of the supremum, where it was at a
// gate that is hard and wrong; and to nothing from the fit of a failed start, or where σ is given.
func TestVisitSeparates(t *testing.T) {
	p, _ := searchtest.Halves(t, 300, 1e9)
	n, top := float64(p.N()), searchtest.Supremum(t, p)
	one := p.With(1)
	run := searchtest.Climbed(t, one, one.Rows, one.Shape.Blank(3))
	from := []search.Neighbour{{Params: searchtest.Likelihood(one, one.Rows).Params(run.X), Value: run.Value}}
	wrong := searchtest.Lopsided(p, 1e6)
	wrong.Gating[0] = 2e5
	at := func(value float64) *search.Candidate {
		return &search.Candidate{Params: wrong, Rows: p.N(), Run: &optim.Result{Value: value, Status: optim.Converged}}
	}
	value := -logLikelihood(t, p, wrong) / n
	task := &search.Task{Problem: p, Part: p.Rows, Starts: search.DefaultStarts, Steps: coreSteps()}
	c, begun, err := Places().Visit(t.Context(), task, at(value), from)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if got := -c.Run.Value * n; math.Abs(got-top) > climb.Slack || c.Groups == nil || c.Ridge != 0 || begun.From != 1 || math.Abs(begun.Gain-(got+value*n)) > 1e-9*n {
		t.Errorf("log-likelihood %v, groups %v, ridge %v, begun %+v; the supremum is %v", got, c.Groups, c.Ridge, begun, top)
	}
	given := *p
	given.Shape.Sigma = 0.3
	for name, of := range map[string]struct {
		p    *problem.Problem
		best *search.Candidate
	}{"failed": {p, at(math.NaN())}, "a given sigma": {&given, at(value)}} {
		task := &search.Task{Problem: of.p, Part: of.p.Rows, Starts: search.DefaultStarts, Steps: coreSteps()}
		if c, begun, err := Places().Visit(t.Context(), task, of.best, from); c != nil || begun != nil || err != nil {
			t.Errorf("%s: %+v, %+v, %v", name, c, begun, err)
		}
	}
}
