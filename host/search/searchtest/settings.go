package searchtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// Leaned is a setting of k experts along e_1 … e_k in ten dimensions with noise .05 and a gate of its own, nil for the
// papers', which is orthogonal to them.
type Leaned struct {
	Family sdk.Family
	K, N   int
	Gate   []float64 // of two experts, the first coordinates
}

func (c Leaned) String() string {
	return fmt.Sprintf("%s k=%d n=%d w=%.3v", c.Family.Name, c.K, c.N, c.Gate)
}

// Draw is the sample of a seed.
func (c Leaned) Draw(seed uint64) *sample.Sampler {
	src, err := sample.New(sample.Config{Activation: of(c.Family, nil), K: c.K, D: 10, N: c.N, Sigma: .05,
		Design: sample.Paper, Seed: seed})
	if err != nil {
		panic(err) // of no design above
	}
	if c.Gate != nil {
		clear(src.Truth.Gating)
		copy(src.Truth.Gating, c.Gate)
	}
	return src
}

// Clustered is a setting of k experts over d features in three clusters: their centres are drawn with rms 3 in norm,
// the features' standard deviations in each from ½ to 1. Regressors are random unit vectors, gating vectors such that
// are orthogonal to them, and σ = .05.
type Clustered struct {
	Family  sdk.Family
	K, D, N int
	Centres [][]float64 // of the clusters, their first coordinates; nil: drawn, and the regressors with them
}

func (c Clustered) String() string {
	how := "drawn"
	if c.Centres != nil {
		how = "placed"
	}
	return fmt.Sprintf("%s k=%d d=%d n=%d, %s", c.Family.Name, c.K, c.D, c.N, how)
}

// Draw is the data set of a seed, and its truth.
func (c Clustered) Draw(seed uint64) (dataset.Source, *model.Params) {
	const clusters, radius, sigma = 3, 3., .05
	act := of(c.Family, nil)
	design := sample.OrthogonalGating
	if c.Centres != nil {
		design = sample.Paper
	}
	src, err := sample.New(sample.Config{Activation: act, K: c.K, D: c.D, N: 1, Sigma: sigma, Design: design,
		Seed: seed})
	if err != nil {
		panic(err) // of no design above
	}
	rng := rand.New(rand.NewPCG(seed, 77))
	centres, spreads := mat.NewDense(clusters, c.D, nil), mat.NewDense(clusters, c.D, nil)
	for j := range clusters * c.D {
		centres.Set(j/c.D, j%c.D, radius*rng.NormFloat64()/math.Sqrt(float64(c.D)))
		spreads.Set(j/c.D, j%c.D, .5+rng.Float64()/2)
	}
	for i, centre := range c.Centres {
		centres.SetRow(i, append(slices.Clone(centre), make([]float64, c.D-len(centre))...))
	}
	x, y := mat.NewDense(c.N, c.D, nil), make([]float64, c.N)
	for i := range y {
		at, row, logits := rng.IntN(clusters), x.RawRowView(i), make([]float64, c.K)
		for j := range row {
			row[j] = centres.At(at, j) + spreads.At(at, j)*rng.NormFloat64()
		}
		for j := range c.K - 1 {
			logits[j] = floats.Dot(row, src.Truth.Gating[j*c.D:(j+1)*c.D])
		}
		z, u, total := 0, rng.Float64(), floats.LogSumExp(logits)
		for ; z < c.K-1; z++ {
			if u -= math.Exp(logits[z] - total); u < 0 {
				break
			}
		}
		g := []float64{floats.Dot(row, src.Truth.Regressor(z))}
		if err := act.Eval(context.Background(), g, slices.Clone(g)); err != nil {
			panic(err) // of no design above
		}
		y[i] = g[0] + sigma*rng.NormFloat64()
	}
	return dataset.Matrix(x, y), src.Truth
}

// Corner are the centres of three clusters about regressors e_1 and e_2 and a gating vector e_3.
var Corner = [][]float64{{2, 0}, {-1, 2}, {-1, -2}}
