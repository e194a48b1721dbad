package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// checkLeaveOneOut holds the terms against the step of all parameters, written out with the information of each row; curb is
// the precision from which they are left out, beside the rows' own.
func checkLeaveOneOut(t *testing.T, name string, data *model.Data, act model.Activation, p *model.Params, free Free, curb float64, kinks []float64) {
	t.Helper()
	ctx := t.Context()
	l := NewLikelihood(data, act, p, free, 2)
	dim := l.Dim()
	precision := mat.NewSymDense(dim, nil)
	if err := l.ScoreProducts(ctx, precision, p); err != nil {
		t.Fatal(err)
	}
	for i := range dim {
		precision.SetSym(i, i, precision.At(i, i)+curb)
	}
	var chol mat.Cholesky
	if !chol.Factorize(precision) {
		t.Fatalf("%s: the precision is not positive definite", name)
	}
	v := mat.NewSymDense(dim, nil)
	if err := chol.InverseTo(v); err != nil {
		t.Fatal(err)
	}
	got, err := LeaveOneOut(ctx, l, p, v, kinks)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for r := range data.N {
		one := NewLikelihood(rowOf(data, r), act, p, free, 1)
		h, score := mat.NewSymDense(dim, nil), make([]float64, dim)
		if err := one.Information(ctx, h, score, p, kinks); err != nil {
			t.Fatal(err)
		}
		left := mat.NewSymDense(dim, nil)
		for i := range dim {
			for j := i; j < dim; j++ {
				left.SetSym(i, j, precision.At(i, j)-h.At(i, j))
			}
		}
		near := chol.Factorize(left)
		if near == got.Lost[r] {
			t.Fatalf("%s, row %d: lost is %v", name, r, got.Lost[r])
		}
		s, step := mat.NewVecDense(dim, score), mat.NewVecDense(dim, nil)
		if step.MulVec(v, s); near {
			if err := chol.SolveVecTo(step, s); err != nil {
				t.Fatal(err)
			}
		} else {
			lost++
		}
		if want := mat.Dot(s, step); !(math.Abs(got.Moves[r]-want) <= 1e-8*max(1, want)) {
			t.Fatalf("%s, row %d: a move of %v, want %v", name, r, got.Moves[r], want)
		}
		theta := l.Theta(p)
		for i := range theta {
			theta[i] -= step.AtVec(i)
		}
		before, _ := one.LogLikelihood(ctx, p)
		after, _ := one.LogLikelihood(ctx, l.Params(theta))
		// Rounding of the information, 1e−12 of it, times the condition of what is left.
		if want := before - after; !(math.Abs(got.Terms[r]-want) <= 1e-7*max(1, math.Abs(want))) {
			t.Fatalf("%s, row %d: %v, want %v", name, r, got.Terms[r], want)
		}
	}
	if lost > data.N/2 {
		t.Errorf("%s: %d of %d rows are lost", name, lost, data.N)
	}
}

// TestLeaveOneOut: the step of a row's predictors is that of all parameters.
func TestLeaveOneOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 1))
	for _, s := range append(slices.Clone(shapes), shape{"curved with a kink", bent, 2, 3, 300, true, All, true}) {
		data, p := s.elsewhere(rng)
		checkLeaveOneOut(t, s.name, data, s.act, p, s.free, 3, kinksOf(s))
	}
	for _, text := range treeShapes {
		h := parse(t, text)
		p := randomParams(rng, h.Leaves(), 3, 0.7, true)
		p.Tree = h
		checkLeaveOneOut(t, text, draw(rng, tanh, p, 300), leaves(p.K), p, All, 3, []float64{0})
	}
	for _, family := range []string{"poisson", "negative-binomial", "student-t", "gamma"} {
		p := randomParams(rng, 2, 3, 0.8, true)
		data := draw(rng, tanh, p, 300)
		p.Family = family
		switch family {
		case "poisson":
			p.Sigma = nil
		case "student-t":
			p.Own = [][]float64{{4, 9}}
		}
		counts := fn{G: func(z float64) float64 { return math.Exp(z / 2) }, DG: func(z float64) float64 { return math.Exp(z/2) / 2 }}
		for _, b := range data.Blocks {
			for r := range b.Y {
				if b.Y[r] = math.Abs(b.Y[r]); family != "gamma" {
					b.Y[r] = math.Round(3 * b.Y[r])
				}
			}
		}
		checkLeaveOneOut(t, family, data, counts, p, All, 3, nil)
	}
}

// TestWithout: the likelihood without a row is the sum over the others, and its gradient that of their mean.
func TestWithout(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 2))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, p, s.n)
		l := NewLikelihood(data, s.act, p, s.free, 1)
		all, _ := l.LogLikelihood(t.Context(), p)
		r := rng.IntN(s.n)
		one, _ := NewLikelihood(rowOf(data, r), s.act, p, s.free, 1).LogLikelihood(t.Context(), p)
		without, err := l.Without(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := without.LogLikelihood(t.Context(), p)
		if err != nil || math.Abs(got-(all-one)) > 1e-11*math.Abs(all) {
			t.Errorf("%s: %v without row %d, want %v, error %v", s.name, got, r, all-one, err)
		}
		if again, _ := l.LogLikelihood(t.Context(), p); again != all {
			t.Errorf("%s: the rows have changed", s.name)
		}
		weight := 1.0
		if w := data.Blocks[r/model.BlockRows].Role[model.Weights]; w != nil {
			weight = w[r%model.BlockRows]
		}
		if want := l.Rows() - weight; math.Abs(without.Rows()-want) > 1e-9 {
			t.Errorf("%s: %v rows, want %v", s.name, without.Rows(), want)
		}
	}
}

