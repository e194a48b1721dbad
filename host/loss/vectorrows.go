package loss

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// VectorRows are what a mixture with vector outputs says of rows, block by block. Values are
// rows of N, of a block that was observed, and valid until the next. It keeps scratch space:
// it is not safe for concurrent use.
type VectorRows struct {
	passes *vectorPasses
	gate   *model.Params
	work   *work
}

// NewVectorRows returns that of p, for experts with this activation. Of free only the columns
// count, as for [NewVector].
func NewVectorRows(act model.Activation, p *model.VectorParams, free Free) *VectorRows {
	s := &vectorPasses{passes: &passes{layout: newVectorLayout(p, free), act: act, work: make([]*work, 1)}}
	s.take(p)
	return &VectorRows{s, p.OfGate(), s.workOf(0)}
}

// Observe takes a block, whose targets stand in M columns.
func (v *VectorRows) Observe(ctx context.Context, b *model.Block) error {
	return v.passes.observe(ctx, v.work, v.gate, 0, b)
}

// Prior returns P(z=i|x).
func (v *VectorRows) Prior(i int) []float64 { return v.work.PriorOf(i) }

// Posterior returns P(z=i|x, y_1, …, y_M).
func (v *VectorRows) Posterior(i int) []float64 { return v.work.PostOf(i) }

// LogDensity returns log p(y_1, …, y_M|x), all constants included.
func (v *VectorRows) LogDensity() []float64 {
	dst := v.work.more[:v.work.N]
	for t, joint := range v.work.LogJoint[:len(dst)] {
		dst[t] = joint - v.work.LogPrior[t] - math.Log(2*math.Pi)/2 // which normal densities come without
	}
	return dst
}

// Predictor returns ⟨a_ic,x⟩ + b_ic.
func (v *VectorRows) Predictor(i, c int) []float64 { return v.work.row(v.work.z, i*v.passes.m+c) }

// Standard is [joint.Experts.Standard] of the rows, valid until it is asked again.
func (v *VectorRows) Standard(i, c int) []float64 { return v.work.Standard(i, c) }

// GateScore writes to dst the derivative of log p(y|x) by the predictor of gate row j.
func (v *VectorRows) GateScore(dst []float64, j int) { v.work.GateScore(dst, j) }

// Scores writes the scores ∂log p(y|x)/∂θ of the rows of b, which was observed last, to dst,
// without their weights: N values for every parameter, in the order of
// [Vector.Parameters].
func (v *VectorRows) Scores(ctx context.Context, dst [][]float64, b *model.Block) error {
	bare := model.Block{N: b.N, X: b.X, Y: b.Y}
	if err := v.passes.slopes(ctx, v.work, v.gate, &bare, ofProducts); err != nil {
		return err
	}
	v.work.writeScores(dst, v.passes.layout)
	return nil
}
