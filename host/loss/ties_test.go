package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TestTies: where coefficients are the same in all experts the likelihood at any θ is that of the parameters with the
// mean of their places in each, written out; its gradient is its differences, its Hessian those of the gradient but for
// c·(I − P), and no step of EM goes down or leaves the range of P.
func TestTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 4))
	tied := func(f Free, columns ...int) Free {
		f.Tied = columns
		return f
	}
	for _, s := range []shape{
		{"a slope", identity, 3, 3, 400, false, tied(All, 1), false},
		{"a slope and the intercept, noise per expert", identity, 2, 3, 400, true, tied(All, 0, 3), true},
		{"all but one", tanh, 2, 2, 300, true, tied(All, 0, 2), false},
		{"columns of their own", identity, 3, 4, 400, true,
			tied(Free{Regressors: true, Gating: true, Sigma: true, ExpertColumns: []int{0, 2}}, 2), false},
	} {
		data, p := s.elsewhere(rng)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		dim := l.Dim()
		theta := make([]float64, dim) // off the range of P
		for i := range theta {
			theta[i] = 0.4 * rng.NormFloat64()
		}
		at := l.Params(theta)
		for _, places := range l.Ties() {
			mean := 0.0
			for _, i := range places {
				mean += theta[i] / float64(s.k)
			}
			for _, i := range places {
				if got := *l.Parameters()[i].In(at); math.Abs(got-mean) > 1e-15 || got != *l.Parameters()[places[0]].In(at) {
					t.Errorf("%s: place %d is %v, want %v", s.name, i, got, mean)
				}
			}
		}
		if got, want := len(l.Ties()), len(s.free.Tied); got != want {
			t.Fatalf("%s: %d ties, want %d", s.name, got, want)
		}
		value, err := l.Value(t.Context(), theta)
		if err != nil {
			t.Fatal(err)
		}
		if want := -logDensity(s.act, at, data) / l.Rows(); math.Abs(value-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s: value %v, want %v", s.name, value, want)
		}
		grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		h := mat.NewSymDense(dim, nil)
		if _, err := l.Exact(nil).Hessian(t.Context(), h, grad, theta); err != nil {
			t.Fatal(err)
		}
		const step = 1e-6
		differences := mat.NewDense(dim, dim, nil)
		for i := range theta {
			x := append([]float64(nil), theta...)
			x[i] = theta[i] + step
			above, _ := l.Grad(t.Context(), up, x)
			x[i] = theta[i] - step
			below, _ := l.Grad(t.Context(), down, x)
			if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > 1e-7*max(1, math.Abs(want)) {
				t.Errorf("%s: place %d of the gradient %v, want %v", s.name, i, grad[i], want)
			}
			for j := range theta {
				differences.Set(i, j, (up[j]-down[j])/(2*step))
			}
		}
		for _, v := range [][]float64{randomTheta(rng, dim), randomTheta(rng, dim)} { // of the range of P, and of the rest
			along := append([]float64(nil), v...)
			l.ties.Project(along)
			floats.Sub(v, along)
			var got, want mat.VecDense
			got.MulVec(h, mat.NewVecDense(dim, along))
			want.MulVec(differences, mat.NewVecDense(dim, along))
			if !mat.EqualApprox(&got, &want, 1e-5) {
				t.Errorf("%s: Hessian along the range of P %v, by differences %v", s.name, got, want)
			}
			off := mat.NewVecDense(dim, v)
			got.MulVec(h, off)
			if mat.Inner(off, h, off) <= 0 {
				t.Errorf("%s: the Hessian is not positive across the range of P", s.name)
			}
			across := append([]float64(nil), got.RawVector().Data...)
			if l.ties.Project(across); floats.Norm(across, math.Inf(1)) > 1e-10 {
				t.Errorf("%s: the Hessian leads from across the range of P into it: %v", s.name, across)
			}
		}
		for range 4 {
			before, err := l.EMStep(t.Context(), up, theta)
			after, _ := l.Value(t.Context(), up)
			if err != nil || s.act.G(1) == 1 && after > before+1e-12 {
				t.Errorf("%s: a step of EM goes from %v to %v, %v", s.name, before, after, err)
			}
			copy(down, up)
			if l.ties.Project(down); !floats.EqualApprox(down, up, 1e-14) {
				t.Errorf("%s: a step of EM leaves the range of P", s.name)
			}
			copy(theta, up)
		}
	}
}

func randomTheta(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.NormFloat64()
	}
	return out
}
