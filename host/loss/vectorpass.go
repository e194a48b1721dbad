package loss

import (
	"context"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
)

// vectorPasses sums over the rows of a table with several targets.
type vectorPasses struct {
	*passes
	params *model.VectorParams // of the pass, and every noise of it
	noises []joint.Noise
}

func newVectorPasses(o *layout, rows model.Rows, act model.Activation, workers int) *vectorPasses {
	s := &vectorPasses{passes: newPasses(o, rows, act, mixture.Mixture{}, workers)}
	s.by, s.groups = s, nil
	return s
}

// vectorSums are what takes the place of those [sums] of one target.
type vectorSums struct {
	gradient  *vectorGradient
	experts   *vectorExperts
	structure *vectorStructure
}

// mass returns Σ r_i of the experts.
func (s *sums) mass() []float64 {
	if s.several.gradient != nil {
		return s.several.gradient.mass
	}
	return s.gradient.mass
}

func (s *vectorPasses) holdExperts(to *sums, want quantity) {
	o, of := s.layout, &to.several
	if want&ofGradient != 0 {
		of.gradient = newVectorGradient(o, s.params.Family == "")
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
	of.several.gradient.write(dst, factor, s.noises)
}

// in returns where parameters stand in p.
func (s *vectorPasses) in(p *model.VectorParams) func(q Parameter) *float64 {
	return func(q Parameter) *float64 {
		switch {
		case q.Part == model.Noise:
			n := p.Noise[q.Index]
			if q.Own < s.m {
				return &n.Scale[q.Own]
			}
			return &n.Others()[q.Own-s.m]
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
func (s *vectorPasses) take(p *model.VectorParams) { s.params, s.noises = p, joint.NoisesOf(p) }

// vectorWork is what one worker knows of a block with several targets besides.
type vectorWork struct {
	joint.Experts
	o    *layout
	more []float64 // room for N values
}

// observe takes a block under the parameters of the pass, whose gate is given.
func (s *vectorPasses) observe(ctx context.Context, w *work, gate *model.Params, _ int, b *model.Block) error {
	w.Given(gate, b)
	if w.vectorWork == nil {
		w.vectorWork = &vectorWork{joint.NewExperts(w.Posterior, s.params.Family, s.m, s.own), s.layout,
			make([]float64, model.BlockRows)}
	}
	rows := s.means * b.N
	w.z, w.res = w.zs[:rows], w.ress[:rows]
	s.params.Predictors(w.z, b)
	if err := s.act.Eval(ctx, w.res, w.z); err != nil {
		return err
	}
	w.Under(s.noises)
	w.Experts.Observe(b.Y, w.res)
	return nil
}

// slopes readies the derivatives of a block that has been observed.
func (s *vectorPasses) slopes(ctx context.Context, w *work, gate *model.Params, b *model.Block, want quantity) error {
	if err := s.passes.slopes(ctx, w, gate, b, want); err != nil {
		return err
	}
	w.Experts.Slope(w.dg)
	return nil
}
