package newton

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// modelOf has k experts over one feature; its free parameters are as many as dim says.
func modelOf(k int) (m *fitted.Model, dim int) {
	m = &fitted.Model{K: k, D: 1, Features: []string{"x"}, Target: "y", Sigma: fitted.Sigma{0.5}}
	for i := range k {
		m.Regressors = append(m.Regressors, []float64{float64(i) - 0.5})
		m.Proportions = append(m.Proportions, 1/float64(k))
	}
	for i := range k - 1 {
		m.Gating = append(m.Gating, []float64{float64(1 + i)})
	}
	m.Fit.Passes = &progress.Passes{Target: 1, Weight: 1, Rows: 10}
	return m, 2 * k
}

func layoutOf(m *fitted.Model) *loss.Likelihood {
	return likelihoodOf(m.Params(), freeOf(m), nil)
}

// triangle are the entries of a diagonal matrix as sums and files have a symmetric one.
func triangle(diagonal []float64) (v []float64) {
	for i, h := range diagonal {
		v = append(append(v, h), make([]float64, len(diagonal)-1-i)...)
	}
	return v
}

// pointOf has sums of n rows of k experts, all alike, with a diagonal information.
func pointOf(loglik, n float64, k int, score, diagonal []float64) point {
	sums := append([]float64{loglik, n}, slices.Repeat([]float64{n / float64(k)}, k)...)
	return point{sums: slices.Concat(sums, score, triangle(diagonal))}
}

// TestClimbUp: where a step has led up the trial is the best point; the damping is Nielsen's
// (1999), λ·max(1/10, min(10, 1 − (2ρ − 1)³)) for the share ρ of the promise that was kept, three hundredths
// where that is above 0.9, and 0 below 1e−4; the next step is (H + λD)⁻¹s and its promise s'δ − δ'Hδ/2.
func TestClimbUp(t *testing.T) {
	m, _ := modelOf(1)
	at, trial, score, h := []float64{1, 0}, []float64{1.5, 0.25}, []float64{2, 3}, []float64{4, 9}
	for _, was := range []float64{0, 2e-4, 0.004, 0.5, 3} {
		for _, kept := range []float64{0, 0.1, 0.5, 0.75, 0.9, 0.91, 1, 1.2, 2} {
			const promise = 20.0
			c := progress.Climb{At: at, Trial: trial, LogLikelihood: -100, Promise: promise, Damping: was, Refused: 2, Proportions: []float64{1}}
			got, err := ascend(c, pointOf(-100+kept*promise, 10, 1, score, h), layoutOf(m), nil)
			if err != nil {
				t.Fatal(err)
			}
			damping := was * max(0.1, min(10, 1-math.Pow(2*kept-1, 3)))
			if kept > 0.9 {
				damping = 0.03 * was
			}
			if damping < 1e-4 {
				damping = 0
			}
			move := []float64{score[0] / h[0] / (1 + damping), score[1] / h[1] / (1 + damping)}
			next := []float64{trial[0] + move[0], trial[1] + move[1]}
			promised := 0.0
			for i, d := range move {
				promised += score[i]*d - h[i]*d*d/2
			}
			what := fmt.Sprintf("damping %v, %v of the promise kept", was, kept)
			if !slices.Equal(got.At, trial) || got.LogLikelihood != -100+kept*promise || got.Refused != 0 || got.Ended != "" || !slices.Equal(got.Proportions, []float64{1}) {
				t.Errorf("%s: at %v with %v, refused %d, ended %q", what, got.At, got.LogLikelihood, got.Refused, got.Ended)
			}
			if math.Abs(got.gain-kept*promise) > 1e-12 || math.Abs(got.Damping-damping) > 1e-15 || !floats.EqualApprox(got.Trial, next, 1e-14) || math.Abs(got.Promise-promised) > 1e-13 {
				t.Errorf("%s: damping %v, trial %v, promise %v, gain %v; want %v, %v, %v", what, got.Damping, got.Trial, got.Promise, got.gain, damping, next, promised)
			}
			if want := max(move[0]/1.5, move[1]); math.Abs(got.size-want) > 1e-14 {
				t.Errorf("%s: a step of %v, want %v", what, got.size, want)
			}
			v := make([]float64, 5)
			numeric.ReadFloats(v, got.Curvature)
			if want := []float64{2, 3, 4, 0, 9}; len(got.Curvature) != 40 || !slices.Equal(v, want) {
				t.Errorf("%s: score and information %v, want %v", what, v, want)
			}
		}
	}
}

