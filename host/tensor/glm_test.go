package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// TestWithoutGateItIsTheGLMTensor: at W = 0 experts are drawn whatever x is, and E[y·S_r(x)] of
// the target itself is m_r·Σ p_i a_i⊗…⊗a_i with m_r = E[g(Z)·He_r(Z)], the tensor of a mixture of
// generalised linear models (001), of regressors that are not orthogonal too: within five
// standard errors of each entry, from 40 parts of the rows; 71 entries, so that 1 in 20,000 runs fails by
// chance. With a gate it is not (TestTensorsOfAnyTransformAreUnbiased).
func TestWithoutGateItIsTheGLMTensor(t *testing.T) {
	const d, parts, rows = 3, 40, 4000
	shares := []float64{.3, .7}
	a := [][]float64{{1, 0, 0}, {.6, .8, 0}}
	for _, f := range []sdk.Family{relu.Family, sigmoid.Family} {
		act, err := f.Activation(nil)
		if err != nil {
			t.Fatal(err)
		}
		grid, err := gauss.NewGrid(t.Context(), act.Eval, act.Info().Kinks)
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range []int{2, 3, 4} {
			m, _ := grid.Expect(func(z, g float64) float64 { return g * gauss.Hermite(order, z) })
			var means [][]float64
			for part := range parts {
				b := withoutGate(t, act, a, shares, rows, uint64(part))
				sums, err := tensor.SumTransformed(t.Context(), &model.Data{N: rows, D: d, Blocks: b}, naive{}, order, nil, nil, 1)
				if err != nil {
					t.Fatal(err)
				}
				means = append(means, entries(sums))
			}
			want := glm(order, d, a, shares)
			floats.Scale(m, want)
			for i := range want {
				var mean, s float64
				for _, v := range means {
					mean += v[i] / parts
				}
				for _, v := range means {
					s += (v[i] - mean) * (v[i] - mean) / (parts - 1)
				}
				if off := math.Abs(mean-want[i]) / math.Sqrt(s/parts); off > 5 {
					t.Errorf("%s, order %d: entry %d is %v, want %v: %.1f standard errors", f.Name, order, i, mean, want[i], off)
				}
			}
		}
	}
}

// glm are the entries of Σ p_i a_i⊗…⊗a_i.
func glm(order, d int, a [][]float64, shares []float64) []float64 {
	switch order {
	case 2:
		var out []float64
		for i := range d {
			for j := i; j < d; j++ {
				out = append(out, shares[0]*a[0][i]*a[0][j]+shares[1]*a[1][i]*a[1][j])
			}
		}
		return out
	case 3:
		s := tensor.NewSym3(d)
		s.AddRankOne(shares[0], a[0])
		s.AddRankOne(shares[1], a[1])
		return s.Data
	}
	s := tensor.NewSym4(d)
	s.AddRankOne(shares[0], a[0])
	s.AddRankOne(shares[1], a[1])
	return s.Data
}

// withoutGate draws rows in blocks, with noise of .1.
func withoutGate(t *testing.T, act sdk.Activation, a [][]float64, shares []float64, rows int, seed uint64) (out []model.Block) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 99))
	d := len(a[0])
	for at := 0; at < rows; at += model.BlockRows {
		n := min(model.BlockRows, rows-at)
		b := model.Block{N: n, X: make([]float64, d*n), Y: make([]float64, n)}
		for r := range n {
			own := a[0]
			if rng.Float64() > shares[0] {
				own = a[1]
			}
			for j := range d {
				b.X[j*n+r] = rng.NormFloat64()
				b.Y[r] += own[j] * b.X[j*n+r]
			}
		}
		if err := act.Eval(t.Context(), b.Y, b.Y); err != nil {
			t.Fatal(err)
		}
		for r := range n {
			b.Y[r] += .1 * rng.NormFloat64()
		}
		out = append(out, b)
	}
	return out
}
