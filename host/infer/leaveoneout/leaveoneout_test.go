package leaveoneout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
)

// check holds the terms against the step of all parameters, written out with the information of each row; curb is
// the precision from which they are left out, beside the rows' own.
func check(t *testing.T, name string, data *model.Data, act model.Activation, p *model.Params, free loss.Free, curb float64, kinks []float64) {
	t.Helper()
	ctx := t.Context()
	l := loss.NewLikelihood(data, act, p, free, 2)
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
	got, err := Each(ctx, l, p, v, kinks)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for r := range data.N {
		one := loss.NewLikelihood(losstest.Row(data, r), act, p, free, 1)
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

// TestEach: the step of a row's predictors is that of all parameters.
func TestEach(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(35, 1))
	bent := losstest.Shape{Name: "curved with a kink", Act: losstest.Bent, K: 2, D: 3, N: 300, General: true,
		Free: losstest.All, Weights: true}
	for _, s := range append(slices.Clone(losstest.Shapes), bent) {
		data, p := s.Elsewhere(rng)
		free := loss.Free{Regressors: s.Free.Regressors, Gating: s.Free.Gating, Sigma: s.Free.Sigma,
			ExpertColumns: s.Free.ExpertColumns, GateColumns: s.Free.GateColumns}
		check(t, s.Name, data, s.Act, p, free, 3, s.Kinks())
	}
	for _, text := range losstest.Trees {
		h, err := model.ParseHierarchy(text)
		if err != nil {
			t.Fatal(err)
		}
		p := losstest.Params(rng, h.Leaves(), 3, 0.7, true)
		p.Tree = h
		check(t, text, losstest.Draw(rng, losstest.Tanh, p, 300), losstest.Leaves(p.K), p, loss.All, 3, []float64{0})
	}
	for _, family := range []string{"poisson", "negative-binomial", "student-t", "gamma"} {
		p := losstest.Params(rng, 2, 3, 0.8, true)
		data := losstest.Draw(rng, losstest.Tanh, p, 300)
		p.Family = family
		switch family {
		case "poisson":
			p.Sigma = nil
		case "student-t":
			p.Own = [][]float64{{4, 9}}
		}
		for _, b := range data.Blocks {
			for r := range b.Y {
				if b.Y[r] = math.Abs(b.Y[r]); family != "gamma" {
					b.Y[r] = math.Round(3 * b.Y[r])
				}
			}
		}
		check(t, family, data, losstest.Exp, p, loss.All, 3, nil)
	}
}

// TestZeroExpert: beside a zero expert rows are left out as they are of any mixture.
func TestZeroExpert(t *testing.T) {
	names, all, tables := losstest.ZeroCases(rand.New(rand.NewPCG(35, 3)))
	for at, p := range all {
		check(t, names[at], tables[at], losstest.Exp, p, loss.All, 3, nil)
	}
}

// TestNone: there is none of rows in groups, and none of means c + s·g.
func TestNone(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 4))
	p := losstest.Params(rng, 2, 3, 0.7, true)
	data := losstest.Draw(rng, losstest.Tanh, p, 100)
	none := func(name string) {
		t.Helper()
		l := loss.NewLikelihood(data, losstest.Tanh, p, loss.All, 1)
		if got, err := Each(t.Context(), l, p, mat.NewSymDense(l.Dim(), nil), nil); got != nil || err != nil {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
	p.Offset, p.Scale = []float64{0.5}, []float64{2}
	none("outputs")
	p.Offset, p.Scale = nil, nil
	b := &data.Blocks[0]
	for r := range b.N {
		b.Role[model.Groups] = append(b.Role[model.Groups], float64(r/2))
	}
	none("groups")
}
