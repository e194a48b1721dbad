package loss

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// withOutput returns random parameters whose means are c + s·g.
func withOutput(rng *rand.Rand, k, d int, perExpert, general bool) *model.Params {
	p := randomParams(rng, k, d, 0.4, general)
	p.SetOutput(perExpert, 0, 0)
	for m := range p.Offset {
		p.Offset[m], p.Scale[m] = 3*rng.NormFloat64(), 1+2*rng.Float64()
	}
	return p
}

// outputCases are mixtures with an output, and what of them is free.
func outputCases(t *testing.T, fn func(t *testing.T, p *model.Params, free Free, data *model.Data)) {
	for _, c := range []struct {
		k                           int
		perExpert, general, weights bool
		free                        Free
	}{
		{k: 1, free: All},
		{k: 3, free: All},
		{k: 3, perExpert: true, free: All},
		{k: 2, general: true, free: All, weights: true},
		{k: 2, perExpert: true, general: true, free: All, weights: true},
		{k: 2, perExpert: true, free: Free{Regressors: true, Gating: true, Sigma: true, FixedScale: true}},
		{k: 2, free: Free{Regressors: true, Gating: true, FixedScale: true}, weights: true},
		{k: 2, general: true, free: Free{Regressors: true}},
		{k: 2, perExpert: true, free: Free{Gating: true, Sigma: true}},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(15, uint64(c.k)))
			p := withOutput(rng, c.k, 3, c.perExpert, c.general)
			fn(t, p, c.free, shape{act: tanh, weights: c.weights}.data(rng, p, 300))
		})
	}
}

// TestOutputDerivatives holds value, gradient, information and score products of
// mixtures with an output against the density written out, and differences.
func TestOutputDerivatives(t *testing.T) {
	outputCases(t, func(t *testing.T, p *model.Params, free Free, data *model.Data) {
		l := NewLikelihood(data, tanh, p, free, 2)
		rng := rand.New(rand.NewPCG(15, 7))
		theta := l.Theta(p)
		for i := range theta { // away from where the data were drawn
			theta[i] += 0.2 * rng.NormFloat64()
		}
		at := l.Params(theta)
		value, err := l.Value(t.Context(), theta)
		if want := -logDensity(tanh, at, data) / l.Rows(); err != nil || math.Abs(value-want) > 1e-12*math.Abs(want) {
			t.Errorf("value %v, want %v, error %v", value, want, err)
		}
		n := l.Dim()
		grad, up, down, score := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		if _, err := l.Grad(t.Context(), grad, theta); err != nil {
			t.Fatal(err)
		}
		h, products := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
		if err := l.Information(t.Context(), h, score, at, nil); err != nil {
			t.Fatal(err)
		}
		for i := range theta {
			// Differences of values of size 1 with this step err by 1e−10, those of
			// gradients by as much; g″ is itself from differences.
			const step = 1e-5
			x := append([]float64(nil), theta...)
			x[i] += step
			above, _ := l.Grad(t.Context(), up, x)
			x[i] -= 2 * step
			below, _ := l.Grad(t.Context(), down, x)
			if want := (above - below) / (2 * step); !(math.Abs(grad[i]-want) <= 1e-8*math.Max(1, math.Abs(want))) {
				t.Errorf("gradient %d is %v, differences say %v", i, grad[i], want)
			}
			for j := range theta {
				if want := (up[j] - down[j]) / (2 * step); !(math.Abs(h.At(i, j)/l.Rows()-want) <= 1e-7*math.Max(1, math.Abs(want))) {
					t.Errorf("information (%d, %d) is %v, differences say %v", i, j, h.At(i, j)/l.Rows(), want)
				}
			}
		}
		if err := l.ScoreProducts(t.Context(), products, at); err != nil {
			t.Fatal(err)
		}
		want := mat.NewSymDense(n, nil)
		row := model.Block{N: 1, X: make([]float64, p.D)}
		for _, b := range data.Blocks {
			for r := range b.N {
				for j := range row.X {
					row.X[j] = b.Col(j)[r]
				}
				row.Y, row.Role[model.Weights] = b.Y[r:r+1], nil
				weight := 1.0
				if b.Role[model.Weights] != nil {
					weight = b.Role[model.Weights][r]
				}
				one := NewLikelihood(&model.Data{N: 1, D: p.D, Blocks: []model.Block{row}}, tanh, at, free, 1)
				one.ends[0].least = math.Inf(-1)
				if _, err := one.Grad(t.Context(), up, theta); err != nil {
					t.Fatal(err)
				}
				floats.Scale(weight, up)
				want.SymRankOne(want, 1, mat.NewVecDense(n, up))
			}
		}
		for i := range n {
			for j := range n {
				if got := products.At(i, j); !(math.Abs(got-want.At(i, j)) <= 1e-10*math.Max(1, math.Abs(got))) {
					t.Errorf("score product (%d, %d) is %v, want %v", i, j, got, want.At(i, j))
				}
			}
		}
	})
}

// TestOutputEM: EM climbs, and where it ends the gradient is 0.
func TestOutputEM(t *testing.T) {
	outputCases(t, func(t *testing.T, p *model.Params, free Free, data *model.Data) {
		l := NewLikelihood(data, tanh, p, free, 2)
		r, err := optim.EM(t.Context(), l, l.Theta(p), optim.Settings{Iterations: 3000, Tolerance: 1e-13})
		if err != nil || r.Status != optim.Converged {
			t.Fatalf("EM ended with %v, error %v", r.Status, err)
		}
		grad := make([]float64, l.Dim())
		if _, err := l.Grad(t.Context(), grad, r.X); err != nil {
			t.Fatal(err)
		}
		// The last step gained 1e−13: the gradient is about its root.
		if top := floats.Norm(grad, math.Inf(1)); top > 1e-5 {
			t.Errorf("EM ends where the gradient is %v", top)
		}
	})
}

// TestOneExpertStep: for one expert and a linear g, of which the scale is fixed, a step
// of EM is least squares, offset and coefficients together.
func TestOneExpertStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 9))
	p := withOutput(rng, 1, 3, false, false)
	p.Scale[0] = 1
	data := draw(rng, identity, p, 200)
	free := All
	free.FixedScale = true
	l := NewLikelihood(data, identity, p, free, 1)
	x := l.Theta(p)
	for i := range x {
		x[i] += rng.NormFloat64()
	}
	next := make([]float64, len(x))
	if _, err := l.EMStep(t.Context(), next, x); err != nil {
		t.Fatal(err)
	}
	design, y := mat.NewDense(200, 4, nil), mat.NewVecDense(200, nil)
	for r := range 200 {
		b := data.Blocks[r/model.BlockRows]
		for j := range 3 {
			design.Set(r, j, b.Col(j)[r])
		}
		design.Set(r, 3, 1)
		y.SetVec(r, b.Y[r])
	}
	var want mat.VecDense
	if err := want.SolveVec(design, y); err != nil {
		t.Fatal(err)
	}
	got := []float64{next[0], next[1], next[2], next[l.atOutput]}
	for i, v := range got {
		if !(math.Abs(v-want.AtVec(i)) <= 1e-8) { // the M-step's relative ridge of 1e−10
			t.Errorf("coefficient %d is %v, least squares say %v", i, v, want.AtVec(i))
		}
	}
}
