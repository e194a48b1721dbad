package loss

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// direction is a direction v of θ, in the shape of the parameters.
type direction struct {
	coefficients *model.Params // regressors and gates; what is not free is 0
	noise        []float64     // of log ψ
}

func newDirection(o *layout, base *model.Params) *direction {
	return &direction{base.Like(), make([]float64, o.noises)}
}

// set makes it v.
func (dir *direction) set(o *layout, v []float64) {
	o.each(in(dir.coefficients), func(at int, c *float64) { *c = v[at] }, func(int, *float64) {})
	if o.free.Sigma {
		copy(dir.noise, v[o.noise(0):])
	}
}

// timesSums are the sums of the information times a direction. With u_i = ⟨v_i, x⟩ and
// q_j its predictors of expert i and of row j of the gate, s_m its noise levels and [· ·] the
// second derivatives of [mixture.Posterior], they are for expert i
//
//	Σ_rows (Σ_j [z_i z_j]·u_j + Σ_j [z_i η_j]·q_j + Σ_m [log σ_m, z_i]·s_m)·x
//
// and likewise for the gate and the noise, under one gate by [mixture.Posterior.Times]: every coefficient meets the
// rows twice, where in the information every pair of them does.
type timesSums struct {
	*layout
	score []float64 // k experts, then the gate's rows
	level []float64 // own parameters, at all levels
}

func newTimesSums(o *layout) *timesSums {
	return &timesSums{layout: o, score: make([]float64, o.k*o.da+o.gates*o.dw), level: make([]float64, o.noises)}
}

func (s *timesSums) values() [][]float64 { return [][]float64{s.score, s.level} }

// pushed is a direction's predictors of a block's rows, and what the information makes of
// them: k rows of N values for the experts, and for the gate.
type pushed struct {
	u, q          []float64
	expert, gates []float64
	levels        []float64 // N values for each own parameter at each level
	n             int
}

func (s *passes) newPushed() *pushed {
	kn := func() []float64 { return make([]float64, s.classes*model.BlockRows) }
	return &pushed{u: kn(), q: kn(), expert: kn(), gates: kn(), levels: make([]float64, s.noises*model.BlockRows)}
}

func (p *pushed) of(v []float64, i int) []float64 { return v[i*p.n : (i+1)*p.n] }

// take takes the rows of a block under a direction.
func (p *pushed) take(dir *direction, b *model.Block, k int) {
	p.n = b.N
	dir.coefficients.LinearParts(p.u[:k*b.N], b)
	dir.coefficients.GateLogits(p.q[:k*b.N], b)
}

// add adds terms times a row of the direction's predictors to dst.
func add(dst, terms, along []float64) {
	along = along[:len(dst)]
	for t, v := range terms[:len(dst)] {
		dst[t] += v * along[t]
	}
}

func (s *timesSums) block(w *work) {
	p := w.pushed
	w.Differentiate(w.dg)
	if _, flat := w.Gate.(mixture.Flat); flat {
		levels := p.levels[:s.noises*w.N]
		w.Times(p.expert, p.gates, levels, p.u, p.q, w.along.noise)
		for m := range s.level {
			s.level[m] += w.Sum(p.of(levels, m))
		}
	} else {
		s.pairs(w, p)
	}
	s.addRows(w, s.score[:s.k*s.da], p.expert, s.k, s.expert)
	s.addRows(w, s.score[s.k*s.da:], p.gates, s.gates, s.gate)
}

// pairs is block for any gate, a pair of derivatives after the other.
func (s *timesSums) pairs(w *work, p *pushed) {
	wt := w.terms[:w.N]
	clear(p.expert)
	clear(p.gates)
	for i := range s.k {
		for j := i; j < s.k; j++ {
			w.ExpertExpert(wt, i, j, nil)
			add(p.of(p.expert, i), wt, p.of(p.u, j))
			if i != j {
				add(p.of(p.expert, j), wt, p.of(p.u, i))
			}
		}
		for j := range s.gates {
			w.ExpertGate(wt, i, j)
			add(p.of(p.expert, i), wt, p.of(p.q, j))
			add(p.of(p.gates, j), wt, p.of(p.u, i))
		}
	}
	for j := range s.gates {
		for m := j; m < s.gates; m++ {
			w.GateGate(wt, j, m)
			add(p.of(p.gates, j), wt, p.of(p.q, m))
			if j != m {
				add(p.of(p.gates, m), wt, p.of(p.q, j))
			}
		}
	}
	if s.free.Sigma {
		s.noiseBlock(w, p, wt)
	}
}

