// Package gru reads a layer of gated recurrent units and says what mixture of experts
// it is (000 §2, 002 Eq. 5): for every hidden unit a tree 2x(1,2) whose leaves are the
// state carried over, and the candidate state without and with the recurrence.
package gru

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Form says where the reset gate acts on the recurrence.
type Form int

const (
	// ResetAfter is n = tanh(Wx + b + r∘(Uh + c)): that of PyTorch, of Keras with
	// reset_after, and of cuDNN.
	ResetAfter Form = iota
	// ResetBefore is n = tanh(Wx + b + U(r∘h)): that of Cho et al. (2014), and of Keras
	// without reset_after.
	ResetBefore
)

// String returns reset-after or reset-before.
func (f Form) String() string {
	if f == ResetBefore {
		return "reset-before"
	}
	return "reset-after"
}

// Layer is a layer of H gated recurrent units over I inputs, as libraries write it:
//
//	z = σ(W_z x + U_z h + b_z),  r = σ(W_r x + U_r h + b_r)
//	h′ = z∘h + (1−z)∘n
//
// with the candidate state n of its [Form]. 002 Eq. 5 has 1−z for z. Whatever else is
// added to a predictor stands in its bias; c of the candidate is apart, for r acts on it.
type Layer struct {
	Name                     string // of its input weights in the file
	Form                     Form
	Update, Reset, Candidate Affine
	RecurrentBias            []float64 // c, H values; 0 in the form reset-before
}

// Affine is Wx + Uh + b, W H×I, U H×H, b of H values.
type Affine struct {
	W, U *mat.Dense
	B    []float64
}

// Inputs returns I.
func (l *Layer) Inputs() int { _, n := l.Update.W.Dims(); return n }

// Hidden returns H.
func (l *Layer) Hidden() int { return len(l.Update.B) }

// check refuses parameters that are not finite, naming the first.
func (l *Layer) check() error {
	for _, part := range []struct {
		name   string
		values []float64
	}{
		{"the update gate's input weights", l.Update.W.RawMatrix().Data},
		{"the update gate's recurrent weights", l.Update.U.RawMatrix().Data},
		{"the update gate's bias", l.Update.B},
		{"the reset gate's input weights", l.Reset.W.RawMatrix().Data},
		{"the reset gate's recurrent weights", l.Reset.U.RawMatrix().Data},
		{"the reset gate's bias", l.Reset.B},
		{"the candidate's input weights", l.Candidate.W.RawMatrix().Data},
		{"the candidate's recurrent weights", l.Candidate.U.RawMatrix().Data},
		{"the candidate's bias", l.Candidate.B},
		{"the candidate's recurrent bias", l.RecurrentBias},
	} {
		for i, v := range part.values {
			if !numeric.Finite(v) {
				return fmt.Errorf("%s: value %d is %v", part.name, i+1, v)
			}
		}
	}
	return nil
}

// Gates is what the gates of a step are: the logistic function of their predictors, or
// their limit as weights grow, 0 or 1.
type Gates int

const (
	Soft   Gates = iota // σ(η)
	Binary              // 1 where η > 0, 0 elsewhere
)

// String returns soft or binary.
func (g Gates) String() string {
	if g == Binary {
		return "binary"
	}
	return "soft"
}

func (g Gates) open(eta float64) float64 {
	switch {
	case g == Soft:
		e := math.Exp(-math.Abs(eta))
		if eta >= 0 {
			return 1 / (1 + e)
		}
		return e / (1 + e)
	case eta > 0:
		return 1
	}
	return 0
}

// Stepper goes through a sequence with a layer. It is not safe for concurrent use.
type Stepper struct {
	layer   *Layer
	gates   Gates
	z, r, n *mat.VecDense // predictors, H values each
	rec     *mat.VecDense // the recurrent term of n
	reset   *mat.VecDense // r∘h
}

// NewStepper returns what computes steps of the layer.
func (l *Layer) NewStepper(gates Gates) *Stepper {
	v := func() *mat.VecDense { return mat.NewVecDense(l.Hidden(), nil) }
	return &Stepper{layer: l, gates: gates, z: v(), r: v(), n: v(), rec: v(), reset: v()}
}

// predictors sets z and r to those of x and h, and n to Wx + b.
func (s *Stepper) predictors(x, h []float64) {
	in, state := mat.NewVecDense(len(x), x), mat.NewVecDense(len(h), h)
	of := func(dst *mat.VecDense, a Affine) {
		dst.MulVec(a.W, in)
		s.rec.MulVec(a.U, state)
		dst.AddVec(dst, s.rec)
		dst.AddVec(dst, mat.NewVecDense(len(a.B), a.B))
	}
	of(s.z, s.layer.Update)
	of(s.r, s.layer.Reset)
	s.n.MulVec(s.layer.Candidate.W, in)
	s.n.AddVec(s.n, mat.NewVecDense(len(s.layer.Candidate.B), s.layer.Candidate.B))
}

// recurrence sets rec to Uh + c of the candidate.
func (s *Stepper) recurrence(h []float64) {
	s.rec.MulVec(s.layer.Candidate.U, mat.NewVecDense(len(h), h))
	s.rec.AddVec(s.rec, mat.NewVecDense(len(h), s.layer.RecurrentBias))
}

// Next writes the state after h with the input x to dst, H values, which may be h.
func (s *Stepper) Next(dst, x, h []float64) {
	s.predictors(x, h)
	if s.layer.Form == ResetBefore {
		for j, v := range h {
			s.reset.SetVec(j, s.gates.open(s.r.AtVec(j))*v)
		}
		s.rec.MulVec(s.layer.Candidate.U, s.reset)
	} else {
		s.recurrence(h)
		for j := range h {
			s.rec.SetVec(j, s.gates.open(s.r.AtVec(j))*s.rec.AtVec(j))
		}
	}
	for j := range dst {
		z := s.gates.open(s.z.AtVec(j))
		dst[j] = z*h[j] + (1-z)*math.Tanh(s.n.AtVec(j)+s.rec.AtVec(j))
	}
}
