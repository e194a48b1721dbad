package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// ridgeOf is (τ/2)·Σ_i ‖w_i − w̄‖² written out, over the gates of p and the last,
// which is 0, and the columns named; nil is all.
func ridgeOf(p *model.Params, tau float64, columns []int) float64 {
	if columns == nil {
		for j := range p.D {
			columns = append(columns, j)
		}
	}
	w := func(i, j int) float64 {
		if i == p.K-1 {
			return 0
		}
		return p.Gate(i)[j]
	}
	sum := 0.0
	for _, j := range columns {
		mean := 0.0
		for i := range p.K {
			mean += w(i, j) / float64(p.K)
		}
		for i := range p.K {
			sum += (w(i, j) - mean) * (w(i, j) - mean)
		}
	}
	return tau / 2 * sum
}

// TestRidge: the value is that of the definition, and gradient and Hessian are its
// differences; the log-likelihood is as it was.
func TestRidge(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	ctx := t.Context()
	const tau = 40
	for _, s := range shapes {
		data, p := s.elsewhere(rng)
		l, plain := NewLikelihood(data, s.act, p, s.free, 2), NewLikelihood(data, s.act, p, s.free, 2)
		l.PenaliseGate(tau)
		theta, dim := l.Theta(p), l.Dim()
		want, err := plain.Value(ctx, theta)
		if err != nil {
			t.Fatal(err)
		}
		if s.free.Gating {
			want += ridgeOf(p, tau, s.free.GateColumns) / l.Rows()
		}
		if got, _ := l.Value(ctx, theta); !(math.Abs(got-want) <= 1e-12) { // rounding
			t.Errorf("%s: value %v, want %v", s.name, got, want)
		}
		a, _ := l.LogLikelihood(ctx, p)
		if b, _ := plain.LogLikelihood(ctx, p); a != b {
			t.Errorf("%s: log-likelihood %v with the ridge, %v without", s.name, a, b)
		}
		// What the ridge adds is a quadratic: its differences are exact but for
		// rounding, which is 1e−16 of the value over h.
		const h = 1e-3
		grad, off := make([]float64, dim), make([]float64, dim)
		hess, offHess := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
		l.Hessian(ctx, hess, grad, theta)
		plain.Hessian(ctx, offHess, off, theta)
		ridge := func(i int, di float64, j int, dj float64) float64 {
			x := append([]float64(nil), theta...)
			x[i] += di
			x[j] += dj
			if !s.free.Gating {
				return 0
			}
			return ridgeOf(l.Params(x), tau, s.free.GateColumns) / l.Rows()
		}
		for i := range dim {
			want := (ridge(i, h, 0, 0) - ridge(i, -h, 0, 0)) / (2 * h)
			if !(math.Abs(grad[i]-off[i]-want) <= 1e-10) {
				t.Errorf("%s: the ridge adds %v to gradient[%d], differences give %v", s.name, grad[i]-off[i], i, want)
			}
			for j := range dim {
				want := (ridge(i, h, j, h) - ridge(i, h, j, -h) - ridge(i, -h, j, h) + ridge(i, -h, j, -h)) / (4 * h * h)
				if got := hess.At(i, j) - offHess.At(i, j); !(math.Abs(got-want) <= 1e-8) {
					t.Errorf("%s: the ridge adds %v to the Hessian at %d, %d, differences give %v", s.name, got, i, j, want)
				}
			}
		}
		again := make([]float64, dim)
		if l.Grad(ctx, again, theta); !floats.EqualApprox(again, grad, 1e-13) {
			t.Errorf("%s: Grad and Hessian disagree on the gradient", s.name)
		}
	}
}