// noiseBlock is block for log ψ.
func (s *timesSums) noiseBlock(w *work, p *pushed, wt []float64) {
	w.DifferentiateNoise()
	for m := range s.noises {
		level, l := s.levelOf(m)
		along := w.along.noise[m]
		across := func(dst, predictors []float64) {
			floats.AddScaled(dst, along, wt)
			w.WeighRows(wt)
			s.level[m] += kernel.Dot(wt, predictors)
		}
		for i := range s.k {
			w.NoiseExpert(wt, level, l, i)
			across(p.of(p.expert, i), p.of(p.u, i))
		}
		for j := range s.gates {
			w.NoiseGate(wt, level, l, j)
			across(p.of(p.gates, j), p.of(p.q, j))
		}
		for i := range s.noises {
			other, n := s.levelOf(i)
			w.NoiseNoise(wt, level, l, other, n)
			s.level[m] += w.along.noise[i] * w.Sum(wt)
		}
	}
}

// addRows adds Σ_t v_t·x_t over the columns named to dst, for so many rows v of values, which
// it multiplies by the rows' weights.
func (s *timesSums) addRows(w *work, dst, values []float64, many int, named []int) {
	rows := w.ofClasses[:many]
	for i := range rows {
		rows[i] = values[i*w.N : (i+1)*w.N]
		w.WeighRows(rows[i])
	}
	if many > 0 {
		w.AddColumns(dst, rows, named)
	}
}

// write writes the information times the direction, times factor, to dst.
func (s *timesSums) write(dst []float64, factor float64) {
	if s.free.Regressors {
		floats.ScaleTo(dst[:s.k*s.da], factor, s.score[:s.k*s.da])
	}
	if s.free.Gating {
		floats.ScaleTo(s.gating(dst), factor, s.score[s.k*s.da:])
	}
	if s.free.Sigma {
		floats.ScaleTo(dst[s.noise(0):s.noise(0)+s.noises], factor, s.level)
	}
}

// diagonalSums are the diagonal of the complete-data information, which EM's M-step has and
// which is never negative: Σ r_i·f_i²·x², Σ [η_j η_j]·x² and Σ r_i·2e_i².
type diagonalSums struct{ *timesSums }

func (s diagonalSums) block(w *work) {
	n := w.N
	w.Differentiate(w.dg)
	if s.free.Regressors {
		terms := w.termsOf(s.k)
		for i, wt := range terms {
			w.Complete(wt, i, w.dg[i*n:(i+1)*n])
			floats.Scale(1/mixture.Unit(w.Density, w.P.SigmaOf(i)), wt)
			w.WeighRows(wt)
		}
		w.AddSquares(s.score[:s.k*s.da], terms, s.expert)
	}
	terms := w.termsOf(s.gates)
	for j, wt := range terms {
		w.GateComplete(wt, j, j)
		w.WeighRows(wt)
	}
	w.AddSquares(s.score[s.k*s.da:], terms, s.gate)
	for q := range s.own {
		for i := range s.k {
			wt := w.terms[:n]
			w.complete().Own(wt, i, q, q)
			kernel.Mul(wt, wt, w.PostOf(i))
			s.level[q*s.levels+min(i, s.levels-1)] += math.Abs(w.Sum(wt))
		}
	}
}

// Products says whether Newton's method by [Likelihood.HessianTimes] is worth its while: there
// are second derivatives, and g does not say that it has kinks, across which they tell nothing.
func (l *Likelihood) Products() bool {
	g, ok := l.act.(interface{ Kinks() []float64 })
	return l.mix.Curved() && l.groups == nil && l.outputs == 0 && l.ties == nil && !(ok && len(g.Kinks()) > 0)
}

