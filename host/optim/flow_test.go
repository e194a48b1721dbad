package optim

import (
	"context"
	"errors"
	"math"
	"testing"
)

// valley is ½(x_0² + 9·x_1²), whose flow is x_0·e^{−t}, x_1·e^{−9t}; or, with a
// crease, |x_0| + x_1, whose flow comes to x_0 = 0 and slides along it.
type valley struct{ crease bool }

func (valley) Dim() int { return 2 }
func (v valley) Value(ctx context.Context, x []float64) (float64, error) {
	return v.Grad(ctx, make([]float64, 2), x)
}
func (v valley) Grad(_ context.Context, dst, x []float64) (float64, error) {
	if v.crease {
		dst[0], dst[1] = math.Copysign(1, x[0]), 1
		return math.Abs(x[0]) + x[1], nil
	}
	dst[0], dst[1] = x[0], 9*x[1]
	return (x[0]*x[0] + 9*x[1]*x[1]) / 2, nil
}

// TestFlow: against the closed form, smooth and with a crease. What more
// steps still change is the tolerance, and the error of the last path of that size.
func TestFlow(t *testing.T) {
	start := 1 / math.Sqrt2 // no number of steps comes to the crease exactly
	for _, c := range []struct {
		f    valley
		want func(at float64) [2]float64
	}{
		{valley{}, func(at float64) [2]float64 { return [2]float64{start * math.Exp(-at), 2 * math.Exp(-9*at)} }},
		{valley{crease: true}, func(at float64) [2]float64 { return [2]float64{max(start-at, 0), 2 - at} }},
	} {
		for _, tolerance := range []float64{1e-2, 1e-4} {
			path, err := Flow(t.Context(), c.f, []float64{start, 2}, FlowSettings{Until: 2.1, Tolerance: tolerance, Points: 10})
			if err != nil || len(path) != 11 {
				t.Fatalf("%d points, error %v", len(path), err)
			}
			for i, x := range path {
				want := c.want(0.21 * float64(i))
				if e := math.Hypot(x[0]-want[0], x[1]-want[1]); e > 3*tolerance { // the path is 2.1 to 2.3 long
					t.Errorf("crease %v, tolerance %v: off by %v at point %d", c.f.crease, tolerance, e, i)
				}
			}
		}
	}
}

// TestFlowFails: with what is not finite, and with an error of the objective.
func TestFlowFails(t *testing.T) {
	if _, err := Flow(t.Context(), valley{}, []float64{math.NaN(), 2}, FlowSettings{Until: 1, Tolerance: 1e-3, Points: 2}); err == nil {
		t.Error("no error for a start that is not finite")
	}
	want := errors.New("no gradient")
	if _, err := Flow(t.Context(), &broken{err: want}, []float64{1, 2}, FlowSettings{Until: 1, Tolerance: 1e-3, Points: 2}); !errors.Is(err, want) {
		t.Errorf("error %v, want that of the objective", err)
	}
}
