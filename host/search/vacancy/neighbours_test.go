package vacancy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
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
		if c == nil || c.Run.Value > three.Value+search.SameOptimum(p.N()) || begun.From != from.Params.K {
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
