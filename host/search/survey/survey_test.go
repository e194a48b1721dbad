package survey

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// TestSurveyIsTheSame at any number of threads, and its best is at least as good as
// each of its starts.
func TestSurveyIsTheSame(t *testing.T) {
	testslow.Mark(t)
	var first *search.Survey
	for threads := 1; threads <= 3; threads++ {
		p := searchtest.Quadrants(t, 200, threads)
		s, err := Small(t.Context(), p, searchtest.Measure(t, p), 8)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = s
		}
		if diff := cmp.Diff(first, s, same, cmp.AllowUnexported(search.Survey{})); diff != "" {
			t.Fatalf("%d threads: %s", threads, diff)
		}
	}
	if len(first.Best) == 0 || first.Starts < surveyWave || first.Best[0].Run.Status != optim.Converged {
		t.Errorf("%+v", first)
	}
	for _, c := range first.Best[1:] {
		if search.Compare(c, first.Best[0]) < 0 {
			t.Errorf("an optimum at %v before one at %v", first.Best[0].Run.Value, c.Run.Value)
		}
	}
}

// TestSurveyIsOfSmallTables: none where the rows or the starts are not for it, or there
// is nothing to look for.
func TestSurveyIsOfSmallTables(t *testing.T) {
	large, _ := searchtest.Drawn(t, identity.Family, 2, 10, 10_000, 0.1, 1, problem.Request{})
	one := searchtest.Parallels(t, 50, 1, func(int) float64 { return 0 }, problem.Request{})
	small := searchtest.Quadrants(t, 60, 1)
	for _, c := range []struct {
		p      *problem.Problem
		starts int
		want   bool
	}{{large, search.DefaultStarts, false}, {one, search.DefaultStarts, false}, {small, 1, false}, {small, leastStarts, true}} {
		s, err := Small(t.Context(), c.p, searchtest.Measure(t, c.p), c.starts)
		if err != nil {
			t.Fatal(err)
		}
		if (s != nil) != c.want {
			t.Errorf("%d rows, k = %d, %d starts: survey %+v", c.p.N(), c.p.Shape.K, c.starts, s)
		}
	}
}

// TestSurveyCounts: optima are values within half a unit of log-likelihood of the best of
// them, and moves count for none; by hand.
func TestSurveyCounts(t *testing.T) {
	p := searchtest.Parallels(t, 100, 2, func(r int) float64 { return float64(r % 2 * 9) }, problem.Request{})
	for _, c := range []struct {
		below                []float64 // the best, in total; negative: a move that many below
		optima, singles, met int
		unseen               float64 // of 10 starts
	}{
		{[]float64{0, 0.1, 0.4, 3, 3.2, 7}, 3, 1, 3, 0.1},
		{[]float64{0, 0.1, 0.4}, 1, 0, 3, 0},
		{[]float64{-0.001, 2, 4, 4.1}, 2, 1, 0, 0.2}, // the best was met by a move alone
		{[]float64{0, -0.2, 5, -5.1}, 2, 2, 1, 0.2},
	} {
		s := &surveyor{problem: p, Survey: search.Survey{Starts: 10}}
		for _, v := range c.below {
			one := ended(math.Abs(v)/100, optim.Converged, false)
			one.Kind = starts.KindRandom
			if v < 0 {
				one.Kind = starts.KindMove
			}
			s.pool = append(s.pool, one)
		}
		s.Count(s.pool, p.Count())
		if s.Optima != c.optima || s.Singles != c.singles || s.Met != c.met || math.Abs(s.Unseen()-c.unseen) > 1e-12 {
			t.Errorf("%v: %+v, unseen %v, want %+v", c.below, s.Survey, s.Unseen(), c)
		}
	}
}

// TestWithSoftGate: the steepest gate has the norm softest, the directions stay, and soft
// gates stay as they are.
func TestWithSoftGate(t *testing.T) {
	p := model.NewParams(3, 2)
	copy(p.Gating, []float64{30, 40, 3, 0})
	p.GatingIntercepts = []float64{10, -5}
	q := withSoftGate(p)
	factor := softest / 50.0
	for i, v := range p.Gating {
		if math.Abs(q.Gating[i]-factor*v) > 1e-12 {
			t.Errorf("gate %v, want %v times %v", q.Gating, factor, p.Gating)
		}
	}
	if math.Abs(q.GatingIntercepts[0]-factor*10) > 1e-12 {
		t.Errorf("intercepts %v", q.GatingIntercepts)
	}
	if again := withSoftGate(q); !slices.Equal(again.Gating, q.Gating) {
		t.Errorf("a soft gate became %v", again.Gating)
	}
}

