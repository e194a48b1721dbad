package search

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// target is one target of a sample of several.
type target struct {
	*sample.VectorSampler
	at, d int
}

func (t target) Schema() dataset.Schema { return dataset.Names(t.d, true) }

func (t target) Read(ctx context.Context, fn func(*model.Block) error) error {
	return t.VectorSampler.Read(ctx, func(b *model.Block) error {
		y := b.Y
		if t.at < t.Truth.M-1 {
			y = b.Col(t.d + t.at)
		}
		return fn(&model.Block{N: b.N, X: b.X[:t.d*b.N], Y: y})
	})
}

// vectorTask is the search for the mixture that a sample is drawn from.
func vectorTask(t testing.TB, s *sample.VectorSampler, act sdk.Activation, full bool, r problem.Request) *VectorTask {
	t.Helper()
	task := &VectorTask{Full: full, Starts: DefaultStarts, Steps: coreSteps()}
	var rows []model.Rows
	r.K = s.Truth.K
	for c := range s.Truth.M {
		p := load(t, target{s, c, s.Truth.D}, act, r)
		e, err := moment.Measure(t.Context(), p, moment.Want{Transform: moment.Polynomial})
		if err != nil {
			t.Fatal(err)
		}
		task.Problems, task.Evidence = append(task.Problems, p), append(task.Evidence, e)
		rows = append(rows, p.Rows)
	}
	task.Rows = model.Beside(rows)
	return task
}

var vectorSeeds = flag.Int("vectorseeds", 3, "data sets of every cell of TestVectorReachesTheTruth; more than 3 make cells of four experts as well")

// TestVectorReachesTheTruth: over several data sets of every cell the search ends at or above
// the fit that is started at the truth, less 0.05 of log-likelihood, and beside the truth; full
// noise is recovered with its correlation, and is worth more than diagonal noise where there is
// one. The result is the same bytes at any number of threads.
func TestVectorReachesTheTruth(t *testing.T) {
	testslow.Mark(t)
	ctx := t.Context()
	type cell struct {
		name  string
		of    sdk.Family
		k, m  int
		rho   float64
		noise bool // of every expert
	}
	cells := []cell{
		{"identity", identity.Family, 3, 2, 0.6, false},
		{"relu", relu.Family, 2, 2, 0, false},
		{"tanh", tanh.Family, 3, 3, -0.3, true},
	}
	if *vectorSeeds > 3 {
		cells = append(cells,
			cell{"four of identity", identity.Family, 4, 2, 0.6, false},
			cell{"four of relu", relu.Family, 4, 2, 0.6, false},
			cell{"four of tanh", tanh.Family, 4, 3, 0.3, false})
	}
	for _, cell := range cells {
		for seed := range uint64(*vectorSeeds) {
			act := activation(t, cell.of)
			s, err := sample.NewVector(sample.Config{Activation: act, K: cell.k, D: 4, N: 2000, Sigma: 0.1, Design: sample.Separated, Seed: 100 + seed}, cell.m, cell.rho)
			if err != nil {
				t.Fatal(err)
			}
			r := problem.Request{Seed: 1, Threads: 2}
			if cell.noise {
				r.Noise = problem.PerExpert{}
			}
			task := vectorTask(t, s, act, true, r)
			found, err := Vector(ctx, task)
			if err != nil {
				t.Fatal(err)
			}
			best, all := found.Best, found.All
			n := float64(task.one().N())
			truth := task.blank()
			for i := range truth.Noise {
				truth.Noise[i] = s.Truth.NoiseOf(0)
				if truth.Noise[i].Lower == nil {
					truth.Noise[i].Lower = make([]float64, cell.m*(cell.m-1)/2)
				}
			}
			truth = model.JoinCoordinates(coordinatesOf(task, s.Truth), truth.Noise)
			from := task.climbed(t, truth, task.Rows, 0)
			t.Logf("%s, seed %d: %d starts, %.4f, from the truth %.4f, %s", cell.name, seed, len(all), -n*best.Run.Value, -n*from.Run.Value, best.Run.Status)
			if short := n * (best.Run.Value - from.Run.Value); short > 0.05 {
				t.Errorf("%s, seed %d: the search ends %.3f below the fit from the truth", cell.name, seed, short)
			}
			cov := best.Vector.NoiseOf(0).Covariance()
			// Six standard errors of a correlation, of the rows of one expert in three or fewer.
			if got := cov.At(1, 0) / math.Sqrt(cov.At(0, 0)*cov.At(1, 1)); math.Abs(got-cell.rho) > 6/math.Sqrt(n/8) {
				t.Errorf("%s, seed %d: correlation %v, want %v", cell.name, seed, got, cell.rho)
			}
			if seed > 0 {
				continue
			}
			diagonal := vectorTask(t, s, act, false, r)
			other, err := Vector(ctx, diagonal)
			if err != nil {
				t.Fatal(err)
			}
			// −n/2·log det of the correlations, 446 and 391 at the truths, and where there are
			// none half a χ² of one degree, 8 of which is one in 16,000.
			switch gain := n * (other.Best.Run.Value - best.Run.Value); {
			case cell.rho != 0 && gain < 100, cell.rho == 0 && (gain > 8 || gain < -1e-6):
				t.Errorf("%s: full noise is worth %v of log-likelihood", cell.name, gain)
			}
			again := vectorTask(t, s, act, true, problem.Request{Seed: 1, Threads: 1, Noise: r.Noise})
			same, err := Vector(ctx, again)
			if err != nil || !slices.Equal(same.Best.Run.X, best.Run.X) {
				t.Errorf("%s: other bytes with one thread, error %v", cell.name, err)
			}
		}
	}
}

