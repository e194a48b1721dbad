package specification

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// VectorTests are [Tests] of a mixture with vector outputs under one gate, fitted to rows
// with their targets in M columns. With r_i the posterior given all targets and
// e_ic = (U(y−μ_i))_c/s_c, which are N(0, I) where a row is expert i's, or of a family the quantile residuals of its
// marginal laws, the terms of
// every expert and coordinate are those of [Tests] with e_ic for e_i; those of the gate
// have functions of every coordinate's z_ic, those of heteroscedasticity and interactions
// are taken of every coordinate; and where the noise is diagonal and normal there are besides
//
//	correlation   Σ_i r_i·h(e_ia)·h(e_ib) for every pair of coordinates,  h the identity held within ±2
//
// The scores are those of the joint likelihood.
func VectorTests(ctx context.Context, rows model.Rows, act model.Activation, p *model.VectorParams, free loss.Free,
	seed uint64, workers int) (Tested, error) {
	m := newVectorTerms(act, p, free)
	if terms := m.at[atEnd]; terms > mostTerms {
		return Tested{}, &TooManyError{terms}
	}
	draws := drawsFor(m.at[atEnd])
	squares, err := squaresOf(ctx, model.Part(rows, draws), p.OfGate(), p.K*p.M, p.Predictors)
	if err != nil {
		return Tested{}, err
	}
	m.scale(squares)
	sums, err := m.sums(ctx, rows, workers)
	if err != nil {
		return Tested{}, err
	}
	drawn, err := sample(ctx, rows, p.OfGate(), 0, draws, sums, seed, workers)
	if err != nil {
		return Tested{}, err
	}
	by := &rowTargets[vectorTermRows]{drawing: m.drawing(), drawn: drawn, seed: seed, workers: workers}
	return testsOf(ctx, by, m.at[atNonlinearity:], sums, float64(draws), m.quadratic)
}

// vectorTerms are the terms of a row of a mixture with vector outputs.
type vectorTerms struct {
	layout
	act  model.Activation
	p    *model.VectorParams
	free loss.Free
}

func newVectorTerms(act model.Activation, p *model.VectorParams, free loss.Free) *vectorTerms {
	correlations := 0
	if p.Family == "" && p.Noise[0].Lower == nil {
		correlations = p.M * (p.M - 1) / 2
	}
	return &vectorTerms{newLayout(p.Coordinate(0), free, p.M, loss.VectorDim(p, free), correlations), act, p, free}
}

// vectorTermRows is room for the terms of a block of rows.
type vectorTermRows struct {
	*loss.VectorRows
	functions
	logits        []float64
	one, two      []float64
	near          [][]float64 // u and y of [infer.Neighbours]
	row, products []float64   // room for a row of them
	out           [][]float64
}

func (m *vectorTerms) newRows() *vectorTermRows {
	const n = model.BlockRows
	w := &vectorTermRows{
		VectorRows: loss.NewVectorRows(m.act, m.p, m.free), functions: m.newFunctions(),
		logits: make([]float64, m.p.K*n), one: make([]float64, n),
		two: make([]float64, n), near: make([][]float64, 2*m.p.M), row: make([]float64, 2*m.p.M),
		products: make([]float64, m.p.M), out: make([][]float64, m.at[atEnd]),
	}
	columns(w.near)
	columns(w.out)
	return w
}

// fill writes the terms of a block with targets to w.out.
func (m *vectorTerms) fill(ctx context.Context, w *vectorTermRows, b *model.Block) error {
	if err := w.Observe(ctx, b); err != nil {
		return err
	}
	if err := w.Scores(ctx, w.out[:m.at[atResiduals]], b); err != nil {
		return err
	}
	n, gate := b.N, m.p.OfGate()
	gate.GateLogits(w.logits, b)
	w.given(&m.layout, b, func(at int) []float64 { return w.Predictor(at/m.p.M, at%m.p.M) }, w.logits)
	for _, added := range [][][]float64{w.out[m.at[atCorrelation]:m.at[atNonlinearity]],
		w.out[m.at[atHeteroscedasticity]:]} {
		for _, v := range added {
			clear(v[:n])
		}
	}
	for i := range m.p.K {
		for c := range m.p.M {
			wide := shape(w.out[m.at[atResiduals]+3*(i*m.p.M+c):], w.one, w.Standard(i, c), w.Posterior(i))
			m.addSpread(w.out, &w.functions, wide, c)
			pull := w.one[:n] // r_i·e_ic
			kernel.Mul(pull, w.Posterior(i), w.Standard(i, c))
			m.fillMeans(w.out, &w.functions, pull, i, c)
			for g := range m.pairs {
				kernel.AddMul(w.out[m.at[atInteractions]+c*m.pairs+g][:n], pull, w.xPairs[g*n:(g+1)*n])
			}
		}
		m.fillCorrelation(w, i)
	}
	for j := range m.gates {
		diff := w.one[:n]
		w.GateScore(diff, j)
		m.fillGate(w.out, &w.functions, diff, j)
	}
	return nil
}

