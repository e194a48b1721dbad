package loss

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// quantity is what a pass over the rows can sum besides the log-likelihood. What
// a caller asks for is any set of them.
type quantity uint

const (
	ofGradient    quantity = 1 << iota // gradientSums
	ofExperts                          // expertGrams
	ofGates                            // gateGrams
	ofInformation                      // informationSums
	ofProducts                         // productSums
	ofStructure                        // structureSums
	ofShared                           // sharedSums
	ofTimes                            // timesSums
	ofDiagonal                         // diagonalSums
	ofMoments                          // momentSums
	withBend                           // the terms in g″ in ofInformation
)

// part is the sums of one quantity.
type part interface {
	// block adds what a block of rows contributes.
	block(w *work)
	// values are the numbers that add up.
	values() [][]float64
}

// grams are Gram matrices of the design's columns, which are part of a quantity or all of it.
type grams struct {
	*layout
	gram.Matrices
}

func newGrams(o *layout, n int) grams { return grams{o, gram.New(o.width, n)} }

func (s *grams) values() [][]float64 { return [][]float64{s.Sums} }

// sums are what a pass adds up over rows: those parts that have been asked for,
// nil for the others.
type sums struct {
	have        quantity
	loglik      float64
	gradient    *gradientSums
	experts     *expertGrams
	gates       *gateGrams
	information *informationSums
	products    *productSums
	structure   *structureSums
	shared      *sharedSums
	times       *timesSums
	diagonal    diagonalSums
	moments     *momentSums
	several     vectorSums // in the place of the first ones, of several targets

	parts parts // those that are not nil
}

// kept is the sums of one quantity, and where their numbers are.
type kept struct {
	of quantity
	part
	values [][]float64
}

type parts []kept

// clear takes those that are wanted back to 0.
func (s parts) clear(want quantity) {
	for _, p := range s {
		if p.of&want != 0 {
			for _, v := range p.values {
				clear(v)
			}
		}
	}
}

// add adds those of o that are wanted, which has the same parts.
func (s parts) add(o parts, want quantity) {
	for i, p := range s {
		if p.of&want != 0 {
			for j, v := range p.values {
				floats.Add(v, o[i].values[j])
			}
		}
	}
}

// block adds a block to those that are wanted.
func (s parts) block(w *work, want quantity) {
	for _, p := range s {
		if p.of&want != 0 {
			p.block(w)
		}
	}
}

// hold sees to room for what is wanted. Where more is needed what is not wanted
// goes: matrices of many parameters are large.
func (s *passes) hold(to *sums, want quantity) {
	want &^= withBend
	if to.have&want == want {
		return
	}
	*to = sums{have: want}
	o := s.layout
	s.by.holdExperts(to, want)
	if want&ofGates != 0 {
		to.gates = &gateGrams{grams{o, gram.NewFull(o.width, o.gates*(o.gates+1)/2)}}
		to.keep(ofGates, to.gates)
	}
	if want&ofInformation != 0 {
		to.information = newInformationSums(o)
		to.keep(ofInformation, to.information)
	}
	if want&ofProducts != 0 {
		to.products = newProductSums(o)
		to.keep(ofProducts, to.products)
	}
	if want&ofShared != 0 {
		to.shared = newSharedSums(o)
		to.keep(ofShared, to.shared)
	}
	if want&ofTimes != 0 {
		to.times = newTimesSums(o)
		to.keep(ofTimes, to.times)
	}
	if want&ofDiagonal != 0 {
		to.diagonal = diagonalSums{newTimesSums(o)}
		to.keep(ofDiagonal, to.diagonal)
	}
	if want&ofMoments != 0 {
		to.moments = &momentSums{o, make([]float64, o.k), make([]float64, o.k*o.da)}
		to.keep(ofMoments, to.moments)
	}
}

