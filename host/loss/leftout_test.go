package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// rowOf is row r of data alone.
func rowOf(data *model.Data, r int) *model.Data {
	b := data.Blocks[r/model.BlockRows]
	r %= model.BlockRows
	row := model.Block{N: 1, Y: b.Y[r : r+1]}
	for j := range data.D {
		row.X = append(row.X, b.Col(j)[r])
	}
	for role, values := range b.Role {
		if values != nil {
			row.Role[role] = values[r : r+1]
		}
	}
	return &model.Data{N: 1, D: data.D, Blocks: []model.Block{row}}
}

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
		truth := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, truth, s.n)
		p := randomParams(rng, s.k, s.d, 0.9, s.general)
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
		counts := fn{func(z float64) float64 { return math.Exp(z / 2) }, func(z float64) float64 { return math.Exp(z/2) / 2 }}
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
