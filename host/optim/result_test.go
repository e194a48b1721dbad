package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestResultIsTheBest holds the methods that go down to what [Result] says,
// wherever they are cut off.
func TestResultIsTheBest(t *testing.T) {
	ctx, x0 := t.Context(), []float64{-1.2, 1}
	for name, run := range map[string]func(Settings) (*Result, float64, error){
		"Newton": func(s Settings) (*Result, float64, error) {
			r, err := Newton(ctx, &rosenbrock{}, x0, s)
			v, _ := (&rosenbrock{}).Value(ctx, r.X)
			return r, v, err
		},
		"LBFGS": func(s Settings) (*Result, float64, error) {
			r, err := LBFGS(ctx, &rosenbrock{}, x0, s)
			v, _ := (&rosenbrock{}).Value(ctx, r.X)
			return r, v, err
		},
		"EM": func(s Settings) (*Result, float64, error) { // its first step overshoots
			r, err := EM(ctx, new(bowl), []float64{0, 0}, s)
			v, _ := new(bowl).EMStep(ctx, make([]float64, 2), r.X)
			return r, v, err
		},
	} {
		for n := 1; n <= 40; n++ {
			r, at, err := run(Settings{Iterations: n})
			if err != nil || r.Value != at {
				t.Fatalf("%s, %d iterations: the value is %v, at X it is %v (%v)", name, n, r.Value, at, err)
			}
			if best := slices.Min(r.Trace); r.Value > best+1e-15*math.Abs(best) {
				t.Errorf("%s, %d iterations: ended at %v, the best was %v", name, n, r.Value, best)
			}
		}
	}
}

// TestResultIsTheLast: with steps that are too long the value of ½|x − 1|² grows
// from 1 to 1.21 of it in each, and the result is where the run has come to.
func TestResultIsTheLast(t *testing.T) {
	const steps, size = 5, 2.1 // x − 1 becomes −1.1 times itself
	q := &noisy{rng: rand.New(rand.NewPCG(1, 1))}
	after := func(n int) (x, value float64) {
		d := 0.5 * math.Pow(-1.1, float64(n))
		return 1 + d, d * d // of two coordinates
	}
	check := func(name string, r *Result, err error, lastValue float64) {
		t.Helper()
		x, _ := after(steps)
		if err != nil || math.Abs(r.X[0]-x) > 1e-12 || math.Abs(r.Value-lastValue) > 1e-12 || r.Value != r.Trace[len(r.Trace)-1] {
			t.Errorf("%s ended at %v with value %v, want %v and %v (%v)", name, r.X, r.Value, x, lastValue, err)
		}
		if r.Value <= slices.Min(r.Trace) {
			t.Errorf("%s: the last value %v is the best: the test tells nothing", name, r.Value)
		}
	}
	x0 := []float64{1.5, 1.5}
	_, last := after(steps)
	r, err := Projected(t.Context(), q, x0, ProjectedSettings{Iterations: steps, StepSize: size})
	check("Projected", r, err, last)
	_, before := after(steps - 1)
	r, err = SGD(t.Context(), q, x0, StochasticSettings{Steps: steps, StepSize: size})
	check("SGD", r, err, before)
	// From 1.5 Adam's first step of 1 goes to 0.5, where the value is 0.25; the
	// second turns back to 0.5526 by the closed form.
	r, err = Adam(t.Context(), q, x0, StochasticSettings{Steps: 2, StepSize: 1})
	if err != nil || math.Abs(r.Value-0.25) > 1e-7 || len(r.Trace) != 2 || math.Abs(r.X[0]-0.5526315) > 1e-6 {
		t.Errorf("Adam ended at %v with value %v after %v (%v)", r.X, r.Value, r.Trace, err)
	}
}

// TestResultWithoutAValue: what fails at once is where it began.
func TestResultWithoutAValue(t *testing.T) {
	b := &broken{value: math.NaN()}
	x0 := []float64{3, 4}
	for name, run := range map[string]func() (*Result, error){
		"EM":     func() (*Result, error) { return EM(t.Context(), b, x0, Settings{}) },
		"Newton": func() (*Result, error) { return Newton(t.Context(), b, x0, Settings{}) },
		"LBFGS":  func() (*Result, error) { return LBFGS(t.Context(), b, x0, Settings{}) },
		"Projected": func() (*Result, error) {
			return Projected(t.Context(), b, x0, ProjectedSettings{})
		},
	} {
		if r, err := run(); err != nil || !slices.Equal(r.X, x0) || !math.IsInf(r.Value, 1) {
			t.Errorf("%s: X = %v, value %v (%v)", name, r.X, r.Value, err)
		}
	}
}

// TestAfter: a run that goes on from another has the iterations and the trace of both, and ends where it ended.
func TestAfter(t *testing.T) {
	earlier := &Result{Value: 3, Iterations: 2, Trace: []float64{5, 4, 3}}
	r := &Result{Value: 1, Iterations: 1, Trace: []float64{3, 1}}
	r.After(earlier)
	if r.Iterations != 3 || r.Value != 1 || !slices.Equal(r.Trace, []float64{5, 4, 3, 3, 1}) || len(earlier.Trace) != 3 {
		t.Errorf("%+v after %+v", r, earlier)
	}
}
