package problem

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/plugins/identity"
)

// shapes are all that two experts over three features can have.
func shapes(t *testing.T) map[string]Request {
	t.Helper()
	out := make(map[string]Request)
	for gate, g := range map[string]Gate{"softmax": nil, "gate of x3": Softmax{Features: []string{"x3"}}, "constant": Constant{}} {
		for noise, n := range map[string]Noise{"shared": Shared{}, "per expert": PerExpert{}, "known": Shared{Sigma: 2}, "known per expert": PerExpert{Sigma: 2}} {
			for experts, e := range map[string][]string{"all": nil, "x1 and x3": {"x3", "x1", "x3"}} {
				for _, intercept := range []bool{false, true} {
					out[fmt.Sprintf("%s, %s, experts of %s, intercept %v", gate, noise, experts, intercept)] = Request{K: 2, Gate: g, Noise: n, ExpertFeatures: e, Intercepts: InterceptsOf(intercept, intercept)}
				}
			}
		}
	}
	return out
}

func shapeOf(t *testing.T, r Request) Shape {
	t.Helper()
	s, err := r.shape([]string{"x1", "x2", "x3"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestParameters: of all shapes, as many as the likelihood varies, each of which
// moves it; and of some by hand.
func TestParameters(t *testing.T) {
	x, y := table(60, []float64{0, 0, 0}, []float64{1, 1, 1})
	d, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range shapes(t) {
		s := shapeOf(t, r)
		full := Shape{K: 2, D: 3, Intercept: true, GateIntercept: true, PerExpert: true}.Blank(1)
		at := 0.0
		for _, part := range [][]float64{full.Regressors, full.Gating, full.RegressorIntercepts, full.GatingIntercepts, full.Sigma} {
			for i := range part {
				at++
				part[i] = 0.5 + 0.1*at // no two experts alike
			}
		}
		q := s.WithNoise(s.Adopt(full), 1)
		free := s.Estimated()
		l := loss.NewLikelihood(d, activation(t, identity.Family), q, free, 1)
		theta := l.Theta(q)
		value, err := l.Value(t.Context(), theta)
		if err != nil {
			t.Fatal(err)
		}
		for i := range theta {
			moved := slices.Clone(theta)
			moved[i] += 0.01
			if v, err := l.Value(t.Context(), moved); err != nil || v == value {
				t.Errorf("%s: parameter %d does nothing, error %v", name, i, err)
			}
		}
		if got := s.Parameters(); got != len(theta) {
			t.Errorf("%s: %d parameters, the likelihood has %d", name, got, len(theta))
		}
	}
	for want, s := range map[int]Shape{
		2*3 + 3 + 1:           {K: 2, D: 3},
		2*4 + 4 + 1:           {K: 2, D: 3, Intercept: true, GateIntercept: true},
		5*2 + 4*0 + 4 + 5:     {K: 5, D: 2, ConstantGate: true, GateIntercept: true, Gate: []int{}, PerExpert: true},
		5*10 + 4*2 + 0:        {K: 5, D: 10, Gate: []int{3, 7}, Sigma: 1},
		5*3 + 4*3 + 1:         {K: 5, D: 10, Experts: []int{1, 2}, Gate: []int{3, 7}, Intercept: true, GateIntercept: true},
		1*4 + 1:               {K: 1, D: 4},
		3*0 + 3 + 2*4 + 2 + 3: {K: 3, D: 4, Experts: []int{}, Intercept: true, GateIntercept: true, PerExpert: true},
	} {
		if got := s.Parameters(); got != want {
			t.Errorf("%+v has %d parameters, want %d", s, got, want)
		}
	}
}

// TestShape: features in the columns' order, each once; a gate that is constant
// sees none, which is not the same as nil, all.
func TestShape(t *testing.T) {
	s := shapeOf(t, Request{K: 2, ExpertFeatures: []string{"x3", "x1", "x3"}, Gate: Constant{}, Noise: PerExpert{Sigma: 3}})
	if fmt.Sprint(s.Experts) != "[0 2]" || s.Gate == nil || len(s.Gate) != 0 || !s.ConstantGate || !s.PerExpert || s.Sigma != 3 || s.D != 3 || s.K != 2 {
		t.Errorf("%+v", s)
	}
	if s = shapeOf(t, Request{K: 1}); s.Experts != nil || s.Gate != nil || s.ConstantGate || s.PerExpert {
		t.Errorf("%+v of nothing but k", s)
	}
	if s = shapeOf(t, Request{K: 1, ExpertFeatures: []string{}}); s.Experts == nil || len(s.Experts) != 0 {
		t.Errorf("experts that see no feature: %v", s.Experts)
	}
}

// TestBlank: zeros of the right lengths, nil where the shape has none, and noise.
func TestBlank(t *testing.T) {
	for _, c := range []struct {
		s                              Shape
		experts, gates, sigma          int
		noIntercept, noGatingIntercept bool
	}{
		{Shape{K: 3, D: 2}, 0, 0, 1, true, true},
		{Shape{K: 3, D: 2, ConstantGate: true, GateIntercept: true}, 0, 2, 1, true, false},
		{Shape{K: 3, D: 2, Intercept: true, GateIntercept: true, PerExpert: true}, 3, 2, 3, false, false},
	} {
		p := c.s.Blank(0.25)
		if len(p.Regressors) != 6 || len(p.Gating) != 4 || len(p.RegressorIntercepts) != c.experts || len(p.GatingIntercepts) != c.gates ||
			(p.RegressorIntercepts == nil) != c.noIntercept || (p.GatingIntercepts == nil) != c.noGatingIntercept || len(p.Sigma) != c.sigma {
			t.Errorf("%+v: %+v", c.s, p)
		}
		for _, v := range p.Sigma {
			if v != 0.25 {
				t.Errorf("noise levels %v", p.Sigma)
			}
		}
		if floats.Norm(slices.Concat(p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts), 2) != 0 {
			t.Errorf("%+v is not 0", p)
		}
	}
}

// TestWithNoise: the level that is known, else the one given, for every expert,
// in a copy.
func TestWithNoise(t *testing.T) {
	for _, c := range []struct{ known, want float64 }{{0, 0.5}, {2, 2}} {
		s := Shape{K: 3, D: 1, PerExpert: true, Sigma: c.known}
		p := s.Blank(7)
		q := s.WithNoise(p, 0.5)
		if !floats.Equal(q.Sigma, []float64{c.want, c.want, c.want}) || p.Sigma[0] != 7 {
			t.Errorf("known %v: noise levels %v, want %v; of the original %v", c.known, q.Sigma, c.want, p.Sigma)
		}
	}
}

// TestEstimated: the noise is free in a search, and held at the end where it is
// known.
func TestEstimated(t *testing.T) {
	for sigma, free := range map[float64]bool{0: true, 2: false} {
		s := Shape{K: 2, D: 2, Sigma: sigma, Experts: []int{1}, Gate: []int{0}}
		for f, want := range map[string]bool{fmt.Sprint(s.Free()): true, fmt.Sprint(s.Estimated()): free} {
			if f != fmt.Sprint(loss.Free{Regressors: true, Gating: true, Sigma: want, ExpertColumns: []int{1}, GateColumns: []int{0}}) {
				t.Errorf("noise %v: free are %s", sigma, f)
			}
		}
	}
}

// TestAdopt: what both shapes have is copied, what one lacks is left out, or 0;
// of several noise levels and one the first stands for all.
func TestAdopt(t *testing.T) {
	full := Shape{K: 2, D: 3, Intercept: true, GateIntercept: true, PerExpert: true}.Blank(0)
	copy(full.Regressors, []float64{1, 2, 3, 4, 5, 6})
	copy(full.Gating, []float64{7, 8, 9})
	copy(full.RegressorIntercepts, []float64{10, 11})
	copy(full.GatingIntercepts, []float64{12})
	copy(full.Sigma, []float64{13, 14})
	was := fmt.Sprint(full)
	for _, c := range []struct {
		s    Shape
		want string // regressors, gating, intercepts, gating intercepts, noise
	}{
		{Shape{K: 2, D: 3, Intercept: true, GateIntercept: true, PerExpert: true}, "[1 2 3 4 5 6] [7 8 9] [10 11] [12] [13 14]"},
		{Shape{K: 2, D: 3}, "[1 2 3 4 5 6] [7 8 9] [] [] [13]"},
		{Shape{K: 2, D: 3, ConstantGate: true, GateIntercept: true, Gate: []int{}}, "[1 2 3 4 5 6] [0 0 0] [] [12] [13]"},
		{Shape{K: 2, D: 3, Experts: []int{0, 2}, Gate: []int{1}}, "[1 0 3 4 0 6] [0 8 0] [] [] [13]"},
	} {
		q := c.s.Adopt(full)
		if got := fmt.Sprint(q.Regressors, q.Gating, q.RegressorIntercepts, q.GatingIntercepts, q.Sigma); got != c.want {
			t.Errorf("%+v: %s, want %s", c.s, got, c.want)
		}
		q.Regressors[0], q.Gating[1], q.Sigma[0] = 99, 99, 99
		if fmt.Sprint(full) != was {
			t.Fatalf("%+v: what was adopted has changed", c.s)
		}
	}
	plain := Shape{K: 2, D: 3}.Blank(5)
	if q := (Shape{K: 2, D: 3, Intercept: true, GateIntercept: true, PerExpert: true}).Adopt(plain); fmt.Sprint(q.RegressorIntercepts, q.GatingIntercepts, q.Sigma) != "[0 0] [0] [5 5]" {
		t.Errorf("intercepts %v, %v, noise %v of a start that has none", q.RegressorIntercepts, q.GatingIntercepts, q.Sigma)
	}
}

// TestMaskExperts of rows with and without a mask.
func TestMaskExperts(t *testing.T) {
	for _, c := range []struct {
		seen []int
		want string
	}{{nil, "[1 2 3 4]"}, {[]int{1}, "[0 2 0 4]"}, {[]int{}, "[0 0 0 0]"}} {
		rows := []float64{1, 2, 3, 4}
		Shape{K: 2, D: 2, Experts: c.seen}.MaskExperts(rows)
		if fmt.Sprint(rows) != c.want {
			t.Errorf("seen %v: %v, want %s", c.seen, rows, c.want)
		}
	}
}

// TestWhiten: features of any covariance come out with mean 0 and covariance I;
// where one is all but a sum of others there is no whitening, and the data are
// not refused.
func TestWhiten(t *testing.T) {
	x, y := table(800, []float64{1, -2, 0}, []float64{2, 1, 1})
	for i := range y {
		x.Set(i, 1, x.At(i, 0)+0.5*x.At(i, 1))
	}
	p := loaded(t, dataset.Matrix(x, y), Request{K: 1})
	centred := mat.NewDense(800, 3, nil)
	for i, b := range data(t, p.Rows).Blocks {
		for r := range b.N {
			for j := range 3 {
				centred.Set(256*i+r, j, b.Col(j)[r]-p.Inputs.Centre[j])
			}
		}
	}
	var white, cov mat.Dense
	white.Mul(centred, p.Inputs.Whiten)
	cov.Mul(white.T(), &white)
	cov.Scale(1./800, &cov)
	for i := range 3 {
		if mean := floats.Sum(mat.Col(nil, i, &white)) / 800; mean > 1e-12 || mean < -1e-12 {
			t.Errorf("mean %v of feature %d", mean, i)
		}
	}
	if !mat.EqualApprox(&cov, mat.NewDiagDense(3, []float64{1, 1, 1}), 1e-11) {
		t.Errorf("covariance %v", mat.Formatted(&cov))
	}
	for i := range y {
		x.Set(i, 2, x.At(i, 0)+x.At(i, 1)*(1+1e-9*float64(i%2)))
	}
	if p = loaded(t, dataset.Matrix(x, y), Request{K: 1}); p.Inputs.Whiten != nil || p.Inputs.Centre != nil || p.Inputs.Standard() {
		t.Errorf("features that depend on each other: %+v", p.Inputs)
	}
}

// An EM step whose sums no machine holds is refused; one that is often made is not.
func TestRoom(t *testing.T) {
	if err := (Shape{K: 10}).room(&model.Data{N: model.BlockRows, D: 50, Blocks: make([]model.Block, 1)}); err != nil {
		t.Errorf("10 experts over 50 features: %v", err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	var short *memory.Error
	if err := (Shape{K: 5000}).room(&model.Data{N: model.BlockRows, D: 10_000, Blocks: make([]model.Block, 1)}); !errors.As(err, &short) {
		t.Errorf("5000 experts over 10000 features: %v", err)
	}
}
