package specification

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/stream"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Draws are rows drawn from a table, each with the expert that its target is to
// be drawn from.
type Draws struct {
	X      []float64 // row-major
	Weight []float64 // make up for experts that were drawn more often than the model would
	Expert []int
	// the columns that predictors and densities take; none where the table has none
	Role model.ByRole[[]float64]
}

// Append adds those of later rows.
func (s *Draws) Append(o *Draws) {
	s.X, s.Weight, s.Expert = append(s.X, o.X...), append(s.Weight, o.Weight...), append(s.Expert, o.Expert...)
	for _, role := range model.OfLaw {
		s.Role[role] = append(s.Role[role], o.Role[role]...)
	}
}

// sample draws about so many rows, row x with expert i in proportion to
// w(x)·p_i(x)·boost_i, boost_i = max(1, 1/(k·π_i)) for the proportion π_i: an
// expert rarer than 1/k is drawn as if its proportion were that, with a weight of
// 1/boost_i, since the terms of a rare expert are as many as those of any other.
// The draws are at most 2 − 1/k times as many as wanted. Each block is gone through
// systematically, so that its rows are drawn as evenly as they can be. The rows are those
// of a table from its block first on; its Σ p_i and weight are in data.
func sample(ctx context.Context, rows model.Rows, p *model.Params, first, wanted int, data *RowSums, seed uint64,
	workers int) (*Draws, error) {
	classes := data.Prior
	if p.Zero {
		classes = append(slices.Clone(classes), data.Weight-floats.Sum(data.Prior))
	}
	boost := make([]float64, len(classes))
	for i, prior := range classes {
		boost[i] = max(1, data.Weight/(float64(len(classes))*max(prior, 1)))
	}
	chunks := make([]Draws, model.Chunks(rows))
	n, d := rows.Dims()
	each := wanted / len(chunks) * 3 / 2 // about as many as a chunk has
	room := make([]*mixture.Posterior, model.Workers(workers))
	err := model.Each(ctx, rows, len(room), func(worker, chunk, block int, b *model.Block) error {
		if room[worker] == nil {
			room[worker] = mixture.NewPosterior(mixture.Mixture{}, p.K)
		}
		if s := &chunks[chunk]; s.X == nil {
			s.grow(min(each, 2*n), d)
		}
		given := room[worker]
		given.Given(p, b)
		rng := stream.New(seed, stream.CertificateRow, first+block)
		for i, boosted := range boost {
			at, rate := rng.Float64(), boosted*float64(wanted)/data.Weight
			for r, prior := range given.PriorOf(i) {
				for at += rate * (prior * b.Weight(r)); at >= 1; at-- {
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
	for _, role := range model.OfLaw {
		if values := b.Role[role]; values != nil {
			s.Role[role] = append(s.Role[role], values[r])
		}
	}
}

// rows returns the rows drawn, with their weights and without targets.
func (s *Draws) rows(d int) *model.Data {
	out := &model.Data{N: len(s.Expert), D: d}
	x := make([]float64, len(s.X))
	for from := 0; from < out.N; from += model.BlockRows {
		b := model.Block{N: min(model.BlockRows, out.N-from)}
		b.X, b.Role[model.Weights] = x[from*d:(from+b.N)*d], s.Weight[from:from+b.N]
		for _, role := range model.OfLaw {
			if values := s.Role[role]; len(values) > 0 {
				b.Role[role] = values[from : from+b.N]
			}
		}
		for r := range b.N {
			for j, v := range s.X[(from+r)*d : (from+r+1)*d] {
				b.X[j*b.N+r] = v
			}
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// times returns the draws so many times over, for as many targets of each.
func (s *Draws) times(n int) *Draws {
	out := &Draws{X: slices.Repeat(s.X, n), Weight: slices.Repeat(s.Weight, n), Expert: slices.Repeat(s.Expert, n)}
	for _, role := range model.OfLaw {
		out.Role[role] = slices.Repeat(s.Role[role], n)
	}
	return out
}

// drawing draws targets from a fitted model for rows and experts drawn, and computes their terms, in the room
// W of a worker.
type drawing[W any] struct {
	d, size int // features and terms
	room    func() *W
	// fill draws targets for a block's rows and experts and computes the terms of them.
	fill func(ctx context.Context, w *W, b *model.Block, experts []int, rng *rand.Rand) (terms [][]float64, err error)
}

func (m *terms) drawing() drawing[termRows] {
	return drawing[termRows]{m.p.D, m.at[atEnd], m.newRows,
		func(ctx context.Context, w *termRows, b *model.Block, experts []int, rng *rand.Rand) (terms [][]float64,
			err error) {
			if err := m.given(ctx, w, b); err != nil {
				return nil, err
			}
			for r, i := range experts {
				if w.y[r] = 0; i == m.p.K { // always
					continue
				}
				w.y[r] = mixture.Draw(rng, mixture.OfRow(w.Density, r), w.g[i*b.N+r], m.psi[i])
			}
			m.fill(w, w.y[:b.N])
			return w.out, nil
		}}
}

// targets are drawn from a fitted model, for what was drawn of a table to draw them for.
type targets interface {
	// each draws so many targets of each and passes their terms, a block at a time, to fn, which adds what it takes of
	// them to sums of so many values; it returns the mean of all. Room is for as many terms.
	each(ctx context.Context, times, values int,
		fn func(sums []float64, terms, room [][]float64, weight []float64)) ([]float64, error)
}

// rowTargets are those of rows drawn. What is drawn several times of each is kept for the next pass over it, where it
// is at most mostKept values.
type rowTargets[W any] struct {
	drawing[W]
	drawn   *Draws
	seed    uint64
	workers int
	kept    keptTerms
}

// keptTerms are those of the blocks of so many targets of each row.
type keptTerms struct {
	times  int
	blocks [][][]float64
}

// mostKept is 128 MiB of float64: what drawsFor allows where terms are few.
const mostKept = 1 << 24

func (d *rowTargets[W]) each(ctx context.Context, times, values int,
	fn func(sums []float64, terms, room [][]float64, weight []float64)) ([]float64, error) {
	s, seed, workers := d.drawn, d.seed, d.workers
	if times > 1 {
		s = s.times(times)
	}
	data := s.rows(d.d)
	known, blocks := d.kept.times == times, d.kept.blocks
	keep := !known && times > 1 && len(s.Expert)*d.size <= mostKept
	if keep {
		blocks = make([][][]float64, len(data.Blocks))
	}
	chunks := make([][]float64, model.Chunks(data))
	rows, rooms := make([]*W, model.Workers(workers)), make([][][]float64, model.Workers(workers))
	err := model.Each(ctx, data, len(rows), func(worker, chunk, block int, b *model.Block) error {
		if rooms[worker] == nil {
			rooms[worker] = make([][]float64, d.size)
			columns(rooms[worker])
		}
		if chunks[chunk] == nil {
			chunks[chunk] = make([]float64, values)
		}
		room := rooms[worker]
		for i := range room {
			room[i] = room[i][:b.N]
		}
		if known {
			fn(chunks[chunk], blocks[block], room, b.Role[model.Weights])
			return nil
		}
		if rows[worker] == nil {
			rows[worker] = d.room()
		}
		rng := stream.New(seed, stream.CertificateTarget, block)
		terms, err := d.fill(ctx, rows[worker], b, s.Expert[block*model.BlockRows:][:b.N], rng)
		if err != nil {
			return err
		}
		for i := range terms {
			terms[i] = terms[i][:b.N]
		}
		if keep {
			blocks[block] = cloned(terms)
		}
		fn(chunks[chunk], terms, room, b.Role[model.Weights])
		return nil
	})
	if err != nil {
		return nil, err
	}
	if keep {
		d.kept = keptTerms{times, blocks}
	}
	for _, c := range chunks[1:] {
		floats.Add(chunks[0], c)
	}
	floats.Scale(1/floats.Sum(s.Weight), chunks[0])
	return chunks[0], nil
}

// cloned returns a copy of rows of equal length.
func cloned(rows [][]float64) [][]float64 {
	out := make([][]float64, len(rows))
	store := make([]float64, 0, len(rows)*len(rows[0]))
	for i, row := range rows {
		from := len(store)
		store = append(store, row...)
		out[i] = store[from:]
	}
	return out
}

// covarianceOf returns E[term·termᵀ] under the fitted model, of targets drawn from it, so many of each draw, for the
// blocks of [quadraticForms].
func covarianceOf(ctx context.Context, d targets, times int, blocks []int) (*mat.SymDense, error) {
	packed, err := d.each(ctx, times, packedSize(blocks),
		func(sums []float64, terms, weighted [][]float64, weight []float64) {
			addGram(sums, terms, weighted, weight, blocks)
		})
	if err != nil {
		return nil, err
	}
	return symmetric(packed, blocks), nil
}

// giveShape gives the forms the skewness and the kurtosis of a row's terms in their directions, under the fitted model.
func giveShape(ctx context.Context, d targets, times int, q *quadraticForms) error {
	directions := 0
	for _, f := range q.forms {
		directions += len(f.z)
	}
	sums, err := d.each(ctx, times, 2*directions,
		func(sums []float64, terms, _ [][]float64, weight []float64) {
			all := mat.NewDense(len(terms), len(weight), nil)
			for i, v := range terms {
				all.SetRow(i, v)
			}
			for _, step := range q.steps {
				step(all)
			}
			for _, f := range q.forms {
				if len(f.z) == 0 {
					continue
				}
				var along mat.Dense
				along.Mul(f.vectors.T(), all.Slice(f.lo, f.hi, 0, len(weight)))
				for i := range f.z {
					for r, v := range along.RawRowView(i) {
						cube := weight[r] * v * v * v
						sums[i] += cube
						sums[len(f.z)+i] += cube * v
					}
				}
				sums = sums[2*len(f.z):]
			}
		})
	if err != nil {
		return err
	}
	for i := range q.forms {
		f := &q.forms[i]
		n := len(f.z)
		f.skewness, f.kurtosis, sums = sums[:n], sums[n:2*n], sums[2*n:]
	}
	return nil
}

// packedSize is how many covariances of the blocks there are.
func packedSize(blocks []int) int {
	base := blocks[0]
	size := base * (base + 1) / 2
	for i, end := range blocks[1:] {
		m := end - blocks[i]
		size += base*m + m*(m+1)/2
	}
	return size
}

// addGram adds the products of pairs of terms, of rows with these weights, to dst: of the first block an upper
// triangle in rows; of every other its products with the first, in rows of that, and an upper triangle. Weighted is
// room for as many terms.
func addGram(dst []float64, terms, weighted [][]float64, weight []float64, blocks []int) {
	for i, a := range terms {
		kernel.Mul(weighted[i], a, weight)
	}
	base := blocks[0]
	kernel.AddGram(dst, weighted[:base], terms[:base])
	dst = dst[base*(base+1)/2:]
	for i, end := range blocks[1:] {
		from := blocks[i]
		m := end - from
		kernel.AddProducts(dst, weighted[:base], terms[from:end])
		dst = dst[base*m:]
		kernel.AddGram(dst, weighted[from:end], terms[from:end])
		dst = dst[m*(m+1)/2:]
	}
}

// symmetric returns the matrix of what addGram adds up.
func symmetric(packed []float64, blocks []int) *mat.SymDense {
	base := blocks[0]
	m := mat.NewSymDense(blocks[len(blocks)-1], nil)
	set := func(i, from, to int) {
		for j := from; j < to; j++ {
			m.SetSym(i, j, packed[0])
			packed = packed[1:]
		}
	}
	for i := range base {
		set(i, i, base)
	}
	for b, end := range blocks[1:] {
		from := blocks[b]
		for i := range base {
			set(i, from, end)
		}
		for i := from; i < end; i++ {
			set(i, i, end)
		}
	}
	return m
}