// TestScope: where g has kinks a survey is made of larger tables, and rows count as few up to more of them.
func TestScope(t *testing.T) {
	for _, c := range []struct {
		family sdk.Family
		few    int // rows for each parameter up to which they are few
	}{{identity.Family, 20}, {relu.Family, 60}} {
		p, _ := searchtest.Drawn(t, c.family, 2, 3, 100, 0.1, 1, problem.Request{})
		got := scopeOf(p)
		if got.fewRows != c.few || (got.largest > 150_000) != (c.few > 20) {
			t.Errorf("%+v", got)
		}
		most := c.few * p.Shape.Parameters()
		for n, want := range map[int]bool{most - 1: true, most: false} {
			of := *p
			of.Rows = &model.Data{N: n, D: 3}
			if few := (&surveyor{problem: &of, scope: got}).few(); few != want {
				t.Errorf("%d rows of %d parameters are few: %v", n, p.Shape.Parameters(), few)
			}
		}
	}
}

// TestEnough: sixteen starts of which three have met the best and no more than a twentieth an optimum alone, unless
// rows are few.
func TestEnough(t *testing.T) {
	p := &problem.Problem{Rows: &model.Data{N: 10_000}, Shape: problem.Shape{K: 2, D: 1}}
	for _, c := range []struct {
		starts, met, singles int
		few                  int
		want                 bool
	}{
		{16, 3, 0, 20, true}, {15, 3, 0, 20, false}, {16, 2, 0, 20, false}, {16, 3, 1, 20, false}, {20, 3, 1, 20, true}, {40, 3, 2, 20, true},
		{40, 3, 3, 20, false}, {16, 3, 0, 1_000_000, false},
	} {
		s := &surveyor{problem: p, scope: scope{fewRows: c.few}, Survey: search.Survey{Starts: c.starts, Met: c.met, Singles: c.singles}}
		if got := s.enough(); got != c.want {
			t.Errorf("%+v: enough %v", c, got)
		}
	}
	if got, want := CostOf(p, &search.Candidate{Run: &optim.Result{Iterations: 7}}), 7*(10_000*float64(p.Shape.Parameters())+2048); got != want {
		t.Errorf("seven iterations cost %v, want %v", got, want)
	}
}

// TestEnoughOfATree: 128 starts of which a quarter has met the best and the others at most three optima, however many or few the rows are; an iteration
// counts half as much again as under one gate.
func TestEnoughOfATree(t *testing.T) {
	p := &problem.Problem{Rows: &model.Data{N: 100}, Shape: problem.Shape{K: 4, D: 2, Tree: searchtest.Tree(t, "2x2")}}
	for _, c := range []struct {
		starts, met, singles, optima int
		want                         bool
	}{{128, 32, 0, 4, true}, {128, 32, 0, 5, false}, {127, 32, 0, 1, false}, {128, 31, 0, 1, false}, {128, 32, 7, 1, false}, {1000, 249, 0, 1, false}, {1000, 250, 50, 4, true}} {
		s := &surveyor{problem: p, scope: surveys.smooth, Survey: search.Survey{Starts: c.starts, Met: c.met, Singles: c.singles, Optima: c.optima}}
		if got := s.enough(); got != c.want {
			t.Errorf("%+v: enough %v", c, got)
		}
	}
	if got, want := CostOf(p, &search.Candidate{Run: &optim.Result{Iterations: 7}}), 7*(1.5*100*15+2048); got != want {
		t.Errorf("seven iterations cost %v, want %v", got, want)
	}
}

// TestElites: four optima that are half a unit of log-likelihood apart and four that are a tenth, of those within the gap
// of the best: two units for 100 rows.
func TestElites(t *testing.T) {
	for _, c := range []struct{ below, want []float64 }{
		{[]float64{0, 0.05, 0.15, 0.3, 0.6, 0.9, 1.2, 1.9}, []float64{0, 0.6, 1.2, 1.9, 0.15, 0.3}},
		{[]float64{0, 0.6, 1.2, 1.8, 1.95}, []float64{0, 0.6, 1.2, 1.8}},
		{[]float64{0, 1.5, 2.1}, []float64{0, 1.5}},
		{[]float64{0, 0.12, 0.2, 0.23, 0.36, 0.48}, []float64{0, 0.12, 0.23, 0.36}},
		{nil, nil},
	} {
		var pool []*search.Candidate
		for _, v := range c.below {
			pool = append(pool, ended(v/100-7, optim.Converged, false))
		}
		var got []float64
		for _, c := range elites(pool, 100) {
			got = append(got, math.Round((c.Run.Value+7)*1e4)/100)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.below, got, c.want)
		}
	}
}