// holdExperts is hold of what is others' of several targets.
func (s *passes) holdExperts(to *sums, want quantity) {
	o := s.layout
	if want&ofGradient != 0 {
		to.gradient = newGradientSums(o, s.normal)
		to.keep(ofGradient, to.gradient)
	}
	if want&ofExperts != 0 {
		to.experts = &expertGrams{grams: newGrams(o, o.k), outputGrams: newOutputGrams(o)}
		to.keep(ofExperts, to.experts)
	}
	if want&ofStructure != 0 {
		to.structure = newStructureSums(o)
		to.keep(ofStructure, to.structure)
	}
}

func (s *sums) keep(of quantity, p part) {
	s.parts = append(s.parts, kept{of, p, p.values()})
}

func (s *sums) clear(want quantity) {
	s.loglik = 0
	s.parts.clear(want)
}

// add adds o, which holds the same.
func (s *sums) add(o *sums, want quantity) {
	s.loglik += o.loglik
	s.parts.add(o.parts, want)
}

// blocks adds a block under p to sums of what is wanted, for which there is room.
type blocks interface {
	holdExperts(to *sums, want quantity)
	observe(ctx context.Context, w *work, p *model.Params, block int, b *model.Block) error
	slopes(ctx context.Context, w *work, p *model.Params, b *model.Block, want quantity) error
	block(ctx context.Context, w *work, to *sums, p *model.Params, block int, b *model.Block, want quantity) error
}

// passes sums over the rows of a table, on several workers.
type passes struct {
	*layout
	rows    model.Rows
	act     model.Activation
	mix     mixture.Mixture
	normal  bool // the density is [mixture.Gaussian]
	workers int
	kinks   []float64  // of g, where its second derivative is taken
	along   *direction // by which the information is multiplied; nil where it never was
	memory  *memory    // what products need of the rows where the parameters are the same again; nil for nothing
	by      blocks     // what adds a block; the passes themselves where nothing else is said

	work   []*work     // of each worker
	room   model.Room  // of the only one
	chunks []sums      // of each chunk of the rows
	total  sums        // of them all
	groups *groups     // nil where each row has its own expert
	fixed  [][]float64 // residuals of each block, where the regressors are fixed; nil where rows are not in memory
}

func newPasses(o *layout, rows model.Rows, act model.Activation, mix mixture.Mixture, workers int) *passes {
	workers, of := min(model.Workers(workers), model.Chunks(rows)), groupsOf(rows, o.k)
	if of != nil {
		workers = 1
	}
	s := &passes{
		layout: o, rows: rows, act: act, mix: mix, normal: mixture.Normal(mix.Density), workers: workers,
		work: make([]*work, workers), chunks: make([]sums, model.Chunks(rows)), groups: of,
	}
	s.by = s
	if !o.free.Regressors && model.Held(rows) {
		s.fixed = make([][]float64, model.Blocks(rows))
	}
	return s
}

// sum returns the sums over all rows of what is wanted at p, valid until the next.
func (s *passes) sum(ctx context.Context, p *model.Params, want quantity) (*sums, error) {
	s.hold(&s.total, want) // as the chunks do, whatever comes of the pass
	for c := range s.chunks {
		s.hold(&s.chunks[c], want)
		s.chunks[c].clear(want)
	}
	if err := s.pass(ctx, p, want); err != nil {
		return nil, err
	}
	if len(s.chunks) == 1 {
		return &s.chunks[0], nil
	}
	s.total.clear(want)
	for c := range s.chunks {
		s.total.add(&s.chunks[c], want)
	}
	return &s.total, nil
}

func (s *passes) ready(ctx context.Context, p *model.Params) (*model.Params, error) {
	if s.groups == nil {
		return p, nil
	}
	return p, s.takeGroups(ctx, p)
}

func (s *passes) writeScore(dst []float64, factor float64, of *sums, p *model.Params) {
	of.gradient.write(dst, factor, p, s.mix.Density)
}

