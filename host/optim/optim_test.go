package optim

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// rosenbrock has its minimum 0 at (1, 1), at the end of a curved valley.
type rosenbrock struct{}

func (r *rosenbrock) Dim() int { return 2 }

func (r *rosenbrock) Value(_ context.Context, x []float64) (float64, error) {
	a, b := 1-x[0], x[1]-x[0]*x[0]
	return a*a + 100*b*b, nil
}

func (r *rosenbrock) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	b := x[1] - x[0]*x[0]
	dst[0], dst[1] = -2*(1-x[0])-400*x[0]*b, 200*b
	return r.Value(ctx, x)
}

func (r *rosenbrock) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	h.SetSym(0, 0, 2-400*(x[1]-3*x[0]*x[0]))
	h.SetSym(0, 1, -400*x[0])
	h.SetSym(1, 1, 200)
	return r.Grad(ctx, grad, x)
}

func (r *rosenbrock) HessianTimes(ctx context.Context, dst, v, x []float64) error {
	h := mat.NewSymDense(2, nil)
	r.Hessian(ctx, h, make([]float64, 2), x)
	mat.NewVecDense(2, dst).MulVec(h, mat.NewVecDense(2, v))
	return nil
}

func (r *rosenbrock) Diagonal(_ context.Context, dst, x []float64) error {
	dst[0], dst[1] = math.Abs(2-400*(x[1]-3*x[0]*x[0])), 200
	return nil
}

// bowl is |x − 1|² with an EM map that halves the distance, but overshoots in
// its first step.
type bowl struct {
	rosenbrock
	steps int
}

func (b *bowl) EMStep(_ context.Context, dst, x []float64) (float64, error) {
	value := 0.0
	for i, v := range x {
		value += (v - 1) * (v - 1)
		dst[i] = v + 0.5*(1-v)
	}
	if b.steps++; b.steps == 1 {
		dst[0], dst[1] = 30, 30
	}
	return value, nil
}

func TestMinimisers(t *testing.T) {
	ctx := t.Context()
	x0 := []float64{-1.2, 1}
	run := map[string]func(*rosenbrock) (*Result, error){
		"Newton": func(r *rosenbrock) (*Result, error) { return Newton(ctx, r, x0, Settings{}) },
		"TruncatedNewton": func(r *rosenbrock) (*Result, error) {
			return TruncatedNewton(ctx, r, x0, Settings{})
		},
		"LBFGS": func(r *rosenbrock) (*Result, error) { return LBFGS(ctx, r, x0, Settings{}) },
		"EM": func(r *rosenbrock) (*Result, error) {
			return EM(ctx, new(bowl), []float64{0, 0}, Settings{Tolerance: 1e-16})
		},
		"SQUAREM": func(r *rosenbrock) (*Result, error) {
			return SQUAREM(ctx, new(bowl), []float64{0, 0}, Settings{Tolerance: 1e-16})
		},
	}
	for name, f := range run {
		r, err := f(&rosenbrock{})
		if err != nil || r.Status != Converged {
			t.Errorf("%s: %v, error %v", name, r.Status, err)
		}
		// Value error v leaves x within √(v/λ), λ = 0.4 the least curvature.
		if math.Abs(r.X[0]-1) > 1e-6 || math.Abs(r.X[1]-1) > 1e-6 {
			t.Errorf("%s: ended at %v", name, r.X)
		}
		for i := 1; i < len(r.Trace); i++ {
			if r.Trace[i] > r.Trace[i-1] {
				t.Errorf("%s: iteration %d rises from %v to %v", name, i, r.Trace[i-1], r.Trace[i])
			}
		}
	}
}

// kinked is |x−1| + (x−1)²: its minimum lies at a kink, where the gradient is
// not 0 and Newton steps jump back and forth.
type kinked struct{}

func (kinked) Dim() int { return 1 }
func (kinked) Value(_ context.Context, x []float64) (float64, error) {
	d := x[0] - 1
	return 1e-3*math.Abs(d) + d*d, nil
}
func (k kinked) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	d := x[0] - 1
	dst[0] = math.Copysign(1e-3, d) + 2*d
	return k.Value(ctx, x)
}
func (k kinked) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	h.SetSym(0, 0, 2)
	return k.Grad(ctx, grad, x)
}