// climbed is a candidate where q leads to on rows, with a ridge on the gate.
func (t *VectorTask) climbed(tb testing.TB, q *model.VectorParams, rows model.Rows, ridge float64) *Candidate {
	tb.Helper()
	n, _ := rows.Dims()
	c := &Candidate{Vector: q, Run: &optim.Result{}}
	if err := c.climbWith(tb.Context(), ofSeveral{t.likelihood(rows, q, 1)}, ridge, n); err != nil {
		tb.Fatal(err)
	}
	return c
}

// coordinatesOf are the mixtures of a truth's targets, in the units of the task.
func coordinatesOf(t *VectorTask, truth *model.VectorParams) (out []*model.Params) {
	for c, p := range t.Problems {
		out = append(out, p.Units.Into(truth.Coordinate(c)))
	}
	return out
}

// TestVectorOfOneTarget: with one target the search ends where that for one target does.
func TestVectorOfOneTarget(t *testing.T) {
	act := activation(t, tanh.Family)
	s, err := sample.NewVector(sample.Config{Activation: act, K: 2, D: 3, N: 1500, Sigma: 0.1, Design: sample.Separated, Seed: 4}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	task := vectorTask(t, s, act, true, problem.Request{Seed: 1})
	found, err := Vector(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	best := found.Best
	flat, err := Auto(t.Context(), task.one(), measure(t, task.one()), Settings{Starts: DefaultStarts, Steps: coreSteps()})
	if err != nil {
		t.Fatal(err)
	}
	n := float64(task.one().N())
	if diff := n * math.Abs(best.Run.Value-flat.Best.Run.Value); diff > 1e-6 {
		t.Errorf("log-likelihoods %v apart", diff)
	}
	q := best.Vector.Coordinate(0)
	if i := 0; q.Regressor(0)[0]*flat.Best.Params.Regressor(0)[0] < 0 || math.Abs(q.Regressor(0)[0]-flat.Best.Params.Regressor(0)[0]) > 1e-3 {
		q = q.Relabel([]int{1, i})
	}
	near := func(a, b []float64) bool {
		return mat.EqualApprox(mat.NewVecDense(len(a), a), mat.NewVecDense(len(b), b), 1e-6)
	}
	if p := flat.Best.Params; !near(q.Regressors, p.Regressors) || !near(q.Gating, p.Gating) || math.Abs(q.Sigma[0]-p.Sigma[0]) > 1e-6 {
		t.Errorf("parameters %+v, want %+v", q, p)
	}
}

// TestVectorSeparation: where the sign of x tells the expert for certain the gate separates the two, and no ridge is left; where rows of
// both experts overlap it separates nothing, however steep it is.
func TestVectorSeparation(t *testing.T) {
	act := activation(t, identity.Family)
	for overlap, want := range map[float64]bool{0: true, 0.1: false} {
		rng := rand.New(rand.NewPCG(6, 1))
		var x, u, v []float64
		for range 600 {
			z := 2*rng.Float64() - 1
			side := 1.0
			if z+overlap*rng.NormFloat64() < 0 {
				side = -1
			}
			x, u, v = append(x, z), append(u, side+z+0.05*rng.NormFloat64()), append(v, 3*z-side+0.05*rng.NormFloat64())
		}
		task := &VectorTask{Starts: DefaultStarts, Steps: coreSteps()}
		var rows []model.Rows
		for _, y := range [][]float64{u, v} {
			p := load(t, dataset.Matrix(mat.NewDense(600, 1, x), y), act, problem.Request{K: 2, Intercepts: problem.BothIntercepts})
			task.Problems, task.Evidence = append(task.Problems, p), append(task.Evidence, measure(t, p))
			rows = append(rows, p.Rows)
		}
		task.Rows = model.Beside(rows)
		found, err := Vector(t.Context(), task)
		if err != nil || found.Best.Run.Status != optim.Converged {
			t.Fatal(found, err)
		}
		best := found.Best
		if (best.Groups != nil) != want || best.Ridge > 0 {
			t.Errorf("overlap %v: groups %+v, a ridge of %v", overlap, best.Groups, best.Ridge)
		}
	}
}

// twoTargets is the search on targets ±(3 + x1/2) and ±2, of which the sign is that of a logit of so many times x2.
func twoTargets(t *testing.T, n int, slope float64, full bool) *VectorTask {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 6))
	x := mat.NewDense(n, 2, nil)
	u, v := make([]float64, n), make([]float64, n)
	for r := range n {
		x.SetRow(r, []float64{rng.NormFloat64(), rng.NormFloat64()})
		sign := 1.0
		if rng.Float64() > 1/(1+math.Exp(-slope*x.At(r, 1))) {
			sign = -1
		}
		u[r], v[r] = sign*(3+x.At(r, 0)/2)+0.3*rng.NormFloat64(), 2*sign+0.3*rng.NormFloat64()
	}
	task := &VectorTask{Full: full, Starts: DefaultStarts, Steps: coreSteps()}
	var rows []model.Rows
	for _, y := range [][]float64{u, v} {
		p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts})
		task.Problems, task.Evidence = append(task.Problems, p), append(task.Evidence, measure(t, p))
		rows = append(rows, p.Rows)
	}
	task.Rows = model.Beside(rows)
	return task
}