// pass adds every block to the sums of its chunk.
func (s *passes) pass(ctx context.Context, p *model.Params, want quantity) error {
	if s.groups != nil {
		return s.sumGroups(ctx, p, want)
	}
	if s.workers == 1 { // nothing is allocated
		return model.InTurn(ctx, s.rows, &s.room, func(chunk, block int, b *model.Block) error {
			return s.by.block(ctx, s.workOf(0), &s.chunks[chunk], p, block, b, want)
		})
	}
	return model.Each(ctx, s.rows, s.workers, func(worker, chunk, block int, b *model.Block) error {
		return s.by.block(ctx, s.workOf(worker), &s.chunks[chunk], p, block, b, want)
	})
}

func (s *passes) workOf(worker int) *work {
	if s.work[worker] == nil {
		s.work[worker] = s.newWork()
	}
	return s.work[worker]
}

// work is what one worker knows of a block: k rows of N values where nothing else
// is said.
type work struct {
	*mixture.Posterior
	gram.Design
	// predictors; y − the means, or these where the noise is not normal; their slopes, g′(z), nil where the regressors
	// are fixed
	z, res, dg []float64
	bend       []float64   // g″ likewise, nil where it is not wanted
	g, slopes  []float64   // g(z) and g′(z), where the means are c + s·g; nil elsewhere
	terms      []float64   // room for N values
	several    [][]float64 // room for as many of them as the gate has classes, or a row means
	ofClasses  [][]float64 // as many rows of values

	scores [][]float64 // room for N values of every parameter

	along  *direction // by which the information is multiplied
	pushed *pushed    // nil where it never was

	*vectorWork // of several targets; nil of one

	zs, ress, dgs, bends, ahead []float64 // room
	gs, slopess, ones           []float64 // room, where there are outputs
}

func (s *passes) newWork() *work {
	kn := func() []float64 { return make([]float64, s.means*model.BlockRows) }
	w := &work{
		Posterior: mixture.NewPosterior(s.mix, s.k), Design: gram.NewDesign(s.width),
		zs: kn(), ress: kn(), dgs: kn(), terms: make([]float64, model.BlockRows),
		several: numeric.Columns(max(s.classes, s.means), model.BlockRows), ofClasses: make([][]float64, s.classes),
	}
	if s.outputs > 0 {
		w.gs, w.slopess, w.ones = kn(), kn(), kn()
		for t := range w.ones {
			w.ones[t] = 1
		}
	}
	return w
}

// gOf returns g of the block's rows in expert i.
func (w *work) gOf(i int) []float64 { return w.g[i*w.N : (i+1)*w.N] }

// row returns row at of values.
func (w *work) row(v []float64, at int) []float64 { return v[at*w.N : (at+1)*w.N] }

// termsOf returns room for so many terms of the rows, at most as many as the gate has classes, or a row means.
func (w *work) termsOf(many int) [][]float64 {
	terms := w.several[:many]
	for i, t := range terms {
		terms[i] = t[:w.N]
	}
	return terms
}

// block adds one block to the sums.
func (s *passes) block(ctx context.Context, w *work, to *sums, p *model.Params, block int, b *model.Block,
	want quantity) error {
	if want == ofTimes && s.memory.has(block) {
		s.memory.recall(w, p, block, b)
		s.push(w, b)
		to.parts.block(w, want)
		return nil
	}
	if err := s.by.observe(ctx, w, p, block, b); err != nil {
		return err
	}
	to.loglik += w.LogLikelihood(b.Role[model.Weights])
	if want == 0 {
		return nil
	}
	if err := s.by.slopes(ctx, w, p, b, want); err != nil {
		return err
	}
	if want == ofTimes && s.memory != nil {
		s.memory.keep(w, block)
	}
	to.parts.block(w, want)
	return nil
}

// observe takes a block under p.
func (s *passes) observe(ctx context.Context, w *work, p *model.Params, block int, b *model.Block) error {
	w.Given(p, b)
	if err := s.residuals(ctx, w, p, block, b); err != nil {
		return err
	}
	switch {
	case s.groups != nil:
		s.observeGroups(w, block, b)
	case s.normal:
		w.Observe(w.res, 0)
	default:
		w.ObserveMeans(b.Y, w.res)
	}
	return nil
}

