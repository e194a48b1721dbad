package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// vectorPasses sums over the rows of a table with several targets, on several workers.
type vectorPasses struct {
	*vectorLayout
	rows    model.Rows
	act     model.Activation
	workers int
	kinks   []float64 // of g, where its second derivative is taken

	factors []vectorFactor // of every noise of the pass
	work    []*vectorWork
	chunks  []vectorSums
	total   vectorSums
}

func newVectorPasses(o *vectorLayout, rows model.Rows, act model.Activation, workers int) *vectorPasses {
	workers = min(model.Workers(workers), model.Chunks(rows))
	return &vectorPasses{
		vectorLayout: o, rows: rows, act: act, workers: workers,
		work: make([]*vectorWork, workers), chunks: make([]vectorSums, model.Chunks(rows)),
	}
}

// vectorFactor is a noise as the passes need it.
type vectorFactor struct {
	model.VectorNoise
	unit      []float64 // U, M×M
	precision []float64 // Σ⁻¹ = Uᵀ·diag(s⁻²)·U, M×M
	constant  float64   // of the log-density, but for one coordinate's ½·log 2π
}

func newVectorFactor(n model.VectorNoise) vectorFactor {
	m := len(n.Scale)
	f := vectorFactor{VectorNoise: n, unit: n.Unit(), precision: make([]float64, m*m)}
	f.constant = -float64(m-1) * 0.5 * math.Log(2*math.Pi)
	for c, s := range n.Scale {
		f.constant -= math.Log(s)
		for a := range c + 1 {
			for b := range c + 1 {
				f.precision[a*m+b] += f.unit[c*m+a] / s * f.unit[c*m+b] / s
			}
		}
	}
	return f
}

// vectorSums are what a pass adds up: those parts that have been asked for.
type vectorSums struct {
	have        quantity
	loglik      float64
	gradient    *vectorGradient
	experts     *vectorExperts
	gates       *gateGrams
	information *vectorInformation
	products    *vectorProducts
	structure   *vectorStructure
	parts       parts[*vectorWork]
}

func (s *vectorSums) hold(want quantity, o *vectorLayout) {
	want &^= withBend
	if s.have&want == want {
		return
	}
	*s = vectorSums{have: want}
	keep := func(of quantity, block func(w *vectorWork), values [][]float64) {
		s.parts = append(s.parts, kept[*vectorWork]{of, block, values})
	}
	if want&ofGradient != 0 {
		s.gradient = newVectorGradient(o)
		keep(ofGradient, s.gradient.block, s.gradient.values())
	}
	if want&ofExperts != 0 {
		s.experts = newVectorExperts(o)
		keep(ofExperts, s.experts.block, s.experts.values())
	}
	if want&ofGates != 0 {
		s.gates = &gateGrams{newFullGrams(o.layout, o.gates*(o.gates+1)/2)}
		keep(ofGates, func(w *vectorWork) { s.gates.block(&w.work) }, s.gates.values())
	}
	if want&ofInformation != 0 {
		s.information = newVectorInformation(o)
		keep(ofInformation, s.information.block, s.information.values())
	}
	if want&ofProducts != 0 {
		s.products = newVectorProducts(o)
		keep(ofProducts, s.products.block, [][]float64{s.products.packed})
	}
	if want&ofStructure != 0 {
		s.structure = newVectorStructure(o)
		keep(ofStructure, s.structure.block, [][]float64{s.structure.sums, s.structure.overlap})
	}
}

func (s *vectorSums) clear(want quantity) {
	s.loglik = 0
	s.parts.clear(want)
}

// add adds o, which holds the same.
func (s *vectorSums) add(o *vectorSums, want quantity) {
	s.loglik += o.loglik
	s.parts.add(o.parts, want)
}

// sum returns the sums over all rows of what is wanted at p, valid until the next.
func (s *vectorPasses) sum(ctx context.Context, p *model.VectorParams, want quantity) (*vectorSums, error) {
	s.factorise(p)
	for c := range s.chunks {
		s.chunks[c].hold(want, s.vectorLayout)
		s.chunks[c].clear(want)
	}
	gate := p.Gate()
	err := model.Each(ctx, s.rows, s.workers, func(worker, chunk, _ int, b *model.Block) error {
		return s.block(ctx, s.workOf(worker), &s.chunks[chunk], p, gate, b, want)
	})
	if err != nil {
		return nil, err
	}
	s.total.hold(want, s.vectorLayout)
	s.total.clear(want)
	for c := range s.chunks {
		s.total.add(&s.chunks[c], want)
	}
	return &s.total, nil
}

// factorise readies the noise of p for a pass.
func (s *vectorPasses) factorise(p *model.VectorParams) {
	s.factors = s.factors[:0]
	for _, n := range p.Noise {
		s.factors = append(s.factors, newVectorFactor(n))
	}
}

// vectorWork is what one worker knows of a block: values are K·M rows of N, expert by
// expert, where nothing else is said.
type vectorWork struct {
	work    // z, res, dg and bend so
	factors []vectorFactor
	std     []float64   // e_ic = (U(y−μ_i))_c/s_c
	pull    []float64   // ∂log f_i/∂μ_ic = (Σ_i⁻¹(y−μ_i))_c
	score   []float64   // ∂log f_i/∂z_ic = g′_ic·pull_ic
	noise   [][]float64 // of every parameter of a noise ∂log f_i/∂θ_l, K rows
	mean    [][]float64 // of every parameter of every noise the posterior mean of those
	columns [][]float64 // room for K·M columns of N values
	more    []float64   // room for N values
}