// at are the experts of twoTargets, with a gate of this slope.
func (t *VectorTask) at(slope float64) *model.VectorParams {
	coordinates := make([]*model.Params, 2)
	for c, p := range t.Problems {
		q := p.Shape.Blank(0.3)
		if c == 0 {
			q.Regressors[0], q.Regressors[2] = 0.5, -0.5
		}
		q.RegressorIntercepts[0], q.RegressorIntercepts[1] = float64(3-c), float64(c-3)
		q.Gating[1] = slope
		coordinates[c] = p.Units.Into(q)
	}
	return t.Join(coordinates)
}

// TestVectorRemoveRidge: a gate that separates ends without a ridge and as near to its supremum, which twice its slope shows, as slack, with
// the experts at a maximum; one that is steep where rows overlap ends at the maximum of all parameters. Candidates go on their path.
func TestVectorRemoveRidge(t *testing.T) {
	const n = 300
	for slope, hard := range map[float64]bool{1: false, 15: false, 1e9: true} {
		task := twoTargets(t, n, slope, true)
		c := &Candidate{Vector: task.at(min(slope, 3)), Run: &optim.Result{Iterations: 3, Trace: []float64{9}}, Rows: n}
		free := task.one().Shape.Free()
		if err := task.task(task.Rows, nil, nil).RemoveRidge(t.Context(), c, free); err != nil {
			t.Fatal(err)
		}
		var want *separation.Groups
		if hard {
			want = separation.UnderOne([]int{0, 1})
		}
		if !reflect.DeepEqual(c.Groups, want) || c.Ridge != 0 || c.Run.Iterations < 4 || c.Run.Trace[0] != 9 || c.Run.Status != optim.Converged {
			t.Errorf("slope %v: groups %+v, a ridge of %v, %v after %d", slope, c.Groups, c.Ridge, c.Run.Status, c.Run.Iterations)
		}
		twice := c.Vector.Clone()
		floats.Scale(2, twice.Gating)
		floats.Scale(2, twice.GatingIntercepts)
		l := task.Likelihood(task.Rows, c.Vector)
		here, err := l.LogLikelihood(t.Context(), c.Vector)
		if err != nil {
			t.Fatal(err)
		}
		if there, err := l.LogLikelihood(t.Context(), twice); err != nil || hard && math.Abs(there-here) > climb.Slack || !hard && there > here-0.1 {
			t.Errorf("slope %v: log-likelihood %v, with a gate twice as steep %v, error %v", slope, here, there, err)
		}
		if free.Gating = !hard; hard {
			l = loss.NewVector(task.Rows, task.one().G, c.Vector, free, 1)
		}
		grad := make([]float64, l.Dim())
		if v, err := l.Grad(t.Context(), grad, l.Theta(c.Vector)); err != nil || math.Abs(v-c.Run.Value) > 1e-12 || floats.Norm(grad, 2) > 1e-5 {
			t.Errorf("slope %v: value %v of gradient %v, said %v, error %v", slope, v, floats.Norm(grad, 2), c.Run.Value, err)
		}
	}
}