// TestClimbDown: where a step has led down the best point stays, and the damping grows fourfold, from 1e−3 on,
// until the step is no longer than the share of the last one where the parabola through slope and fall
// is highest, a tenth to a half of it, in units of the information's diagonal.
func TestClimbDown(t *testing.T) {
	m, _ := modelOf(1)
	at, score, h := []float64{1, 0}, []float64{2, 3}, []float64{4, 9}
	for _, was := range []float64{0, 0.5} {
		for _, fall := range []float64{0.1, 3, 1000} {
			trial := []float64{1 + 0.5/(1+was), 1.0 / 3 / (1 + was)}
			c := progress.Climb{At: at, Trial: trial, LogLikelihood: -100, Promise: 1, Damping: was, Refused: 2, Proportions: []float64{1}}
			c.Curvature = numeric.AppendFloats(nil, append(slices.Clone(score), triangle(h)...))
			got, err := ascend(c, pointOf(-100-fall, 10, 1, []float64{9, 9}, []float64{1, 1}), layoutOf(m), nil)
			if err != nil {
				t.Fatal(err)
			}
			length := func(move []float64) float64 { return math.Sqrt(4*move[0]*move[0] + 9*move[1]*move[1]) }
			move := []float64{trial[0] - at[0], trial[1] - at[1]}
			slope := 2*move[0] + 3*move[1]
			best, top := 0.0, math.Inf(-1)
			for i := range 100_001 { // f(0) = 0, f′(0) = slope, f(1) = −fall
				if s := float64(i) / 100_000; slope*s-(fall+slope)*s*s > top {
					best, top = s, slope*s-(fall+slope)*s*s
				}
			}
			most := max(0.1, min(0.5, best)) * length(move)
			damping := max(1e-3, 4*was)
			for length([]float64{0.5, 1. / 3})/(1+damping) > most {
				damping *= 4
			}
			next := []float64{1 + 0.5/(1+damping), 1. / 3 / (1 + damping)}
			if !slices.Equal(got.At, at) || got.LogLikelihood != -100 || got.Refused != 3 || got.Ended != "" || math.Abs(got.Damping-damping) > 1e-12 || !floats.EqualApprox(got.Trial, next, 1e-14) {
				t.Errorf("damping %v, a fall by %v: at %v with %v, refused %d, damping %v, trial %v; want %v, %v", was, fall, got.At, got.LogLikelihood, got.Refused, got.Damping, got.Trial, damping, next)
			}
		}
	}
}

// TestClimbEnds: a small step ends a climb, converged where nothing damped it; an information that is
// not positive definite is damped by powers of ten, one that is nothing but NaN ends it.
func TestClimbEnds(t *testing.T) {
	for name, c := range map[string]struct {
		score, h []float64
		damping  float64
		ended    string
		used     float64
	}{
		"small":           {[]float64{1e-10, 1e-10}, []float64{1, 1}, 0, progress.Converged, 0},
		"hardly damped":   {[]float64{1e-10, 1e-10}, []float64{1, 1}, undamped, progress.Converged, undamped},
		"small by damped": {[]float64{1e-10, 1e-10}, []float64{1, 1}, 1e-3, progress.Stalled, 1e-3},
		"a saddle":        {[]float64{1, 1}, []float64{4, -4}, 0, "", 10},
		"no number":       {[]float64{1, 1}, []float64{math.NaN(), 1}, 0, progress.Stalled, 0},
		"larger":          {[]float64{1e-8, 1e-8}, []float64{1, 1}, 0, "", 0},
	} {
		at := []float64{1, 0}
		m, _ := modelOf(1)
		got := &climb{Climb: progress.Climb{At: at, Damping: c.damping}, l: layoutOf(m)}
		got.load(append(slices.Clone(c.score), triangle(c.h)...))
		if err := got.step(math.Inf(1)); err != nil {
			t.Fatal(err)
		}
		if got.Ended != c.ended || math.Abs(got.Damping-c.used) > 1e-12 || (got.Trial == nil) != (c.ended != "") || (c.ended == progress.Converged) != (got.At[0] != 1) {
			t.Errorf("%s: ended %q with damping %v at %v, trial %v", name, got.Ended, got.Damping, got.At, got.Trial)
		}
	}
}

