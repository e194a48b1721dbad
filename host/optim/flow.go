package optim

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// FlowSettings are those of [Flow].
type FlowSettings struct {
	Until     float64 // the time at which the flow ends
	Points    int     // after the start, evenly spaced, at which the path is returned
	Steps     int     // a point, to begin with; 0: 10
	Tolerance float64 // see [Flow]
}

// mostFlowSteps bounds the work of a flow.
const mostFlowSteps = 1 << 20

// Flow follows the gradient flow dx/dt = −∇f(x) from x0 and returns x at the start
// and at the points. It goes by steps of equal length of Heun's method, and again by
// some 1.6 times as many, until twice in a row no point has moved by more than
// Tolerance·max_t ‖x(t) − x0‖, in the Euclidean norm. Gradients may jump, as those of
// ReLU networks do: where a flow slides along a jump, steps of an adaptive length
// would shrink to 0, and steps of half the length could come to rest at the same wrong
// place. It is an error if that takes more than 2²⁰ steps.
func Flow(ctx context.Context, f Objective, x0 []float64, set FlowSettings) ([][]float64, error) {
	steps := set.Steps
	if steps == 0 {
		steps = 10
	}
	before, err := heun(ctx, f, x0, set, steps)
	if err != nil {
		return nil, err
	}
	still := 0 // how often in a row it has not moved
	for steps = more(steps); steps*set.Points <= mostFlowSteps; steps = more(steps) {
		path, err := heun(ctx, f, x0, set, steps)
		if err != nil {
			return nil, err
		}
		apart, far := 0.0, 0.0
		for i, x := range path {
			apart, far = max(apart, floats.Distance(x, before[i], 2)), max(far, floats.Distance(x, x0, 2))
		}
		switch {
		case math.IsNaN(apart):
			return nil, fmt.Errorf("the gradient flow is not finite")
		case apart > set.Tolerance*far:
			still = 0
		case still == 1:
			return path, nil
		default:
			still = 1
		}
		before = path
	}
	return nil, fmt.Errorf("the gradient flow does not come to a precision of %v in %d steps", set.Tolerance,
		mostFlowSteps)
}

// more is the next number of steps to a point.
func more(steps int) int { return steps*8/5 + 1 }

// heun is the path with that many steps to each point.
func heun(ctx context.Context, f Objective, x0 []float64, set FlowSettings, steps int) ([][]float64, error) {
	h := set.Until / float64(set.Points*steps)
	x := append([]float64(nil), x0...)
	there, first, second := make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x))
	path := [][]float64{x0}
	for range set.Points {
		for range steps {
			if _, err := f.Grad(ctx, first, x); err != nil {
				return nil, err
			}
			floats.AddScaledTo(there, x, -h, first)
			if _, err := f.Grad(ctx, second, there); err != nil {
				return nil, err
			}
			floats.AddScaled(x, -h/2, first)
			floats.AddScaled(x, -h/2, second)
		}
		path = append(path, append([]float64(nil), x...))
	}
	return path, nil
}