// TestVectorSeparates: a gate separates the experts of two targets where no more than slack of a row is between them, as those of the rows' probabilities
// say, and the log-likelihood is within slack of what it is with every row on its side.
func TestVectorSeparates(t *testing.T) {
	task := twoTargets(t, 300, 1e9, true)
	data, err := model.InMemory(t.Context(), task.one().Rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[bool]int{}
	for _, slope := range []float64{5, 40, 400, 4000, 40000} {
		c := &Candidate{Vector: task.at(slope)}
		gate, shared := c.Vector.OfGate(), 0.0
		for _, b := range data.Blocks {
			for r := range b.N {
				p := 1 / (1 + math.Exp(-gate.Gate(0)[0]*b.Col(0)[r]-gate.Gate(0)[1]*b.Col(1)[r]-gate.GatingIntercepts[0]))
				shared += p * (1 - p)
			}
		}
		l := task.Likelihood(task.Rows, c.Vector)
		hard := c.Vector.Clone()
		floats.Scale(1e6, hard.Gating)
		floats.Scale(1e6, hard.GatingIntercepts)
		here, err := l.LogLikelihood(t.Context(), c.Vector)
		if err != nil {
			t.Fatal(err)
		}
		limit, err := l.LogLikelihood(t.Context(), hard)
		if err != nil {
			t.Fatal(err)
		}
		var want *separation.Groups
		if shared <= climb.Slack && math.Abs(limit-here) <= climb.Slack {
			want = separation.UnderOne([]int{0, 1})
		}
		seen[want != nil]++
		if got, err := (ofSeveral{l}).separated(t.Context(), c); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("slope %v: %+v, want %+v of %v rows between them, error %v", slope, got, want, shared, err)
		}
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("%v", seen)
	}
}