// TestClimbAtKink: with kinks a climb ends where a step of a small promise, or one that led down by
// little, has kept less than half of it; without kinks, or in the first pass, never.
func TestClimbAtKink(t *testing.T) {
	m, _ := modelOf(1)
	for name, c := range map[string]struct {
		promise, gain, damping float64
		kinks                  []float64
		kink                   bool
	}{
		"little kept of little": {0.009, 0.004, 0, []float64{0}, true},
		"at no kink":            {0.009, 0.004, 0, nil, false},
		"half kept":             {0.008, 0.0041, 0, []float64{0}, false},
		"less than half kept":   {0.008, 0.0039, 0, []float64{0}, true},
		"more promised, up":     {0.04, 0.004, 0, []float64{0}, false},
		"more promised, down":   {0.04, -0.004, 0, []float64{0}, true},
		"and damped":            {0.04, -0.004, leastDamping, []float64{0}, true},
		"and damped more":       {0.04, -0.004, 2 * leastDamping, []float64{0}, false},
		"too much promised":     {0.06, -0.004, 0, []float64{0}, false},
		"down by too much":      {0.04, -0.011, 0, []float64{0}, false},
		"down by most":          {0.04, -0.0099, 0, []float64{0}, true},
	} {
		in := progress.Climb{At: []float64{1, 0}, Trial: []float64{1.5, 3}, LogLikelihood: -1, Promise: c.promise, Damping: c.damping, Proportions: []float64{1}}
		in.Curvature = numeric.AppendFloats(nil, append([]float64{2, 3}, triangle([]float64{4, 9})...))
		got, err := ascend(in, pointOf(-1+c.gain, 10, 1, []float64{2, 3}, []float64{4, 9}), layoutOf(m), c.kinks)
		if err != nil {
			t.Fatal(err)
		}
		if kink := got.Ended == progress.AtKink; kink != c.kink || kink && (math.Abs(got.size-3) > 1e-15 || math.Abs(got.Fell-max(0, -c.gain)) > 1e-15) {
			t.Errorf("%s: ended %q, a step of %v, fell %v", name, got.Ended, got.size, got.Fell)
		}
	}
	first, err := ascend(progress.Climb{At: []float64{1, 0}, Proportions: []float64{1}}, pointOf(-1, 10, 1, []float64{2, 3}, []float64{4, 9}), layoutOf(m), []float64{0})
	if err != nil || first.Ended != "" || first.LogLikelihood != -1 || !floats.EqualApprox(first.Trial, []float64{1.5, 1. / 3}, 1e-15) {
		t.Errorf("a first pass: %+v, error %v", first, err)
	}
}

// TestStanding: what becomes of a climb beside the best, whose log-likelihood is 0.
func TestStanding(t *testing.T) {
	const agree, stay, go_ = "agrees", "stays", "goes"
	for name, c := range map[string]struct {
		best, ended              string
		behind, promise, damping float64
		apart                    float64
		last                     bool
		want                     string
	}{
		"both ended near in height":        {progress.Converged, progress.Converged, 0.4, 0, 0, 1, false, agree},
		"both ended, one at a kink":        {progress.AtKink, progress.Converged, 0.4, 0, 0, 1, false, agree},
		"ended, the best goes on":          {"", progress.Converged, 0.4, 0, 0, 1, false, go_},
		"goes on near one that ended":      {progress.Converged, "", 0.4, 1, 0, 1, false, stay},
		"both go on":                       {"", "", 0.4, 1, 0, 1, false, stay},
		"both go on at one point":          {"", "", 0.4, 1, 0, 0.5e-3, false, agree},
		"at one point and too far below":   {"", "", 0.6, 1, 0, 0.5e-3, false, stay},
		"ended below":                      {progress.Converged, progress.Converged, 0.6, 0, 0, 1, false, go_},
		"stalled below":                    {"", progress.Stalled, 30, 0, 0, 1, false, go_},
		"undamped, 3 promises behind":      {"", "", 6.5, 2, 0, 1, false, stay},
		"undamped, 5 promises behind":      {"", "", 10.5, 2, 0, 1, false, go_},
		"damped, 5 promises behind":        {"", "", 10.5, 2, 1e-3, 1, false, stay},
		"damped, 13 promises behind":       {"", "", 26.5, 2, 1e-3, 1, false, stay},
		"and the best has converged":       {progress.Converged, "", 26.5, 2, 1e-3, 1, false, go_},
		"and the best is at a kink":        {progress.AtKink, "", 26.5, 2, 1e-3, 1, false, go_},
		"and the best has stalled":         {progress.Stalled, "", 26.5, 2, 1e-3, 1, false, stay},
		"11 promises behind one converged": {progress.Converged, "", 22.5, 2, 1e-3, 1, false, stay},
		"in the last pass":                 {progress.Converged, "", 22.5, 2, 1e-3, 1, true, go_},
		"in the last pass, none converged": {"", "", 22.5, 2, 1e-3, 1, true, stay},
		"in the last pass, one stalled":    {progress.Stalled, "", 22.5, 2, 1e-3, 1, true, stay},
	} {
		best := &climb{Climb: progress.Climb{At: []float64{0, 5}, Ended: c.best, Agreeing: 3, Met: 1}}
		other := &climb{Climb: progress.Climb{At: []float64{c.apart, 5}, LogLikelihood: -c.behind, Ended: c.ended, Promise: c.promise, Damping: c.damping, Agreeing: 4, Met: 2}}
		out := standing([]*climb{other, best}, c.last)
		got := go_
		if len(out) == 2 {
			got = stay
		} else if best.Agreeing == 7 && best.Met == 3 {
			got = agree
		}
		if out[0] != best || got != c.want || got != agree && (best.Agreeing != 3 || best.Met != 1) {
			t.Errorf("%s: it %s, want %s; the best has %d and %d", name, got, c.want, best.Agreeing, best.Met)
		}
	}
}

