package loss

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	_ "github.com/gatedlearning/moe/internal/testheap"
)

// TestGateSteps holds the products with the curvature of the gate's M-step against the matrix, and the step
// against the system that it solves.
func TestGateSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 4))
	ctx := t.Context()
	for _, s := range shapes {
		if !s.free.Gating || s.k < 2 || s.free.GateColumns != nil {
			continue
		}
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
		l := NewLikelihood(s.data(rng, p, s.n), s.act, p, s.free, 2)
		l.PenaliseGate(3)
		theta := l.Theta(randomParams(rng, s.k, s.d, 0.7, s.general))
		if _, err := l.Value(ctx, theta); err != nil { // takes l.cur there
			t.Fatal(err)
		}
		many := len(l.gating(theta))
		h, score := mat.NewSymDense(many, nil), make([]float64, many)
		if err := l.GateInformation(ctx, h, l.cur); err != nil {
			t.Fatal(err)
		}
		l.penalty.GateHessian(h, 1, l.atGate)
		for i := range score {
			score[i] = rng.NormFloat64()
		}
		steps := newGateSteps(l)
		step, err := steps.newton(ctx, l, l.cur, score)
		if err != nil {
			t.Fatal(err)
		}
		var left mat.VecDense
		left.MulVec(h, mat.NewVecDense(many, step))
		copy(steps.residual, score)
		steps.precondition()
		before := floats.Dot(steps.residual, steps.scaled)
		floats.SubTo(steps.residual, score, left.RawVector().Data)
		steps.precondition()
		if after := floats.Dot(steps.residual, steps.scaled); !(after <= 1.01*gateResidual*gateResidual*before) {
			t.Errorf("%s: the system is solved to %.3g of %.3g", s.name, after, before)
		}
		for i := range steps.next {
			steps.next[i] = rng.NormFloat64()
		}
		var want mat.VecDense
		want.MulVec(h, mat.NewVecDense(many, steps.next))
		got, err := steps.times(ctx, l, l.cur)
		if err != nil {
			t.Fatal(err)
		}
		scale := mat.Norm(&want, 2)
		if d := floats.Distance(got, want.RawVector().Data, 2); !(d <= 1e-12*scale) { // rounding
			t.Errorf("%s: the product is off by %v of %v", s.name, d, scale)
		}
	}
}

// manyExperts is a likelihood that is stepped.
func manyExperts(rng *rand.Rand, n, workers int) (*Likelihood, []float64) {
	p := randomParams(rng, 32, 46, 0.3, false)
	data := draw(rng, identity, p, n)
	l := NewLikelihood(data, identity, p, All, workers)
	return l, l.Theta(randomParams(rng, 32, 46, 1, false))
}

// TestStepped: EM of many experts climbs, to the same bytes on any number of workers, and allocates nothing.
func TestStepped(t *testing.T) {
	ctx := t.Context()
	var first []float64
	for _, workers := range []int{1, 2, 3} {
		l, theta := manyExperts(rand.New(rand.NewPCG(3, 3)), 3000, workers)
		if !l.Stepped() || l.Dense() {
			t.Fatal("a likelihood of 32 experts over 46 features is not stepped")
		}
		next := make([]float64, l.Dim())
		last := 0.0
		for i := range 6 {
			v, err := l.EMStep(ctx, next, theta)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && !(v < last) {
				t.Errorf("step %d leads from %v to %v", i, last, v)
			}
			last = v
			theta, next = next, theta
		}
		if first == nil {
			first = slices.Clone(theta)
			if n := testing.AllocsPerRun(3, func() { l.EMStep(ctx, next, theta) }); n > 0 {
				t.Errorf("a step allocates %v times", n)
			}
		} else if !slices.Equal(theta, first) {
			t.Errorf("%d workers come to other parameters", workers)
		}
	}
	few := NewLikelihood(draw(rand.New(rand.NewPCG(1, 2)), identity, randomParams(rand.New(rand.NewPCG(1, 1)), 3, 4, 1, false), 50),
		identity, randomParams(rand.New(rand.NewPCG(1, 1)), 3, 4, 1, false), All, 1)
	if few.Stepped() {
		t.Error("three experts are stepped")
	}
}

// BenchmarkGateStep is an EM step of many experts, its gate by products, and what of it the gate takes; and such a step
// by pooled curvatures.
func BenchmarkGateStep(b *testing.B) {
	l, theta := manyExperts(rand.New(rand.NewPCG(3, 3)), 3000, 1)
	pooled, _ := manyExperts(rand.New(rand.NewPCG(3, 3)), 3000, 1)
	if err := pooled.PoolCurvature(b.Context()); err != nil {
		b.Fatal(err)
	}
	next := make([]float64, l.Dim())
	score := make([]float64, len(l.gating(theta)))
	for i := range score {
		score[i] = float64(i%7) - 3
	}
	for _, f := range []struct {
		name string
		run  func() error
	}{
		{"em", func() error { _, err := l.EMStep(b.Context(), next, theta); return err }},
		{"pooled", func() error { _, err := pooled.EMStep(b.Context(), next, theta); return err }},
		{"gate", func() error { return l.stepGate(b.Context(), l.gating(next), score) }},
	} {
		b.Run(fmt.Sprintf("n=3000/d=46/k=32/%s", f.name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f.run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/3000, "ns/row")
		})
	}
}
