package infer

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Pair is two experts, I < J, and how far apart they are.
type Pair struct {
	I, J int
	// Distance is the rms of (g_i − g_j)/σ over the rows that are theirs, σ the
	// smaller of their noise levels; of densities other than normal 1/σ² is the mean of Fisher's information at both.
	Distance float64
}

// Distances returns how far apart the means of every two experts are,
//
//	√(Σ w·(p_i + p_j)·(g_i − g_j)² / Σ w·(p_i + p_j)) / min(σ_i, σ_j)
//
// over the rows x of weight w. Errors are those of the rows, the activation and ctx.
func Distances(ctx context.Context, rows model.Rows, act model.Activation, p *model.Params,
	workers int) ([]Pair, error) {
	var out []Pair
	for i := range p.K {
		for j := i + 1; j < p.K; j++ {
			out = append(out, Pair{I: i, J: j})
		}
	}
	type sums struct{ square, weight []float64 }
	chunks := make([]sums, model.Chunks(rows))
	for c := range chunks {
		chunks[c] = sums{make([]float64, len(out)), make([]float64, len(out))}
	}
	type room struct {
		given *mixture.Posterior
		g     []float64

		terms     mixture.Terms // of densities other than normal
		precision []float64
	}
	rooms := make([]*room, model.Workers(workers))
	means, density := p.Output(act), mixture.DensityOf(p.Family)
	normal := mixture.Normal(density)
	err := model.Each(ctx, rows, len(rooms), func(worker, chunk, _ int, b *model.Block) error {
		if rooms[worker] == nil {
			rooms[worker] = &room{mixture.NewPosterior(mixture.Mixture{}, p.K), make([]float64, p.K*model.BlockRows),
				mixture.NewTerms(len(density.Own())), make([]float64, p.K*model.BlockRows)}
		}
		r := rooms[worker]
		r.given.Given(p, b)
		g := r.g[:p.K*b.N]
		p.Predictors(g, b)
		if err := means.Eval(ctx, g, g); err != nil {
			return err
		}
		if !normal {
			precisions(r.precision, r.terms.First(b.N), r.given.Density, p, g)
		}
		for at, pair := range out {
			pi, pj := r.given.PriorOf(pair.I), r.given.PriorOf(pair.J)
			gi, gj := g[pair.I*b.N:(pair.I+1)*b.N], g[pair.J*b.N:(pair.J+1)*b.N]
			for t := range b.N {
				w := (pi[t] + pj[t]) * b.Weight(t)
				chunks[chunk].weight[at] += w
				if !normal {
					w *= (r.precision[pair.I*b.N+t] + r.precision[pair.J*b.N+t]) / 2
				}
				chunks[chunk].square[at] += w * (gi[t] - gj[t]) * (gi[t] - gj[t])
			}
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		return out, err
	}
	for _, c := range chunks[1:] {
		floats.Add(chunks[0].square, c.square)
		floats.Add(chunks[0].weight, c.weight)
	}
	for at := range out {
		pair := &out[at]
		pair.Distance = math.Sqrt(chunks[0].square[at] / chunks[0].weight[at])
		if normal {
			pair.Distance /= min(p.SigmaOf(pair.I), p.SigmaOf(pair.J))
		}
	}
	return out, nil
}

// precisions writes E[−∂²log f/∂m²] at the means of a block's rows, K rows of equal length, to dst: 1/σ² of normal
// noise.
func precisions(dst []float64, t mixture.Terms, d mixture.Density, p *model.Params, mean []float64) {
	n := len(t.Expected)
	for i := range p.K {
		m := mean[i*n : (i+1)*n]
		d.Derive(t, m, m, p.OwnOf(nil, i))
		copy(dst[i*n:], t.Expected)
	}
}
