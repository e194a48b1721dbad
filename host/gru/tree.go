package gru

import (
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// Shape is the hierarchy of a hidden unit. Its leaves are the state carried over, whose
// activation is the identity, and the candidate states tanh(Wx + b), of a closed reset
// gate, and tanh(Wx + Uh + b + c), of an open one.
var Shape = model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}

// Unit returns the tree of hidden unit j, 0 ≤ j < H, over the I inputs and the H
// values of the state before: P(first branch) = z_j, P(second leaf | second branch)
// = 1 − r_j. Sigma is 0: the mixture's mean is all that a recurrent unit has.
//
// With gates that are 0 or 1 the mean of the tree is the unit's next state, whatever x
// and h, in the form reset-after. In the form reset-before, where the recurrence of one
// unit depends on the reset gates of all, it is so where U is diagonal (Shape's third
// leaf has U∘h in full otherwise). With soft gates the outer level is still exact, and
// the inner one has (1−r)·tanh(u) + r·tanh(u+v) where the unit has tanh(u + r·v).
func (l *Layer) Unit(j int) *model.Params {
	inputs, hidden := l.Inputs(), l.Hidden()
	p := model.NewParams(3, inputs+hidden)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, 3), make([]float64, 2)
	row := func(dst []float64, a Affine, sign float64) {
		for i := range inputs {
			dst[i] = sign * a.W.At(j, i)
		}
		for i := range hidden {
			dst[inputs+i] = sign * a.U.At(j, i)
		}
	}
	p.Regressor(0)[inputs+j] = 1
	row(p.Regressor(1), l.Candidate, 1)
	clear(p.Regressor(1)[inputs:])
	row(p.Regressor(2), l.Candidate, 1)
	p.RegressorIntercepts[1] = l.Candidate.B[j]
	p.RegressorIntercepts[2] = l.Candidate.B[j] + l.RecurrentBias[j]
	row(p.Gate(0), l.Update, 1)
	row(p.Gate(1), l.Reset, -1)
	p.GatingIntercepts[0], p.GatingIntercepts[1] = l.Update.B[j], -l.Reset.B[j]
	return p
}

// Trees goes through a sequence with the trees of a layer's units in place of the
// layer. It is not safe for concurrent use.
type Trees struct {
	stepper *Stepper // for its predictors
}

// NewTrees returns what computes the trees' means.
func (l *Layer) NewTrees(gates Gates) *Trees { return &Trees{l.NewStepper(gates)} }

// Next writes the means of the H trees at (x, h) to dst, which may be h:
//
//	z·h + (1−z)·((1−r)·tanh(Wx+b) + r·tanh(Wx+b + Uh+c))
func (t *Trees) Next(dst, x, h []float64) {
	t.stepper.predictors(x, h)
	t.means(dst, h)
}

// means writes the means at the stepper's predictors.
func (t *Trees) means(dst, h []float64) {
	s := t.stepper
	s.recurrence(h)
	for j := range dst {
		z, r, u := s.gates.open(s.z.AtVec(j)), s.gates.open(s.r.AtVec(j)), s.n.AtVec(j)
		dst[j] = z*h[j] + (1-z)*((1-r)*math.Tanh(u)+r*math.Tanh(u+s.rec.AtVec(j)))
	}
}