// HessianTimes writes ∇²L(θ)·v to dst, with the Hessian of [Likelihood.Hessian]. It costs about
// two gradients, whatever the number of parameters. It panics where the experts have outputs.
func (l *Likelihood) HessianTimes(ctx context.Context, dst, v, theta []float64) error {
	if l.outputs > 0 {
		panic("loss: HessianTimes of experts with outputs")
	}
	l.noNorms()
	if l.along == nil {
		l.along = newDirection(l.layout, l.base)
	}
	given := v
	if l.bound.Outward() {
		v = make([]float64, len(v))
		l.bound.Times(v, given)
	}
	l.along.set(l.layout, v)
	l.eachAtEnd(theta, func(m, _ int) { l.along.noise[m] = 0 })
	l.rememberAt(theta)
	s, err := l.at(ctx, theta, ofTimes)
	if err != nil {
		return err
	}
	s.times.write(dst, 1/l.n)
	l.bound.Product(dst, given)
	v = given
	l.penalty.Gradient(dst, v, 1/l.n) // which is linear
	l.eachAtEnd(theta, func(_, at int) { dst[at] = v[at] })
	return nil
}

// memory is what products with the information need of every block at one θ, so that of predictors, densities and gates
// nothing is computed twice.
type memory struct {
	theta  []float64
	blocks []remembered
}

type remembered struct {
	mixture.Observed
	slopes []float64 // g′ of the experts; empty where the regressors are fixed
	known  bool      // at this θ
}

// mostRemembered values are kept at most: 128 MiB.
const mostRemembered = 1 << 24

// flat says whether the gate is [mixture.Flat].
func (l *Likelihood) flat() bool {
	gate := l.mix.Gate
	if gate == nil {
		gate = mixture.GateOf(l.base.Tree)
	}
	_, flat := gate.(mixture.Flat)
	return flat
}

// remembers says whether rows are: those in memory, under the gate [mixture.Flat] and normal noise.
func (l *Likelihood) remembers() bool {
	return l.flat() && l.normal && l.groups == nil && model.Held(l.rows) && 4*l.N()*l.classes <= mostRemembered
}

// rememberAt forgets what is not of θ.
func (l *Likelihood) rememberAt(theta []float64) {
	switch {
	case l.memory == nil && !l.remembers():
		return
	case l.memory == nil:
		l.memory = &memory{blocks: make([]remembered, model.Blocks(l.rows))}
	case slices.Equal(l.memory.theta, theta):
		return
	}
	l.memory.theta = append(l.memory.theta[:0], theta...)
	for i := range l.memory.blocks {
		l.memory.blocks[i].known = false
	}
}

func (m *memory) has(block int) bool { return m != nil && m.blocks[block].known }

// keep keeps a block that has been observed and differentiated.
func (m *memory) keep(w *work, block int) {
	r := &m.blocks[block]
	w.CopyObserved(&r.Observed)
	r.slopes, r.known = append(r.slopes[:0], w.dg...), true
}

// recall takes what has been kept of a block.
func (m *memory) recall(w *work, p *model.Params, block int, b *model.Block) {
	w.Recall(p, b, m.blocks[block].Observed)
	w.dg = nil
	if s := m.blocks[block].slopes; len(s) > 0 {
		w.dg = s
	}
	w.Take(b)
}

// Diagonal writes a positive diagonal in place of that of ∇²L(θ) to dst: the complete-data
// information's, which EM's M-step has.
func (l *Likelihood) Diagonal(ctx context.Context, dst, theta []float64) error {
	s, err := l.at(ctx, theta, ofDiagonal)
	if err != nil {
		return err
	}
	s.diagonal.write(dst, 1/l.n)
	l.penalty.Diagonal(dst, l.n)
	return nil
}

// ManyClasses are the classes of a gate from which on EM steps without the gate's Hessian pay, where it has
// manyCoefficients or that of all parameters is not [Likelihood.Dense].
const ManyClasses, manyCoefficients = 16, 500

// Stepped says whether EM steps pay although the gate's Hessian does not: with a gate of many classes they
// solve for the gate by products with its curvature, (k−1)k/2 Gram matrices fewer.
func (l *Likelihood) Stepped() bool {
	return l.flat() && l.classes >= ManyClasses && (!l.Dense() || l.gates*l.dw >= manyCoefficients) && l.free.Gating &&
		l.gates > 0 && l.groups == nil && l.ties == nil && l.outputs == 0 && l.penalty.Norms == nil
}

// stepGate adds Newton's step of the gate's M-step at l.cur, of which the score is given, to the gating.
func (l *Likelihood) stepGate(ctx context.Context, gate, score []float64) error {
	if l.steps == nil {
		l.steps = newGateSteps(l)
	}
	step, err := l.steps.newton(ctx, l, l.cur, score)
	if err != nil {
		return err
	}
	addGateStep(gate, step)
	return nil
}
