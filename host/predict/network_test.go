package predict

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// TestMixtureWithoutGateIsANetwork: with W = 0 every expert has probability 1/k, and
// the mean of the mixture is that of the network with its regressors as weights and
// v_i = 1/k (002 Appendix A).
func TestMixtureWithoutGateIsANetwork(t *testing.T) {
	p, x, _ := randomModel(300)
	clear(p.Gating)
	p.GatingIntercepts, p.RegressorIntercepts = nil, nil
	net := model.NewNetwork(p.K, p.D)
	copy(net.Weights, p.Regressors)
	for i := range net.Output {
		net.Output[i] = 1 / float64(p.K)
	}
	src := dataset.Matrix(x, nil)
	mixture := column(t, Predictions(p, tanh{}, src, Extras{}), 0)
	network := column(t, NetworkPredictions(net, tanh{}, src, Extras{}), 0)
	for i := range mixture {
		if math.Abs(mixture[i]-network[i]) > 1e-15*math.Abs(mixture[i])+1e-16 {
			t.Fatalf("row %d: %v of the mixture, %v of the network", i, mixture[i], network[i])
		}
	}
}

// TestEquations2To4And10: the mean of a mixture, against 002's formulas written out.
// Eq. 10: where the gate has intercepts alone, a network whose output layer are the
// softmax of those. Eq. 2 and 3: of two experts, σ(w·x)·g(a_1·x) + (1 − σ(w·x))·g(a_2·x).
// Eq. 4 has 1 − z with z = σ(w·x) before the first expert: the same two in the other
// order, or the gate's sign turned.
func TestEquations2To4And10(t *testing.T) {
	p, x, _ := randomModel(300)
	src := dataset.Matrix(x, nil)
	p.RegressorIntercepts, p.GatingIntercepts = nil, make([]float64, p.K-1)
	mean := func(p *model.Params) []float64 { return column(t, Predictions(p, tanh{}, src, Extras{}), 0) }
	dot := func(a []float64, r int) (sum float64) {
		for j, v := range a {
			sum += v * x.At(r, j)
		}
		return sum
	}
	same := func(what string, got []float64, want func(r int) float64) {
		t.Helper()
		for r, v := range got {
			if w := want(r); math.Abs(v-w) > 1e-13 {
				t.Fatalf("%s, row %d: %v, want %v", what, r, v, w)
			}
		}
	}

	free := p.Clone()
	clear(free.Gating)
	v, total := make([]float64, p.K), 1.0
	v[p.K-1] = 1
	for i := range free.GatingIntercepts {
		free.GatingIntercepts[i] = 0.3 - float64(i)
		v[i] = math.Exp(free.GatingIntercepts[i])
		total += v[i]
	}
	same("Eq. 10", mean(free), func(r int) (sum float64) {
		for i := range v {
			sum += v[i] / total * math.Tanh(dot(free.Regressor(i), r))
		}
		return sum
	})

	two := model.NewParams(2, p.D)
	copy(two.Regressors, p.Regressors)
	copy(two.Gating, p.Gating)
	copy(two.Sigma, p.Sigma)
	sigmoid := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	expert := func(i, r int) float64 { return math.Tanh(dot(two.Regressor(i), r)) }
	same("Eq. 3", mean(two), func(r int) float64 {
		z := sigmoid(dot(two.Gating, r))
		return z*expert(0, r) + (1-z)*expert(1, r)
	})
	turned := two.Clone()
	for j := range turned.Gating {
		turned.Gating[j] = -two.Gating[j]
	}
	same("Eq. 4", mean(turned), func(r int) float64 {
		z := sigmoid(dot(two.Gating, r))
		return (1-z)*expert(0, r) + z*expert(1, r)
	})
}

// column reads a column of a table.
func column(t *testing.T, src dataset.Source, j int) (out []float64) {
	t.Helper()
	err := src.Read(t.Context(), func(b *model.Block) error {
		out = append(out, b.Col(j)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNetworkTableAndEvaluation: against the definition, row by row.
func TestNetworkTableAndEvaluation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n, d, k = 300, 3, 2
	net := model.NewNetwork(k, d)
	for i := range net.Weights {
		net.Weights[i] = rng.NormFloat64()
	}
	net.Output, net.Sigma = []float64{1.5, -0.5}, 0.4
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	var sse, ll, mean float64
	want := make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
		}
		for u := range k {
			z := 0.0
			for j := range d {
				z += net.Unit(u)[j] * x.At(i, j)
			}
			want[i] += net.Output[u] * math.Tanh(z)
		}
		y[i] = want[i] + net.Sigma*rng.NormFloat64()
		e := (y[i] - want[i]) / net.Sigma
		sse += e * e * net.Sigma * net.Sigma
		ll += -e*e/2 - math.Log(net.Sigma) - math.Log(2*math.Pi)/2
		mean += y[i] / n
	}
	src := dataset.Matrix(x, y)
	table := NetworkPredictions(net, tanh{}, src, Extras{Experts: true, Interval: 0.95})
	got, lower, upper := column(t, table, 0), column(t, table, 3), column(t, table, 4)
	one, two := column(t, table, 1), column(t, table, 2)
	for i := range n {
		if math.Abs(got[i]-want[i]) > 1e-14 || math.Abs(one[i]+two[i]-want[i]) > 1e-14 || math.Abs(upper[i]-want[i]-1.959963985*0.4) > 1e-9 || math.Abs(lower[i]+upper[i]-2*want[i]) > 1e-14 {
			t.Fatalf("row %d: %v = %v + %v in [%v, %v], want %v", i, got[i], one[i], two[i], lower[i], upper[i], want[i])
		}
	}
	e, err := EvaluateNetwork(t.Context(), net, tanh{}, src)
	if err != nil {
		t.Fatal(err)
	}
	var total float64
	for _, v := range y {
		total += (v - mean) * (v - mean)
	}
	if math.Abs(*e.LogLikelihood-ll) > 1e-10 || math.Abs(e.RMSE-math.Sqrt(sse/n)) > 1e-13 || math.Abs(*e.R2-(1-sse/total)) > 1e-13 {
		t.Errorf("%v, %v, %v, want %v, %v, %v", *e.LogLikelihood, e.RMSE, *e.R2, ll, math.Sqrt(sse/n), 1-sse/total)
	}
	net.Sigma = 0
	if e, err := EvaluateNetwork(t.Context(), net, tanh{}, src); err != nil || e.LogLikelihood != nil || e.Calibration != nil {
		t.Errorf("without noise: %+v (%v)", e, err)
	}
	if _, err := EvaluateNetwork(context.Background(), net, tanh{}, dataset.Matrix(mat.NewDense(2, 1, nil), []float64{1, 2})); err == nil {
		t.Error("one feature for three")
	}
}