func (s *vectorPasses) workOf(worker int) *vectorWork {
	if s.work[worker] == nil {
		const n = model.BlockRows
		kmn := func() []float64 { return make([]float64, s.k*s.m*n) }
		s.work[worker] = &vectorWork{
			work: work{
				Posterior: mixture.NewPosterior(mixture.Mixture{}, s.k), design: newDesign(s.width),
				zs: kmn(), ress: kmn(), dgs: kmn(), terms: make([]float64, n), several: numeric.Columns(s.k, n),
				ofClasses: make([][]float64, s.k),
			},
			std: kmn(), pull: kmn(), score: kmn(), columns: numeric.Columns(max(s.k*s.m, s.gates), n),
			more: make([]float64, n),
		}
	}
	return s.work[worker]
}

// row returns row at of values.
func (w *vectorWork) row(v []float64, at int) []float64 { return v[at*w.N : (at+1)*w.N] }

// block adds one block to the sums.
func (s *vectorPasses) block(ctx context.Context, w *vectorWork, to *vectorSums, p *model.VectorParams,
	gate *model.Params, b *model.Block, want quantity) error {
	if err := s.observe(ctx, w, p, gate, b); err != nil {
		return err
	}
	to.loglik += w.LogLikelihood(b.Role[model.Weights])
	if want == 0 {
		return nil
	}
	if err := s.differentiate(ctx, w, b, want); err != nil {
		return err
	}
	to.parts.block(w, want)
	return nil
}

// observe takes a block under p, whose gate is given.
func (s *vectorPasses) observe(ctx context.Context, w *vectorWork, p *model.VectorParams, gate *model.Params,
	b *model.Block) error {
	w.Given(gate, b)
	w.factors = s.factors
	rows := s.k * s.m * b.N
	w.z, w.res = w.zs[:rows], w.ress[:rows]
	p.Predictors(w.z, b)
	if err := s.act.Eval(ctx, w.res, w.z); err != nil {
		return err
	}
	for at := range s.k * s.m {
		t := w.row(w.res, at)
		c := at % s.m
		kernel.Sub(t, b.Y[c*b.N:(c+1)*b.N], t)
	}
	for i := range s.k {
		w.exponents(w.PostOf(i), i, s.m)
	}
	w.Infer(w.furthest)
	return nil
}

// furthest returns the largest |e_ic| of expert i in row t.
func (w *vectorWork) furthest(i, t int) (most float64) {
	m := len(w.factors[0].Scale)
	for c := range m {
		most = max(most, math.Abs(w.row(w.std, i*m+c)[t]))
	}
	return most
}

// factorOf returns the noise of expert i.
func (w *vectorWork) factorOf(i int) *vectorFactor { return &w.factors[min(i, len(w.factors)-1)] }

// exponents writes the log of expert i's probability times its density to dst, and its e.
func (w *vectorWork) exponents(dst []float64, i, m int) {
	f := w.factorOf(i)
	squares := w.more[:w.N] // halves of them
	clear(squares)
	for c, scale := range f.Scale {
		e := w.row(w.std, i*m+c)
		copy(e, w.row(w.res, i*m+c))
		for b := range c {
			if u := f.unit[c*m+b]; u != 0 {
				floats.AddScaled(e, u, w.row(w.res, i*m+b))
			}
		}
		inv := 1 / scale
		for t, v := range e {
			v *= inv
			e[t] = v
			squares[t] += 0.5 * v * v
		}
	}
	scores := w.row(w.Scores, i)
	for t, v := range squares {
		dst[t] = scores[t] + (f.constant - v)
	}
}

// differentiate readies the derivatives of a block that has been observed.
func (s *vectorPasses) differentiate(ctx context.Context, w *vectorWork, b *model.Block, want quantity) error {
	w.dg, w.bend = w.dgs[:len(w.z)], nil
	if err := s.act.Deriv(ctx, w.dg, w.z); err != nil {
		return err
	}
	if want&withBend != 0 {
		if err := w.curvature(ctx, s.act, s.kinks); err != nil {
			return err
		}
	}
	for i := range s.k {
		f := w.factorOf(i)
		for a := range s.m {
			pull := w.row(w.pull, i*s.m+a)
			clear(pull)
			for c := a; c < s.m; c++ {
				if u := f.unit[c*s.m+a]; u != 0 {
					floats.AddScaled(pull, u/f.Scale[c], w.row(w.std, i*s.m+c))
				}
			}
			kernel.Mul(w.row(w.score, i*s.m+a), pull, w.row(w.dg, i*s.m+a))
		}
	}
	w.take(b, s.d)
	return nil
}

// columnsOf returns room for so many columns of the rows.
func (w *vectorWork) columnsOf(many int) [][]float64 {
	out := w.columns[:many]
	for i, v := range out {
		out[i] = v[:w.N]
	}
	return out
}
