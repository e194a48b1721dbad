package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// vectorPasses sums over the rows of a table with several targets.
type vectorPasses struct {
	*passes
	params  *model.VectorParams // of the pass, and every noise of it
	factors []vectorFactor
}

func newVectorPasses(o *layout, rows model.Rows, act model.Activation, workers int) *vectorPasses {
	s := &vectorPasses{passes: newPasses(o, rows, act, mixture.Mixture{}, workers)}
	s.by, s.groups = s, nil
	return s
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

// vectorSums are what takes the place of those [sums] of one target.
type vectorSums struct {
	gradient  *vectorGradient
	experts   *vectorExperts
	structure *vectorStructure
}

func (s *vectorPasses) holdExperts(to *sums, want quantity) {
	o, of := s.layout, &to.several
	if want&ofGradient != 0 {
		of.gradient = newVectorGradient(o)
		to.keep(ofGradient, of.gradient)
	}
	if want&ofExperts != 0 {
		of.experts = newVectorExperts(o)
		to.keep(ofExperts, of.experts)
	}
	if want&ofStructure != 0 {
		of.structure = newVectorStructure(o)
		to.keep(ofStructure, of.structure)
	}
}

// sum returns the sums over all rows of what is wanted at p, valid until the next.
func (s *vectorPasses) sum(ctx context.Context, p *model.VectorParams, want quantity) (*sums, error) {
	s.take(p)
	return s.passes.sum(ctx, p.OfGate(), want)
}

func (s *vectorPasses) ready(_ context.Context, p *model.VectorParams) (*model.Params, error) {
	s.take(p)
	return p.OfGate(), nil
}

func (s *vectorPasses) writeScore(dst []float64, factor float64, of *sums, p *model.VectorParams) {
	of.several.gradient.write(dst, factor, p)
}

// in returns where parameters stand in p.
func (s *vectorPasses) in(p *model.VectorParams) func(q Parameter) *float64 {
	return func(q Parameter) *float64 {
		switch {
		case q.Part == model.Noise:
			n, l := p.Noise[q.Index/s.own], q.Index%s.own
			if l < s.m {
				return &n.Scale[l]
			}
			return &n.Lower[l-s.m]
		case q.Part == model.Expert && q.Feature == s.d:
			return &p.RegressorIntercepts[q.Index]
		case q.Part == model.Expert:
			return &p.Regressors[q.Index*p.D+q.Feature]
		case q.Feature == s.d:
			return &p.GatingIntercepts[q.Index]
		}
		return &p.Gating[q.Index*p.D+q.Feature]
	}
}

// take readies p for a pass.
func (s *vectorPasses) take(p *model.VectorParams) {
	s.params, s.factors = p, s.factors[:0]
	for _, n := range p.Noise {
		s.factors = append(s.factors, newVectorFactor(n))
	}
}

// vectorWork is what one worker knows of a block with several targets besides: values are K·M rows of N, expert by
// expert, as z, res, dg and bend are, where nothing else is said.
type vectorWork struct {
	factors []vectorFactor
	std     []float64 // e_ic = (U(y−μ_i))_c/s_c
	pull    []float64 // ∂log f_i/∂μ_ic = (Σ_i⁻¹(y−μ_i))_c
	score   []float64 // ∂log f_i/∂z_ic = g′_ic·pull_ic
	more    []float64 // room for N values

	derivatives *vectorDerivatives // of it all
}

func newVectorWork(o *layout) *vectorWork {
	const n = model.BlockRows
	means := func() []float64 { return make([]float64, o.means*n) }
	return &vectorWork{std: means(), pull: means(), score: means(), more: make([]float64, n)}
}

// observe takes a block under the parameters of the pass, whose gate is given.
func (s *vectorPasses) observe(ctx context.Context, w *work, gate *model.Params, _ int, b *model.Block) error {
	w.Given(gate, b)
	if w.vectorWork == nil {
		w.vectorWork = newVectorWork(s.layout)
		w.derivatives = &vectorDerivatives{w, s.layout}
	}
	w.factors = s.factors
	rows := s.means * b.N
	w.z, w.res = w.zs[:rows], w.ress[:rows]
	s.params.Predictors(w.z, b)
	if err := s.act.Eval(ctx, w.res, w.z); err != nil {
		return err
	}
	for at := range s.means {
		t := w.row(w.res, at)
		c := at % s.m
		kernel.Sub(t, b.Y[c*b.N:(c+1)*b.N], t)
	}
	for i := range s.k {
		s.exponents(w, w.PostOf(i), i)
	}
	w.Infer(func(i, t int) (most float64) { // the largest |e_ic|
		for c := range s.m {
			most = max(most, math.Abs(w.row(w.std, i*s.m+c)[t]))
		}
		return most
	})
	return nil
}

// factorOf returns the noise of expert i.
func (w *vectorWork) factorOf(i int) *vectorFactor { return &w.factors[min(i, len(w.factors)-1)] }

// exponents writes the log of expert i's probability times its density to dst, and its e.
func (s *vectorPasses) exponents(w *work, dst []float64, i int) {
	f, m := w.factorOf(i), s.m
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

// slopes readies the derivatives of a block that has been observed.
func (s *vectorPasses) slopes(ctx context.Context, w *work, gate *model.Params, b *model.Block, want quantity) error {
	if err := s.passes.slopes(ctx, w, gate, b, want); err != nil {
		return err
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
	return nil
}