// TestReason: why passes end, by what moves most and what the next step promises.
func TestReason(t *testing.T) {
	m, dim := modelOf(2)
	l := likelihoodOf(m.Params(), freeOf(m), nil)
	if l.Dim() != dim {
		t.Fatalf("%d parameters, want %d", l.Dim(), dim)
	}
	gate := slices.IndexFunc(l.Parameters(), func(p loss.Parameter) bool { return p.Part == model.Gate })
	for name, c := range map[string]struct {
		at, gate, other, promise float64
		ended                    string
		want                     string
	}{
		"stalled":               {0, 1, 0, 0.1, progress.Stalled, "no step from there raises"},
		"the gate grows":        {0, 1, 0.5, 0.1, "", "the gate's coefficients grow, for 0.1 of"},
		"from far out":          {100, 0.5, 0.001, 0.1, "", "steps are still above 1e-09, for 0.1 of"},
		"and by much of it":     {100, 2, 0.001, 0.1, "", "the gate's coefficients grow"},
		"another grows":         {0, 0.5, 1, 0.1, "", "steps are still above"},
		"by little":             {0, 0.009, 0, 0.1, "", "steps are still above"},
		"the gate for much":     {0, 1, 0.5, 1, "", "the next step still promises 1 of"},
		"another for much":      {0, 0.5, 1, 7, "", "the next step still promises 7 of"},
		"the gate for nearly 1": {0, 1, 0.5, 0.99, "", "the gate's coefficients grow"},
	} {
		x := &climb{Climb: progress.Climb{At: make([]float64, dim), Trial: make([]float64, dim), Promise: c.promise, Ended: c.ended}}
		x.At[gate], x.Trial[gate], x.Trial[0] = c.at, c.at+c.gate, -c.other
		if got := reason(x, l); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestClimbsOfModels: one climb begins at a model without any; of those in its file one to four go on, each
// with the model's number of parameters.
func TestClimbsOfModels(t *testing.T) {
	m, dim := modelOf(2)
	one, err := climbsOf(m)
	if err != nil || len(one) != 1 || !slices.Equal(one[0].At, likelihoodOf(m.Params(), freeOf(m), nil).Theta(m.Params())) || one[0].Trial != nil {
		t.Errorf("%+v, error %v", one, err)
	}
	for _, c := range []struct {
		going, ended, dim int
		want              string // "" for none
	}{
		{1, 0, dim, ""}, {4, 0, dim, ""}, {4, 3, dim, ""}, {1, 5, dim, ""}, {5, 0, dim, "has 5 that go on, want 1 to 4"}, {0, 2, dim, "has 0 that go on"}, {1, 1, dim + 1, "has 5 parameters, the model 4"},
	} {
		m.Fit.Climbs = nil
		for i := range c.going + c.ended {
			climb := progress.Climb{At: make([]float64, c.dim)}
			if i >= c.going {
				climb.Ended = progress.Stalled
			}
			m.Fit.Climbs = append(m.Fit.Climbs, climb)
		}
		got, err := climbsOf(m)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && len(got) != c.going+c.ended {
			t.Errorf("%+v: %d climbs, error %v", c, len(got), err)
		}
	}
}

// TestLastPass: in the last of twelve passes what is behind a climb that has converged is given up, and one that
// stands at a kink but for steps that do not matter ends; in the one before neither does. The criteria are
// those of 4 parameters and the rows' weight.
func TestLastPass(t *testing.T) {
	const n = 250.0
	four := func(v float64) []float64 { return slices.Repeat([]float64{v}, 4) }
	for _, pass := range []int{MostPasses - 1, MostPasses, 2*MostPasses - 1, 2 * MostPasses} {
		m, _ := modelOf(2)
		m.Fit.Method, m.Fit.Iterations = Method, pass-1
		converged := progress.Climb{At: []float64{0.5, -0.5, 1, 0}, LogLikelihood: -100, Proportions: []float64{0.5, 0.5}, Ended: progress.Converged}
		converged.Curvature = numeric.AppendFloats(nil, append(four(0), triangle(four(1))...))
		behind := progress.Climb{At: []float64{3, 2, 1, 0}, Trial: []float64{4, 3, 2, 1}, LogLikelihood: -150, Promise: 10, Damping: 0.01, Proportions: []float64{0.5, 0.5}}
		behind.Curvature = numeric.AppendFloats(nil, append(four(1), triangle(four(1))...))
		m.Fit.Climbs = []progress.Climb{converged, behind}
		s, err := step(m, &Sums{points: []point{pointOf(-141, n, 2, four(2), four(1))}})
		if err != nil {
			t.Fatal(err)
		}
		last := pass%MostPasses == 0
		if s.Pass != pass || s.Converged != last || (s.Climbs == 0) != last || s.AtKink {
			t.Errorf("pass %d: converged %v with %d climbs, at a kink %v", s.Pass, s.Converged, s.Climbs, s.AtKink)
		}
		if f := m.Fit; f.LogLikelihood != -100 || math.Abs(f.BIC-(4*math.Log(n)+200)) > 1e-12 || f.AIC != 208 || f.Iterations != pass {
			t.Errorf("pass %d: log-likelihood %v, BIC %v, AIC %v", pass, f.LogLikelihood, f.BIC, f.AIC)
		}
		for name, c := range map[string]struct {
			gain, score, h float64
			kinks          []float64
			kink           bool
		}{
			"little left":   {0.001, 1e-4, 1, []float64{0}, true},
			"no kinks":      {0.001, 1e-4, 1, nil, false},
			"a long step":   {0.001, 1e-2, 1, []float64{0}, false},
			"a promise":     {0.001, 500, 1e6, []float64{0}, false},
			"it rose still": {0.02, 1e-4, 1, []float64{0}, false},
		} {
			m, _ := modelOf(2)
			m.Fit.Method, m.Fit.Iterations = Method, pass-1
			m.Fit.Climbs = []progress.Climb{{At: []float64{0.4, -0.5, 1, 0}, Trial: []float64{0.5, -0.5, 1, 0}, LogLikelihood: -100, Promise: c.gain, Proportions: []float64{0.5, 0.5}}}
			s, err := step(m, &Sums{newtonHeader: newtonHeader{Kinks: c.kinks}, points: []point{pointOf(-100+c.gain, n, 2, four(c.score), four(c.h))}})
			if err != nil {
				t.Fatal(err)
			}
			if want := c.kink && last; s.AtKink != want || s.Converged != want || s.GoOn() != (want && m.Fit.Passes != nil || !last) || (s.Reason != "") != (last && !want) {
				t.Errorf("pass %d, %s: at a kink %v, converged %v, goes on %v, %q", pass, name, s.AtKink, s.Converged, s.GoOn(), s.Reason)
			}
		}
	}
}

// TestDrawsFromFiles: of a certificate's rows the weights are above 0 and the experts those there are.
func TestDrawsFromFiles(t *testing.T) {
	m, _ := modelOf(2)
	spec, err := specificationOf(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	sums := numeric.AppendFloats(nil, make([]float64, len(newTests(spec, m).sumsValues())))
	good := []float64{1.5, 2, 0, -3, 0.25, 1} // x, weight, expert
	got, err := loadTests(m, dataset.Roles{}, map[string][]byte{"tests": sums, "draws": numeric.AppendFloats(nil, good)})
	if err != nil || !slices.Equal(got.drawn.X, []float64{1.5, -3}) || !slices.Equal(got.drawn.Weight, []float64{2, 0.25}) || !slices.Equal(got.drawn.Expert, []int{0, 1}) {
		t.Errorf("%+v, error %v", got, err)
	} else if !slices.Equal(got.drawnValues(), good) {
		t.Errorf("written again %v", got.drawnValues())
	}
	for name, rows := range map[string][]float64{
		"no weight": {1, 0, 0}, "a negative weight": {1, -1, 0}, "expert 2": {1, 1, 2}, "expert -1": {1, 1, -1}, "half an expert": {1, 1, 0.5},
		"half a row": {1, 1}, "no number": {math.NaN(), 1, 0}, "an infinite weight": {1, math.Inf(1), 0},
	} {
		if _, err := loadTests(m, dataset.Roles{}, map[string][]byte{"tests": sums, "draws": numeric.AppendFloats(nil, rows)}); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	if _, err := loadTests(m, dataset.Roles{}, map[string][]byte{"tests": sums, "draws": nil, "more": nil}); err == nil {
		t.Error("a third body is read")
	}
	if _, err := loadTests(m, dataset.Roles{}, map[string][]byte{"tests": sums[8:], "draws": nil}); err == nil {
		t.Error("too few sums are read")
	}
}

// TestLength: of a step, in units of the information's diagonal, of which what is next to nothing counts as 1e−24
// of the largest.
func TestLength(t *testing.T) {
	c := &climb{Climb: progress.Climb{At: make([]float64, 3)}}
	c.load(append([]float64{0, 0, 0}, triangle([]float64{4, -9, 0})...))
	want := math.Sqrt(4*1 + 9*4 + 9e-24*1e24)
	if got := c.length([]float64{1, -2, 1e12}); math.Abs(got-want) > 1e-12 {
		t.Errorf("length %v, want %v", got, want)
	}
}

// TestPointsWithoutDensity: where the log-likelihood is not finite a pass cannot begin, and a step that leads there is
// one far down.
func TestPointsWithoutDensity(t *testing.T) {
	m, dim := modelOf(2)
	line := sdk.Func{Name: "line", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}
	data := &model.Data{N: 3, D: 1, Blocks: []model.Block{{N: 3, X: []float64{1, 2, 3}, Y: []float64{1, 2, 4}}}}
	n := &Sums{newtonHeader: newtonHeader{Table: shard.Table{Features: []string{"x"}, Target: "y", Rows: 3}}}
	for _, must := range []bool{true, false} {
		v, err := n.sumPoint(t.Context(), m, must, line, data, 1)
		if err != nil || len(v) != sumsOf(2, dim) || !numeric.Finite(v...) || v[0] == nowhere || v[1] != 3 {
			t.Errorf("%v, error %v", v, err)
		}
	}
	m.Sigma = fitted.Sigma{1e-200}
	if _, err := n.sumPoint(t.Context(), m, true, line, data, 1); err == nil || !strings.Contains(err.Error(), "the log-likelihood of the model is not finite on these rows") {
		t.Errorf("where a pass begins: %v", err)
	}
	v, err := n.sumPoint(t.Context(), m, false, line, data, 1)
	if err != nil || v[0] != nowhere || v[1] != 3 || floats.Norm(v[2:], 1) != 0 {
		t.Errorf("where a step leads: %v, error %v", v, err)
	}
	// A pass must have its first point, and no trial.
	for _, trial := range [][]float64{nil, {0.5, -0.5, 1, -460}} {
		m, _ := modelOf(2)
		c := progress.Climb{At: []float64{0.5, -0.5, 1, 0}, Trial: trial}
		if trial == nil {
			c.At[3] = -460 // log σ: σ is 1e−200
		}
		m.Fit.Climbs = []progress.Climb{c}
		pass := &Sums{newtonHeader: n.newtonHeader}
		err := pass.pass(t.Context(), m, line, data, 0, 1)
		if (err == nil) != (trial != nil) || err == nil && (len(pass.points) != 1 || pass.points[0].sums[0] != nowhere) {
			t.Errorf("trial %v: error %v", trial, err)
		}
	}
}

// ForgetKinks makes a part as versions before wrote it, without the rows next to kinks.
func ForgetKinks(n *Sums) {
	for i := range n.points {
		n.points[i].kinks = nil
	}
}
