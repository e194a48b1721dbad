package network

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/recheck"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// TestDecompose: sums of rank-1 terms that are not orthogonal, with weights of
// both signs, are found again.
func TestDecompose(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for _, k := range []int{1, 2, 4} {
		u, c := model.RandomDirections(rng, k, k), make([]float64, k)
		three, four := make([]*mat.SymDense, k), tensor.NewSym4(k)
		for s := range three {
			three[s] = mat.NewSymDense(k, nil)
		}
		for i := range k {
			c[i] = (0.5 + rng.Float64()) * float64(1-2*(i%2))
			ui := u[i*k : (i+1)*k]
			for s := range three {
				three[s].SymRankOne(three[s], c[i]*ui[s], mat.NewVecDense(k, ui))
			}
			four.AddRankOne(c[i], ui)
		}
		for _, tensor := range []*symmetric{symmetric3(three), symmetric4(four)} {
			units, weights, residual := decompose(tensor, rng)
			if units == nil || residual > 1e-7 {
				t.Fatalf("k = %d, order %d: residual %v", k, tensor.order, residual)
			}
			for i := range k { // every true term is among those found, with its weight
				nearest := math.Inf(1)
				for j := range k {
					cos := floats.Dot(u[i*k:(i+1)*k], units.RawRowView(j))
					w := weights[j]
					if tensor.order == 3 && cos < 0 {
						w = -w
					}
					nearest = min(nearest, math.Abs(1-math.Abs(cos))+math.Abs(w-c[i]))
				}
				if nearest > 1e-5 { // the root of the residual's tolerance
					t.Errorf("k = %d, order %d: term %d is missed by %v", k, tensor.order, i, nearest)
				}
			}
		}
	}
}

// TestTensorsForEveryKind of activation: the errors fall like 1/√n; the bounds are
// three times what was seen over other seeds.
func TestTensorsForEveryKind(t *testing.T) {
	for _, c := range []struct {
		act      sdk.Func
		n        int
		bound    float64
		output   Output
		subspace int
		terms    int
	}{
		{squared, 20000, 0.2, Signs, 2, 3},
		{squared, 20000, 0.3, Given, 2, 3},
		{relu, 50000, 0.25, Signs, 2, 4},
		{leaky, 50000, 0.25, Signs, 2, 4},
		{tanh, 50000, 0.3, Signs, 3, 3},
		{softplus, 100000, 0.25, Signs, 2, 4},
	} {
		curves, err := curvesOf(t.Context(), c.act)
		if err != nil {
			t.Fatal(err)
		}
		subspace, terms, err := curves.ordersOf(c.act)
		if err != nil || subspace != c.subspace || terms != c.terms {
			t.Fatalf("%s: orders %d and %d, want %d and %d (%v)", c.act.Name, subspace, terms, c.subspace, c.terms, err)
		}
		truth, data := draw(t, c.act, sample.NetworkConfig{K: 3, D: 10, N: c.n, Condition: 2, Seed: 1})
		e := &estimator{rows: data, curves: curves, k: 3, d: 10, output: c.output, given: truth.Output, rng: rand.New(rand.NewPCG(1, 1)), workers: 2}
		est, err := e.estimate(t.Context(), subspace, terms)
		if err != nil || est == nil {
			t.Fatalf("%s: %v, %v", c.act.Name, est, err)
		}
		m := metric.Units(est.Network, truth, curves.odd())
		t.Logf("%s, n = %d: relative error %.3f, of v %.3g", c.act.Name, c.n, m.Weights, m.Output)
		if !(m.Weights < c.bound) || m.Output > 1e-9 {
			t.Errorf("%s, n = %d: relative error %.3f, of v %.3g, want below %v", c.act.Name, c.n, m.Weights, m.Output, c.bound)
		}
	}
}

// fitOf fits a drawn network.
func fitOf(t *testing.T, act sdk.Activation, data *model.Data, r Request) (*Result, error) {
	t.Helper()
	return Fit(t.Context(), tableOf(data), act, r)
}

// tableOf is the rows as a table.
func tableOf(data *model.Data) *dataset.Table {
	x, y := mat.NewDense(data.N, data.D, nil), make([]float64, 0, data.N)
	row := 0
	for _, b := range data.Blocks {
		for i := range b.N {
			for j := range data.D {
				x.Set(row, j, b.Col(j)[i])
			}
			row++
		}
		y = append(y, b.Y...)
	}
	return dataset.Matrix(x, y)
}

