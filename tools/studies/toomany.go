package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	tanhs "github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// tooMany fits two experts to rows of one, y = g(1.5·x + 0.5) + 0.3·N(0,1), from starts next to the truth, and prints
// the median error √(Σ p_i·|(a_i, b_i) − (a, b)|²) of the best that stays near, with its power of n, for σ known and
// estimated:
//
//	go -C tools/studies run . too-many -sets 40
func tooMany(ctx context.Context) {
	sets := flag.Int("sets", 40, "data sets of each size")
	parse()
	for _, family := range []sdk.Family{tanhs.Family, sigmoid.Family, identity.Family} {
		act := activation(family)
		for _, known := range []bool{true, false} {
			var ns, medians []float64
			for n := 500; n <= 32000; n *= 4 {
				var errs []float64
				for seed := range uint64(*sets) {
					if e := oneTooMany(ctx, act, n, seed, known); !math.IsNaN(e) {
						errs = append(errs, e)
					}
				}
				slices.Sort(errs)
				ns = append(ns, math.Log(float64(n)))
				medians = append(medians, math.Log(stat.Quantile(.5, stat.Empirical, errs, nil)))
				fmt.Printf("%s, sigma known %v, n = %d: %.3f, of %d of %d data sets\n", act.Info().Name, known, n,
					math.Exp(medians[len(medians)-1]), len(errs), *sets)
			}
			_, power := stat.LinearRegression(ns, medians, nil, false)
			fmt.Printf("%s, sigma known %v: n to the %.3f\n", act.Info().Name, known, power)
		}
	}
}

// oneTooMany is the error on a data set; NaN where no start stays near.
func oneTooMany(ctx context.Context, act sdk.Activation, n int, seed uint64, known bool) float64 {
	const a, b, sigma, starts, near = 1.5, 0.5, 0.3, 4, 3
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for r := range n {
		x.Set(r, 0, rng.NormFloat64())
		y[r] = a*x.At(r, 0) + b
	}
	check(act.Eval(ctx, y, y))
	for r := range y {
		y[r] += sigma * rng.NormFloat64()
	}
	rows := must(dataset.Load(ctx, dataset.Matrix(x, y)))
	free := loss.All
	free.Sigma = !known
	best, value := math.NaN(), math.Inf(1)
	for range starts {
		p := model.NewParams(2, 1)
		p.Sigma[0] = sigma
		p.Gating[0], p.GatingIntercepts = rng.NormFloat64(), []float64{rng.NormFloat64() / 2}
		p.RegressorIntercepts = make([]float64, 2)
		for i, side := range []float64{1, -1} {
			p.Regressors[i] = a + side*rng.NormFloat64()/4
			p.RegressorIntercepts[i] = b + side*rng.NormFloat64()/4
		}
		l := loss.NewLikelihood(rows, act, p, free, 1)
		run := must(climb.Climb(ctx, l, l.Theta(p), nil))
		q := l.Params(run.X)
		var share, off float64
		for r := range n {
			share += 1 / (1 + math.Exp(-q.Gating[0]*x.At(r, 0)-q.GatingIntercepts[0])) / float64(n)
		}
		for i, weight := range []float64{share, 1 - share} {
			off += weight * math.Pow(floats.Distance([]float64{q.Regressors[i], q.RegressorIntercepts[i]},
				[]float64{a, b}, 2), 2)
		}
		gate := math.Hypot(q.Gating[0], q.GatingIntercepts[0])
		if run.Status == optim.Converged && run.Value < value && math.Sqrt(off) < near && gate < 10 {
			best, value = math.Sqrt(off), run.Value
		}
	}
	return best
}
