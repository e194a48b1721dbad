package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/diverse"
	"github.com/gatedlearning/moe/host/optim"
)

// trainingFigure is the key inequality along training.
func trainingFigure(z size) *Figure {
	f := &Figure{
		ID: "004-train", Title: "Loss and gradient along training", Source: "004, Key inequality; Final error bound",
		Identity: true,
		Claim:    "‖r‖ ≤ ‖∂L/∂W‖/s_m(D), so that L ≤ O(‖∂L/∂W‖²): a small gradient means a small error.",
		Settings: fmt.Sprintf("m = 100 points on the sphere of ℝ²⁰, targets of a network of 10 units with N(0, I) "+
			"weights, n = 150 and 400 units; gradient descent from N(0, I) with step m/(n·‖G_n‖), the inverse of the "+
			"largest curvature at the start, for %d steps, %d runs each; looked at %d times a run. L = m‖r‖²/2, so "+
			"that the O is m/(2s_m²).", z.of(200, 500), z.of(1, 3), looks),
		X: Axis{Label: "‖∂L/∂W‖", Log: true}, Y: Axis{Label: "‖r‖", Log: true}, Scatter: true, measure: "loss",
		judge: judgeTraining,
	}
	for _, n := range trainingSizes {
		for run := range z.of(1, 3) {
			f.units = append(f.units, trainingUnit(n, z.of(200, 500), run))
		}
	}
	return f
}

var trainingSizes = []int{150, 400}

// looks is how many times a run is looked at.
const looks = 20

func trainingSeries(n int) string { return fmt.Sprintf("‖r‖ at n = %d", n) }

func trainingBound(n int) string { return fmt.Sprintf("bound at n = %d", n) }

func trainingUnit(n, steps, run int) unit {
	return unit{key: fmt.Sprintf("training n %d steps %d run %d", n, steps, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			const m, d = 100, 20
			s := diverse.NewDraw(seed, n, m, d)
			y := diverse.NewDraw(seed+1, 10, 1, d).Targets(s.X)
			o, err := diverse.NewObjective(s.X, y, s.V, 0)
			if err != nil {
				return nil, err
			}
			size, err := s.Step()
			if err != nil {
				return nil, err
			}
			points, bound, constant := new(trace), new(trace), new(trace)
			grad := make([]float64, n*d)
			var failed error
			_, err = optim.Projected(ctx, o, s.W.RawMatrix().Data,
				optim.ProjectedSettings{Iterations: steps, StepSize: size, Tolerance: 1e-15,
					Watch: func(step int, w []float64) bool {
						if step%(steps/looks) != 0 {
							return false
						}
						if _, failed = o.Grad(ctx, grad, w); failed != nil {
							return true
						}
						at := mat.NewDense(n, d, w)
						r := diverse.Residuals(at, s.V, s.X, y)
						floats.Scale(1.0/m, r)
						var least float64
						if least, failed = diverse.Least(diverse.GramOf(at, s.X)); failed != nil {
							return true
						}
						slope, square := floats.Norm(grad, 2), float64(n)*max(least, 0)
						points.add(slope, floats.Norm(r, 2))
						bound.add(slope, slope/math.Sqrt(square))
						constant.add(float64(step), m/(2*square))
						return false
					}})
			if err = errors.Join(err, failed); err != nil {
				return nil, err
			}
			out := new(output)
			out.add("loss", trainingSeries(n), run, points)
			out.add("loss", trainingBound(n), run, bound)
			out.add("constant", trainingSeries(n)+" constant", run, constant)
			return out, nil
		}}
}

func judgeTraining(o *Outcome) Verdict {
	var parts []string
	ratio := 0.0
	for _, n := range trainingSizes {
		var first, last []float64
		bound := o.values(trainingBound(n))
		for i, r := range o.values(trainingSeries(n)) {
			ratio = max(ratio, r/bound[i])
		}
		for _, c := range o.Of(trainingSeries(n)) {
			first, last = append(first, c.Y[0]), append(last, c.Last())
		}
		constant := o.beside(trainingSeries(n) + " constant")
		parts = append(parts, fmt.Sprintf("n = %d: ‖r‖ from %.2g to %.2g in the median, m/(2s_m²) from %.2g to %.2g", n,
			median(first), median(last), slices.Min(constant), slices.Max(constant)))
	}
	v := Verdict{Measured: fmt.Sprintf("‖r‖ is at most %.3f of ‖∂L/∂W‖/s_m(D) at all %d points; %s", ratio,
		len(o.values(trainingSeries(trainingSizes[0])))+len(o.values(trainingSeries(trainingSizes[1]))),
		strings.Join(parts, "; ")), Agrees: ratio <= 1+1e-9}
	if !v.Agrees {
		v.Because = "‖r‖ is above the bound"
	}
	return v
}
