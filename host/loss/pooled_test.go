package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// TestPooled: a step of an expert is that of its score, which is the gradient's, by Σ r_i·g′_i² times the covariance of
// x and the square of the expert's mean, written out. A gate that is fixed stays, and of one linear expert the step is
// that of EM.
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
		if err := l.PoolCurvature(t.Context()); err != nil {
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
		if v, err := l.EMStep(t.Context(), next, theta); v != value || err != nil {
			t.Errorf("%s: value %v, want %v, error %v", s.name, v, value, err)
		}
		q := l.Params(theta)
		cov, moments := covariance(data, l.expert), momentsOf(s, data, q, l.expert)
		for i := range s.k {
			at := l.regressor(i)
			score := mat.NewVecDense(l.da, nil)
			mass, mean := moments[i][0], mat.NewVecDense(l.da, moments[i][1:])
			score.ScaleVec(-l.n*q.SigmaOf(i)*q.SigmaOf(i)/mass, mat.NewVecDense(l.da, grad[at:at+l.da]))
			want := mat.NewVecDense(l.da, nil)
			var h mat.SymDense
			h.SymRankOne(cov, 1/(mass*mass), mean)
			var chol mat.Cholesky
			if !chol.Factorize(&h) {
				t.Fatalf("%s: no factor", s.name)
			}
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
		l.pooled = nil
		if _, err := l.EMStep(t.Context(), em, theta); err != nil || !floats.EqualApprox(next, em, 1e-8) {
			t.Errorf("%s: step to %v, of EM to %v, error %v", s.name, next, em, err)
		}
	}
}

// columnOf returns feature j of row r of a block, 1 behind the last.
func columnOf(b *model.Block, j, r int) float64 {
	if j*b.N < len(b.X) {
		return b.Col(j)[r]
	}
	return 1
}

// covariance returns that of x over columns of the design.
func covariance(data *model.Data, columns []int) *mat.SymDense {
	n := len(columns)
	sum, mean, weight := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil), 0.0
	for at := range data.Blocks {
		b := &data.Blocks[at]
		for r := range b.N {
			x := mat.NewVecDense(n, nil)
			for at, j := range columns {
				x.SetVec(at, columnOf(b, j, r))
			}
			sum.SymRankOne(sum, b.Weight(r), x)
			mean.AddScaledVec(mean, b.Weight(r), x)
			weight += b.Weight(r)
		}
	}
	sum.SymRankOne(sum, -1/weight, mean)
	sum.ScaleSym(1/weight, sum)
	return sum
}

// momentsOf returns Σ r_i·g′_i² and Σ r_i·g′_i²·x over the rows, for every expert.
func momentsOf(s shape, data *model.Data, q *model.Params, columns []int) [][]float64 {
	out := make([][]float64, s.k)
	for i := range out {
		out[i] = make([]float64, 1+len(columns))
	}
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
				term := b.Weight(r) * v / all * slope * slope
				out[i][0] += term
				for at, j := range columns {
					out[i][1+at] += term * columnOf(b, j, r)
				}
			}
		}
	}
	return out
}

// TestPooledRises: from afar steps raise the likelihood of linear experts, and end where its gradient is 0, with a gate
// that is 0 and with one that is stepped too.
func TestPooledRises(t *testing.T) {
	for _, gating := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(21, 2))
		truth := randomParams(rng, 3, 4, 0.1, false)
		if !gating {
			clear(truth.Gating)
		}
		data := draw(rng, identity, truth, 2000)
		l := NewLikelihood(data, identity, truth, Free{Regressors: true, Gating: gating, Sigma: true}, 1)
		if err := l.PoolCurvature(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, next, grad := l.Theta(truth), make([]float64, l.Dim()), make([]float64, l.Dim())
		for i := range x {
			x[i] += 0.3 * rng.NormFloat64()
		}
		last := math.Inf(1)
		for it := range 200 {
			v, err := l.EMStep(t.Context(), next, x)
			if err != nil || v > last+1e-12 {
				t.Fatalf("gating %v, iteration %d: %v after %v, error %v", gating, it, v, last, err)
			}
			last = v
			copy(x, next)
		}
		if _, err := l.Grad(t.Context(), grad, x); err != nil || floats.Norm(grad, 2) > 1e-6 {
			t.Errorf("gating %v: gradient %v, error %v", gating, grad, err)
		}
	}
}