// TestRidgeOnExperts: what it adds to value, gradient, Hessian and its products is (τ/2n)·Σ a², aτ/n and τ/n at the slopes
// of the experts, whatever is shared with a ridge on the gate; and an intercept is free.
func TestRidgeOnExperts(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	ctx := t.Context()
	const tau = 40
	for _, s := range shapes {
		data, p := s.elsewhere(rng)
		l, plain := NewLikelihood(data, s.act, p, s.free, 2), NewLikelihood(data, s.act, p, s.free, 2)
		l.PenaliseGate(3)
		plain.PenaliseGate(3)
		l.PenaliseExperts(tau)
		theta, dim := l.Theta(p), l.Dim()
		slope := make([]float64, dim) // τ/n where there is a ridge
		for at, of := range l.Parameters() {
			if of.Part == model.Expert && of.Feature >= 0 && of.Feature < p.D {
				slope[at] = tau / l.Rows()
			}
		}
		want, err := plain.Value(ctx, theta)
		if err != nil {
			t.Fatal(err)
		}
		for at, v := range theta {
			want += slope[at] * v * v / 2
		}
		if got, _ := l.Value(ctx, theta); !(math.Abs(got-want) <= 1e-12*(1+math.Abs(want))) { // rounding
			t.Errorf("%s: value %v, want %v", s.name, got, want)
		}
		grad, off := make([]float64, dim), make([]float64, dim)
		hess, offHess := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
		l.Hessian(ctx, hess, grad, theta)
		plain.Hessian(ctx, offHess, off, theta)
		v, times, offTimes := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		if l.Products() {
			if err := l.HessianTimes(ctx, times, v, theta); err != nil {
				t.Fatal(err)
			}
			plain.HessianTimes(ctx, offTimes, v, theta)
		}
		for i := range dim {
			if got := grad[i] - off[i]; !(math.Abs(got-slope[i]*theta[i]) <= 1e-12*(1+math.Abs(off[i]))) {
				t.Errorf("%s: the ridge adds %v to gradient[%d], want %v", s.name, got, i, slope[i]*theta[i])
			}
			if got := times[i] - offTimes[i]; l.Products() && !(math.Abs(got-slope[i]*v[i]) <= 1e-12*(1+math.Abs(offTimes[i]))) {
				t.Errorf("%s: the ridge adds %v to the Hessian's product %d, want %v", s.name, got, i, slope[i]*v[i])
			}
			for j := range i + 1 {
				want := 0.0
				if i == j {
					want = slope[i]
				}
				if got := hess.At(i, j) - offHess.At(i, j); !(math.Abs(got-want) <= 1e-12*(1+math.Abs(offHess.At(i, j)))) {
					t.Errorf("%s: the ridge adds %v to the Hessian at %d, %d, want %v", s.name, got, i, j, want)
				}
			}
		}
	}
}

// separable draws rows of two experts, ±(2 + x_0), in the half-spaces x_1 > 0 and
// x_1 < 0: without a ridge their gate has no finite maximum.
func separable(rng *rand.Rand, n int) *model.Data {
	truth := model.NewParams(2, 2)
	truth.Regressors = []float64{1, 0, -1, 0}
	truth.RegressorIntercepts, truth.GatingIntercepts = []float64{2, -2}, []float64{0}
	truth.Gating = []float64{0, 1e3}
	truth.Sigma[0] = 0.1
	return draw(rng, identity, truth, n)
}

// TestEMWithARidge never lowers the penalised likelihood where the M-step is exact,
// and ends at a finite gate where its gradient is 0, on rows that have none without; with a ridge on the experts too.
func TestEMWithARidge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	data := separable(rng, 600)
	p := randomParams(rng, 2, 2, 1, true)
	p.Sigma = []float64{3}
	for at := range 4 {
		reuse, ridge := at%2 == 1, 20*float64(at/2)
		l := NewLikelihood(data, identity, p, All, 2)
		l.PenaliseGate(0.1)
		l.PenaliseExperts(ridge)
		if reuse {
			l.ReuseCurvature()
		}
		x, next, last := l.Theta(p), make([]float64, l.Dim()), math.Inf(1)
		for it := range 400 {
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
		grad := make([]float64, l.Dim())
		if _, err := l.Grad(t.Context(), grad, x); err != nil {
			t.Fatal(err)
		}
		for i, g := range grad {
			if !(math.Abs(g) <= 1e-6) { // EM's linear convergence over 400 steps
				t.Errorf("reuse %v, ridge on experts %v: gradient[%d] = %v where EM ends", reuse, ridge, i, g)
			}
		}
	}
}