// TestVectorMeasure: candidates of other rows, and with a ridge, have their value on all rows without it; those that have
// it already, and those that failed, do not have it twice.
func TestVectorMeasure(t *testing.T) {
	const n = 200
	task := twoTargets(t, n, 2, false)
	q := task.at(2)
	made := func(rows int, ridge, value float64) *Candidate {
		return &Candidate{Vector: q, Rows: rows, Ridge: ridge, Run: &optim.Result{Value: value}}
	}
	all := []*Candidate{made(n, 0, 1), made(n, 0.1, 1), made(100, 0, 1), made(100, 0.1, math.NaN())}
	if err := task.measure(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	l := task.Likelihood(task.Rows, q)
	want, err := l.Value(t.Context(), l.Theta(q))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		if has := i == 1 || i == 2; (c.Whole != nil) != has || has && math.Abs(*c.Whole-want) > 1e-12 {
			t.Errorf("candidate %d: %v on all rows, want %v", i, c.Whole, want)
		}
	}
}

// TestVectorScreening is told of every start, in waves of four up to the budget, the first once, and hands out where it can be
// taken up.
func TestVectorScreening(t *testing.T) {
	task := twoTargets(t, 60, 2, false)
	task.Starts = 6
	var told, least []int
	var done []bool
	task.Screening = func(done, total int) { told = append(told, done, total) }
	task.Checkpoint = func(s State) { done, least = append(done, s.Done), append(least, len(s.Candidates)) }
	start := func(kind string) starts.Start {
		return starts.Start{Kind: kind, Vector: func(context.Context, *rand.Rand) (*model.VectorParams, error) { return task.at(2), nil }}
	}
	all, err := task.task(task.Rows, []starts.Start{start("a"), start("b")}, []starts.Start{start("u"), start("v"), start("w")}).Screen(t.Context(), nil, 6)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, c := range all {
		kinds[c.Kind]++
	}
	if len(all) != 6 || kinds["a"] != 1 || kinds["b"] != 1 || kinds["u"] != 2 || kinds["v"] != 1 || kinds["w"] != 1 {
		t.Errorf("%v", kinds)
	}
	if !slices.Equal(told, []int{0, 6, 1, 6, 2, 6, 3, 6, 4, 6, 4, 6, 5, 6, 6, 6}) || !slices.Equal(least, []int{4, 6}) && !slices.Equal(least, []int{4, 6, 6}) || !done[len(done)-1] {
		t.Errorf("told %v; states of %v, done %v", told, least, done)
	}
	// Three that agree are enough where no more are asked for.
	if all, err := task.task(task.Rows, nil, []starts.Start{start("u")}).Screen(t.Context(), nil, 4); err != nil || len(all) != 4 {
		t.Errorf("%d starts, error %v", len(all), err)
	}
}

// alone is the search for the mixture of one target, that of p.
func alone(p *problem.Problem) *VectorTask {
	return &VectorTask{Problems: []*problem.Problem{p}, Rows: model.Beside([]model.Rows{p.Rows}), Starts: DefaultStarts, Steps: coreSteps()}
}

// ofOne is a candidate of alone where q leads to.
func (t *VectorTask) ofOne(tb testing.TB, q *model.Params) *Candidate {
	tb.Helper()
	c := t.climbed(tb, t.Join([]*model.Params{q}), t.Rows, 0)
	if c.Run.Status != optim.Converged {
		tb.Fatal(c.Run)
	}
	return c
}

// make makes a step from c.
func (t *VectorTask) make(ctx context.Context, s Step, c *Candidate) error {
	_, err := Make(ctx, t.task(t.Rows, nil, nil), []Step{s}, c, atRefinement)
	return err
}