// TestSurveyEnds: starts that all meet one optimum end after sixteen, of all kinds, and moves after eight. Where rows are
// few, starts go on for half of the work, and moves until thirty for each expert have gained nothing.
func TestSurveyEnds(t *testing.T) {
	for _, c := range []struct{ n, starts, moves int }{{400, 16, 8}, {100, 17, 64}} {
		p := searchtest.Parallels(t, c.n, 2, func(r int) float64 { return float64(r%2) * 9 }, problem.Request{})
		s, err := Small(t.Context(), p, searchtest.Measure(t, p), 8)
		if err != nil {
			t.Fatal(err)
		}
		kinds := slices.Sorted(slices.Values(s.Kinds))
		want := []string{starts.KindKMeans, starts.KindPartition, starts.KindRandom, starts.KindResiduals, starts.KindRows, starts.KindTrimmed}
		if s.Moves != c.moves || (s.Starts == 16) != (c.starts == 16) || s.Starts < c.starts || s.Optima != 1 || s.Met < search.LeastMet || !slices.Equal(kinds, want) {
			t.Errorf("%d rows: %+v", c.n, s)
		}
	}
}

// TestSurveyRuns: a run goes on unless it is behind the best by what a hundred of its iterations would gain, or 3 units of
// log-likelihood; then its path is carried on.
func TestSurveyRuns(t *testing.T) {
	for _, c := range []struct {
		n     int
		ahead float64
		ends  bool
	}{{100, 0.02, false}, {100, 0.04, true}, {1000, 0.009, false}, {1000, 0.02, true}, {100, math.Inf(-1), false}} {
		p := searchtest.Parallels(t, c.n, 2, func(r int) float64 { return float64(r % 2) }, problem.Request{})
		rows, err := partition.New(t.Context(), p, p.Rows)
		if err != nil {
			t.Fatal(err)
		}
		s := &surveyor{problem: p, rows: rows}
		s.likelihoods = &likelihoods{new: s.likelihood, reuse: true}
		start := from(searchtest.At(p, 0.5, -0.5, 0.7))
		begun := &search.Candidate{Kind: starts.KindMove}
		if err := s.begin(t.Context(), begun, start, nil, math.Inf(1)); err != nil || begun.Run.Status != optim.Converged || begun.Rows != c.n {
			t.Fatalf("%+v, error %v", begun.Run, err)
		}
		// Beside a best a unit a row ahead it is given up on its way.
		behind := &search.Candidate{Kind: starts.KindMove}
		if err := s.begin(t.Context(), behind, start, nil, begun.Run.Value-1); err != nil || behind.Run.Status != optim.Stopped || behind.Run.Iterations >= begun.Run.Iterations {
			t.Errorf("%v after %d iterations of %d, error %v", behind.Run.Status, behind.Run.Iterations, begun.Run.Iterations, err)
		}
		was := *begun.Run
		was.Trace = slices.Clone(was.Trace)
		if err := s.complete(t.Context(), begun, was.Value-c.ahead); err != nil {
			t.Fatal(err)
		}
		run := begun.Run
		if ended := run.Status == optim.Stopped; ended != c.ends {
			t.Errorf("%d rows, %v behind: %v", c.n, c.ahead, run.Status)
		}
		more := len(run.Trace) - len(was.Trace)
		if more < 0 || !slices.Equal(run.Trace[:len(was.Trace)], was.Trace) || run.Iterations != was.Iterations+more || (more == 0) != c.ends {
			t.Errorf("%d iterations by %v, after %d by %v", run.Iterations, run.Trace, was.Iterations, was.Trace)
		}
		for i := 1; i < len(run.Trace); i++ {
			if run.Trace[i] >= run.Trace[i-1] {
				t.Errorf("point %d of %d is no lower: %v", i, len(run.Trace), run.Trace)
			}
		}
	}
	s := &surveyor{}
	for _, c := range []*search.Candidate{ended(math.NaN(), optim.Converged, false), ended(1, optim.Stopped, false), ended(1, optim.IterationLimit, false)} {
		was := *c.Run
		if err := s.complete(t.Context(), c, 1); err != nil || c.Run.Status != was.Status || c.Params != nil {
			t.Errorf("%+v went on, error %v", c.Run, err)
		}
	}
}

