package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	_ "github.com/gatedlearning/moe/internal/testheap"
)

// TestHessianTimes holds the product with a direction against the Hessian, with a ridge on
// the gate: to rounding, which sums of another association leave.
func TestHessianTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	ctx := t.Context()
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
		l := NewLikelihood(s.data(rng, p, s.n), s.act, p, s.free, 2)
		l.PenaliseGate(3)
		theta := l.Theta(randomParams(rng, s.k, s.d, 0.7, s.general))
		dim := l.Dim()
		grad, v, got := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		h := mat.NewSymDense(dim, nil)
		if _, err := l.Hessian(ctx, h, grad, theta); err != nil {
			t.Fatal(err)
		}
		want := mat.NewVecDense(dim, nil)
		want.MulVec(h, mat.NewVecDense(dim, v))
		if err := l.HessianTimes(ctx, got, v, theta); err != nil {
			t.Fatal(err)
		}
		scale := floats.Norm(want.RawVector().Data, 2)
		if d := floats.Distance(got, want.RawVector().Data, 2); !(d <= 1e-12*scale) {
			t.Errorf("%s: the product is off by %v of %v", s.name, d, scale)
		}
	}
}

// TestHessianTimesAgain: products at one θ, at another and back are those of likelihoods that know of no other, to the
// byte.
func TestHessianTimesAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 9))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
		data := s.data(rng, p, s.n)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		a, b := l.Theta(p), l.Theta(randomParams(rng, s.k, s.d, 0.7, s.general))
		got, want, v := make([]float64, l.Dim()), make([]float64, l.Dim()), make([]float64, l.Dim())
		for i, theta := range [][]float64{a, a, b, b, b, a, a} {
			for i := range v {
				v[i] = rng.NormFloat64()
			}
			if err := l.HessianTimes(t.Context(), got, v, theta); err != nil {
				t.Fatal(err)
			}
			if i%3 == 1 { // passes of other kinds in between
				if _, err := l.Value(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			if err := NewLikelihood(data, s.act, p, s.free, 1).HessianTimes(t.Context(), want, v, theta); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: product %d is another than at first sight", s.name, i)
			}
		}
	}
}

// BenchmarkHessianTimes times ten products at one θ, of 32 experts over 64 columns.
func BenchmarkHessianTimes(b *testing.B) {
	const k, d, n = 32, 64, 4096
	rng := rand.New(rand.NewPCG(8, 9))
	p := randomParams(rng, k, d, 0.9, true)
	s := shapes[0]
	s.k, s.d, s.general, s.free = k, d, true, Free{Regressors: true, Gating: true, Sigma: true}
	l := NewLikelihood(s.data(rng, p, n), s.act, p, s.free, 1)
	theta := l.Theta(p)
	v, dst := make([]float64, len(theta)), make([]float64, len(theta))
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	for b.Loop() {
		theta[0] += 1e-9 // another
		for range 10 {
			if err := l.HessianTimes(b.Context(), dst, v, theta); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestDiagonal holds the diagonal against those of the matrices of EM's M-step, and that of
// log σ against the residual sums of squares.
func TestDiagonal(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 9))
	ctx := t.Context()
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
		l := NewLikelihood(s.data(rng, p, s.n), s.act, p, s.free, 2)
		theta, got := l.Theta(p), make([]float64, l.Dim())
		if err := l.Diagonal(ctx, got, theta); err != nil {
			t.Fatal(err)
		}
		sums, err := l.at(ctx, theta, ofGradient|ofExperts|ofGates)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float64, l.Dim())
		for at, q := range l.parameters {
			if q.Part == model.Expert {
				want[at] = sums.experts.At(q.Index, q.Feature, q.Feature) / (p.SigmaOf(q.Index) * p.SigmaOf(q.Index))
			}
		}
		if gate := l.gating(want); len(gate) > 0 {
			h := mat.NewSymDense(len(gate), nil)
			sums.gates.hessian(h)
			for i := range gate {
				gate[i] = h.At(i, i)
			}
		}
		for m := range l.levels {
			if at := l.noise(m); at >= 0 {
				deviance, _ := sums.gradient.ofLevel(m)
				want[at] = 2 * deviance / (p.Sigma[m] * p.Sigma[m])
			}
		}
		floats.Scale(1/l.n, want)
		for at, v := range want {
			if d := math.Abs(got[at] - v); !(d <= 1e-12*math.Abs(v)) {
				t.Errorf("%s: %v: %v, want %v", s.name, l.parameters[at], got[at], v)
			}
		}
	}
}
