package climb_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
)

// TestTooFarBehind: a run is ended from its fifth iteration on, as soon as a
// hundred iterations as good as the last would not reach the best value.
func TestTooFarBehind(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		best   float64
		values []float64 // after iterations 1, 2, …
		ends   int       // the iteration that it ends, 0 for none
	}{
		"nothing to be behind":        {inf, []float64{9, 9, 9, 9, 9, 9, 9}, 0},
		"crawls far behind":           {1, []float64{9, 8.99, 8.98, 8.97, 8.96, 8.95, 8.94}, 5},
		"crawls later":                {1, []float64{9, 8, 7, 6, 5, 4, 3.999, 3.998}, 7},
		"slows down":                  {1, []float64{9, 8.92, 8.84, 8.76, 8.68, 8.63, 8.5}, 6}, // 7.68 left, 8 in a hundred; then 7.63 left, 5 in a hundred
		"fast enough":                 {1, []float64{9, 8.92, 8.84, 8.76, 8.68, 8.6, 8.52}, 0},
		"better than the best, still": {1, []float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0},
		"rises":                       {1, []float64{2, 2, 2, 2, 1.5, 1.6}, 6},
	} {
		stop, ends := climb.TooFarBehind(c.best), 0
		for i, v := range c.values {
			if stop(i+1, v) {
				ends = i + 1
				break
			}
		}
		if ends != c.ends {
			t.Errorf("%s: ended after iteration %d, want %d", name, ends, c.ends)
		}
	}
}

// TestClimb: the gradient vanishes where a climb ends, beside what it was; the
// path never rises, has a point for the start and for every iteration that
// moved, and ends at the result.
func TestClimb(t *testing.T) {
	for name, r := range map[string]problem.Request{
		"plain": {}, "intercepts": {Intercepts: problem.BothIntercepts}, "noise per expert": {Noise: problem.PerExpert{}},
	} {
		p, truth := searchtest.Drawn(t, identity.Family, 3, 5, 1500, 0.2, 2, r)
		e := searchtest.Measure(t, p)
		for seed := range uint64(4) {
			q, err := starts.Random(p, e).Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
			if err != nil {
				t.Fatal(err)
			}
			if seed == 0 {
				q = p.Shape.Adopt(truth)
			}
			l := searchtest.Likelihood(p, p.Rows)
			run, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
			if err != nil {
				t.Fatal(err)
			}
			before, after := make([]float64, l.Dim()), make([]float64, l.Dim())
			start, err := l.Grad(t.Context(), before, l.Theta(q))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Grad(t.Context(), after, run.X); err != nil {
				t.Fatal(err)
			}
			// A promised fall of 1e−12 is a gradient of 1e−6 of a unit of curvature;
			// Newton's last step leaves less.
			if run.Status != optim.Converged || floats.Norm(after, 2) > 1e-6 || floats.Norm(before, 2) < 1e-3 {
				t.Errorf("%s, start %d: %v, gradient %v of %v at the start", name, seed, run.Status, floats.Norm(after, 2), floats.Norm(before, 2))
			}
			// The last steps are too small to show in the value but for its rounding.
			if !slices.IsSortedFunc(run.Trace, func(a, b float64) int { return int(math.Copysign(1, b-a+1e-15*math.Abs(b))) }) {
				t.Errorf("%s, start %d: the path rises: %v", name, seed, run.Trace)
			}
			if n := len(run.Trace); run.Trace[0] != start || run.Trace[n-1] != run.Value || n > run.Iterations+2 {
				t.Errorf("%s, start %d: from %v, a path of %d points from %v to %v, value %v after %d iterations", name, seed, start, n, run.Trace[0], run.Trace[n-1], run.Value, run.Iterations)
			}
		}
	}
}