// TestVary: half of the starts begin with three tenths of their noise, and a third with regressors of unlike sizes. Bounds are
// four standard errors.
func TestVary(t *testing.T) {
	const draws = 900
	cold, unlike := 0, 0
	logs, squares := 0.0, 0.0
	for seed := range uint64(draws) {
		q := model.NewParams(2, 1)
		copy(q.Regressors, []float64{2, -2})
		q.Sigma[0] = 2
		vary(rand.New(rand.NewPCG(seed, 0)), q.K, q.Regressors, q.Sigma)
		if q.Sigma[0] != 2 {
			cold++
			if q.Sigma[0] != 0.6 {
				t.Fatalf("noise %v", q.Sigma[0])
			}
		}
		if q.Regressors[0] != 2 {
			unlike++
			for _, a := range []float64{q.Regressors[0] / 2, q.Regressors[1] / -2} {
				logs += math.Log(a)
				squares += math.Log(a) * math.Log(a)
			}
		}
	}
	if math.Abs(float64(cold)-draws/2) > 4*math.Sqrt(draws)/2 || math.Abs(float64(unlike)-draws/3) > 4*math.Sqrt(draws*2./9) {
		t.Errorf("%d cold and %d unlike of %d", cold, unlike, draws)
	}
	n := float64(2 * unlike)
	if math.Abs(logs/n) > 4/math.Sqrt(n) || math.Abs(squares/n-1) > 4*math.Sqrt(2/n) {
		t.Errorf("logs of sizes: mean %v, mean square %v", logs/n, squares/n)
	}
}

// TestSettled: soft starts have seen enough when there are sixteen and three have met the best of them; half of them where
// rows are few.
func TestSettled(t *testing.T) {
	p := &problem.Problem{Rows: &model.Data{N: 100}, Shape: problem.Shape{K: 2, D: 1}}
	for _, c := range []struct {
		all, met int
		pairs    bool // the others, but an odd one, two at each optimum
		few      bool
		want     bool
	}{
		{15, 15, true, false, false}, {16, 16, false, false, true},
		{16, 2, true, false, false}, {17, 3, true, false, true}, {16, 3, true, false, false}, {20, 3, true, false, true},
		{19, 18, false, false, false}, {20, 19, false, false, true}, {40, 37, false, false, false}, {40, 38, false, false, true},
		{16, 3, false, true, false}, {16, 7, false, true, false}, {16, 8, false, true, true}, {40, 19, false, true, false}, {40, 20, false, true, true},
	} {
		s := &softStarts{problem: p, least: leastSurveyed, few: c.few}
		var ends []*search.Candidate
		for i := range c.all {
			v := 0.4 // of half a unit that two may be apart
			if i == 0 {
				v = 0
			}
			if other := i - c.met; other >= 0 && c.pairs {
				v = 1 + float64(other/2)
			} else if other >= 0 {
				v = 1 + float64(other)
			}
			ends = append(ends, ended(3+v/100, optim.Converged, false))
		}
		if got := s.settled(ends, len(ends)+2); got != c.want {
			t.Errorf("%+v: settled %v", c, got)
		}
	}
	s, one := &softStarts{problem: p, least: leastSurveyed}, []*search.Candidate{ended(3, optim.Converged, false)}
	if s.settled(nil, leastSurveyed-1) || !s.settled(nil, leastSurveyed) || s.settled(one, 2*leastSurveyed) {
		t.Error("runs of which all are inadmissible are not those that end a search")
	}
}

// TestRunByEM: a soft start that is within 4 units of the best when its steps gain little goes on until they gain less.
func TestRunByEM(t *testing.T) {
	const n = 60
	p := searchtest.Quadrants(t, n, 1)
	s := &softStarts{problem: p, likelihoods: &likelihoods{new: func() search.Surface { return (&search.Task{Problem: p}).Surface(p.Rows) }}, steps: climb.MostSteps}
	start := starts.Random(p, searchtest.Measure(t, p))
	end := func(best float64) *search.Candidate {
		c := &search.Candidate{Kind: start.Kind}
		if err := s.runByEM(t.Context(), c, start, rand.New(rand.NewPCG(2, 0)), best); err != nil || c.Rows != n {
			t.Fatalf("%+v, error %v", c, err)
		}
		return c
	}
	short := end(math.Inf(-1))
	for behind, far := range map[float64]bool{-1: true, 3.9: true, 4.1: false} {
		c := end(short.Run.Value - behind/n)
		if went := c.Run.Iterations > short.Run.Iterations; went != far || (c.Run.Value < short.Run.Value) != far {
			t.Errorf("%v behind: %v after %d, %v after %d when steps gain little", behind, c.Run.Value, c.Run.Iterations, short.Run.Value, short.Run.Iterations)
		}
	}
}

