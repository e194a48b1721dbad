package predict

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
)

// uncertain is a model of two experts with intercepts, an output scale and a covariance that names the parameters
// in an order of its own.
func uncertain(rng *rand.Rand, size float64) *fitted.Model {
	p := model.NewParams(2, 2)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, 2), make([]float64, 1)
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	p.Sigma[0] = 0.3
	p.SetOutput(true, 0.2, 1.4)
	m := &fitted.Model{Activation: fitted.Activation{Name: "tanh"}, Features: []string{"a", "b:c"}, Target: "y"}
	m.SetParams(p)
	names := []string{"gate1:a", "expert2:b:c", "sigma", "expert1:a", "expert1:(intercept)", "offset1", "expert2:a", "scale2", "expert1:b:c", "offset2", "expert2:(intercept)", "scale1", "gate1:(intercept)"}
	root := mat.NewDense(len(names), len(names), nil)
	for i := range names {
		for j := range names {
			root.Set(i, j, size*rng.NormFloat64())
		}
	}
	var cov mat.Dense
	cov.Mul(root, root.T())
	m.Covariance = &fitted.Covariance{Parameters: names}
	for i := range names {
		m.Covariance.Matrix = append(m.Covariance.Matrix, slices.Clone(cov.RawRowView(i)))
	}
	m.StandardErrors = &fitted.StandardErrors{SigmaCorrected: fitted.Sigma{0.33}}
	return m
}

// shift moves the parameter of a model that a name of its covariance says.
func shift(p *model.Params, name string, by float64) bool {
	places := map[string]*float64{
		"expert1:a": &p.Regressors[0], "expert1:b:c": &p.Regressors[1], "expert2:a": &p.Regressors[2], "expert2:b:c": &p.Regressors[3],
		"expert1:(intercept)": &p.RegressorIntercepts[0], "expert2:(intercept)": &p.RegressorIntercepts[1],
		"offset1": &p.Offset[0], "offset2": &p.Offset[1], "scale1": &p.Scale[0], "scale2": &p.Scale[1],
	}
	if places[name] == nil {
		return false
	}
	*places[name] += by
	return true
}

// TestUncertaintyByDifferences compares the experts' deviations with those of the gradient of their means
// by central differences, whose error is about 1e-9 here.
func TestUncertaintyByDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	m := uncertain(rng, 0.1)
	b := &model.Block{N: 3, X: []float64{0.3, -1.2, 0.8, 1.1, 0.2, -0.4}}
	means := func(p *model.Params) []float64 {
		pred, err := NewPredictor(p, tanh{}, "").Predict(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(pred.Experts)
	}
	n, h := len(m.Covariance.Parameters), 1e-5
	gradient := mat.NewDense(2*b.N, n, nil)
	for at, name := range m.Covariance.Parameters {
		up, down := m.Params(), m.Params()
		if !shift(up, name, h) {
			continue
		}
		shift(down, name, -h)
		above, below := means(up), means(down)
		for i := range above {
			gradient.Set(i, at, (above[i]-below[i])/(2*h))
		}
	}
	cov := mat.NewSymDense(n, nil)
	for i, row := range m.Covariance.Matrix {
		for j, v := range row {
			cov.SetSym(i, j, v)
		}
	}
	pred, err := NewPredictor(m.Params(), tanh{}, "").With(UncertaintyOf(m)).Predict(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range pred.deviation {
		j := gradient.RowView(i)
		if want := math.Sqrt(0.33*0.33 + mat.Inner(j, cov, j)); math.Abs(got-want) > 1e-8 {
			t.Errorf("expert %d, row %d: deviation %.9f, by differences %.9f", i/b.N+1, i%b.N+1, got, want)
		}
	}
}

// TestUncertaintyOfManyRows: with the covariance of many rows the intervals are those of the parameters as they are
// with σ corrected; what is asked of a model without a covariance is the same to the bit.
func TestUncertaintyOfManyRows(t *testing.T) {
	x := mat.NewDense(2, 2, []float64{0.3, 1, -0.5, 0.2})
	m := uncertain(rand.New(rand.NewPCG(41, 2)), 1e-7)
	read := func(m *fitted.Model, u *Uncertainty) [][]float64 {
		src := Predictions(m.Params(), tanh{}, dataset.Matrix(x, nil), Extras{Interval: 0.9, Uncertainty: u})
		return [][]float64{column(t, src, 3), column(t, src, 4)}
	}
	with := read(m, UncertaintyOf(m))
	m.Sigma = m.StandardErrors.SigmaCorrected
	plain := read(m, nil)
	for i := range with {
		for r := range with[i] {
			if math.Abs(with[i][r]-plain[i][r]) > 1e-11 { // variances of 1e-13
				t.Errorf("end %d of row %d: %v, want %v", i, r, with[i][r], plain[i][r])
			}
		}
	}
	if m.Covariance = nil; UncertaintyOf(m) != nil {
		t.Error("a model without a covariance has an uncertainty")
	}
}