// TestVectorPerturb: where g has kinks restarts lead higher, by as much as those of a search for one target (TestPerturb), and the path
// goes on only where they do. Where g has none, the gate is held, or rows are many, nothing is tried.
func TestVectorPerturb(t *testing.T) {
	const n, gain = 200, 0.2 / 200
	p, truth := drawn(t, relu.Family, 2, 4, n, 0.5, 4, problem.Request{})
	smooth, other := drawn(t, identity.Family, 2, 4, n, 0.5, 4, problem.Request{})
	large := *p
	large.Rows = &model.Data{N: restartRows + 1, D: 4}
	held := alone(p).ofOne(t, truth)
	held.Ridge = 1e-6
	for name, c := range map[string]struct {
		task  *VectorTask
		c     *Candidate
		tried bool
	}{
		"kinks":     {alone(p), alone(p).ofOne(t, truth), true},
		"smooth":    {alone(smooth), alone(smooth).ofOne(t, other), false},
		"held":      {alone(p), held, false},
		"many rows": {&VectorTask{Problems: []*problem.Problem{&large}, Rows: alone(p).Rows}, alone(p).ofOne(t, truth), false},
	} {
		was := *c.c
		if err := c.task.make(t.Context(), Perturbation(), c.c); err != nil {
			t.Fatal(err)
		}
		if tried := c.c.Run != was.Run; tried != c.tried {
			t.Errorf("%s: another run: %v", name, tried)
		}
		if !c.tried {
			continue
		}
		if c.c.Run.Value > was.Run.Value-gain || c.c.Run.Iterations <= was.Run.Iterations || !slices.Equal(c.c.Run.Trace[:len(was.Run.Trace)], was.Run.Trace) {
			t.Errorf("%v after %d iterations, was %v after %d", c.c.Run.Value, c.c.Run.Iterations, was.Run.Value, was.Run.Iterations)
		}
		// Once more from the same draws: none may lead lower, and one that gains nothing stays.
		top := c.c.Run.Value
		if err := c.task.make(t.Context(), Perturbation(), c.c); err != nil || c.c.Run.Value > top {
			t.Errorf("%v, was %v, error %v", c.c.Run.Value, top, err)
		}
	}
}