// ofHalves is a surveyor of that many rows of two halves, where only the end of a run that begins at the truth has been seen.
func ofHalves(t *testing.T, n int, slope, most float64) *surveyor {
	t.Helper()
	p, truth := searchtest.Halves(t, n, slope)
	rows, err := partition.New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	s := &surveyor{problem: p, scope: scopeOf(p), rows: rows, most: most}
	s.likelihoods = &likelihoods{new: s.likelihood, reuse: true}
	s.kinds = surveyStarts(p, searchtest.Measure(t, p), rows)
	l := searchtest.Likelihood(p, rows.Data)
	run, err := climb.EMUntilComparable(t.Context(), l, l.Theta(truth), 1000)
	if err != nil {
		t.Fatal(err)
	}
	s.pool = []*search.Candidate{{Kind: starts.KindRandom, Run: run, Params: l.Params(run.X), Rows: n}}
	s.Starts = 1
	return s
}

// TestSoftCurvature: soft starts go by the exact curvature of the gate; from 20 rows a parameter on about every second reuses it.
func TestSoftCurvature(t *testing.T) {
	const parameters = 10 // of two experts of two features and an intercept, their gate and a sigma
	for n, mixed := range map[int]bool{60: false, 20*parameters - 1: false, 20 * parameters: true, 400: true} {
		s := ofHalves(t, n, 1e9, 1)
		if got := s.problem.Shape.Parameters(); got != parameters {
			t.Fatalf("%d parameters", got)
		}
		seen := s.pool[0]
		runs := func(reuse bool) []*search.Candidate {
			soft := s.softStarts()
			soft.likelihoods, soft.reusing = &likelihoods{new: s.likelihood, reuse: reuse}, nil
			ends, err := soft.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return ends
		}
		byExact, byReusing := runs(false), runs(true)
		if err := s.addSoftStarts(t.Context()); err != nil {
			t.Fatal(err)
		}
		exact, reusing, both := 0, 0, 0
		contains := func(all []*search.Candidate, c *search.Candidate) bool {
			return slices.ContainsFunc(all, func(o *search.Candidate) bool {
				return o.Run.Value == c.Run.Value && o.Run.Iterations == c.Run.Iterations
			})
		}
		for _, c := range s.pool {
			switch e, r := contains(byExact, c), contains(byReusing, c); {
			case c == seen:
			case e && r:
				both++
			case e:
				exact++
			case r:
				reusing++
			default:
				t.Errorf("%d rows: %v after %d is neither", n, c.Run.Value, c.Run.Iterations)
			}
		}
		if both > 2 || exact < 2 || (reusing > 0) != mixed {
			t.Errorf("%d rows: %d exact, %d reuse the curvature, %d are the same in both", n, exact, reusing, both)
		}
	}
}

// TestSoftStarts are made where the gate of the best becomes hard, and nowhere else; for three times the work of the survey, of which
// the waves are counted. They count as starts, and the best of them come into question.
func TestSoftStarts(t *testing.T) {
	const n = 60
	surveyed := func(slope, most float64) (*surveyor, float64) {
		s := ofHalves(t, n, slope, most)
		run := s.pool[0].Run
		if err := s.addSoftStarts(t.Context()); err != nil {
			t.Fatal(err)
		}
		work := 0.0
		for _, c := range s.pool {
			if c.Run != run {
				work += CostOf(s.problem, c)
			}
		}
		return s, work
	}
	if s, _ := surveyed(1, 1e12); s.Starts != 1 || len(s.pool) != 1 || s.Best != nil {
		t.Errorf("a gate that stays soft: %d starts", s.Starts)
	}
	one, work := surveyed(1e9, 1)
	// One or two of eight may end degenerate, and count for nothing.
	if one.Starts < 1+surveyWave/2 || one.Starts > 1+surveyWave || len(one.pool) != one.Starts || len(one.Best) == 0 || !slices.IsSortedFunc(one.pool, search.Compare) {
		t.Errorf("%d starts of one wave, %d in the pool", one.Starts, len(one.pool))
	}
	if two, _ := surveyed(1e9, 0.5*work); two.Starts <= 1+surveyWave || two.Starts > 1+2*surveyWave {
		t.Errorf("%d starts for 1.5 times the work of one wave", two.Starts)
	}
	none := &surveyor{}
	if err := none.addSoftStarts(t.Context()); err != nil || none.Starts != 0 {
		t.Errorf("%d starts where nothing was found, error %v", none.Starts, err)
	}
}

