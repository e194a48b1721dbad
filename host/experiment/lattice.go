package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// lattice is the law of a mixture with one feature where y is a multiple of a step. Normal densities up to half as
// wide as the truth's add up to 1 there but for rounding, so that they are a model of such y with the same derivatives.
// Rows of it are counts of its cells: however many there are, a pass costs as much as the cells.
type lattice struct {
	x     []float64   // equidistant
	y     [][]float64 // the cells at each x
	share [][]float64 // their probabilities, of which those at an x add up to 1
}

// latticeOf is the law of p at so many equidistant x from lo to hi, y a multiple of step.
func latticeOf(ctx context.Context, act model.Activation, p *model.Params, points int, lo, hi, step float64) (*lattice,
	error) {
	const far = 9.
	l := &lattice{x: floats.Span(make([]float64, points), lo, hi)}
	for _, x := range l.x {
		mean, gate := make([]float64, p.K), make([]float64, p.K)
		for i := range p.K {
			mean[i] = p.Regressors[i]*x + p.RegressorIntercepts[i]
			if i < p.K-1 {
				gate[i] = p.Gating[i]*x + p.GatingIntercepts[i]
			}
		}
		if err := act.Eval(ctx, mean, mean); err != nil {
			return nil, err
		}
		log := floats.LogSumExp(gate)
		sigma := func(i int) float64 { return p.Sigma[min(i, len(p.Sigma)-1)] }
		widest := floats.Max(p.Sigma)
		var ys, shares []float64
		for j := math.Floor((floats.Min(mean) - far*widest) / step); j*step <= floats.Max(mean)+far*widest; j++ {
			sum := 0.0
			for i := range mean {
				z := (j*step - mean[i]) / sigma(i)
				sum += math.Exp(gate[i]-log-z*z/2) / sigma(i)
			}
			if sum *= step / math.Sqrt(2*math.Pi); sum > math.Exp(-far*far/2) {
				ys, shares = append(ys, j*step), append(shares, sum)
			}
		}
		floats.Scale(1/floats.Sum(shares), shares)
		l.y, l.share = append(l.y, ys), append(l.share, shares)
	}
	return l, nil
}

// draw draws n rows, as many at each x but for rounding: cells with their counts as weights.
func (l *lattice) draw(ctx context.Context, rng *rand.Rand, n int64) (*model.Data, error) {
	var xs, ys, weights []float64
	points := int64(len(l.x))
	for i, x := range l.x {
		left, rest := float64(int64(i+1)*n/points-int64(i)*n/points), 1.0
		for j, share := range l.share[i] {
			count := left
			if j < len(l.share[i])-1 {
				count = distuv.Binomial{N: left, P: min(1, share/rest), Src: rng}.Rand()
			}
			if count > 0 {
				xs, ys, weights = append(xs, x), append(ys, l.y[i][j]), append(weights, count)
			}
			if left, rest = left-count, rest-share; left == 0 {
				break
			}
		}
	}
	return weighted(ctx, xs, ys, weights)
}

// weighted are rows with these weights, of as many features as xs has values a row.
func weighted(ctx context.Context, xs, ys, weights []float64) (*model.Data, error) {
	data, err := dataset.Load(ctx, dataset.Matrix(mat.NewDense(len(ys), len(xs)/len(ys), xs), ys))
	if err != nil {
		return nil, err
	}
	at := 0
	return withWeights(data, func(b *model.Block) []float64 {
		at += b.N
		return weights[at-b.N : at]
	}), nil
}

// unitsOverRows are so many runs at each number of rows.
func unitsOverRows(name string, ns []int64, runs int,
	one func(ctx context.Context, seed uint64, n int64, run int) (*output, error)) (out []unit) {
	for _, n := range ns {
		for run := range runs {
			out = append(out, unit{key: fmt.Sprintf("%s n %d run %d", name, n, run),
				run: func(ctx context.Context, seed uint64) (*output, error) { return one(ctx, seed, n, run) }})
		}
	}
	return out
}