// zeroCases are mixtures of counts with a zero expert: parameters and rows of weights, of one expert and of two.
func zeroCases(rng *rand.Rand) (names []string, all []*model.Params, tables []*model.Data) {
	for _, family := range []string{"poisson", "negative-binomial"} {
		for _, k := range []int{1, 2} {
			p := randomParams(rng, k, 3, 0.8, true)
			data := draw(rng, tanh, p, 300)
			p.AddZero()
			p.GatingIntercepts = make([]float64, k)
			for _, v := range [][]float64{p.Gating, p.GatingIntercepts} {
				for i := range v {
					v[i] = rng.NormFloat64()
				}
			}
			if p.Family = family; family == "poisson" {
				p.Sigma = nil
			}
			for i := range data.Blocks {
				b := &data.Blocks[i]
				b.Role[model.Weights] = make([]float64, b.N)
				for r := range b.Y {
					b.Y[r] = math.Round(3 * math.Abs(b.Y[r]) * float64(rng.IntN(2)))
					b.Role[model.Weights][r] = 0.5 + rng.Float64()
				}
			}
			names, all, tables = append(names, family), append(all, p), append(tables, data)
		}
	}
	return names, all, tables
}

// TestZeroExpert: of counts beside a zero expert gradient, information and its products are those of differences of the value, which is
// that which is written out; and rows are left out as they are of any mixture.
func TestZeroExpert(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 3))
	counts := fn{G: func(z float64) float64 { return math.Exp(z / 2) }, DG: func(z float64) float64 { return math.Exp(z/2) / 2 }}
	names, all, tables := zeroCases(rng)
	for at, p := range all {
		name, data := names[at], tables[at]
		l := NewLikelihood(data, counts, p, All, 2)
		x, dim := l.Theta(p), l.Dim()
		if want := p.K*4 + p.K*4 + len(p.Sigma); dim != want {
			t.Fatalf("%s: %d parameters, want %d", name, dim, want)
		}
		want := 0.0
		for _, b := range data.Blocks {
			for r := range b.N {
				logs, scores := make([]float64, p.K+1), make([]float64, p.K+1)
				linear := func(w []float64, v float64) float64 {
					for j := range w {
						v += w[j] * b.Col(j)[r]
					}
					return v
				}
				for i := range p.K {
					scores[i] = linear(p.Gate(i), p.GatingIntercepts[i])
					mean, one := math.Exp(linear(p.Regressor(i), p.RegressorIntercepts[i])/2), []float64{0}
					mixture.DensityOf(p.Family).LogDensity(one, scores[i:i+1], b.Y[r:r+1], []float64{mean}, p.OwnOf(nil, i))
					logs[i] = one[0]
				}
				if b.Y[r] != 0 {
					logs = logs[:p.K]
				}
				want += b.Role[model.Weights][r] * (floats.LogSumExp(logs) - floats.LogSumExp(scores))
			}
		}
		if got, err := l.LogLikelihood(t.Context(), p); err != nil || math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s, k = %d: log-likelihood %v, want %v, error %v", name, p.K, got, want, err)
		}
		grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		if _, err := l.Grad(t.Context(), grad, x); err != nil {
			t.Fatal(err)
		}
		info := mat.NewSymDense(dim, nil)
		if err := l.Information(t.Context(), info, make([]float64, dim), p, nil); err != nil {
			t.Fatal(err)
		}
		const step = 1e-5
		for i := range x {
			to := slices.Clone(x)
			to[i] = x[i] + step
			above, _ := l.Grad(t.Context(), up, to)
			to[i] = x[i] - step
			below, _ := l.Grad(t.Context(), down, to)
			if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > 1e-8 {
				t.Errorf("%s, k = %d: entry %d of the gradient is %v, want %v", name, p.K, i, grad[i], want)
			}
			for j := range x {
				if want, got := (up[j]-down[j])/(2*step), info.At(i, j)/l.Rows(); math.Abs(got-want) > 1e-7 {
					t.Errorf("%s, k = %d: entry (%d, %d) of the information is %v, want %v", name, p.K, i, j, got, want)
				}
			}
		}
		h, v, got := mat.NewSymDense(dim, nil), make([]float64, dim), make([]float64, dim)
		if _, err := l.Hessian(t.Context(), h, grad, x); err != nil {
			t.Fatal(err)
		}
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		if err := l.HessianTimes(t.Context(), got, v, x); err != nil {
			t.Fatal(err)
		}
		var product mat.VecDense
		product.MulVec(h, mat.NewVecDense(dim, v))
		for i := range got {
			if math.Abs(got[i]-product.AtVec(i)) > 1e-12 {
				t.Errorf("%s, k = %d: entry %d of a product is %v, want %v", name, p.K, i, got[i], product.AtVec(i))
			}
		}
		checkLeaveOneOut(t, name, data, counts, p, All, 3, nil)
	}
}