func (kinked) HessianTimes(_ context.Context, dst, v, _ []float64) error {
	dst[0] = 2 * v[0]
	return nil
}
func (kinked) Diagonal(_ context.Context, dst, _ []float64) error {
	dst[0] = 2
	return nil
}

func TestTruncatedNewtonEndsAtAKink(t *testing.T) {
	r, err := TruncatedNewton(t.Context(), kinked{}, []float64{3}, Settings{Slack: 1e-6})
	if err != nil || r.Status != Converged || math.Abs(r.X[0]-1) > 1e-3 {
		t.Errorf("ended at %v, %v, error %v", r.X, r.Status, err)
	}
	if r, _ = TruncatedNewton(t.Context(), kinked{}, []float64{3}, Settings{Tolerance: 1e-300}); r.Status == Converged && math.Abs(r.X[0]-1) > 1e-9 {
		t.Errorf("without slack: converged at %v", r.X)
	}
}

func TestNewtonEndsAtAKink(t *testing.T) {
	r, err := Newton(t.Context(), kinked{}, []float64{3}, Settings{Slack: 1e-6})
	if err != nil || r.Status != Converged || math.Abs(r.X[0]-1) > 1e-3 {
		t.Errorf("ended at %v, %v, error %v", r.X, r.Status, err)
	}
	r, _ = Newton(t.Context(), kinked{}, []float64{3}, Settings{Tolerance: 1e-300})
	if r.Status == Converged && math.Abs(r.X[0]-1) > 1e-9 {
		t.Errorf("without slack: converged at %v", r.X)
	}
}

// broken returns what it is told to.
type broken struct {
	bowl
	value float64
	err   error
}

func (b *broken) Value(context.Context, []float64) (float64, error)         { return b.value, b.err }
func (b *broken) Grad(_ context.Context, _, _ []float64) (float64, error)   { return b.value, b.err }
func (b *broken) EMStep(_ context.Context, _, _ []float64) (float64, error) { return b.value, b.err }
func (b *broken) Hessian(_ context.Context, _ *mat.SymDense, _, _ []float64) (float64, error) {
	return b.value, b.err
}

func TestFailures(t *testing.T) {
	x0 := []float64{0, 0}
	run := func(b *broken) []*Result {
		var out []*Result
		for _, f := range []func() (*Result, error){
			func() (*Result, error) { return EM(t.Context(), b, x0, Settings{}) },
			func() (*Result, error) { return Newton(t.Context(), b, x0, Settings{}) },
			func() (*Result, error) { return LBFGS(t.Context(), b, x0, Settings{}) },
		} {
			r, err := f()
			if !errors.Is(err, b.err) {
				t.Errorf("error %v, want %v", err, b.err)
			}
			out = append(out, r)
		}
		return out
	}
	for i, r := range run(&broken{err: context.Canceled}) {
		if r.Status != Canceled {
			t.Errorf("method %d: status %v after cancel", i, r.Status)
		}
	}
	for i, r := range run(&broken{value: math.NaN()})[:2] {
		if r.Status != Diverged {
			t.Errorf("method %d: status %v at NaN", i, r.Status)
		}
	}
	if r, err := LBFGS(t.Context(), &broken{value: math.NaN()}, x0, Settings{}); err == nil && r.Status == Converged {
		t.Error("LBFGS converged at NaN")
	}
	stop := Settings{Stop: func(iteration int, _ float64) bool { return iteration >= 3 }}
	for _, f := range []func() (*Result, error){
		func() (*Result, error) { return EM(t.Context(), new(bowl), []float64{0, 0}, stop) },
		func() (*Result, error) { return Newton(t.Context(), &rosenbrock{}, []float64{-1.2, 1}, stop) },
		func() (*Result, error) { return LBFGS(t.Context(), &rosenbrock{}, []float64{-1.2, 1}, stop) },
	} {
		if r, err := f(); err != nil || r.Status != Stopped || r.Iterations > 6 {
			t.Errorf("stopped run: %v after %d iterations, error %v", r.Status, r.Iterations, err)
		}
	}
}

// stiff has curvatures 1e16 and 1, as a likelihood at a noise level of 1e−8.
type stiff struct{}