// TestVectorFinish: where g is smooth and the climb gave up before, the best goes on until the gradient is rounding; one that is there, has
// kinks, is held, shrank or failed stays as it is.
func TestVectorFinish(t *testing.T) {
	const n = 300
	p, truth := drawn(t, tanh.Family, 2, 4, n, 0.3, 4, problem.Request{})
	kinked, bent := drawn(t, relu.Family, 2, 4, n, 0.3, 4, problem.Request{})
	for name, c := range map[string]struct {
		p  *problem.Problem
		q  *model.Params
		is func(c *Candidate)
	}{
		"on its way": {p, truth, nil},
		"kinks":      {kinked, bent, func(*Candidate) {}},
		"held":       {p, truth, func(c *Candidate) { c.Ridge = 1e-3 }},
		"degenerate": {p, truth, func(c *Candidate) { c.Degenerate = true }},
		"failed":     {p, truth, func(c *Candidate) { c.Run.Value = math.Inf(1) }},
	} {
		task := alone(c.p)
		q := task.Join([]*model.Params{c.q})
		l := task.Likelihood(task.Rows, q)
		r, err := climb.Approach(t.Context(), l, l.Theta(q), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := &Candidate{Run: r, Vector: l.Params(r.X), Rows: n}
		if c.is != nil {
			c.is(got)
		}
		was := *got
		if err := task.make(t.Context(), ExactNewton(), got); err != nil {
			t.Fatal(err)
		}
		if stays := got.Run == was.Run && got.Vector == was.Vector; stays != (c.is != nil) {
			t.Errorf("%s: stays %v", name, stays)
		}
		if c.is != nil {
			continue
		}
		grad := make([]float64, l.Dim())
		if _, err := l.Grad(t.Context(), grad, l.Theta(got.Vector)); err != nil || floats.Norm(grad, 2) > 1e-9 {
			t.Errorf("a gradient of %v, error %v", floats.Norm(grad, 2), err)
		}
		if got.Run.Iterations <= was.Run.Iterations || !slices.Equal(got.Run.Trace[:len(was.Run.Trace)], was.Run.Trace) || got.Run.Status != optim.Converged {
			t.Errorf("%d iterations after %d, %v", got.Run.Iterations, was.Run.Iterations, got.Run.Status)
		}
		there := *got
		if err := task.make(t.Context(), ExactNewton(), &there); err != nil || there.Run != got.Run {
			t.Errorf("what is there goes on: %+v, error %v", there.Run, err)
		}
	}
}

// TestVectorRefine: contenders of the screening end on all rows without its ridge, the best of them at the top; they stay as they were where
// they were screened, and the caller is told of each.
func TestVectorRefine(t *testing.T) {
	const n = 600
	task := twoTargets(t, n, 2, true)
	part := model.Part(task.Rows, 512)
	var all []*Candidate
	for _, shift := range []float64{0, 3} { // from the truth, and from where both experts are on one side
		q := task.at(2)
		if shift > 0 {
			q = task.at(0)
			for c := range task.Problems {
				coordinate := q.Coordinate(c)
				coordinate.RegressorIntercepts[0], coordinate.RegressorIntercepts[1] = 0.1, 0
			}
		}
		c := task.climbed(t, q, part, starts.ScreenRidge)
		c.Contended = true
		all = append(all, c)
	}
	slices.SortStableFunc(all, Compare)
	kept := []Candidate{*all[0], *all[1]}
	var told []int
	task.Refining = func(done, total int) { told = append(told, done, total) }
	best, err := task.task(part, nil, nil).refine(t.Context(), all)
	if err != nil || best != all[0].refined || !slices.Equal(told, []int{0, 2, 1, 2}) {
		t.Fatalf("%+v, told %v, error %v", best, told, err)
	}
	for i := range all {
		c := all[i].refined
		if c.Rows != n || c.Ridge != 0 || all[i].Run != kept[i].Run || all[i].Rows != 512 || all[i].Vector != kept[i].Vector {
			t.Errorf("candidate %d: %d rows, ridge %v; was on %d", i, c.Rows, c.Ridge, all[i].Rows)
		}
	}
	l := task.Likelihood(task.Rows, best.Vector)
	grad := make([]float64, l.Dim())
	if _, err := l.Grad(t.Context(), grad, l.Theta(best.Vector)); err != nil || floats.Norm(grad, 2) > 1e-9 {
		t.Errorf("the best has a gradient of %v, error %v", floats.Norm(grad, 2), err)
	}
}

// TestVectorCertify: three that agree pass where experts have rows enough, and on an expert of three rows do not; one expert rests on
// all rows.
func TestVectorCertify(t *testing.T) {
	testslow.Mark(t)
	const n = 400
	levels := func(k int, rare bool) *VectorTask {
		task := &VectorTask{Starts: DefaultStarts, Steps: coreSteps()}
		var rows []model.Rows
		for c := range 2 {
			p := parallels(t, n, k, func(r int) float64 {
				if rare && r < 3 {
					return 30
				}
				return float64(r % min(k, 2) * (10 - 4*c))
			}, problem.Request{})
			task.Problems, rows = append(task.Problems, p), append(rows, p.Rows)
		}
		task.Rows = model.Beside(rows)
		return task
	}
	for name, c := range map[string]struct {
		k       int
		levels  [2][]float64
		rare    bool
		optimum string
		says    string
	}{
		"two":  {2, [2][]float64{{0, 10}, {0, 6}}, false, infer.Pass, ""},
		"one":  {1, [2][]float64{{0}, {0}}, false, infer.Pass, ""},
		"rare": {3, [2][]float64{{0, 10, 30}, {0, 6, 30}}, true, infer.Suspect, "it rests on expert 3, which has 3.0 rows"},
	} {
		task := levels(c.k, c.rare)
		var coordinates []*model.Params
		for i, p := range task.Problems {
			coordinates = append(coordinates, at(p, 0.3, c.levels[i]...))
		}
		best := task.climbed(t, task.Join(coordinates), task.Rows, 0)
		best.Agrees = true
		got, note, err := task.certify(t.Context(), best, []*Candidate{best, best, best}, nil)
		if err != nil || got == nil || note != "" || len(got.Tests) == 0 {
			t.Fatalf("%s: certificate %+v, note %q, error %v", name, got, note, err)
		}
		if got.Optimum != c.optimum || !strings.HasPrefix(got.Reason, c.says) || strings.HasPrefix(got.Reason, "it rests on") != c.rare {
			t.Errorf("%s: %s: %s", name, got.Optimum, got.Reason)
		}
		if c.rare {
			continue
		}
		shrunk, stopped, run := *best, *best, *best.Run
		shrunk.Degenerate, run.Status, stopped.Run = true, optim.Stopped, &run
		for says, of := range map[string]*Candidate{"in every start an expert shrank": &shrunk, "the best of the starts has not converged": &stopped} {
			got, _, err := task.certify(t.Context(), of, []*Candidate{of, of, of}, nil)
			if err != nil || got.Optimum != infer.NotJudged || !strings.HasPrefix(got.Reason, says) {
				t.Errorf("%s: %+v, error %v; want not judged: %s", name, got, err, says)
			}
		}
	}
}

// TestVectorGoesOn: where the tests of the best reject the model more starts are asked for, and made up to the budget.
func TestVectorGoesOn(t *testing.T) {
	testslow.Mark(t)
	const n = 120
	for starts, want := range map[int]int{4: 4, 8: 8, 20: infer.StartsWanted} {
		task := &VectorTask{Starts: starts, Steps: coreSteps()}
		rng := rand.New(rand.NewPCG(7, 7))
		x, y := mat.NewDense(n, 1, normal(rng, n)), make([]float64, n)
		var rows []model.Rows
		for c := range 2 { // parabolas, which are no experts of ours
			for r := range y {
				y[r] = float64(r%2*9) + float64(1+c)*x.At(r, 0)*x.At(r, 0) + 0.3*rng.NormFloat64()
			}
			p := load(t, dataset.Matrix(x, slices.Clone(y)), activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts})
			task.Problems, task.Evidence, rows = append(task.Problems, p), append(task.Evidence, measure(t, p)), append(rows, p.Rows)
		}
		task.Rows = model.Beside(rows)
		found, err := Vector(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		if len(found.All) != want || found.Certificate == nil || (found.Certificate.Optimum == infer.Suspect) != (want < infer.StartsWanted) {
			t.Errorf("%d starts of %d: %+v", len(found.All), starts, found.Certificate)
		}
	}
}

// TestImproveSeveral: where two experts of two targets lie on one of three clusters of rows and the third between the others, a move
// leads to the maximum that a start at the clusters does; from there none gains.
func TestImproveSeveral(t *testing.T) {
	levels := [2][]float64{{-4, 0, 4}, {3, -3, 3}}
	task := &VectorTask{Full: true, Steps: coreSteps()}
	var rows []model.Rows
	for _, of := range levels {
		p := parallels(t, 900, 3, func(row int) float64 { return of[row%3] }, problem.Request{})
		task.Problems, rows = append(task.Problems, p), append(rows, p.Rows)
	}
	task.Rows = model.Beside(rows)
	begin := func(c ...[]float64) *Candidate {
		var coordinates []*model.Params
		for j, p := range task.Problems {
			coordinates = append(coordinates, at(p, 1, c[j]...))
		}
		return task.climbed(t, task.Join(coordinates), task.Rows, starts.ScreenRidge)
	}
	top := begin(levels[0], levels[1])
	merged := begin([]float64{-4.1, -3.9, 2}, []float64{3, 3, 0})
	if merged.Run.Status != optim.Converged || merged.Run.Value < top.Run.Value+0.1 {
		t.Fatalf("%v at %v, the top is at %v", merged.Run.Status, merged.Run.Value, top.Run.Value)
	}
	search := task.task(task.Rows, nil, nil)
	was := top.Run
	if err := search.splitMerge(t.Context(), top, nil, top.Run.Value-1, SameOptimum(900), 1); err != nil || top.Run != was {
		t.Errorf("from the top to %v, was %v, error %v", top.Run.Value, was.Value, err)
	}
	if err := search.splitMerge(t.Context(), merged, nil, top.Run.Value, SameOptimum(900), 1); err != nil ||
		math.Abs(merged.Run.Value-top.Run.Value) > SameOptimum(900) {
		t.Errorf("from the merged maximum to %v, the top is at %v, error %v", merged.Run.Value, top.Run.Value, err)
	}
}