// slopes readies the derivatives of a block that has been observed.
func (s *passes) slopes(ctx context.Context, w *work, p *model.Params, b *model.Block, want quantity) error {
	w.dg, w.bend = nil, nil
	if s.free.Regressors {
		w.dg = w.dgs[:s.means*b.N]
		if err := s.act.Deriv(ctx, w.dg, w.z); err != nil {
			return err
		}
		if s.outputs > 0 {
			w.slopes = w.slopess[:len(w.dg)]
			copy(w.slopes, w.dg)
		}
		p.Slopes(w.dg)
		if want&withBend != 0 {
			if err := w.curvature(ctx, s.act, s.kinks); err != nil {
				return err
			}
			p.Slopes(w.bend)
		}
	}
	w.Take(b)
	if want&ofTimes != 0 {
		s.push(w, b)
	}
	return nil
}

// push readies the direction's predictors of a block.
func (s *passes) push(w *work, b *model.Block) {
	if w.pushed == nil {
		w.pushed = s.newPushed()
	}
	w.along = s.along
	w.pushed.take(s.along, b, s.k)
}

// residuals sets w.res to y − g(⟨a_i,x⟩), or y − c − s·g, or to the means where the noise is not normal, and w.z to the
// predictors. Where the regressors are fixed and the rows in memory it does so once.
func (s *passes) residuals(ctx context.Context, w *work, p *model.Params, block int, b *model.Block) error {
	w.z, w.res = w.zs[:s.k*b.N], w.ress[:s.k*b.N]
	if s.fixed != nil {
		if w.res = s.fixed[block]; w.res != nil {
			return nil
		}
		w.res = make([]float64, s.k*b.N)
	}
	p.Predictors(w.z, b)
	if err := s.act.Eval(ctx, w.res, w.z); err != nil {
		return err
	}
	if s.outputs > 0 {
		w.g = w.gs[:len(w.res)]
		copy(w.g, w.res)
	}
	p.Means(w.res)
	if s.normal {
		for i := range s.k {
			r := w.res[i*b.N : (i+1)*b.N]
			kernel.Sub(r, b.Y, r)
		}
	}
	if s.fixed != nil {
		s.fixed[block] = w.res
	}
	return nil
}

// curvature sets w.bend to g″ at the predictors, from central differences of g′
// that do not reach across kinks.
func (w *work) curvature(ctx context.Context, act model.Activation, kinks []float64) error {
	if w.bends == nil {
		w.bends, w.ahead = make([]float64, len(w.zs)), make([]float64, len(w.zs))
	}
	// Twice the cube root of the precision: truncation and rounding are about
	// equal, 1e−10 of g's scale.
	step := func(z float64) float64 { return 1e-5 * max(1, math.Abs(z)) }
	bend, ahead := w.bends[:len(w.z)], w.ahead[:len(w.z)]
	for t, z := range w.z {
		h := step(z)
		z = offKinks(z, h, kinks)
		bend[t], ahead[t] = z-h, z+h
	}
	if err := act.Deriv(ctx, bend, bend); err != nil {
		return err
	}
	if err := act.Deriv(ctx, ahead, ahead); err != nil {
		return err
	}
	for t, z := range w.z {
		bend[t] = (ahead[t] - bend[t]) / (2 * step(z))
	}
	w.bend = bend
	return nil
}

// offKinks moves z away from the nearest kink until z ± h lie on the side of it
// that z is on.
func offKinks(z, h float64, kinks []float64) float64 {
	if len(kinks) == 0 {
		return z
	}
	i, _ := slices.BinarySearch(kinks, z) // kinks[i−1] < z ≤ kinks[i]
	if i < len(kinks) && kinks[i]-z <= h {
		return z - 2*h
	}
	if i > 0 && z-kinks[i-1] <= h {
		return z + 2*h
	}
	return z
}
