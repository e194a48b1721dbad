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
	if math.Abs(*e.LogLikelihood-ll) > 1e-10 || math.Abs(e.RMSE-math.Sqrt(sse/n)) > 1e-13 || math.Abs(e.R2-(1-sse/total)) > 1e-13 {
		t.Errorf("%v, %v, %v, want %v, %v, %v", *e.LogLikelihood, e.RMSE, e.R2, ll, math.Sqrt(sse/n), 1-sse/total)
	}
	net.Sigma = 0
	if e, err := EvaluateNetwork(t.Context(), net, tanh{}, src); err != nil || e.LogLikelihood != nil || e.Calibration != nil {
		t.Errorf("without noise: %+v (%v)", e, err)
	}
	if _, err := EvaluateNetwork(context.Background(), net, tanh{}, dataset.Matrix(mat.NewDense(2, 1, nil), []float64{1, 2})); err == nil {
		t.Error("one feature for three")
	}
}
