package penalty

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// TestLassoPath: at every point of a path the gradient of the mean likelihood is what a minimum of it and the norms asks
// for, to 1e−5: −w·a/‖a‖, and at slopes that are 0 w at most. With a gate, with two sets of features of one and three,
// of normal noise and of counts, whose second derivatives are large, with noise per expert and beside a ridge on the gate; but for a g with kinks, where a maximum
// may lie at one and has no gradient. The likelihood falls along the path, from the maximum to experts without
// slopes, and slopes that are 0 are so to all digits. A penalty of none is the maximum.
func TestLassoPath(t *testing.T) {
	sets := [][]int{{0, 3, 4}, {1}, {2}}
	for name, c := range map[string]struct {
		p    func() (*problem.Problem, *model.Params)
		gate float64
	}{
		"normal": {p: func() (*problem.Problem, *model.Params) {
			return searchtest.Drawn(t, identity.Family, 2, 5, 400, 0.5, 3, problem.Request{Intercepts: problem.BothIntercepts})
		}},
		"noise per expert": {p: func() (*problem.Problem, *model.Params) {
			return searchtest.Drawn(t, identity.Family, 2, 5, 400, 0.5, 4, problem.Request{Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}})
		}},
		"tanh, a ridge on the gate": {gate: 0.5, p: func() (*problem.Problem, *model.Params) {
			return searchtest.Drawn(t, tanh.Family, 2, 5, 400, 0.2, 5, problem.Request{})
		}},
		"relu, three": {p: func() (*problem.Problem, *model.Params) {
			return searchtest.Drawn(t, relu.Family, 3, 5, 600, 0.2, 6, problem.Request{Intercepts: problem.BothIntercepts})
		}},
		"counts": {p: func() (*problem.Problem, *model.Params) {
			p := searchtest.Poisson(t)
			return p, p.Shape.Blank(1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, truth := c.p()
			sets := sets
			if p.Shape.D == 3 {
				sets = [][]int{{0, 2}, {1}}
			}
			q := p.Shape.Adopt(truth)
			if p.Shape.D == 3 { // where there is no truth at hand
				for i := range q.Regressors {
					q.Regressors[i] = math.Sin(3 * float64(i+1))
				}
			}
			l := loss.NewLikelihood(p.Given, p.G, q, p.Shape.Estimated(), 1)
			l.PenaliseGate(2 * c.gate)
			run, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
			if err != nil {
				t.Fatal(err)
			}
			most := l.Params(run.X)
			square := MeanSquare(most)
			path, err := Lasso(t.Context(), p, most, sets, c.gate, square, 0)
			if err != nil || path == nil {
				t.Fatalf("path %v, %v", path, err)
			}
			zeros, last := 0, math.Inf(1)
			kinks := len(p.Kinks()) > 0
			for i, at := range path.Points {
				if at.Params == nil {
					t.Fatalf("lambda %v: no maximum", at.Lambda)
				}
				if at.LogLikelihood > last+1e-6 || !at.Converged {
					t.Errorf("lambda %v: log-likelihood %v after %v, converged %v", at.Lambda, at.LogLikelihood, last, at.Converged)
				}
				last = at.LogLikelihood
				theta, grad := l.Theta(at.Params), make([]float64, l.Dim())
				if _, err := l.Grad(t.Context(), grad, theta); err != nil {
					t.Fatal(err)
				}
				var groups []optim.Group
				for _, n := range l.ExpertNorms(sets) {
					groups = append(groups, optim.Group{At: n.At, Weight: n.Weight * at.Lambda / math.Sqrt(square) / l.Rows()})
				}
				if rest := optim.Residual(groups, grad, theta); !kinks && !(rest <= 1e-5) {
					t.Errorf("lambda %v: %v from the conditions of a minimum", at.Lambda, rest)
				}
				tol := 1e-6
				if kinks {
					tol = 0.01
				}
				if at.Lambda == 0 && !(math.Abs(at.LogLikelihood+run.Value*l.Rows()) <= tol) && c.gate == 0 {
					t.Errorf("without a penalty %v, the maximum is %v", at.LogLikelihood, -run.Value*l.Rows())
				}
				for _, v := range at.Params.Regressors {
					if v == 0 {
						zeros++
					}
				}
				if i < len(path.Points)-1 && MeanSquare(at.Params) == 0 {
					t.Errorf("lambda %v: the path goes on where all slopes are 0", at.Lambda)
				}
			}
			if end := path.Points[len(path.Points)-1]; MeanSquare(end.Params) != 0 && end.Lambda < 1000 || zeros < 5 {
				t.Errorf("the path ends at %v with %d slopes at 0", end.Params.Regressors, zeros)
			}
		})
	}
}

// TestChosenPoint: the highest of those that have converged, none where it is better by less than 1, and the highest of
// all where none has converged.
func TestChosenPoint(t *testing.T) {
	of := func(lambda, heldOut float64, converged bool) Maximum {
		return Maximum{Lambda: lambda, HeldOut: heldOut, Converged: converged}
	}
	for name, c := range map[string]struct {
		points []Maximum
		want   int
	}{
		"the highest":                 {[]Maximum{of(0, -9, true), of(1, -4, true), of(2, -3, true), of(3, -5, true)}, 2},
		"one has not converged":       {[]Maximum{of(0, -9, true), of(1, -2, false), of(2, -3, true)}, 2},
		"none has converged":          {[]Maximum{of(1, -4, false), of(2, -3, false), of(3, -5, false)}, 1},
		"a fit that has not":          {[]Maximum{of(0, -2, false), of(1, -4, true)}, 0},
		"by less than chance":         {[]Maximum{of(0, -9, true), of(1, -8.5, true)}, 0},
		"unknown, and one that is":    {[]Maximum{of(1, math.NaN(), true), of(2, -3, true), of(3, math.NaN(), true)}, 1},
		"all unknown: the most of it": {[]Maximum{of(1, math.NaN(), true), of(2, math.NaN(), true)}, 1},
	} {
		path := Path{Points: c.points}
		if path.choose(); path.Chosen != c.want {
			t.Errorf("%s: %d, want %d", name, path.Chosen, c.want)
		}
	}
}