// TestFit: without noise the weights come back to rounding, with noise within five
// times √(parameters/n)·σ, from the tensors and by every convention for v.
func TestFit(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		act   sdk.Func
		n     int
		sigma float64
		out   Output
	}{
		{squared, 5000, 0, Signs},
		{squared, 5000, 0.1, Given},
		{relu, 8000, 0.1, Signs},
		{tanh, 20000, 0.1, Signs},
		{softplus, 20000, 0, Given},
	} {
		truth, data := draw(t, c.act, sample.NetworkConfig{K: 2, D: 5, N: c.n, Sigma: c.sigma, Condition: 2, Seed: 4})
		r, err := fitOf(t, c.act, data, Request{K: 2, Output: c.out, V: truth.Output, Starts: 3, More: 12, Descent: 50, Seed: 1})
		if err != nil {
			t.Fatalf("%s: %v", c.act.Name, err)
		}
		e := metric.Units(r.Network, truth, r.Odd)
		bound := 1e-6 + 5*c.sigma*math.Sqrt(10/float64(c.n))/math.Sqrt(0.05) // the Hessian's least eigenvalue is about 0.05 and more
		if !(e.Weights < bound) || e.Output > 1e-12 {
			t.Errorf("%s, σ = %v: error %v, of v %v, want below %v", c.act.Name, c.sigma, e.Weights, e.Output, bound)
		}
		model := infer.Pass
		if c.sigma == 0 { // exact
			model = infer.NotJudged
		}
		if r.Certificate.Optimum != infer.Pass || r.Certificate.Model != model {
			t.Errorf("%s, σ = %v: %+v", c.act.Name, c.sigma, r.Certificate)
		}
		if math.Abs(r.Network.Sigma-c.sigma) > 1e-6+5*c.sigma/math.Sqrt(2*float64(c.n)) {
			t.Errorf("%s: σ̂ = %v, want %v", c.act.Name, r.Network.Sigma, c.sigma)
		}
	}
}

// TestFitUnitRows: with nothing known of v the rows come back as unit vectors, for a φ
// whose scale is identified as well.
func TestFitUnitRows(t *testing.T) {
	truth, data := draw(t, relu, sample.NetworkConfig{K: 2, D: 4, N: 4000, Condition: 1, Output: []float64{2, -0.7}, Seed: 2})
	r, err := fitOf(t, relu, data, Request{K: 2, Output: UnitRows, Starts: 2, Descent: 20, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// κ = 1: the true rows are unit vectors.
	if e := metric.Units(r.Network, truth, false); e.Weights > 1e-6 || e.Output > 1e-6 {
		t.Errorf("error %v, of v %v", e.Weights, e.Output)
	}
}

// TestCertificateSeesMissingUnits: three units fitted with two.
func TestCertificateSeesMissingUnits(t *testing.T) {
	testslow.Mark(t)
	for _, act := range []sdk.Func{relu, tanh} {
		_, data := draw(t, act, sample.NetworkConfig{K: 3, D: 6, N: 20000, Sigma: 0.1, Condition: 1.5, Output: []float64{1, 1, 1}, Seed: 4})
		r, err := fitOf(t, act, data, Request{K: 2, Output: Signs, Starts: 2, Descent: 20, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Certificate; c.Model != infer.Suspect || c.PValue > 1e-6 {
			t.Errorf("%s: %+v", act.Name, c)
		}
	}
}

func TestRefusals(t *testing.T) {
	_, data := draw(t, relu, sample.NetworkConfig{K: 2, D: 3, N: 600, Seed: 1})
	constant := sdk.Func{Name: "one", G: func(float64) float64 { return 1 }, DG: func(float64) float64 { return 0 }}
	for _, c := range []struct {
		want string
		act  sdk.Func
		r    Request
	}{
		{"no even one is fitted, want one that is not", quadratic, Request{K: 2, Output: Signs}},
		{"constant", constant, Request{K: 2, Output: Signs}},
		{"linearly independent", relu, Request{K: 4, Output: Signs}},
		{"output weight 2 is 0", relu, Request{K: 2, V: []float64{1, 0}}},
		{"1 output weights", relu, Request{K: 2, V: []float64{1}}},
		{"no moment tensor", linear, Request{K: 2, Output: Signs, TensorsOnly: true}},
		{"no starts", linear, Request{K: 2, Output: Signs}},
	} {
		_, err := fitOf(t, c.act, data, c.r)
		var request *problem.RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a request error with %q", c.act.Name, err, c.want)
		}
	}
}

// wavering is another function from one of its batches on, if that is one.
type wavering struct {
	sdk.Activation
	calls, wrong int
}

func (w *wavering) Eval(ctx context.Context, dst, z []float64) error {
	err := w.Activation.Eval(ctx, dst, z)
	if w.calls++; w.wrong > 0 && w.calls >= w.wrong {
		dst[0] += 1e-3
	}
	return err
}

// TestLossTwice: a loss that a second computation of it does not give is not returned. The last batch that a fit asks for is
// one of its rows; what is another from there on is so when it is computed once more.
func TestLossTwice(t *testing.T) {
	_, data := draw(t, tanh, sample.NetworkConfig{K: 2, D: 3, N: 3000, Sigma: 0.1, Seed: 1})
	honest := &wavering{Activation: tanh}
	request := Request{K: 2, Output: Signs, TensorsOnly: true, Threads: 1}
	if _, err := fitOf(t, honest, data, request); err != nil {
		t.Fatal(err)
	}
	_, err := fitOf(t, &wavering{Activation: tanh, wrong: honest.calls}, data, request)
	if !errors.As(err, new(*recheck.Error)) {
		t.Errorf("error %v, want that of a defect", err)
	}
}
