package optim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// noisy is ½|x − 1|² with gradients that carry N(0, sd²) noise.
type noisy struct {
	sd  float64
	rng *rand.Rand
}

func (n *noisy) Dim() int { return 2 }

func (n *noisy) NextGrad(_ context.Context, dst, x []float64) (float64, error) {
	v := 0.0
	for i := range x {
		v += (x[i] - 1) * (x[i] - 1) / 2
		dst[i] = x[i] - 1 + n.sd*n.rng.NormFloat64()
	}
	return v, nil
}

func (n *noisy) Value(ctx context.Context, x []float64) (float64, error) {
	return n.NextGrad(ctx, make([]float64, 2), x)
}

func (n *noisy) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	return n.NextGrad(ctx, dst, x)
}

// steep has the gradient −x³: descent from 2 explodes.
type steep struct{ noisy }

func (*steep) NextGrad(_ context.Context, dst, x []float64) (float64, error) {
	for i, v := range x {
		dst[i] = -v * v * v
	}
	return -x[0] * x[0] * x[0] * x[0], nil
}

// TestStochastic: from noise-free gradients the closed form; with noise a
// stationary spread. SGD of step h on ½|x−1|² has variance h·sd²/(2−h) in each
// coordinate: at h = 0.01 and sd = 1 a standard deviation of 0.07, and 0.5 is
// seven of them (false alarm below 1e−11).
func TestStochastic(t *testing.T) {
	set := StochasticSettings{Steps: 100, StepSize: 0.1}
	quiet := &noisy{rng: rand.New(rand.NewPCG(1, 1))}
	r, err := SGD(t.Context(), quiet, []float64{0, 3}, set)
	want := math.Pow(0.9, 100)
	if err != nil || r.Status != Converged || math.Abs(1-r.X[0]-want) > 1e-12 || math.Abs(r.X[1]-1-2*want) > 1e-12 {
		t.Errorf("SGD ended %v at %v, error %v", r.Status, r.X, err)
	}
	loud := &noisy{sd: 1, rng: rand.New(rand.NewPCG(2, 2))}
	set = StochasticSettings{Steps: 3000, StepSize: 0.01}
	for name, run := range map[string]func(context.Context, Stochastic, []float64, StochasticSettings) (*Result, error){"SGD": SGD, "Adam": Adam} {
		r, err := run(t.Context(), loud, []float64{-3, 4}, set)
		if err != nil || math.Abs(r.X[0]-1) > 0.5 || math.Abs(r.X[1]-1) > 0.5 || len(r.Trace) != 3000 {
			t.Errorf("%s ended %v at %v after %d, error %v", name, r.Status, r.X, len(r.Trace), err)
		}
	}
}

// TestAdamFirstStep: it is StepSize in every coordinate, whatever the gradient.
func TestAdamFirstStep(t *testing.T) {
	r, err := Adam(t.Context(), &noisy{rng: rand.New(rand.NewPCG(1, 1))}, []float64{1001, -1}, StochasticSettings{Steps: 1, StepSize: 0.25, Bound: 1e4})
	if err != nil || math.Abs(r.X[0]-1000.75) > 1e-8 || math.Abs(r.X[1]+0.75) > 1e-8 {
		t.Errorf("first step to %v, error %v", r.X, err)
	}
}

// TestDivergence ends with a status and a finite point.
func TestDivergence(t *testing.T) {
	r, err := SGD(t.Context(), &steep{}, []float64{2, 2}, StochasticSettings{Steps: 1000, StepSize: 0.1})
	if err != nil || r.Status != Diverged || !within(r.X, 1e3) || r.Iterations >= 1000 {
		t.Errorf("ended %v at %v after %d steps, error %v", r.Status, r.X, r.Iterations, err)
	}
	if within([]float64{math.NaN()}, 1) {
		t.Error("NaN is within bounds")
	}
}

func TestStochasticEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := &noisy{rng: rand.New(rand.NewPCG(1, 1))}
	if r, err := SGD(ctx, q, []float64{0, 0}, StochasticSettings{Steps: 9, StepSize: 1}); !errors.Is(err, context.Canceled) || r.Status != Canceled {
		t.Errorf("status %v, error %v after cancel", r.Status, err)
	}
	var seen []int
	r, err := SGD(t.Context(), q, []float64{0, 0}, StochasticSettings{Steps: 90, StepSize: 0.1, Every: 10, Watch: func(step int, x []float64) bool {
		seen = append(seen, step)
		return step == 20
	}})
	if err != nil || r.Status != Stopped || r.Iterations != 20 || len(seen) != 3 {
		t.Errorf("status %v after %d steps, watched at %v, error %v", r.Status, r.Iterations, seen, err)
	}
}

// TestSchedules: the sum of the steps of ½|x−1|² in closed form.
func TestSchedules(t *testing.T) {
	for _, s := range Schedules() {
		left := 1.0
		for i := range 50 {
			left *= 1 - 0.1*s.Factor(i, 50)
		}
		r, err := SGD(t.Context(), &noisy{rng: rand.New(rand.NewPCG(1, 1))}, []float64{0, 2}, StochasticSettings{Steps: 50, StepSize: 0.1, Schedule: s})
		if err != nil || math.Abs(1-r.X[0]-left) > 1e-12 {
			t.Errorf("%s: ended at %v, want %v from 1, error %v", s.Name(), r.X, left, err)
		}
	}
	if f := (Inverse{}).Factor(100, 100); math.Abs(f-0.1) > 1e-15 {
		t.Errorf("inverse ends at %v", f)
	}
	if f := (Cosine{}).Factor(100, 100); f != 0 {
		t.Errorf("cosine ends at %v", f)
	}
}

// TestProjected: the minimum of |x − (1,1)|² on the disc of radius 1/2 is on its
// rim; without a projection it is (1, 1).
func TestProjected(t *testing.T) {
	q := &noisy{rng: rand.New(rand.NewPCG(1, 1))}
	r, err := Projected(t.Context(), q, []float64{-0.3, 0.1}, ProjectedSettings{StepSize: 0.5, Project: RowBall(2, 0.5), Tolerance: 1e-12})
	if want := math.Sqrt(0.125); err != nil || r.Status != Converged || math.Abs(r.X[0]-want) > 1e-10 || math.Abs(r.X[1]-want) > 1e-10 {
		t.Errorf("ended %v at %v, error %v", r.Status, r.X, err)
	}
	r, err = Projected(t.Context(), q, []float64{-3, 5}, ProjectedSettings{StepSize: 0.5})
	if err != nil || r.Status != Converged || math.Abs(r.X[0]-1) > 1e-7 {
		t.Errorf("ended %v at %v, error %v", r.Status, r.X, err)
	}
	if r, _ := Projected(t.Context(), q, []float64{-3, 5}, ProjectedSettings{StepSize: 1e-3, Iterations: 5}); r.Status != IterationLimit || r.Iterations != 5 || len(r.Trace) != 6 {
		t.Errorf("ended %v after %d", r.Status, r.Iterations)
	}
}
