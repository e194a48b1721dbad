package optim

import (
	"context"
	"errors"
	"math"
	"testing"
)

// chain is Σ c_i·x_i²/2 + Σ_i (x_i − x_{i+1})²/2 + ⟨b, x⟩ of many variables, c_i from 1e−3 to
// 1e3. It counts products with its Hessian, and fails at the failAt-th.
type chain struct {
	c, b             []float64
	products, failAt int
}

func newChain(n int) *chain {
	v := &chain{c: make([]float64, n), b: make([]float64, n)}
	for i := range n {
		v.c[i] = math.Pow(10, 6*float64(i)/float64(n-1)-3)
		v.b[i] = math.Sin(float64(i))
	}
	return v
}

var errChain = errors.New("chain")

func (v *chain) Dim() int { return len(v.c) }

func (v *chain) Value(ctx context.Context, x []float64) (float64, error) {
	return v.Grad(ctx, make([]float64, len(x)), x)
}

func (v *chain) Grad(_ context.Context, dst, x []float64) (float64, error) {
	value := 0.0
	v.times(dst, x)
	for i, t := range x {
		value += t * (dst[i]/2 + v.b[i])
		dst[i] += v.b[i]
	}
	return value, nil
}

func (v *chain) times(dst, x []float64) {
	for i, t := range x {
		dst[i] = v.c[i] * t
	}
	for i := range len(x) - 1 {
		dst[i] += x[i] - x[i+1]
		dst[i+1] += x[i+1] - x[i]
	}
}

func (v *chain) HessianTimes(_ context.Context, dst, along, _ []float64) error {
	if v.products++; v.products == v.failAt {
		return errChain
	}
	v.times(dst, along)
	return nil
}

func (v *chain) Diagonal(_ context.Context, dst, _ []float64) error {
	for i, c := range v.c {
		dst[i] = c + 2
	}
	return nil
}

// TestTruncatedNewtonOfManyVariables: of 300 variables whose curvatures are 1e6 apart the
// minimum is found to the accuracy that the promise's 1e−12 leaves. Conjugate gradients in exact
// arithmetic take a product for each variable at most; twice as many are for rounding, and
// for the systems of the first steps, which are solved to a half.
func TestTruncatedNewtonOfManyVariables(t *testing.T) {
	v := newChain(300)
	r, err := TruncatedNewton(t.Context(), v, make([]float64, 300), Settings{})
	if err != nil || r.Status != Converged {
		t.Fatalf("%v, error %v", r.Status, err)
	}
	grad := make([]float64, 300)
	v.Grad(t.Context(), grad, r.X)
	decrement := 0.0 // at most: the least curvature is above 1e−3
	for _, g := range grad {
		decrement += g * g / 1e-3
	}
	if !(decrement < 1e-9) || v.products > 600 {
		t.Errorf("%d products, ‖∇‖²/1e−3 = %v", v.products, decrement)
	}
}

// saddle is x⁴/4 − x²/2 + y²/2: a start next to its saddle point has negative curvature.
type saddle struct{}

func (saddle) Dim() int { return 2 }
func (saddle) Value(_ context.Context, x []float64) (float64, error) {
	return x[0]*x[0]*(x[0]*x[0]/4-0.5) + x[1]*x[1]/2, nil
}
func (s saddle) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	dst[0], dst[1] = x[0]*(x[0]*x[0]-1), x[1]
	return s.Value(ctx, x)
}
func (saddle) HessianTimes(_ context.Context, dst, v, x []float64) error {
	dst[0], dst[1] = (3*x[0]*x[0]-1)*v[0], v[1]
	return nil
}
func (saddle) Diagonal(_ context.Context, dst, _ []float64) error {
	dst[0], dst[1] = 1, 1
	return nil
}

func TestTruncatedNewtonLeavesASaddle(t *testing.T) {
	for _, x0 := range [][]float64{{1e-3, 0.5}, {1e-3, 0}, {-0.2, 2}} {
		r, err := TruncatedNewton(t.Context(), saddle{}, x0, Settings{})
		if err != nil || r.Status != Converged || math.Abs(math.Abs(r.X[0])-1) > 1e-6 || math.Abs(r.X[1]) > 1e-6 {
			t.Errorf("from %v: %v at %v, error %v", x0, r.Status, r.X, err)
		}
	}
}

// TestTruncatedNewtonEnds: a product that fails, a stop, the limit and a context that has ended.
func TestTruncatedNewtonEnds(t *testing.T) {
	x0 := make([]float64, 40)
	v := newChain(40)
	v.failAt = 3
	if r, err := TruncatedNewton(t.Context(), v, x0, Settings{}); !errors.Is(err, errChain) || r.Status != NotRun {
		t.Errorf("%v, error %v", r.Status, err)
	}
	stop := func(iteration int, _ float64) bool { return iteration == 2 }
	if r, err := TruncatedNewton(t.Context(), newChain(40), x0, Settings{Stop: stop}); err != nil || r.Status != Stopped || r.Iterations != 2 {
		t.Errorf("%v after %d, error %v", r.Status, r.Iterations, err)
	}
	if r, err := TruncatedNewton(t.Context(), newChain(40), x0, Settings{Iterations: 1}); err != nil || r.Status != IterationLimit {
		t.Errorf("%v, error %v", r.Status, err)
	}
	r, err := TruncatedNewton(t.Context(), saddle{}, []float64{math.NaN(), 0}, Settings{})
	if err != nil || r.Status != Diverged {
		t.Errorf("%v, error %v", r.Status, err)
	}
}