// TestSurveyable: tables of one gate up to the size of their scope, exactly.
func TestSurveyable(t *testing.T) {
	for size, family := range map[int]sdk.Family{150_000: identity.Family, 200_000: relu.Family} {
		p, _ := searchtest.Drawn(t, family, 2, 3, 50, 0.1, 1, problem.Request{}) // of ten parameters
		of := *p
		for n, want := range map[int]bool{50: true, size / 10: true, size/10 + 1: false} {
			of.Rows = &model.Data{N: n, D: 3}
			if got := Surveyable(&of); got != want {
				t.Errorf("%d rows, at most %d: %v", n, size/10, got)
			}
		}
	}
	p, _ := searchtest.Drawn(t, identity.Family, 2, 3, 50, 0.1, 1, problem.Request{})
	// Four experts of two features have 8 coefficients, 6 of gates and a noise level.
	for shape, most := range map[string]int{"4": 150_000, "2x2": 20_000} {
		p.Shape = problem.Shape{K: 4, D: 2, Tree: searchtest.Tree(t, shape)}
		for n, want := range map[int]bool{50: true, most / 15: true, most/15 + 1: false} {
			p.Rows = &model.Data{N: n, D: 2}
			if got := Surveyable(p); got != want {
				t.Errorf("%d rows under a tree %s: %v", n, shape, got)
			}
		}
	}
	if p.Shape = (problem.Shape{K: 1, D: 3}); Surveyable(p) {
		t.Error("one expert")
	}
}

// TestSurveyBudget: as much as the starts are of the usual ones, of half a second, or of 5000 iterations where g has kinks and that is more.
func TestSurveyBudget(t *testing.T) {
	smooth, _ := searchtest.Drawn(t, identity.Family, 2, 3, 50, 0.1, 1, problem.Request{})
	kinked, _ := searchtest.Drawn(t, relu.Family, 2, 3, 50, 0.1, 1, problem.Request{})
	large := *kinked
	large.Rows = &model.Data{N: 20_000, D: 3}
	for _, c := range []struct {
		p      *problem.Problem
		starts int
		want   float64
	}{
		{smooth, search.DefaultStarts, 240e6}, {smooth, 2 * search.DefaultStarts, 480e6}, {smooth, search.DefaultStarts / 2, 120e6},
		{kinked, search.DefaultStarts, 240e6}, {&large, search.DefaultStarts, 5000 * (200_000 + 2048)},
	} {
		if got := surveyBudget(c.p, c.starts); got != c.want {
			t.Errorf("%d rows, %d starts: work of %v, want %v", c.p.N(), c.starts, got, c.want)
		}
	}
}

// TestPatience: a wave of moves where all starts have met one optimum, more than once, and rows are not few; thirty for each expert else.
func TestPatience(t *testing.T) {
	p := &problem.Problem{Rows: &model.Data{N: 10_000}, Shape: problem.Shape{K: 3, D: 1}}
	for _, c := range []struct{ optima, met, few, want int }{{1, 2, 20, 8}, {1, 1, 20, 90}, {2, 2, 20, 90}, {1, 2, 1_000_000, 90}} {
		s := &surveyor{problem: p, scope: scope{fewRows: c.few}, Survey: search.Survey{Optima: c.optima, Met: c.met}}
		if got := s.patience(); got != c.want {
			t.Errorf("%+v: %d moves", c, got)
		}
	}
}

// numbered is a start that notes the first number of every draw, and stays at q.
func numbered(q *model.Params, to map[uint64]bool) starts.Start {
	var mu sync.Mutex
	return starts.Start{Kind: starts.KindRandom, Draw: func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
		mu.Lock()
		defer mu.Unlock()
		to[rng.Uint64()] = true
		return q.Clone(), nil
	}}
}

// streams are the first numbers of so many streams of a use, of seed 1.
func streams(use stream.Use, n int) map[uint64]bool {
	out := map[uint64]bool{}
	for i := range n {
		out[stream.New(1, use, i).Uint64()] = true
	}
	return out
}

