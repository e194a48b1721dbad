package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
)

// average prints, of splits of the tables of docs/heldout.md, the predictive log-likelihood of a quarter of the rows
// by the k of the least BIC corrected for few rows, of 1 to 4, and by the mean of all k, weighted by exp(−BICc/2):
//
//	go -C tools/studies run . average -tables DIR -splits 5
func average(ctx context.Context) {
	on := splitFlags()
	parse()
	on.eachOf(ctx, func(name string, split uint64, train, test dataset.Loaded) {
		var terms [][]float64
		var weights []float64
		for k := 1; k <= 4; k++ {
			m, err := host.Fit(ctx, line, train, host.Config{K: k, Intercepts: host.BothIntercepts, Seed: 1})
			if err != nil { // of too few rows
				break
			}
			r := criterion.Fit{Candidate: fitted.Candidate{LogLikelihood: m.Fit.LogLikelihood, BIC: m.Fit.BIC},
				Few: criterion.Fewness(float64(m.Fit.N), m.Fit.Parameters())}
			terms, weights = append(terms, rowDensities(ctx, m, test, true)), append(weights, -r.BICc()/2)
		}
		best, mean := floats.MaxIdx(weights), 0.0
		floats.AddConst(-floats.LogSumExp(weights), weights)
		at := make([]float64, len(weights))
		for r := range terms[0] {
			for k := range at {
				at[k] = weights[k] + terms[k][r]
			}
			mean += floats.LogSumExp(at)
		}
		fmt.Printf("%-12s split %d, %d rows: k = %d %.3f, mean %.3f, difference a row %+.4f\n", name, split,
			test.Data.N, best+1, floats.Sum(terms[best]), mean, (mean-floats.Sum(terms[best]))/float64(test.Data.N))
	})
}

// bootstrap prints, of the same splits, what the mean of the densities of ten fits adds to each new row, fits of as
// many experts to bootstrap samples of the rows: of plug-in densities and of predictive ones, beside the predictive
// density of the fit to all rows:
//
//	go -C tools/studies run . bootstrap -tables DIR -splits 4
func bootstrap(ctx context.Context) {
	const samples = 10
	on := splitFlags()
	parse()
	on.eachOf(ctx, func(name string, split uint64, train, test dataset.Loaded) {
		one, err := host.FitRange(ctx, line, train, 1, 4, host.Config{Intercepts: host.BothIntercepts, Seed: 1})
		if err != nil {
			fmt.Printf("%-12s split %d: %v\n", name, split, err)
			return
		}
		var plugIn, predictive [][]float64
		rng := rand.New(rand.NewPCG(split, 8))
		for range samples {
			cfg := host.Config{K: one.K, Intercepts: host.BothIntercepts, Seed: 1}
			m, err := host.Fit(ctx, line, resampled(rng, train), cfg)
			if err != nil { // of a sample without a level of a factor, or that a constant fits
				continue
			}
			plugIn = append(plugIn, rowDensities(ctx, m, test, false))
			predictive = append(predictive, rowDensities(ctx, m, test, true))
		}
		single, rows := floats.Sum(rowDensities(ctx, one, test, true)), float64(test.Data.N)
		fmt.Printf("%-12s split %d, %d rows: k = %d %.3f, %d samples, plug-in %+.4f a row, predictive %+.4f\n", name,
			split, test.Data.N, one.K, single, len(plugIn), (meanDensity(plugIn)-single)/rows,
			(meanDensity(predictive)-single)/rows)
	})
}

// resampled are as many rows, drawn from them with replacement.
func resampled(rng *rand.Rand, rows dataset.Loaded) dataset.Loaded {
	n, d := rows.Data.Dims()
	out := &model.Data{N: n, D: d}
	for from := 0; from < n; from += model.BlockRows {
		b := model.Block{N: min(model.BlockRows, n-from)}
		b.X, b.Y = make([]float64, d*b.N), make([]float64, b.N)
		for t := range b.N {
			r := rng.IntN(n)
			of := rows.Data.Blocks[r/model.BlockRows]
			b.Y[t] = of.Y[r%model.BlockRows]
			for j := range d {
				b.X[j*b.N+t] = of.Col(j)[r%model.BlockRows]
			}
		}
		out.Blocks = append(out.Blocks, b)
	}
	return dataset.InMemory(rows.Schema(), out)
}

// meanDensity is the log-likelihood of rows under the mean of densities, of which the logs are given row by row.
func meanDensity(logs [][]float64) (sum float64) {
	at := make([]float64, len(logs))
	for r := range logs[0] {
		for m := range logs {
			at[m] = logs[m][r] - math.Log(float64(len(logs)))
		}
		sum += floats.LogSumExp(at)
	}
	return sum
}

// rowDensities are the logs of a model's densities of rows, predictive or plug-in.
func rowDensities(ctx context.Context, m *fitted.Model, rows dataset.Loaded, predictive bool) (out []float64) {
	m = m.ForNewRows()
	predictor := predict.NewPredictor(m.Params(), line, "")
	if predictive {
		predictor = predictor.With(predict.UncertaintyOf(m))
	}
	for _, b := range rows.Data.Blocks {
		pred := must(predictor.Predict(ctx, &b))
		for r, y := range b.Y {
			out = append(out, math.Max(predictor.Law(pred, r).LogDensity(y), -1e6))
		}
	}
	return out
}
