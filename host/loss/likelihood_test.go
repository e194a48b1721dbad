package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// What tests of what is made of likelihoods have too.
type fn = losstest.Func

var (
	identity, tanh, relu, bent = losstest.Identity, losstest.Tanh, losstest.ReLU, losstest.Bent
	draw, randomParams, rowOf  = losstest.Draw, losstest.Params, losstest.Row
)

// shape is [losstest.Shape] with the free parameters as they are named here.
type shape struct {
	name    string
	act     fn
	k, d, n int
	general bool
	free    Free
	weights bool
}

var shapes = func() (out []shape) {
	for _, s := range losstest.Shapes {
		free := Free{Regressors: s.Free.Regressors, Gating: s.Free.Gating, Sigma: s.Free.Sigma,
			ExpertColumns: s.Free.ExpertColumns, GateColumns: s.Free.GateColumns}
		out = append(out, shape{s.Name, s.Act, s.K, s.D, s.N, s.General, free, s.Weights})
	}
	return out
}()

func (s shape) drawn() losstest.Shape {
	return losstest.Shape{Act: s.act, K: s.k, D: s.d, N: s.n, General: s.general, Weights: s.weights}
}

func (s shape) elsewhere(rng *rand.Rand) (*model.Data, *model.Params) {
	return s.drawn().Elsewhere(rng)
}

func (s shape) data(rng *rand.Rand, p *model.Params, n int) *model.Data {
	return s.drawn().Data(rng, p, n)
}

func kinksOf(s shape) []float64 { return s.drawn().Kinks() }

// logDensity is the log-likelihood written out row by row from 002 Eq. 1.
func logDensity(act fn, p *model.Params, data *model.Data) float64 {
	sum := 0.0
	for _, b := range data.Blocks {
		for t := range b.N {
			gate, density, norm := 0.0, 0.0, 0.0
			for i := range p.K {
				gate = 0
				z := 0.0
				for j := range p.D {
					z += p.Regressor(i)[j] * b.Col(j)[t]
					if i < p.K-1 {
						gate += p.Gate(i)[j] * b.Col(j)[t]
					}
				}
				if p.RegressorIntercepts != nil {
					z += p.RegressorIntercepts[i]
				}
				if p.GatingIntercepts != nil && i < p.K-1 {
					gate += p.GatingIntercepts[i]
				}
				c, scale := p.OutputOf(i)
				e := (b.Y[t] - c - scale*act.G(z)) / p.SigmaOf(i)
				norm += math.Exp(gate)
				density += math.Exp(gate) * math.Exp(-e*e/2) / (math.Sqrt(2*math.Pi) * p.SigmaOf(i))
			}
			term := math.Log(density / norm)
			if b.Role[model.Weights] != nil {
				term *= b.Role[model.Weights][t]
			}
			sum += term
		}
	}
	return sum
}

func TestLogLikelihoodIsTheDensity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, p, s.n)
		got, err := NewLikelihood(data, s.act, p, s.free, 2).LogLikelihood(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		// 1e−12 relative: both sum n terms of size 1.
		if want := logDensity(s.act, p, data); !(math.Abs(got-want) <= 1e-12*float64(s.n)) {
			t.Errorf("%s: log-likelihood %v, want %v", s.name, got, want)
		}
	}
}

// TestGradientsByDifferences compares gradient and Hessian with central
// differences, away from optima.
func TestGradientsByDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	ctx := t.Context()
	for _, s := range shapes {
		data, p := s.elsewhere(rng)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		theta := l.Theta(p)
		grad := make([]float64, l.Dim())
		if _, err := l.Grad(ctx, grad, theta); err != nil {
			t.Fatal(err)
		}
		const h = 1e-5 // error h² of the difference, 1e−16/h of rounding: 1e−10 each
		for i := range theta {
			x := append([]float64(nil), theta...)
			x[i] = theta[i] + h
			up, _ := l.Value(ctx, x)
			x[i] = theta[i] - h
			down, _ := l.Value(ctx, x)
			want := (up - down) / (2 * h)
			// ReLU: a row may cross its kink inside the step, worth h/n.
			if !(math.Abs(grad[i]-want) <= 1e-7) {
				t.Errorf("%s: gradient[%d] = %v, differences give %v", s.name, i, grad[i], want)
			}
		}
	}
}

// TestHessianByDifferences: exact where g″ = 0. For tanh the Hessian leaves out
// terms in g″ whose mean is 0 at the truth: there they are of order 1/√n.
func TestHessianByDifferences(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(3, 1))
	ctx := t.Context()
	for _, s := range shapes {
		truth := randomParams(rng, s.k, s.d, 0.7, s.general)
		n, tolerance := s.n, 1e-6
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
		if s.act.G(100) == 1 && s.free.Regressors { // tanh
			n, tolerance = 100000, 0.03 // 4 standard errors at 1e5 rows
			p = truth
		}
		data := s.data(rng, truth, n)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		theta := l.Theta(p)
		dim := l.Dim()
		grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		hess := mat.NewSymDense(dim, nil)
		if _, err := l.Hessian(ctx, hess, grad, theta); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Grad(ctx, up, theta); err != nil || !floats.EqualApprox(up, grad, 1e-13) {
			t.Errorf("%s: Hessian and Grad disagree on the gradient", s.name)
		}
		const h = 1e-6 // small: a ReLU row that crosses its kink in the step ruins its entry
		worst := 0.0
		for i := range theta {
			x := append([]float64(nil), theta...)
			x[i] = theta[i] + h
			l.Grad(ctx, up, x)
			x[i] = theta[i] - h
			l.Grad(ctx, down, x)
			for j := range theta {
				worst = max(worst, math.Abs(hess.At(i, j)-(up[j]-down[j])/(2*h)))
			}
		}
		if worst > tolerance {
			t.Errorf("%s: worst entry of the Hessian off by %v, tolerance %v", s.name, worst, tolerance)
		}
	}
}

