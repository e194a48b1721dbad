package problem

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
)

// TestInputs: standard inputs pass on 200 data sets, and others do not.
func TestInputs(t *testing.T) {
	check := func(n, d int, change func(rng *rand.Rand, x float64, j int) float64, seed uint64) *Inputs {
		rng := rand.New(rand.NewPCG(seed, 4))
		b := &model.Data{N: n, D: d}
		for left := n; left > 0; left -= model.BlockRows {
			m := min(left, model.BlockRows)
			block := model.Block{N: m, X: make([]float64, m*d), Y: make([]float64, m)}
			for i := range block.X {
				block.X[i] = change(rng, rng.NormFloat64(), i/m)
			}
			b.Blocks = append(b.Blocks, block)
		}
		s, err := tensor.SumSecond(t.Context(), b, 1)
		if err != nil {
			t.Fatal(err)
		}
		in, err := InputsOf(s)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	for seed := range uint64(200) {
		n, d := []int{200, 1000, 10000}[seed%3], []int{2, 10, 20}[seed/3%3]
		if in := check(n, d, func(_ *rand.Rand, x float64, _ int) float64 { return x }, seed); !in.Standard() {
			t.Errorf("n = %d, d = %d: false alarm: %s", n, d, in.Far)
		}
	}
	for name, change := range map[string]func(rng *rand.Rand, x float64, j int) float64{
		"scaled":      func(_ *rand.Rand, x float64, _ int) float64 { return 3 * x },
		"shifted":     func(_ *rand.Rand, x float64, _ int) float64 { return x + 1 },
		"exponential": func(rng *rand.Rand, _ float64, _ int) float64 { return rng.ExpFloat64() - 1 },
		"uniform":     func(rng *rand.Rand, _ float64, _ int) float64 { return (rng.Float64() - 0.5) * math.Sqrt(12) },
	} {
		if in := check(10000, 5, change, 1); in.Standard() {
			t.Errorf("%s inputs pass as standard", name)
		}
	}
}