// fillCorrelation adds to the terms of correlation those of expert i.
func (m *vectorTerms) fillCorrelation(w *vectorTermRows, i int) {
	out := w.out[m.at[atCorrelation]:m.at[atNonlinearity]]
	if len(out) == 0 {
		return
	}
	r := w.Posterior(i)
	for a := range m.p.M {
		first := w.one[:len(r)]
		kernel.Soft(first, w.Standard(i, a), 1)
		kernel.Mul(first, first, r)
		for b := range a {
			second := w.two[:len(r)]
			kernel.Soft(second, w.Standard(i, b), 1)
			kernel.AddMul(out[0][:len(r)], first, second)
			out = out[1:]
		}
	}
}

// neighbours computes what [infer.Neighbours] are of.
func (m *vectorTerms) neighbours(w *vectorTermRows, b *model.Block) {
	n := b.N
	for c := range m.p.M {
		u, held := w.near[c][:n], w.near[m.p.M+c][:n]
		w.near[c], w.near[m.p.M+c] = u, held
		clear(u)
		for i := range m.p.K {
			soft := w.one[:n]
			kernel.Soft(soft, w.Standard(i, c), 1)
			kernel.AddMul(u, soft, w.Posterior(i))
		}
		copy(held, b.Y[c*n:(c+1)*n])
	}
}

// sums returns the sums over the data.
func (m *vectorTerms) sums(ctx context.Context, data model.Rows, workers int) (*RowSums, error) {
	none := func() *RowSums { return newRowSums(m.at[atEnd], m.p.K, m.p.M) }
	return sumsOf(ctx, data, workers, none, m.newRows, func(w *vectorTermRows, b *model.Block) (blockTerms, error) {
		err := m.fill(ctx, w, b)
		if err == nil {
			m.neighbours(w, b)
		}
		return blockTerms{w.out, w.ones[:b.N], w.Prior, w.Posterior, w.near, w.row, w.products, nil, nil}, err
	})
}

func (m *vectorTerms) drawing() drawing[vectorTermRows] {
	return drawing[vectorTermRows]{m.p.D, m.at[atEnd], m.newRows,
		func(ctx context.Context, w *vectorTermRows, b *model.Block, experts []int, rng *rand.Rand) (terms [][]float64,
			err error) {
			drawn := *b
			if drawn.Y, err = m.draw(ctx, b, experts, rng); err == nil {
				err = m.fill(ctx, w, &drawn)
			}
			return w.out, err
		}}
}

// draw draws the targets of rows from these experts: M columns.
func (m *vectorTerms) draw(ctx context.Context, b *model.Block, experts []int, rng *rand.Rand) ([]float64, error) {
	means := make([]float64, m.p.K*m.p.M*b.N)
	m.p.Predictors(means, b)
	if err := m.act.Eval(ctx, means, means); err != nil {
		return nil, err
	}
	noises, mean, row := joint.NoisesOf(m.p), make([]float64, m.p.M), make([]float64, m.p.M)
	y := make([]float64, m.p.M*b.N)
	for r, i := range experts {
		for c := range mean {
			mean[c] = means[(i*m.p.M+c)*b.N+r]
		}
		noises[min(i, len(noises)-1)].Draw(rng, row, mean)
		for c, v := range row {
			y[c*b.N+r] = v
		}
	}
	return y, nil
}

// quadratic is [terms.quadratic].
func (m *vectorTerms) quadratic(s *RowSums, c *mat.SymDense, draws float64, along bool) (*quadraticForms,
	[]infer.Untested) {
	if len(m.p.Noise) == 1 { // else every expert has its own σ
		m.allow(s, float64(m.coefficients), s.Weight, true)
	}
	return m.forms(s, c, draws, along)
}