// TestStreamsOfASurvey: run i of a survey draws from stream i of its own, and so do soft starts, of which there are as many as are
// allowed where nothing settles, and none without work.
func TestStreamsOfASurvey(t *testing.T) {
	p, truth := searchtest.Halves(t, 60, 1)
	rows, err := partition.New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[uint64]bool{}
	s := &surveyor{problem: p, rows: rows, scope: scope{fewRows: 1_000_000}, kinds: []starts.Start{numbered(truth, drawn)}}
	s.likelihoods = &likelihoods{new: s.likelihood, reuse: true}
	s.most = 1e5 // two waves, as each of their iterations costs 60 times ten and 2048
	for range 2 {
		s.work = 0
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(drawn, streams(stream.Survey, s.runs)) || s.runs < 2*surveyWave {
		t.Errorf("%d draws of %d runs", len(drawn), s.runs)
	}
	for work, want := range map[float64]int{0: 0, math.Inf(1): 8} {
		drawn = map[uint64]bool{}
		soft := &softStarts{problem: p, start: numbered(truth, drawn), use: stream.SurveySoft, likelihoods: s.likelihoods, wave: 4, least: 100, most: 8, work: work, steps: 3}
		ends, err := soft.run(t.Context())
		if err != nil || len(ends) != want || !maps.Equal(drawn, streams(stream.SurveySoft, want)) {
			t.Errorf("work %v: %d ends of %d draws, want %d, error %v", work, len(ends), len(drawn), want, err)
		}
	}
}

// TestMoveLeavesAlone what has no work left, and where nothing was found.
func TestMoveLeavesAlone(t *testing.T) {
	s, c := threeCells(t, problem.Request{Intercepts: problem.BothIntercepts})
	s.likelihoods = &likelihoods{new: s.likelihood, reuse: true}
	c.Run = &optim.Result{}
	for name, of := range map[string]struct {
		work float64
		pool []*search.Candidate
		want int
	}{"no work": {1, []*search.Candidate{c}, 0}, "no optimum": {0, nil, 0}, "both": {0, []*search.Candidate{c}, surveyWave}} {
		s.work, s.most, s.pool, s.Moves = of.work, 1, of.pool, 0
		if err := s.move(t.Context()); err != nil || s.Moves != of.want {
			t.Errorf("%s: %d moves, error %v", name, s.Moves, err)
		}
	}
}

// TestRefineOptima: the best optimum of a survey, where it separates, ends without a ridge as well as hardened by EM, and the better of the two
// stays. Which that is differs from one optimum to another.
func TestRefineOptima(t *testing.T) {
	const n = 60
	p := searchtest.Quadrants(t, n, 1)
	e, task := searchtest.Measure(t, p), &search.Task{Problem: p, Part: p.Rows}
	for seed, gains := range map[uint64]bool{3: true, 7: false} {
		q, err := starts.Random(p, e).Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		l := searchtest.Likelihood(p, p.Rows)
		l.PenaliseGate(starts.ScreenRidge)
		held, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
		if err != nil {
			t.Fatal(err)
		}
		l.PenaliseGate(0)
		run, err := climb.Climb(t.Context(), l, held.X, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &search.Candidate{Run: run, Params: l.Params(run.X), Rows: n}
		byEM, behind := *c, *c
		if err := task.MaximiseByEM(t.Context(), &byEM, p.Shape.Free()); err != nil || byEM.Groups == nil {
			t.Fatal(byEM.Groups, err)
		}
		freed := byEM
		freed.Groups = nil
		if err := task.RemoveRidge(t.Context(), &freed, p.Shape.Free()); err != nil {
			t.Fatal(err)
		}
		if (freed.Run.Value < byEM.Run.Value) != gains {
			t.Fatalf("seed %d: %v by EM, %v by a ridge: the start decides nothing", seed, byEM.Run.Value, freed.Run.Value)
		}
		s := &surveyor{problem: p, Survey: search.Survey{Best: []*search.Candidate{c}}}
		if err := s.refine(t.Context()); err != nil || len(s.Best) != 1 || s.Best[0].Run.Value != min(byEM.Run.Value, freed.Run.Value) {
			t.Errorf("seed %d: %v, want the better of %v and %v, error %v", seed, s.Best[0].Run.Value, byEM.Run.Value, freed.Run.Value, err)
		}
		behind.Degenerate = true
		s.Best = []*search.Candidate{&behind, c}
		if err := s.refine(t.Context()); err != nil || !slices.IsSortedFunc(s.Best, search.Compare) {
			t.Errorf("not sorted: %v", err)
		}
	}
	if err := (&surveyor{problem: p}).refine(t.Context()); err != nil {
		t.Error(err)
	}
}

// same compares candidates bit by bit, but for what they leave to a search that goes on.
var same = cmp.Options{cmpopts.IgnoreUnexported(search.Candidate{}), cmp.AllowUnexported(separation.Groups{}), cmp.Comparer(func(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b)
})}

// ended is a candidate that ended with this value and status.
func ended(value float64, status optim.Status, degenerate bool) *search.Candidate {
	return &search.Candidate{Run: &optim.Result{Value: value, Status: status}, Degenerate: degenerate}
}

// from is a start at q.
func from(q *model.Params) starts.Start {
	return starts.Start{Kind: "fixed", Draw: func(context.Context, *rand.Rand) (*model.Params, error) { return q.Clone(), nil }}
}

// TestLate: of a table that is too large for a survey a late one is made. Its best is the maximum that the truth leads to, above one where
// EM gets stuck, and what ends there has converged: of so many rows a run that EM ends is some tenths below. There is none under a tree,
// of one expert, of few starts, or of more rows than its bound.
func TestLate(t *testing.T) {
	const n, budget = 20_001, 7
	p := searchtest.Parallels(t, n, 3, func(row int) float64 { return []float64{0, 0.8, 20}[row%3] }, problem.Request{})
	e := searchtest.Measure(t, p)
	if s, err := Small(t.Context(), p, e, budget); s != nil || err != nil {
		t.Fatalf("a survey of a large table: %+v, %v", s, err)
	}
	top, stuck := searchtest.Climbed(t, p, p.Rows, searchtest.At(p, 0.3, 0, 0.8, 20)), searchtest.Climbed(t, p, p.Rows, searchtest.At(p, 0.5, 0.4, 19.5, 20.5))
	if stuck.Value < top.Value+search.ContenderGap {
		t.Fatalf("values %v and %v: nothing gets stuck here", stuck.Value, top.Value)
	}
	s, err := Late(t.Context(), p, e, budget)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	if best := s.Best[0]; math.Abs(best.Run.Value-top.Value)*n > climb.Slack || best.Run.Status != optim.Converged || best.Rows != n {
		t.Errorf("the best has %v (%v), the truth leads to %v", best.Run.Value, best.Run.Status, top.Value)
	}
	met := 0
	for _, c := range s.Pool {
		if c.Run.Value > top.Value+search.SameOptimum(n) {
			continue
		}
		if c.Kind != starts.KindMove {
			met++
		}
		if math.Abs(c.Run.Value-top.Value)*n > climb.Slack || c.Run.Status != optim.Converged {
			t.Errorf("a %s start ended %v above the best, %v", c.Kind, (c.Run.Value-top.Value)*n, c.Run.Status)
		}
	}
	if met != s.Met || met == 0 || s.Starts < met {
		t.Errorf("%d of the starts have met the best: %+v", met, s)
	}
	large, under := *p, *p
	large.Rows = &model.Data{N: mostLate/p.Shape.Parameters() + 1, D: 1}
	under.Shape.Tree = searchtest.Tree(t, "2x(1,2)")
	for name, c := range map[string]struct {
		p      *problem.Problem
		starts int
	}{"one expert": {p.With(1), budget}, "a tree": {&under, budget}, "few starts": {p, leastStarts - 1}, "many rows": {&large, budget}} {
		if s, err := Late(t.Context(), c.p, e, c.starts); s != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// TestLateIsTaken: a search that begins at the lower of two optima of three lines under two experts, from which split and merge lead
// nowhere, and whose tests fail, ends at the higher with a late survey, and records what that gained.
func TestLateIsTaken(t *testing.T) {
	const n, budget = 300, 8
	p, high, low := searchtest.Lower(t, n)
	e, lost := searchtest.Measure(t, p), (low.Value-high.Value)*n
	own := p.Units.OutOf(searchtest.Likelihood(p, p.Rows).Params(low.X))
	for _, late := range []bool{false, true} {
		s := search.Settings{Starts: 1, Own: own, Untested: !late}
		if late {
			s.Steps.LateSurvey = func(ctx context.Context, p *problem.Problem, e *moment.Evidence, _ int) (*search.Survey, error) {
				return Late(ctx, p, e, budget)
			}
		}
		found, err := search.Auto(t.Context(), p, e, s)
		if err != nil {
			t.Fatal(err)
		}
		want, gains := low.Value, []search.Gain(nil)
		if late {
			want, gains = high.Value, []search.Gain{{Step: "survey", LogLikelihood: lost}}
		}
		if math.Abs(found.Best.Run.Value-want)*n > climb.Slack || (found.Survey != nil) != late {
			t.Errorf("late %v: %v, want %v; survey %+v", late, found.Best.Run.Value, want, found.Survey)
		}
		if !cmp.Equal(found.Best.Gains, gains, cmpopts.EquateApprox(0, climb.Slack)) {
			t.Errorf("late %v: gains %+v, want %+v", late, found.Best.Gains, gains)
		}
	}
}
