package network

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// TestLoose: of Σ_i v_i·⟨w_i,x⟩ the data tell d of k·d weights; of Σ_i ⟨w_i,x⟩² all but the k(k−1)/2 rotations of W; of
// ReLU units all, one more of w_i and v_i of each unit being held by the sphere where v is free; of two ReLU units that
// point the same way d; of a feature that is the sum of two others one of each unit. Units of measurement do not matter.
// A step along each of them changes predictions by its square alone.
func TestLoose(t *testing.T) {
	opposed := func(n *model.Network) {
		copy(n.Unit(1), []float64{2, -1, 0.5, 1})
		copy(n.Unit(0), []float64{4, -2, 1, 2})
	}
	for _, c := range []struct {
		name   string
		act    sdk.Func
		k      int
		free   bool
		change func(*model.Network)
		adds   bool // the last feature is the sum of the first two
		want   int
	}{
		{name: "linear", act: linear, k: 3, want: 8},
		{name: "one linear", act: linear, k: 1},
		{name: "linear, v free", act: linear, k: 2, free: true, want: 2*(4-1) + 2 - 4},
		{name: "quadratic", act: quadratic, k: 3, want: 3},
		{name: "relu", act: relu, k: 3},
		{name: "relu, v free", act: relu, k: 3, free: true},
		{name: "tanh", act: tanh, k: 3},
		{name: "parallel", act: relu, k: 3, change: opposed, want: 4},
		{name: "dependent", act: tanh, k: 2, adds: true, want: 2},
	} {
		for _, measure := range []float64{1, 1e5} {
			n, data := draw(t, c.act, sample.NetworkConfig{K: c.k, D: 4, N: 300, Condition: min(2, float64(c.k)), Output: []float64{1, 1, 1}[:c.k], Seed: 5})
			if c.change != nil {
				c.change(n)
			}
			for i := range data.Blocks {
				if b := &data.Blocks[i]; c.adds {
					floats.AddTo(b.Col(3), b.Col(0), b.Col(1))
				}
				if measure != 1 { // the first feature in another unit, its weights in that unit too
					floats.Scale(measure, data.Blocks[i].Col(0))
				}
			}
			v := n.Output
			if c.free {
				v = nil
			}
			for i := range c.k {
				n.Unit(i)[0] /= measure
				if c.free {
					floats.Scale(1/floats.Norm(n.Unit(i), 2), n.Unit(i))
				}
			}
			l, err := NewLoss(c.act, data, c.k, v, 1)
			if err != nil {
				t.Fatal(err)
			}
			basis, err := l.loose(t.Context(), l.Theta(n))
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			if basis != nil {
				_, found = basis.Dims()
			}
			if found != c.want {
				t.Errorf("%s, unit of %g: %d combinations are loose, want %d", c.name, measure, found, c.want)
			}
			for j := range found {
				// Of second order: a step ten times as long changes them a hundred times as much, unless by rounding.
				short, long := moved(t, c.act, data, l, n, mat.Col(nil, j, basis), 1e-4), moved(t, c.act, data, l, n, mat.Col(nil, j, basis), 1e-3)
				if short > long/30+1e-13 || c.act.Name == linear.Name && !c.free && long > 1e-12 {
					t.Errorf("%s, unit of %g: predictions change by %g and %g along combination %d", c.name, measure, short, long, j)
				}
			}
		}
	}
}

// moved is the rms by which predictions change with a step along a direction in units of 1/√(Σ J²), by J's own rms.
func moved(t *testing.T, act sdk.Func, data *model.Data, l *Loss, n *model.Network, along []float64, step float64) float64 {
	t.Helper()
	theta := l.Theta(n)
	mean := func(theta []float64) (out []float64) {
		for i := range data.Blocks {
			b := &data.Blocks[i]
			for r := range b.N {
				f := 0.0
				for u := range n.K {
					z := 0.0
					for j := range n.D {
						z += theta[u*n.D+j] * b.Col(j)[r]
					}
					v := n.Output[u]
					if len(theta) > n.K*n.D {
						v = theta[n.K*n.D+u]
					}
					f += v * act.G(z)
				}
				out = append(out, f)
			}
		}
		return out
	}
	from := mean(theta)
	for i, a := range along {
		j := 0.0 // √(Σ J²) by differences
		h := 1e-6 * max(math.Abs(theta[i]), 1e-6)
		up, down := append([]float64{}, theta...), append([]float64{}, theta...)
		up[i], down[i] = up[i]+h, down[i]-h
		j = floats.Distance(mean(up), mean(down), 2) / (2 * h)
		theta[i] += step * a * math.Sqrt(float64(len(from))) / j
	}
	return floats.Distance(mean(theta), from, 2) / math.Sqrt(float64(len(from)))
}

// TestNotIdentified: a fit of more linear units than one says that no data can tell their weights, and does not judge
// the optimum, of which seeds find different ones with the same predictions; of one unit, and of ReLU units, it does.
func TestNotIdentified(t *testing.T) {
	_, data := draw(t, linear, sample.NetworkConfig{K: 1, D: 4, N: 1200, Sigma: 0.2, Condition: 1, Seed: 3})
	var found []*Result
	for seed := range 2 {
		r, err := fitOf(t, linear, data, Request{K: 2, Output: Signs, Starts: 3, Descent: 50, Seed: uint64(seed + 1)})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Certificate
		if c.Optimum != infer.NotJudged || !strings.HasPrefix(c.Reason, "no data can tell the w_i apart: phi is linear") || c.Model != infer.Pass {
			t.Errorf("%+v", c)
		}
		found = append(found, r)
	}
	a, b := found[0].Network, found[1].Network
	sum := func(n *model.Network) []float64 {
		out := make([]float64, n.D)
		for i, v := range n.Output {
			floats.AddScaled(out, v, n.Unit(i))
		}
		return out
	}
	if floats.EqualApprox(a.Weights, b.Weights, 0.1) || !floats.EqualApprox(sum(a), sum(b), 1e-9) {
		t.Errorf("weights %v and %v: want others of the same sum", a.Weights, b.Weights)
	}
	r, err := fitOf(t, linear, data, Request{K: 1, Output: Signs, Starts: 3, Descent: 50, Seed: 1})
	if err != nil || r.Certificate.Optimum != infer.Pass {
		t.Errorf("one unit: %+v, %v", r, err)
	}
}

// TestDependentFeatures: of features that depend on each other it says which, and of which units.
func TestDependentFeatures(t *testing.T) {
	_, data := draw(t, tanh, sample.NetworkConfig{K: 2, D: 4, N: 1200, Sigma: 0.1, Condition: 2, Output: []float64{1, 1}, Seed: 3})
	for i := range data.Blocks {
		b := &data.Blocks[i]
		floats.AddTo(b.Col(3), b.Col(0), b.Col(2))
	}
	r, err := fitOf(t, tanh, data, Request{K: 2, Output: Signs, Starts: 4, Descent: 50, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := `the data do not tell the weights: 2 combinations of those of units 1, 2 on "x1", "x3", "x4" change no row's prediction`; r.Certificate.Optimum == infer.Pass || !strings.Contains(r.Certificate.Reason, want) {
		t.Errorf("%+v, want %s", r.Certificate, want)
	}
}
