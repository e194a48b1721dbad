package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TestInformationByDifferences compares the information with differences of the
// score, which is that of the gradient: for any g, away from the optimum, where
// the terms in g″ are large.
func TestInformationByDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	ctx := t.Context()
	for _, s := range append(shapes,
		shape{"curved with a kink", bent, 2, 3, 300, false, All, true},
		shape{"curved with a kink, noise per expert", bent, 3, 3, 300, true, All, false}) {
		data, p := s.elsewhere(rng)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		theta, dim := l.Theta(p), l.Dim()
		score, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		h := mat.NewSymDense(dim, nil)
		if err := l.Information(ctx, h, score, p, kinksOf(s)); err != nil {
			t.Fatal(err)
		}
		l.Grad(ctx, up, theta)
		floats.Scale(-l.Rows(), up)
		if !floats.EqualApprox(score, up, 1e-11) {
			t.Errorf("%s: the score is not the gradient's", s.name)
		}
		const step = 1e-6 // small: a row that crosses a kink in the step ruins its entry
		worst := 0.0
		for i := range theta {
			x := append([]float64(nil), theta...)
			x[i] = theta[i] + step
			l.Grad(ctx, up, x)
			x[i] = theta[i] - step
			l.Grad(ctx, down, x)
			for j := range theta {
				want := (up[j] - down[j]) / (2 * step)
				worst = max(worst, math.Abs(h.At(i, j)/l.Rows()-want))
			}
		}
		// Rounding of a gradient of order 1, 1e−15, over the step.
		if worst > 2e-8 {
			t.Errorf("%s: worst entry of the information per row off by %v", s.name, worst)
		}
	}
}

// TestCurvatureNextToKinks: rows within a difference of g″ from a kink count
// with the g″ of their own side.
func TestCurvatureNextToKinks(t *testing.T) {
	for _, x := range []float64{1e-6, -1e-6, 9e-6, -9e-6, 1e-5, 3e-5, 0.5} {
		data := &model.Data{N: 1, D: 1, Blocks: []model.Block{{N: 1, X: []float64{x}, Y: []float64{2}}}}
		p := model.NewParams(1, 1)
		p.Regressors[0], p.Sigma[0] = 1, 0.5
		l := NewLikelihood(data, bent, p, Free{Regressors: true}, 1)
		h := mat.NewSymDense(1, nil)
		if err := l.Information(t.Context(), h, make([]float64, 1), p, []float64{-3, 0, 2}); err != nil {
			t.Fatal(err)
		}
		g, dg, ddg := bent.G(x), bent.DG(x), 0.5
		if x < 0 {
			ddg = math.Exp(x) / 2
		}
		want := x * x * (dg*dg - (2-g)*ddg) / 0.25
		// Off a kink the difference is taken 2e−5 to the side.
		if got := h.At(0, 0); !(math.Abs(got-want) <= 1e-4*x*x) {
			t.Errorf("x = %v: information %v, want %v", x, got, want)
		}
	}
}

// TestScoreProducts compares them with the scores of rows one by one.
func TestScoreProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	ctx := t.Context()
	for _, s := range shapes {
		n := min(s.n, 300)
		truth := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, truth, n)
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		dim := l.Dim()
		got, want := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
		if err := l.ScoreProducts(ctx, got, p); err != nil {
			t.Fatal(err)
		}
		grad := make([]float64, dim)
		for _, b := range data.Blocks {
			for r := range b.N {
				row := model.Block{N: 1, Y: b.Y[r : r+1]}
				for j := range s.d {
					row.X = append(row.X, b.Col(j)[r])
				}
				if b.Role[model.Weights] != nil {
					row.Role[model.Weights] = b.Role[model.Weights][r : r+1]
				}
				one := NewLikelihood(&model.Data{N: 1, D: s.d, Blocks: []model.Block{row}}, s.act, p, s.free, 1)
				if _, err := one.Grad(ctx, grad, one.Theta(p)); err != nil {
					t.Fatal(err)
				}
				floats.Scale(one.Rows(), grad) // the row's weight, which Grad divides by
				want.SymRankOne(want, 1, mat.NewVecDense(dim, grad))
			}
		}
		if !mat.EqualApprox(got, want, 1e-11) {
			t.Errorf("%s: the products of the scores differ", s.name)
		}
	}
}

// TestParameters: every place of θ is the parameter that it is said to be.
func TestParameters(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		l := NewLikelihood(draw(rng, s.act, p, 10), s.act, p, s.free, 1)
		theta := l.Theta(p)
		list := l.Parameters()
		if len(list) != len(theta) {
			t.Fatalf("%s: %d parameters, θ has %d", s.name, len(list), len(theta))
		}
		for at, q := range list {
			want := 0.0
			switch {
			case q.Part == model.Noise:
				want = math.Log(p.Sigma[q.Index])
			case q.Part == model.Expert && q.Feature == s.d:
				want = p.RegressorIntercepts[q.Index]
			case q.Part == model.Expert:
				want = p.Regressor(q.Index)[q.Feature]
			case q.Feature == s.d:
				want = p.GatingIntercepts[q.Index]
			default:
				want = p.Gate(q.Index)[q.Feature]
			}
			if theta[at] != want {
				t.Errorf("%s: place %d is %v, said to be %+v", s.name, at, theta[at], q)
			}
		}
	}
}
