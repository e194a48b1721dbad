package loss

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// gateSteps solves for Newton's step of the gate's M-step, H·δ = s with
//
//	H = Σ_rows (diag p − p·pᵀ) ⊗ x·xᵀ
//
// and the ridge's, by conjugate gradients. H is near to the product of the sums of its factors, by
// which the system is scaled: exactly where the gate is 0, so that a few products are enough.
type gateSteps struct {
	*passes
	priors  [][]float64  // of each block at θ, where there is room for them; else nil
	known   bool         // they are those of θ
	squares *gram.System // Σ x·xᵀ over the gate's columns; nil until it was taken
	shares  *gram.System // Σ diag p − p·pᵀ over the gate's rows

	step, residual, next, scaled []float64 // of the gate
	full, product                []float64 // of θ
}

// The system is solved to a part of the gradient, in at most so many products: the expectation
// changes with the step, and what is left is the next step's.
const (
	gateResidual = 0.1
	gateProducts = 12
)

func newGateSteps(l *Likelihood) *gateSteps {
	n := len(l.gating(make([]float64, l.Dim())))
	v := func() []float64 { return make([]float64, n) }
	s := &gateSteps{
		passes: newPasses(l.layout, l.rows, l.act, l.mix, l.passes.workers),
		step:   v(), residual: v(), next: v(), scaled: v(),
		full: make([]float64, l.Dim()), product: make([]float64, l.Dim()),
	}
	s.by, s.along = s, newDirection(l.layout, l.base)
	const both = ofShared | ofTimes // in turn, in room for both
	s.hold(&s.total, both)
	for c := range s.chunks {
		s.hold(&s.chunks[c], both)
	}
	if rows, _ := l.rows.Dims(); model.Held(l.rows) && rows*l.classes <= mostRemembered {
		s.priors = make([][]float64, model.Blocks(l.rows))
	}
	return s
}

// block adds a block to the sums of the priors' products, ofShared, or to those with the direction, ofTimes.
func (s *gateSteps) block(_ context.Context, w *work, to *sums, p *model.Params, block int, b *model.Block,
	want quantity) error {
	if s.priors != nil && s.known {
		w.Recall(p, b, mixture.Observed{Prior: s.priors[block]})
	} else {
		w.Given(p, b)
		if s.priors != nil {
			s.priors[block] = append(s.priors[block][:0], w.Prior...)
		}
	}
	w.Take(b)
	if want == ofShared {
		to.shared.block(w)
		return nil
	}
	if w.pushed == nil {
		w.pushed = s.newPushed()
	}
	q := w.pushed
	q.n = b.N
	s.along.coefficients.GateLogits(q.q[:s.classes*b.N], b)
	drift, terms := w.terms[:b.N], q.expert[:b.N]
	clear(drift)
	for j := range s.gates {
		kernel.Mul(terms, w.PriorOf(j), q.of(q.q, j))
		floats.Add(drift, terms)
	}
	for j := range s.gates {
		v := q.of(q.gates, j)
		kernel.Sub(v, q.of(q.q, j), drift)
		kernel.Mul(v, v, w.PriorOf(j))
	}
	to.times.addRows(w, to.times.score[s.k*s.da:], q.gates, s.gates, s.gate)
	return nil
}

// newton returns the step for a score of the gate at p, in room that is used again.
func (s *gateSteps) newton(ctx context.Context, l *Likelihood, p *model.Params, score []float64) ([]float64, error) {
	s.known = false
	clear(s.step)
	if ok, err := s.scale(ctx, p); !ok || err != nil {
		return s.step, err
	}
	s.known = true
	copy(s.residual, score)
	s.precondition()
	square := floats.Dot(s.residual, s.scaled)
	until := gateResidual * gateResidual * square
	copy(s.next, s.scaled)
	for range gateProducts {
		if !(square > until) {
			break
		}
		product, err := s.times(ctx, l, p)
		if err != nil {
			return nil, err
		}
		bend := floats.Dot(s.next, product)
		if !(bend > 0) {
			break
		}
		size := square / bend
		floats.AddScaled(s.step, size, s.next)
		floats.AddScaled(s.residual, -size, product)
		s.precondition()
		last := square
		square = floats.Dot(s.residual, s.scaled)
		floats.AddScaledTo(s.next, s.scaled, square/last, s.next)
	}
	return s.step, nil
}

// times returns the curvature at p times the direction.
func (s *gateSteps) times(ctx context.Context, l *Likelihood, p *model.Params) ([]float64, error) {
	copy(l.gating(s.full), s.next)
	s.along.set(s.layout, s.full)
	sums, err := s.sum(ctx, p, ofTimes)
	if err != nil {
		return nil, err
	}
	clear(s.product)
	copy(l.gating(s.product), sums.times.score[s.k*s.da:])
	l.penalty.Gradient(s.product, s.full, 1) // which is linear
	return l.gating(s.product), nil
}

// scale readies what the system is scaled by, and says whether it could.
func (s *gateSteps) scale(ctx context.Context, p *model.Params) (bool, error) {
	if s.squares == nil {
		var err error
		if s.squares, _, err = squaresOf(ctx, s.passes, s.gate); err != nil {
			return false, err
		}
		s.shares = gram.NewSystem(s.gates)
	}
	sums, err := s.sum(ctx, p, ofShared)
	if err != nil {
		return false, err
	}
	prior, gates, classes := sums.shared.prior, s.gates, s.classes
	for j := range gates {
		for m := j; m < gates; m++ {
			s.shares.H.SetSym(j, m, -prior[j*classes+m])
		}
		mass := 0.0
		for m := range classes {
			mass += prior[j*classes+m]
		}
		s.shares.H.SetSym(j, j, mass-prior[j*classes+j])
	}
	return s.shares.Factorize() && s.squares.Factorize(), nil
}

// precondition writes the residual, scaled, to s.scaled: C⁻¹·R·S⁻¹ of its rows R.
func (s *gateSteps) precondition() {
	gates, dw := s.gates, s.dw
	for j := range gates {
		copy(s.scaled[j*dw:(j+1)*dw], s.squares.Solve(s.residual[j*dw:(j+1)*dw]))
	}
	r := blas64.General{Rows: gates, Cols: dw, Stride: dw, Data: s.scaled}
	blas64.Trsm(blas.Left, blas.Trans, 1, s.shares.Upper, r)
	blas64.Trsm(blas.Left, blas.NoTrans, 1, s.shares.Upper, r)
}
