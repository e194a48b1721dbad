package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// TestPooled: a step of an expert is that of its score, which is the gradient's, by Σ r_i·g′_i² times the mean of x·xᵀ,
// written out. The gate stays, and of one linear expert the step is that of EM.
func TestPooled(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	for _, s := range shapes {
		if !s.free.Regressors {
			continue
		}
		free := s.free
		free.Gating = false
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, p, s.n)
		l := NewLikelihood(data, s.act, randomParams(rng, s.k, s.d, 0.9, s.general), free, 2)
		pooled, err := NewPooled(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		theta := l.Theta(p)
		for i := range theta {
			theta[i] += 0.3 * rng.NormFloat64()
		}
		next, grad := make([]float64, l.Dim()), make([]float64, l.Dim())
		value, err := l.Grad(t.Context(), grad, theta)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := pooled.EMStep(t.Context(), next, theta); v != value || err != nil {
			t.Errorf("%s: value %v, want %v, error %v", s.name, v, value, err)
		}
		q := l.Params(theta)
		squares, levers := meanSquares(data, l.expert), leversOf(s, data, q)
		var chol mat.Cholesky
		if !chol.Factorize(squares) {
			t.Fatalf("%s: no factor", s.name)
		}
		for i := range s.k {
			at := l.regressor(i)
			score := mat.NewVecDense(l.da, nil)
			score.ScaleVec(-l.n*q.SigmaOf(i)*q.SigmaOf(i)/levers[i], mat.NewVecDense(l.da, grad[at:at+l.da]))
			want := mat.NewVecDense(l.da, nil)
			if err := chol.SolveVecTo(want, score); err != nil {
				t.Fatal(err)
			}
			got := floats.SubTo(make([]float64, l.da), next[at:at+l.da], theta[at:at+l.da])
			// The ridge is 1e−10 of the mean square, times a condition of some ten.
			if !floats.EqualApprox(got, want.RawVector().Data, 1e-8*max(1, mat.Norm(want, 2))) {
				t.Errorf("%s, expert %d: step %v, want %v", s.name, i, got, want.RawVector().Data)
			}
		}
		if s.k > 1 || s.free.ExpertColumns != nil {
			continue
		}
		em := make([]float64, l.Dim())
		if _, err := l.EMStep(t.Context(), em, theta); err != nil || !floats.EqualApprox(next, em, 1e-8) {
			t.Errorf("%s: step to %v, of EM to %v, error %v", s.name, next, em, err)
		}
	}
}

// meanSquares returns the mean of x·xᵀ over columns of the design.
func meanSquares(data *model.Data, columns []int) *mat.SymDense {
	sum, weight := mat.NewSymDense(len(columns), nil), 0.0
	for _, b := range data.Blocks {
		for r := range b.N {
			x := mat.NewVecDense(len(columns), nil)
			for at, j := range columns {
				if x.SetVec(at, 1); j < data.D {
					x.SetVec(at, b.Col(j)[r])
				}
			}
			sum.SymRankOne(sum, b.Weight(r), x)
			weight += b.Weight(r)
		}
	}
	sum.ScaleSym(1/weight, sum)
	return sum
}

// leversOf returns Σ r_i·g′_i² over the rows.
func leversOf(s shape, data *model.Data, q *model.Params) []float64 {
	out := make([]float64, s.k)
	for at := range data.Blocks {
		b := &data.Blocks[at]
		logits, z, scale := make([]float64, s.k*b.N), make([]float64, s.k*b.N), make([]float64, b.N)
		q.GateLogits(logits, b)
		model.Softmax(logits, scale, logits, b.N)
		q.Predictors(z, b)
		for r := range b.N {
			joint, all := make([]float64, s.k), 0.0
			for i := range joint {
				e := (b.Y[r] - s.act.G(z[i*b.N+r])) / q.SigmaOf(i)
				joint[i] = logits[i*b.N+r] * math.Exp(-e*e/2) / q.SigmaOf(i)
				all += joint[i]
			}
			for i, v := range joint {
				slope := s.act.DG(z[i*b.N+r])
				out[i] += b.Weight(r) * v / all * slope * slope
			}
		}
	}
	return out
}

// TestPooledRises: from afar steps raise the likelihood of linear experts, and end where its gradient is 0.
func TestPooledRises(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 2))
	truth := randomParams(rng, 3, 4, 0.1, false)
	truth.Gating = make([]float64, len(truth.Gating))
	data := draw(rng, identity, truth, 2000)
	l := NewLikelihood(data, identity, truth, Free{Regressors: true, Sigma: true}, 1)
	pooled, err := NewPooled(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	x, next, grad := l.Theta(truth), make([]float64, l.Dim()), make([]float64, l.Dim())
	for i := range x {
		x[i] += 0.3 * rng.NormFloat64()
	}
	last := math.Inf(1)
	for it := range 200 {
		v, err := pooled.EMStep(t.Context(), next, x)
		if err != nil || v > last+1e-12 {
			t.Fatalf("iteration %d: %v after %v, error %v", it, v, last, err)
		}
		last = v
		copy(x, next)
	}
	if _, err := l.Grad(t.Context(), grad, x); err != nil || floats.Norm(grad, 2) > 1e-6 {
		t.Errorf("gradient %v, error %v", grad, err)
	}
}
