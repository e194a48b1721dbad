package infer

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// rowStream and targetStream separate these random numbers from those of a
	// fit: of which rows and experts are drawn, and of the targets.
	rowStream    = 1 << 34
	targetStream = 1 << 35
)

// Draws are rows drawn from a table, each with the expert that its target is to
// be drawn from.
type Draws struct {
	X      []float64 // row-major
	Weight []float64 // make up for experts that were drawn more often than the model would
	Expert []int
}

// Append adds those of later rows.
func (s *Draws) Append(o *Draws) {
	s.X, s.Weight, s.Expert = append(s.X, o.X...), append(s.Weight, o.Weight...), append(s.Expert, o.Expert...)
}

// sample draws about so many rows, row x with expert i in proportion to
// w(x)·p_i(x)·boost_i, boost_i = max(1, 1/(k·π_i)) for the proportion π_i: an
// expert rarer than 1/k is drawn as if its proportion were that, with a weight of
// 1/boost_i, since the terms of a rare expert are as many as those of any other.
// The draws are at most 2 − 1/k times as many as wanted. Each block is gone through
// systematically, so that its rows are drawn as evenly as they can be. The rows are those
// of a table from its block first on; its Σ p_i and weight are in data.
func (m *terms) sample(ctx context.Context, rows model.Rows, first, wanted int, data *RowSums, seed uint64, workers int) (*Draws, error) {
	boost := make([]float64, m.p.K)
	for i, prior := range data.Prior {
		boost[i] = max(1, data.Weight/(float64(m.p.K)*max(prior, 1)))
	}
	chunks := make([]Draws, model.Chunks(rows))
	n, d := rows.Dims()
	each := wanted / len(chunks) * 3 / 2 // about as many as a chunk has
	room := make([]*mixture.Posterior, model.Workers(workers))
	err := model.Each(ctx, rows, len(room), func(worker, chunk, block int, b *model.Block) error {
		if room[worker] == nil {
			room[worker] = mixture.NewPosterior(mixture.Mixture{}, m.p.K)
		}
		if s := &chunks[chunk]; s.X == nil {
			s.grow(min(each, 2*n), d)
		}
		given := room[worker]
		given.Given(m.p, b)
		rng := rand.New(rand.NewPCG(seed, rowStream+uint64(first+block)))
		for i, boosted := range boost {
			at, rate := rng.Float64(), boosted*float64(wanted)/data.Weight
			for r, prior := range given.PriorOf(i) {
				if b.W != nil {
					prior *= b.W[r]
				}
				for at += rate * prior; at >= 1; at-- {
					chunks[chunk].add(b, r, i, 1/boosted)
				}
			}
		}
		return nil
	})
	out, total := new(Draws), 0
	for _, c := range chunks {
		total += len(c.Expert)
	}
	out.grow(total, d)
	for _, c := range chunks {
		out.Append(&c)
	}
	return out, err
}

// grow makes room for n more draws of d features.
func (s *Draws) grow(n, d int) {
	s.X, s.Weight, s.Expert = slices.Grow(s.X, n*d), slices.Grow(s.Weight, n), slices.Grow(s.Expert, n)
}

// add draws row r of a block.
func (s *Draws) add(b *model.Block, r, expert int, weight float64) {
	for at := r; at < len(b.X); at += b.N {
		s.X = append(s.X, b.X[at])
	}
	s.Weight, s.Expert = append(s.Weight, weight), append(s.Expert, expert)
}

// rows returns the rows drawn, with their weights and without targets.
func (s *Draws) rows(d int) *model.Data {
	out := &model.Data{N: len(s.Expert), D: d}
	x := make([]float64, len(s.X))
	for from := 0; from < out.N; from += model.BlockRows {
		b := model.Block{N: min(model.BlockRows, out.N-from)}
		b.X, b.W = x[from*d:(from+b.N)*d], s.Weight[from:from+b.N]
		for r := range b.N {
			for j, v := range s.X[(from+r)*d : (from+r+1)*d] {
				b.X[j*b.N+r] = v
			}
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// covariance returns E[term·termᵀ] under the fitted model: of targets drawn from it for
// these rows and experts.
func (m *terms) covariance(ctx context.Context, s *Draws, seed uint64, workers int) (*mat.SymDense, error) {
	return covarianceOf(ctx, s, m.p.D, m.at[atEnd], seed, workers, m.newRows, func(w *termRows, b *model.Block, experts []int, rng *rand.Rand) (terms, weighted [][]float64, err error) {
		if err := m.given(ctx, w, b); err != nil {
			return nil, nil, err
		}
		for r, i := range experts {
			w.y[r] = w.g[i*b.N+r] + m.p.SigmaOf(i)*rng.NormFloat64()
		}
		m.fill(w, w.y[:b.N])
		return w.out, w.weighted, nil
	})
}

// covarianceOf takes the mean of term·termᵀ over draws of d features. fill draws targets for a block's rows and
// experts and computes so many terms of them, in the room W of a worker, which has room for as
// many beside.
func covarianceOf[W any](ctx context.Context, s *Draws, d, size int, seed uint64, workers int, room func() *W,
	fill func(w *W, b *model.Block, experts []int, rng *rand.Rand) (terms, weighted [][]float64, err error)) (*mat.SymDense, error) {
	data := s.rows(d)
	chunks := make([][]float64, model.Chunks(data))
	rows := make([]*W, model.Workers(workers))
	err := model.Each(ctx, data, len(rows), func(worker, chunk, block int, b *model.Block) error {
		if rows[worker] == nil {
			rows[worker] = room()
		}
		if chunks[chunk] == nil {
			chunks[chunk] = make([]float64, size*(size+1)/2)
		}
		rng := rand.New(rand.NewPCG(seed, targetStream+uint64(block)))
		terms, weighted, err := fill(rows[worker], b, s.Expert[block*model.BlockRows:][:b.N], rng)
		if err != nil {
			return err
		}
		addGram(chunks[chunk], terms, weighted, b.W)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range chunks[1:] {
		floats.Add(chunks[0], c)
	}
	floats.Scale(1/floats.Sum(s.Weight), chunks[0])
	return symmetric(chunks[0], size), nil
}

// addGram adds the products of all pairs of terms, of rows with these weights, to dst, an
// upper triangle in rows. Weighted is room for as many terms.
func addGram(dst []float64, terms, weighted [][]float64, weight []float64) {
	n := len(weight)
	for i, a := range terms {
		terms[i], weighted[i] = a[:n], weighted[i][:n]
		kernel.Mul(weighted[i], terms[i], weight)
	}
	kernel.AddGram(dst, weighted, terms)
}

// symmetric returns the matrix of an upper triangle in rows.
func symmetric(packed []float64, size int) *mat.SymDense {
	m := mat.NewSymDense(size, nil)
	for i := range size {
		for j := i; j < size; j++ {
			m.SetSym(i, j, packed[0])
			packed = packed[1:]
		}
	}
	return m
}