// TestApproach ends where an iteration of EM gains less than 1e−4 per row for
// the first time, and does not call that an optimum.
func TestApproach(t *testing.T) {
	p, _ := searchtest.Drawn(t, identity.Family, 3, 5, 1500, 0.2, 2, problem.Request{})
	q, err := starts.Random(p, searchtest.Measure(t, p)).Draw(t.Context(), rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	l := searchtest.Likelihood(p, p.Rows)
	r, err := climb.Approach(t.Context(), l, l.Theta(q), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range r.Trace[1:] {
		if crawls := r.Trace[i]-v < 1e-4; crawls != (i == len(r.Trace)-2) {
			t.Errorf("iteration %d of %d gains %v", i+1, len(r.Trace)-1, r.Trace[i]-v)
		}
	}
	if r.Status != optim.IterationLimit {
		t.Errorf("status %v", r.Status)
	}
	end, err := climb.Sharpen(t.Context(), l, r, nil)
	if err != nil || end.Status != optim.Converged || end.Iterations <= r.Iterations || !slices.Equal(end.Trace[:len(r.Trace)], r.Trace) {
		t.Errorf("sharpened: %v after %d iterations of which %d were made before, error %v", end.Status, end.Iterations, r.Iterations, err)
	}
}

// TestClimbIsStopped after any iteration, of EM or of Newton, or after those that
// end one and begin the other.
func TestClimbIsStopped(t *testing.T) {
	p, _ := searchtest.Drawn(t, relu.Family, 4, 8, 1500, 0.1, 3, problem.Request{})
	hopeless, err := starts.Random(p, searchtest.Measure(t, p)).Draw(t.Context(), rand.New(rand.NewPCG(5, 0)))
	if err != nil {
		t.Fatal(err)
	}
	l := searchtest.Likelihood(p, p.Rows)
	path := searchtest.Climbed(t, p, p.Rows, hopeless).Trace
	for at := 20; at < len(path)-4; at++ {
		r, err := climb.Climb(t.Context(), l, l.Theta(hopeless), func(_ int, value float64) bool { return value <= path[at]+1e-9 })
		if err != nil || r.Status != optim.Stopped || r.Value > path[at]+1e-9 || r.Value < path[at+3]-1e-9 {
			t.Errorf("stopped at point %d of %d: %v, value %v, want %v; error %v", at, len(path), r.Status, r.Value, path[at], err)
		}
	}
}

// TestClimbWithoutHessian: a problem too large for one goes the way of L-BFGS, to
// a point where the gradient vanishes, and is asked whether to stop.
func TestClimbWithoutHessian(t *testing.T) {
	const k, d = 12, 130 // 12·23·130·131/2 is more than two million numbers
	rng := rand.New(rand.NewPCG(1, 1))
	b := model.Block{N: 256, X: make([]float64, 256*d), Y: make([]float64, 256)}
	for i := range b.X {
		b.X[i] = rng.NormFloat64()
	}
	for i := range b.Y {
		b.Y[i] = rng.NormFloat64()
	}
	q := model.NewParams(k, d)
	q.Sigma[0] = 1
	for i := range k {
		q.Regressor(i)[i] = 0.1
	}
	// All but the noise and the first two features' coefficients are held.
	free := loss.Free{Regressors: true, Sigma: true, ExpertColumns: []int{0, 1}}
	l := loss.NewLikelihood(&model.Data{N: 256, D: d, Blocks: []model.Block{b}}, searchtest.Activation(t, identity.Family), q, free, 1)
	if l.Dense() {
		t.Fatal("the problem has room for a Hessian")
	}
	r, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
	if err != nil {
		t.Fatal(err)
	}
	before, after := make([]float64, l.Dim()), make([]float64, l.Dim())
	if _, err := l.Grad(t.Context(), before, l.Theta(q)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Grad(t.Context(), after, r.X); err != nil {
		t.Fatal(err)
	}
	if r.Status != optim.Converged || floats.Norm(after, 2) > 1e-3*floats.Norm(before, 2) {
		t.Errorf("%v, gradient %v of %v", r.Status, floats.Norm(after, 2), floats.Norm(before, 2))
	}
	r, err = climb.Climb(t.Context(), l, l.Theta(q), func(i int, _ float64) bool { return i == 3 })
	if err != nil || r.Status != optim.Stopped || r.Iterations != 3 {
		t.Errorf("stopped after three: %v after %d, error %v", r.Status, r.Iterations, err)
	}
}

// TestGoOn: what was and what comes are one path.
func TestGoOn(t *testing.T) {
	for _, c := range []struct{ was, comes, want []float64 }{
		{[]float64{5, 3}, []float64{3, 2, 1}, []float64{5, 3, 2, 1}},
		{nil, []float64{3, 2}, []float64{3, 2}},
		{[]float64{5, 3}, nil, []float64{5, 3}},
	} {
		was := &optim.Result{X: []float64{7}, Iterations: 4, Trace: append(make([]float64, 0, 9), c.was...)}
		got, err := climb.GoOn(was, func(x []float64) (*optim.Result, error) {
			if x[0] != 7 {
				t.Errorf("goes on from %v", x)
			}
			return &optim.Result{Iterations: 2, Trace: c.comes}, nil
		})
		if err != nil || got.Iterations != 6 || !slices.Equal(got.Trace, c.want) {
			t.Errorf("%v and %v make %v after %d iterations, error %v", c.was, c.comes, got.Trace, got.Iterations, err)
		}
		if fmt.Sprint(was.Trace) != fmt.Sprint(append([]float64{}, c.was...)) {
			t.Errorf("the path before is now %v", was.Trace)
		}
	}
}

// flatter is the square of a number with the curvature of something much flatter: whatever goes by its
// Hessian goes too far.
type flatter struct{}

func (flatter) Dim() int                                                      { return 1 }
func (flatter) Value(_ context.Context, x []float64) (float64, error)         { return x[0] * x[0], nil }
func (flatter) EMStep(context.Context, []float64, []float64) (float64, error) { panic("it has no EM") }
func (flatter) Hessian(context.Context, *mat.SymDense, []float64, []float64) (float64, error) {
	panic("it has no Hessian")
}
func (flatter) Grad(_ context.Context, dst, x []float64) (float64, error) {
	dst[0] = 2 * x[0]
	return x[0] * x[0], nil
}
func (flatter) HessianTimes(_ context.Context, dst, v, _ []float64) error {
	dst[0] = 1e-12 * v[0]
	return nil
}
func (flatter) Diagonal(_ context.Context, dst, _ []float64) error {
	dst[0] = 1e-12
	return nil
}
func (flatter) Dense() bool              { return false }
func (flatter) Products() bool           { return true }
func (flatter) ReuseCurvature()          {}
func (flatter) Rows() float64            { return 1 }
func (flatter) StepsPerHessian() float64 { return 1 }

// TestClimbGoesOnWhereNewtonStalls: L-BFGS takes over where truncated Newton finds no step.
func TestClimbGoesOnWhereNewtonStalls(t *testing.T) {
	r, err := climb.Climb(t.Context(), flatter{}, []float64{3}, nil)
	if err != nil || r.Status != optim.Converged || math.Abs(r.X[0]) > 1e-6 {
		t.Errorf("%v at %v, error %v", r.Status, r.X, err)
	}
}

// TestLeap ends at the optimum that [climb.Approach] leads to, on a path that never rises, in fewer steps where those
// creep. Its stop sees every step, of which two that are looked at together have gained the same.
func TestLeap(t *testing.T) {
	p, _ := searchtest.Drawn(t, identity.Family, 3, 5, 1500, 0.5, 2, problem.Request{})
	q, err := starts.Random(p, searchtest.Measure(t, p)).Draw(t.Context(), rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	l := searchtest.Likelihood(p, p.Rows)
	var seen []float64
	end := func(way climb.Way, stop func(int, float64) bool) (r, top *optim.Result) {
		if r, err = way(t.Context(), l, l.Theta(q), stop); err != nil {
			t.Fatal(err)
		}
		if top, err = climb.Sharpen(t.Context(), l, r, nil); err != nil {
			t.Fatal(err)
		}
		return r, top
	}
	plain, top := end(climb.Approach, nil)
	leapt, other := end(climb.Leap, func(iteration int, value float64) bool {
		if seen = append(seen, value); iteration != len(seen)+1 { // the first two steps are looked at together
			t.Errorf("iteration %d is seen as number %d", iteration, len(seen))
		}
		return false
	})
	t.Logf("%d steps, %d by leaps, to %v and %v", plain.Iterations, leapt.Iterations, top.Value, other.Value)
	if !slices.IsSortedFunc(leapt.Trace, func(a, b float64) int { return cmp.Compare(b, a) }) || leapt.Status != optim.IterationLimit {
		t.Errorf("%v, path %v", leapt.Status, leapt.Trace)
	}
	if math.Abs(top.Value-other.Value) > 1e-9 || 3*leapt.Iterations > 2*plain.Iterations { // by Newton's method
		t.Errorf("%d steps to %v, %d leaps to %v", plain.Iterations, top.Value, leapt.Iterations, other.Value)
	}
	for i := range min(len(seen), len(leapt.Trace)) - 2 {
		if rise := seen[i+1] - seen[i]; rise > 1e-15 {
			t.Errorf("step %d is seen to rise by %v", i+1, rise)
		}
	}
	if r, _ := end(climb.Leap, func(iteration int, _ float64) bool { return iteration == 4 }); r.Iterations > 5 {
		t.Errorf("a run whose fourth step was to be its last has made %d", r.Iterations)
	}
}