func (stiff) Dim() int { return 2 }
func (stiff) Value(_ context.Context, x []float64) (float64, error) {
	return 1e16*(x[0]-1)*(x[0]-1) + math.Cosh(x[1]-1), nil
}
func (s stiff) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	dst[0], dst[1] = 2e16*(x[0]-1), math.Sinh(x[1]-1)
	return s.Value(ctx, x)
}
func (s stiff) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	h.SetSym(0, 0, 2e16)
	h.SetSym(0, 1, 0)
	h.SetSym(1, 1, math.Cosh(x[1]-1))
	return s.Grad(ctx, grad, x)
}

// TestNewtonIsIndifferentToScale: no damping where curvatures differ widely.
func TestNewtonIsIndifferentToScale(t *testing.T) {
	r, err := Newton(t.Context(), stiff{}, []float64{3, 3}, Settings{Iterations: 10})
	// The value's rounding, 1e−16, leaves x[1] within its root.
	if err != nil || r.Status != Converged || r.X[0] != 1 || math.Abs(r.X[1]-1) > 1e-7 {
		t.Errorf("ended at %v, %v, error %v", r.X, r.Status, err)
	}
}

// gentle is cosh(x−1) in each of two variables, and counts its Hessians.
type gentle struct{ hessians int }

func (*gentle) Dim() int { return 2 }
func (*gentle) Value(_ context.Context, x []float64) (float64, error) {
	return math.Cosh(x[0]-1) + math.Cosh(x[1]-1), nil
}
func (g *gentle) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	dst[0], dst[1] = math.Sinh(x[0]-1), math.Sinh(x[1]-1)
	return g.Value(ctx, x)
}
func (g *gentle) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	g.hessians++
	h.SetSym(0, 0, math.Cosh(x[0]-1))
	h.SetSym(0, 1, 0)
	h.SetSym(1, 1, math.Cosh(x[1]-1))
	return g.Grad(ctx, grad, x)
}

// TestNewtonKeepsItsHessian where it hardly changes: one at the start is enough, as exact
// as with one in every step.
func TestNewtonKeepsItsHessian(t *testing.T) {
	g := new(gentle)
	r, err := Newton(t.Context(), g, []float64{1.1, 0.95}, Settings{})
	// The value's rounding, 1e−16, leaves x within its root; the last step, whose
	// promise is below that, is taken all the same.
	if err != nil || r.Status != Converged || math.Abs(r.X[0]-1) > 1e-10 || math.Abs(r.X[1]-1) > 1e-10 {
		t.Errorf("ended at %v, %v, error %v", r.X, r.Status, err)
	}
	if g.hessians != 1 {
		t.Errorf("%d Hessians, want 1", g.hessians)
	}
}

// TestNewtonEndsWhereItIsNotWorthItsCost: at the start of Rosenbrock's valley
// steps bring less than half of what they promise.
func TestNewtonEndsWhereItIsNotWorthItsCost(t *testing.T) {
	whole, err := Newton(t.Context(), &rosenbrock{}, []float64{-1.2, 1}, Settings{})
	if err != nil || whole.Status != Converged {
		t.Fatalf("%v, error %v", whole.Status, err)
	}
	r, err := Newton(t.Context(), &rosenbrock{}, []float64{-1.2, 1}, Settings{Worth: 10})
	if err != nil || r.Status != Stalled || r.Iterations >= whole.Iterations {
		t.Errorf("%v after %d iterations of %d, error %v", r.Status, r.Iterations, whole.Iterations, err)
	}
}

// overstated is gentle with a Hessian too large by a factor: steps leave what they fall
// short of, ρ = 1 − 1/factor of the way.
type overstated struct {
	gentle
	factor float64
}

func (o *overstated) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	v, err := o.gentle.Hessian(ctx, h, grad, x)
	h.ScaleSym(o.factor, h)
	return v, err
}

// TestSettled: a run that has settled has no step left worth the name, by the right
// Hessian either; one that ends by a loose tolerance has not.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		factor, tolerance float64
		settled           bool
	}{{1, 0, true}, {1.001, 0, true}, {1.3, 0, true}, {1.3, 1e-3, false}} {
		o := &overstated{factor: c.factor}
		r, err := Newton(t.Context(), o, []float64{1.1, .95}, Settings{Tolerance: c.tolerance})
		if err != nil || r.Status != Converged || r.Settled != c.settled {
			t.Errorf("%+v: %+v, %v", c, r, err)
			continue
		}
		p, err := Polish(t.Context(), new(gentle), r.X, Settings{})
		if err != nil || r.Settled && p.Iterations > 0 || !r.Settled && p.Iterations == 0 {
			t.Errorf("%+v: settled %v, and %d steps of Polish, %v", c, r.Settled, p.Iterations, err)
		}
	}
}

