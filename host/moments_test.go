package host

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"gonum.org/v1/gonum/floats"
)

// estimated returns a fit that has gone as far as the moment estimate.
func estimated(t testing.TB, c cell, seed uint64) (*fit, *model.Params) {
	t.Helper()
	act, src, truth := c.draw(t, seed)
	f := &fit{cfg: Config{K: c.k, Seed: seed, Threads: 2}.withDefaults(), sdk: act, act: act, schema: src.Schema()}
	if err := f.load(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if err := f.firstPass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if obstacle, err := f.secondPass(t.Context()); err != nil {
		t.Fatal(err)
	} else if obstacle != "" {
		t.Logf("%v, data set %d: %s", c, seed, obstacle)
	}
	return f, truth
}

// momentCells with the median E_reg that a good implementation is known to
// reach over data sets; the bound is 1.3 times that.
var momentCells = []struct {
	cell   cell
	median float64
}{
	{cell{identity.Family, nil, 2, 10, 10_000, 0.05, sample.Paper}, 0.006},
	{cell{identity.Family, nil, 4, 10, 100_000, 0.05, sample.Paper}, 0.006},
	{cell{relu.Family, nil, 2, 10, 100_000, 0.05, sample.Paper}, 0.026},
}

// TestMomentEstimate: the median over 40 data sets of the error of the
// regressors, with nothing but the tensors.
func TestMomentEstimate(t *testing.T) {
	for _, m := range momentCells {
		var errs []float64
		for seed := range uint64(40) {
			f, truth := estimated(t, m.cell, seed+1)
			e := 1.0
			if f.estimate != nil {
				e, _ = metric.Ereg(f.estimate.params, truth)
			}
			errs = append(errs, e)
		}
		slices.Sort(errs)
		median := (errs[19] + errs[20]) / 2
		t.Logf("%v: median E_reg %.4f, worst %.4f", m.cell, median, errs[39])
		if median > 1.3*m.median {
			t.Errorf("%v: median E_reg %.4f, want at most 1.3·%.4f", m.cell, median, m.median)
		}
	}
}

// TestReducedL4HasOneOptimum: 20 random starts of the reduced problem reach the
// same value.
func TestReducedL4HasOneOptimum(t *testing.T) {
	for _, c := range []cell{
		{identity.Family, nil, 2, 10, 10_000, 0.05, sample.Paper},
		{identity.Family, nil, 3, 10, 10_000, 0.05, sample.Paper},
		{identity.Family, nil, 4, 10, 100_000, 0.05, sample.Paper},
		{relu.Family, nil, 2, 10, 100_000, 0.05, sample.Paper},
	} {
		f, _ := estimated(t, c, 1)
		fourth, err := tensor.SumFourth(t.Context(), f.data, f.span.basis, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		o := reducedL4(fourth, f.span, f.transform, defaultMu)
		rng := rand.New(rand.NewPCG(9, 9))
		var values []float64
		for range 20 {
			// unit rows of any direction, not only orthogonal ones
			x := make([]float64, o.Dim())
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			r, err := optim.LBFGS(t.Context(), o, x, optim.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, r.Value)
		}
		if lo, hi := slices.Min(values), slices.Max(values); hi-lo > 1e-6*math.Abs(lo) {
			t.Errorf("%v: optima from %v to %v", c, lo, hi)
		}
	}
}

// TestSigns: all regressors have the truth's sign, on 20 data sets of 10,000
// rows of every activation that has one.
func TestSigns(t *testing.T) {
	for _, c := range []cell{
		{identity.Family, nil, 3, 10, 10_000, 0.05, sample.Paper},
		{sigmoid.Family, nil, 2, 10, 10_000, 0.05, sample.Paper},
		{relu.Family, nil, 2, 10, 100_000, 0.05, sample.Paper},
	} {
		for seed := range uint64(20) {
			f, truth := estimated(t, c, seed+1)
			if f.estimate == nil {
				continue
			}
			_, perm := metric.Ereg(f.estimate.params, truth)
			for i, j := range perm {
				if floats.Dot(f.estimate.params.Regressor(i), truth.Regressor(j)) < 0 {
					t.Errorf("%v, data set %d: regressor %d has the wrong sign", c, seed+1, i)
				}
			}
		}
	}
}

// TestInputs: standard inputs pass on 200 data sets, and others do not.
func TestInputs(t *testing.T) {
	check := func(n, d int, change func(rng *rand.Rand, x float64, j int) float64, seed uint64) *inputs {
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
		in, err := checkInputs(s)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	for seed := range uint64(200) {
		n, d := []int{200, 1000, 10000}[seed%3], []int{2, 10, 20}[seed/3%3]
		if in := check(n, d, func(_ *rand.Rand, x float64, _ int) float64 { return x }, seed); !in.standard() {
			t.Errorf("n = %d, d = %d: false alarm: %s", n, d, in.far)
		}
	}
	for name, change := range map[string]func(rng *rand.Rand, x float64, j int) float64{
		"scaled":      func(_ *rand.Rand, x float64, _ int) float64 { return 3 * x },
		"shifted":     func(_ *rand.Rand, x float64, _ int) float64 { return x + 1 },
		"exponential": func(rng *rand.Rand, _ float64, _ int) float64 { return rng.ExpFloat64() - 1 },
		"uniform":     func(rng *rand.Rand, _ float64, _ int) float64 { return (rng.Float64() - 0.5) * math.Sqrt(12) },
	} {
		if in := check(10000, 5, change, 1); in.standard() {
			t.Errorf("%s inputs pass as standard", name)
		}
	}
}
