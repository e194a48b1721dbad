package moment

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// TestObliqueGatesOfAMillionRows: the errors that TestObliqueGates finds by quadrature
// are those of samples of a million rows: each within three standard errors, which the
// spread of the data sets tells. Some three seconds:
//
//	MOE_STUDY=10 go test ./host/moment -run TestObliqueGatesOfAMillionRows -v
func TestObliqueGatesOfAMillionRows(t *testing.T) {
	sets := studySets(t)
	act := activation(t, relu.Family, nil)
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := solver.Solve(m, m.System(.05), .05)
	truth := model.NewParams(2, 3)
	truth.Regressor(0)[0], truth.Regressor(1)[1] = 1, 1
	r2, r3 := math.Sqrt(.5), math.Sqrt(1./3)
	for _, c := range []struct {
		w     [3]float64
		power float64
	}{{[3]float64{r2, r2, 0}, .25058}, {[3]float64{.6, 0, .8}, .000286}, {[3]float64{r3, r3, r3}, .02493}} {
		var errs []float64
		for seed := range uint64(sets) {
			rows := oblique(c.w, 1_000_000, seed)
			sums, err := tensor.SumSecond(t.Context(), rows, 1)
			if err != nil {
				t.Fatal(err)
			}
			t2 := sums.T2(q.Delta, nil)
			t2.ScaleSym(1/q.C2, t2)
			s, err := leadingSubspace(t2, &problem.Inputs{}, 2)
			if err != nil {
				t.Fatal(err)
			}
			third, err := tensor.SumTransformed(t.Context(), rows, q, 3, s.Basis, nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			t3 := third.T3()
			t3.ScaleModes(s.whitening())
			e, _ := metric.Ereg(s.estimate(t3.Power(rand.New(rand.NewPCG(1, 1)), restarts).Vectors, 0).Params, truth)
			errs = append(errs, e)
		}
		mean, sd := stat.MeanStdDev(errs, nil)
		t.Logf("w = %.3v: E_reg %.6f ± %.6f over %d data sets (one: ±%.6f); of the population %.6f", c.w, mean, sd/math.Sqrt(float64(sets)), sets, sd, c.power)
		for i, e := range errs {
			if math.Abs(e-c.power) > 3*sd {
				t.Errorf("w = %.3v, data set %d: E_reg %.6f, of the population %.6f: more than three standard errors of %.6f", c.w, i, e, c.power, sd)
			}
		}
	}
}

// oblique draws rows of two ReLU experts along e1 and e2 with the gating vector w.
func oblique(w [3]float64, n int, seed uint64) *model.Data {
	rng := rand.New(rand.NewPCG(seed, 31))
	out := &model.Data{N: n, D: 3}
	for at := 0; at < n; at += model.BlockRows {
		b := model.Block{N: min(model.BlockRows, n-at)}
		b.X, b.Y = make([]float64, 3*b.N), make([]float64, b.N)
		for r := range b.N {
			along := 0.0
			for j := range 3 {
				b.X[j*b.N+r] = rng.NormFloat64()
				along += w[j] * b.X[j*b.N+r]
			}
			expert := 1
			if rng.Float64()*(1+math.Exp(-along)) < 1 {
				expert = 0
			}
			b.Y[r] = max(b.X[expert*b.N+r], 0) + .05*rng.NormFloat64()
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}
