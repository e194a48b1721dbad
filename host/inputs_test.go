package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// clustered is a setting of k experts over d features in three clusters: their centres are drawn with rms 3 in norm, the
// features' standard deviations in each from ½ to 1. Regressors are random unit vectors, gating vectors such that are
// orthogonal to them, and σ = .05.
type clustered struct {
	family  sdk.Family
	k, d, n int
}

func (c clustered) String() string {
	return fmt.Sprintf("%s k=%d d=%d n=%d", c.family.Name, c.k, c.d, c.n)
}

func (c clustered) draw(t *testing.T, seed uint64) (dataset.Source, *model.Params) {
	t.Helper()
	const clusters, radius, sigma = 3, 3., .05
	act := activation(c.family, nil)
	src, err := sample.New(sample.Config{Activation: act, K: c.k, D: c.d, N: 1, Sigma: sigma,
		Design: sample.OrthogonalGating, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 77))
	centres, spreads := mat.NewDense(clusters, c.d, nil), mat.NewDense(clusters, c.d, nil)
	for j := range clusters * c.d {
		centres.Set(j/c.d, j%c.d, radius*rng.NormFloat64()/math.Sqrt(float64(c.d)))
		spreads.Set(j/c.d, j%c.d, .5+rng.Float64()/2)
	}
	x, y := mat.NewDense(c.n, c.d, nil), make([]float64, c.n)
	for i := range y {
		at, row, logits := rng.IntN(clusters), x.RawRowView(i), make([]float64, c.k)
		for j := range row {
			row[j] = centres.At(at, j) + spreads.At(at, j)*rng.NormFloat64()
		}
		for j := range c.k - 1 {
			logits[j] = floats.Dot(row, src.Truth.Gating[j*c.d:(j+1)*c.d])
		}
		z, u, total := 0, rng.Float64(), floats.LogSumExp(logits)
		for ; z < c.k-1; z++ {
			if u -= math.Exp(logits[z] - total); u < 0 {
				break
			}
		}
		g := []float64{floats.Dot(row, src.Truth.Regressor(z))}
		if err := act.Eval(t.Context(), g, slices.Clone(g)); err != nil {
			t.Fatal(err)
		}
		y[i] = g[0] + sigma*rng.NormFloat64()
	}
	return dataset.Matrix(x, y), src.Truth
}

// fit is that of the data set of a seed.
func (c clustered) fit(t *testing.T, seed uint64, method Method, inputs Inputs) *fitted.Model {
	t.Helper()
	src, truth := c.draw(t, seed)
	m, err := Fit(t.Context(), activation(c.family, nil), src, Config{K: c.k, Method: method, Inputs: inputs,
		Truth: truth, Seed: 1, Threads: 1})
	if err != nil {
		t.Fatal(c, err)
	}
	return m
}

// TestInputsStudy: median E_reg on clustered features by method and --inputs.
//
//	MOE_STUDY=10 go test ./host -run TestInputsStudy -v -timeout 3h
func TestInputsStudy(t *testing.T) {
	sets, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		t.Skip("a study; set MOE_STUDY to the number of data sets")
	}
	for _, n := range []int{10_000, 100_000} {
		for _, family := range []sdk.Family{identity.Family, relu.Family} {
			for _, k := range []int{2, 3} {
				for _, d := range []int{5, 6, 20} {
					if d == 5 && k == 3 || d == 6 && k == 2 {
						continue // d > 2k − 1
					}
					c := clustered{family, k, d, n}
					line := c.String()
					for _, by := range []struct {
						method Method
						inputs Inputs
					}{
						{Moments{}, GaussianInputs}, {Spectral{}, GaussianInputs}, {Moments{}, MixtureInputs},
						{Spectral{}, MixtureInputs}, {Spectral{Corrections: 20}, MixtureInputs},
					} {
						var all []float64
						for seed := range uint64(sets) {
							src, truth := c.draw(t, 1000+seed)
							m, err := Fit(t.Context(), activation(c.family, nil), src, Config{K: c.k, Method: by.method,
								Inputs: by.inputs, Truth: truth, Seed: 1, Threads: 1})
							if err != nil {
								all = append(all, 1)
								continue
							}
							all = append(all, m.Truth.EReg)
						}
						line += fmt.Sprintf(" | %s %s%s %.3g", by.method.Name(), by.inputs,
							map[bool]string{true: " corrected"}[by.method == Method(Spectral{Corrections: 20})],
							median(all))
					}
					t.Log(line)
				}
			}
		}
	}
}