// TestEMStepNeverLowersTheLikelihood where the M-step is exact.
func TestEMStepNeverLowersTheLikelihood(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	truth := randomParams(rng, 3, 4, 0.1, false)
	data := draw(rng, identity, truth, 2000)
	p := randomParams(rng, 3, 4, 2, false)
	l := NewLikelihood(data, identity, p, All, 2)
	x, next := l.Theta(p), make([]float64, l.Dim())
	last := math.Inf(1)
	for it := range 60 {
		v, err := l.EMStep(t.Context(), next, x)
		if err != nil {
			t.Fatal(err)
		}
		if v > last+1e-12 {
			t.Fatalf("iteration %d: %v after %v", it, v, last)
		}
		last = v
		copy(x, next)
	}
}

// TestSameBytesAtAnyNumberOfWorkers is exact equality.
func TestSameBytesAtAnyNumberOfWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	p := randomParams(rng, 3, 4, 0.5, true)
	data := draw(rng, tanh, p, 20000)
	var want []float64
	for _, workers := range []int{1, 2, 7} {
		l := NewLikelihood(data, tanh, p, All, workers)
		grad := make([]float64, l.Dim())
		h := mat.NewSymDense(l.Dim(), nil)
		v, err := l.Hessian(t.Context(), h, grad, l.Theta(p))
		if err != nil {
			t.Fatal(err)
		}
		got := append(append([]float64{v}, grad...), h.RawSymmetric().Data...)
		if want == nil {
			want = got
		} else if !floats.Same(got, want) {
			t.Errorf("%d workers give other bytes", workers)
		}
	}
}

func BenchmarkLikelihood(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, c := range []struct {
		name    string
		n, d, k int
	}{{"n=60/d=3/k=2", 60, 3, 2}, {"n=200/d=8/k=3", 200, 8, 3}, {"n=1e4/d=10/k=3", 10000, 10, 3}, {"n=1e6/d=10/k=3", 1000000, 10, 3}, {"n=2000/d=20/k=8", 2000, 20, 8}} {
		p := randomParams(rng, c.k, c.d, 0.05, false)
		data := draw(rng, identity, p, c.n)
		l := NewLikelihood(data, identity, p, All, 1)
		x, next := l.Theta(p), make([]float64, l.Dim())
		h := mat.NewSymDense(l.Dim(), nil)
		for _, f := range []struct {
			name string
			run  func() (float64, error)
		}{
			{"value", func() (float64, error) { return l.Value(b.Context(), x) }},
			{"gradient", func() (float64, error) { return l.Grad(b.Context(), next, x) }},
			{"em", func() (float64, error) { return l.EMStep(b.Context(), next, x) }},
			{"hessian", func() (float64, error) { return l.Hessian(b.Context(), h, next, x) }},
			{"times", func() (float64, error) { return 0, l.HessianTimes(b.Context(), next, x, x) }},
		} {
			b.Run(c.name+"/"+f.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f.run(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/row")
			})
		}
	}
}

// TestEMStepAllocatesNothing but in the first steps, whatever the shape, with a ridge
// and with curvatures that are used again.
func TestEMStepAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		l := NewLikelihood(s.data(rng, p, s.n), s.act, p, s.free, 1)
		for _, tau := range []float64{0, 0.1} {
			l.PenaliseGate(tau)
			l.PenaliseExperts(tau)
			x, next := l.Theta(p), make([]float64, l.Dim())
			step := func() {
				if _, err := l.EMStep(t.Context(), next, x); err != nil {
					t.Fatal(err)
				}
			}
			step()
			if n := testing.AllocsPerRun(10, step); n != 0 {
				t.Errorf("%s, ridge %v: %v allocations in a step", s.name, tau, n)
			}
		}
		l.ReuseCurvature()
	}
}

// TestReuseCurvature: EM steps with a curvature of the gating from before
// still raise the likelihood, take fewer of them than steps, and end where the
// gradient is 0.
func TestReuseCurvature(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	truth := randomParams(rng, 3, 4, 0.1, false)
	data := draw(rng, identity, truth, 3000)
	l := NewLikelihood(data, identity, truth, All, 1)
	l.ReuseCurvature()
	x, next, grad := l.Theta(truth), make([]float64, l.Dim()), make([]float64, l.Dim())
	for i := range x {
		x[i] += 0.3 * rng.NormFloat64()
	}
	last, taken, steps := math.Inf(1), 0, 200
	for it := range steps {
		was := slices.Clone(l.held.at)
		v, err := l.EMStep(t.Context(), next, x)
		if err != nil {
			t.Fatal(err)
		}
		if v > last+1e-12 {
			t.Fatalf("iteration %d: %v after %v", it, v, last)
		}
		if !slices.Equal(l.held.at, was) {
			taken++
		}
		last = v
		copy(x, next)
	}
	if taken < 2 || taken > steps/4 {
		t.Errorf("the curvature was taken %d times in %d steps", taken, steps)
	}
	if _, err := l.Grad(t.Context(), grad, x); err != nil || floats.Norm(grad, math.Inf(1)) > 1e-9 {
		t.Errorf("gradient %v where EM stands still, error %v", grad, err)
	}
}