// TestPolish: from next to a minimum to its last digits, from the minimum not at all, and
// nowhere from where the Hessian is not positive definite.
func TestPolish(t *testing.T) {
	ctx := t.Context()
	r, err := Polish(ctx, &rosenbrock{}, []float64{1 + 1e-4, 1 - 1e-4}, Settings{})
	if err != nil || r.Status != Converged || r.Iterations < 2 || math.Abs(r.X[0]-1) > 1e-10 || math.Abs(r.X[1]-1) > 1e-10 {
		t.Errorf("%+v, %v", r, err)
	}
	again, err := Polish(ctx, &rosenbrock{}, []float64{1, 1}, Settings{})
	if err != nil || again.Status != Converged || again.Iterations != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	if r, err = Polish(ctx, &rosenbrock{}, []float64{0, 2}, Settings{}); err != nil || r.Status != Stalled || r.X[0] != 0 || r.X[1] != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// creeping is a sum of squares whose EM map takes 1 %, 3 % and half of what is left of each variable.
type creeping struct{ *rosenbrock }

func (creeping) EMStep(_ context.Context, dst, x []float64) (value float64, err error) {
	for i, rate := range []float64{0.99, 0.97, 0.5} {
		value += x[i] * x[i]
		dst[i] = rate * x[i]
	}
	return value, nil
}

// TestSQUAREMExtrapolates: where EM creeps at a rate of 0.99, ln(1e6)/−2·ln 0.99 = 687 steps
// for a value 1e−6 of the first, extrapolated steps take a tenth, and never rise.
func TestSQUAREMExtrapolates(t *testing.T) {
	x0 := []float64{1, 1, 1}
	reached := func(run func(context.Context, EMStepper, []float64, Settings) (*Result, error)) int {
		r, err := run(t.Context(), creeping{}, x0, Settings{
			Iterations: 10_000, Tolerance: 1e-30,
			Stop: func(_ int, value float64) bool { return value < 3e-6 },
		})
		if err != nil || r.Status != Stopped {
			t.Fatalf("%v, error %v", r.Status, err)
		}
		for i := 1; i < len(r.Trace); i++ {
			if r.Trace[i] > r.Trace[i-1] {
				t.Errorf("step %d rises from %v to %v", i, r.Trace[i-1], r.Trace[i])
			}
		}
		return r.Iterations
	}
	plain, extrapolated := reached(EM), reached(SQUAREM)
	if plain < 600 || extrapolated > plain/10 {
		t.Errorf("%d steps of EM, %d extrapolated", plain, extrapolated)
	}
}

// TestKeptHessianLearns: where the Hessian is wrong in one direction, as that of a likelihood is in the noise level's,
// what the gradients show of it makes up for that.
func TestKeptHessianLearns(t *testing.T) {
	const dim = 20
	s := &skewed{dim: dim}
	x0 := make([]float64, dim)
	for i := range x0 {
		x0[i] = 1e-3
	}
	r, err := Newton(t.Context(), s, x0, Settings{})
	if err != nil || r.Status != Converged || !r.Settled {
		t.Fatalf("%+v, error %v", r, err)
	}
	// With the Hessian as it is a step leaves a fifth of the way in x₀, and 1/25 of the promise: from 1e−6 to 1e−24 by 13.
	if s.hessians != 1 || s.gradients > 6 {
		t.Errorf("%d Hessians and %d gradients, want 1 and at most 6", s.hessians, s.gradients)
	}
}

// skewed is Σ (1+i)·x_i²/2 with a Hessian 1.25 times too large in the first variable.
type skewed struct {
	dim, hessians, gradients int
}

func (s *skewed) Dim() int { return s.dim }

func (s *skewed) Value(_ context.Context, x []float64) (v float64, _ error) {
	for i, x := range x {
		v += float64(1+i) * x * x / 2
	}
	return v, nil
}

func (s *skewed) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	s.gradients++
	for i, x := range x {
		dst[i] = float64(1+i) * x
	}
	return s.Value(ctx, x)
}

func (s *skewed) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	s.hessians++
	for i := range x {
		h.SetSym(i, i, float64(1+i))
	}
	h.SetSym(0, 0, 1.25)
	v, err := s.Grad(ctx, grad, x)
	s.gradients--
	return v, err
}
