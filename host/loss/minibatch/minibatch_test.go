package minibatch

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// reluOutputs are the transforms of ReLU at σ = 0.05 (002 Example 2, solved).
var reluOutputs = solver.Transform{
	Alpha: -5.352482673, Beta: 8.110026612, Gamma: -3.251151426,
	Delta: -1.5957691216, C4: 0.5010468908, C2: 0.3633802276,
}

// activation is that of a family without parameters.
func activation(t testing.TB, family sdk.Family) sdk.Activation {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// normalRows returns n rows of d features and a target that do not depend on each other. A loss, its gradient and what
// they are held against are the same functions of any rows.
func normalRows(rng *rand.Rand, n, d int) *model.Data {
	data := NewBatch(n, d)
	for _, b := range data.Blocks {
		for _, v := range [][]float64{b.X, b.Y} {
			for i := range v {
				v[i] = rng.NormFloat64()
			}
		}
	}
	return data
}

func normalParams(rng *rand.Rand, k, d int) *model.Params {
	p := model.NewParams(k, d)
	for _, v := range [][]float64{p.Regressors, p.Gating} {
		for i := range v {
			v[i] = rng.NormFloat64() / math.Sqrt(float64(d))
		}
	}
	p.Sigma[0] = 0.3
	return p
}

// differences compares the gradient at θ, entry by entry, with central
// differences. The step 1e−5 leaves 1e−10 of curvature and 1e−11 of rounding,
// relative to third derivatives and values of order one to a hundred.
func differences(t *testing.T, name string, f Loss, theta []float64, data *model.Data) {
	t.Helper()
	grad, scratch := make([]float64, f.Dim()), make([]float64, f.Dim())
	if _, err := f.GradOn(t.Context(), grad, theta, data); err != nil {
		t.Fatal(err)
	}
	scale := floats.Norm(grad, math.Inf(1))
	for i := range theta {
		const h = 1e-5
		x := slices.Clone(theta)
		x[i] += h
		up, _ := f.GradOn(t.Context(), scratch, x, data)
		x[i] -= 2 * h
		down, _ := f.GradOn(t.Context(), scratch, x, data)
		if got := (up - down) / (2 * h); !(math.Abs(got-grad[i]) <= 1e-6*(1+scale)) {
			t.Errorf("%s: ∂/∂θ_%d = %v, differences say %v", name, i, grad[i], got)
		}
	}
}

func TestGradientsByDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p, at := normalParams(rng, 3, 6), normalParams(rng, 3, 6)
	data := normalRows(rng, 600, 6)
	tanh := activation(t, tanh.Family)
	differences(t, "L4", NewL4(3, 6, reluOutputs, 0.3, 2, 0.1), at.Regressors, data)
	norm := NewL4(3, 6, reluOutputs, 0.3, 2, 0.1)
	norm.UnitNorm = true
	differences(t, "L4 with unit norms", norm, at.Regressors, data)
	differences(t, "l2", NewL2(3, 6, tanh), slices.Concat(at.Regressors, at.Gating), data)
	differences(t, "Llog", NewGate(tanh, p), at.Gating, data)
}

// TestL4IsThatOfTheTensors: the sum over rows is the loss of the tensors of the same
// rows, value and gradient, to rounding.
func TestL4IsThatOfTheTensors(t *testing.T) {
	const k, d = 3, 6
	rng := rand.New(rand.NewPCG(3, 4))
	data := normalRows(rng, 700, d)
	at := normalParams(rng, k, d).Regressors
	second, err := tensor.SumSecond(t.Context(), data, 1)
	if err != nil {
		t.Fatal(err)
	}
	eye := mat.NewDense(d, d, nil)
	for i := range d {
		eye.Set(i, i, 1)
	}
	fourth, err := tensor.SumFourth(t.Context(), data, eye, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	q := reluOutputs
	t2 := mat.NewSymDense(d, nil)
	t2.ScaleSym(1/q.C2, second.T2(q.Delta, nil))
	t4 := fourth.T4(q)
	t4.Scale(1 / q.C4)
	want, got := make([]float64, k*d), make([]float64, k*d)
	v1, err := tensor.NewL4(k, t2, t4, 0.3, 2, 0.1).Grad(t.Context(), want, at)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := NewL4(k, d, q, 0.3, 2, 0.1).GradOn(t.Context(), got, at, data)
	if err != nil {
		t.Fatal(err)
	}
	scale := floats.Norm(want, math.Inf(1))
	if math.Abs(v1-v2) > 1e-10*math.Abs(v1) || floats.Distance(want, got, math.Inf(1)) > 1e-10*scale {
		t.Errorf("L4 = %v, of the tensors %v; gradients differ by %g of %g", v2, v1, floats.Distance(want, got, math.Inf(1)), scale)
	}
}

// TestGateIsLog: value, up to its constant, and gradient of Log.
func TestGateIsLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	p, at := normalParams(rng, 3, 5), normalParams(rng, 3, 5)
	data := normalRows(rng, 600, 5)
	tanh := activation(t, tanh.Family)
	want, got := make([]float64, 10), make([]float64, 10)
	v1, err := loss.Log(data, tanh, p, 1).Grad(t.Context(), want, at.Gating)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := NewGate(tanh, p).GradOn(t.Context(), got, at.Gating, data)
	if err != nil {
		t.Fatal(err)
	}
	v2 += math.Log(p.Sigma[0] * math.Sqrt(2*math.Pi))
	if math.Abs(v1-v2) > 1e-12*math.Abs(v1) || floats.Distance(want, got, math.Inf(1)) > 1e-12 {
		t.Errorf("L_log = %v, want %v; gradient %v, want %v", v2, v1, got, want)
	}
}

// TestEpochs: an epoch visits every row once but those left over, with all its
// values.
func TestEpochs(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	data := &model.Data{D: 2}
	for data.N < 700 {
		n := min(model.BlockRows, 700-data.N)
		b := model.Block{N: n, X: make([]float64, 2*n), Y: make([]float64, n)}
		for i := range n {
			row := float64(data.N + i)
			b.X[i], b.X[n+i], b.Y[i] = row, row+0.25, row+0.5
		}
		data.Blocks, data.N = append(data.Blocks, b), data.N+n
	}
	e := NewEpochs(data, 300, rng)
	if e.Steps() != 2 {
		t.Fatalf("%d batches an epoch, want 2", e.Steps())
	}
	var orders [2][]float64
	for epoch := range orders {
		seen := map[float64]bool{}
		for range e.Steps() {
			batch, err := e.Next(context.Background())
			if err != nil || batch.N != 300 {
				t.Fatal(batch.N, err)
			}
			for _, b := range batch.Blocks {
				for i, y := range b.Y {
					if b.Col(0)[i] != y-0.5 || b.Col(1)[i] != y-0.25 || seen[y] {
						t.Fatalf("row %v: x = %v, %v, seen before: %v", y, b.Col(0)[i], b.Col(1)[i], seen[y])
					}
					seen[y] = true
					orders[epoch] = append(orders[epoch], y)
				}
			}
		}
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Error("two epochs in the same order")
	}
}

// BenchmarkL4 is the gradient over a mini-batch of the papers'
// experiments.
func BenchmarkL4(b *testing.B) {
	rng := rand.New(rand.NewPCG(11, 12))
	p := normalParams(rng, 2, 10)
	data := normalRows(rng, 1024, 10)
	l, grad := NewL4(2, 10, reluOutputs, 0.01, 20, 1), make([]float64, 20)
	for b.Loop() {
		if _, err := l.GradOn(b.Context(), grad, p.Regressors, data); err != nil {
			b.Fatal(err)
		}
	}
}
