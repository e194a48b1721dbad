package loss

import (
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TestSetsOfQuantities: whatever has been asked of a likelihood before, each of its
// sums has the bytes that a new one gives for it alone.
func TestSetsOfQuantities(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	for _, s := range []shape{shapes[2], shapes[4], shapes[9], shapes[10]} {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, p, 5000)
		numbers := func(l *Likelihood, want quantity) []float64 {
			sums, err := l.under(t.Context(), p, want)
			if err != nil {
				t.Fatal(err)
			}
			out := []float64{sums.loglik}
			for _, p := range sums.parts {
				if p.of&want != 0 {
					for _, v := range p.values {
						out = append(out, v...)
					}
				}
			}
			return out
		}
		kinds := []quantity{0, ofGradient, ofExperts, ofGates, ofInformation, ofProducts, ofStructure}
		alone := make(map[quantity][]float64)
		for _, q := range kinds {
			alone[q] = numbers(NewLikelihood(data, s.act, p, s.free, 1), q)
		}
		used := NewLikelihood(data, s.act, p, s.free, 2)
		for range 40 {
			q, with := kinds[rng.IntN(len(kinds))], kinds[rng.IntN(len(kinds))]
			numbers(used, q|with)
			if !floats.Same(numbers(used, q), alone[q]) {
				t.Fatalf("%s: other sums of quantity %b", s.name, q)
			}
			if got := numbers(used, q|with); q < with && len(got) != len(alone[q])+len(alone[with])-1 {
				t.Fatalf("%s: %d numbers of quantities %b and %b", s.name, len(got), q, with)
			}
		}
	}
}

// TestLayout: θ lists the free parameters in the order of Parameters, at the
// places that the sums are written to, and nothing else moves.
func TestLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		l := NewLikelihood(s.data(rng, p, 100), s.act, p, s.free, 1)
		theta := l.Theta(p)
		for i := range theta {
			theta[i] = rng.NormFloat64()
		}
		q := l.Params(theta)
		moved := 0
		for _, v := range [][2][]float64{
			{p.Regressors, q.Regressors}, {p.Gating, q.Gating}, {p.Sigma, q.Sigma},
			{p.RegressorIntercepts, q.RegressorIntercepts}, {p.GatingIntercepts, q.GatingIntercepts},
		} {
			for i := range v[0] {
				if v[0][i] != v[1][i] {
					moved++
				}
			}
		}
		if moved != l.Dim() || !floats.EqualApprox(l.Theta(q), theta, 1e-15) {
			t.Errorf("%s: %d parameters moved of %d, θ is read back as %v", s.name, moved, l.Dim(), l.Theta(q))
		}
		for at, v := range l.Parameters() {
			want := map[model.ParamPart]int{model.Expert: l.regressor(v.Index), model.Gate: l.row(v.Index), model.Noise: l.noise(v.Index)}[v.Part]
			if at < want || v.Part == model.Noise && at != want {
				t.Errorf("%s: %+v at %d, its block begins at %d", s.name, v, at, want)
			}
		}
	}
}

// TestHessianOfWrongSize: a shape that does not fit is the caller's mistake.
func TestHessianOfWrongSize(t *testing.T) {
	p := model.NewParams(2, 2)
	p.Sigma[0] = 1
	l := NewLikelihood(&model.Data{N: 1, D: 2, Blocks: []model.Block{{N: 1, X: []float64{1, 2}, Y: []float64{1}}}}, identity, p, All, 1)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	l.Hessian(t.Context(), mat.NewSymDense(3, nil), make([]float64, l.Dim()), l.Theta(p))
}
