package gru

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// unitTree returns the tree of a unit with these leaves, its covariance, and the unit's candidate.
func unitTree(rng *rand.Rand, leaves []Leaf, j, inputs, hidden int) (Estimates, Candidate) {
	d := inputs + hidden
	values := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	c := Candidate{Row: Row{W: values(inputs), U: values(hidden), B: rng.NormFloat64()}, C: rng.NormFloat64()}
	if !slices.Contains(leaves, Closed) {
		c.C = 0
	}
	p := model.NewParams(len(leaves), d)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, len(leaves)), values(model.Gates(len(leaves)))
	copy(p.Gating, values(len(p.Gating)))
	for i, leaf := range leaves {
		a := p.Regressor(i)
		switch leaf {
		case Keep:
			a[inputs+j] = 1
		case Open:
			copy(a[inputs:], c.U)
			fallthrough
		case Closed:
			copy(a, c.W)
			p.RegressorIntercepts[i] = c.B
			if leaf == Open {
				p.RegressorIntercepts[i] += c.C
			}
		}
	}
	n := len(leaves) * (d + 1)
	root := mat.NewDense(n, n, values(n*n))
	v := mat.NewSymDense(n, nil)
	v.SymOuterK(1e-6/float64(n), root)
	for i := range n {
		v.SetSym(i, i, v.At(i, i)+1e-7)
	}
	return Estimates{Params: p, Keeps: leaves[0] == Keep, Covariance: v}, c
}

// flat are the values of a candidate, c last.
func (c Candidate) flat() []float64 { return slices.Concat(c.W, c.U, []float64{c.B, c.C}) }

// TestMatch: estimates that are a unit's, moved by noise of their covariance, are matched to its
// leaves; the candidate's errors have the standard errors that are stated, and the test has the law of χ².
// Bounds are four standard errors of the mean.
func TestMatch(t *testing.T) {
	const inputs, hidden, j, draws = 2, 3, 1, 400
	for _, leaves := range [][]Leaf{
		{Keep, Closed, Open}, {Keep, Open, Closed}, {Keep, Open}, {Closed, Open}, {Open, Closed}, {Open}, {Keep},
	} {
		rng := rand.New(rand.NewPCG(1, uint64(len(leaves))))
		e, want := unitTree(rng, leaves, j, inputs, hidden)
		exact, d := e.Params.Clone(), inputs+hidden
		var root mat.Cholesky
		root.Factorize(e.Covariance)
		var lower mat.TriDense
		root.LTo(&lower)
		n := len(leaves) * (d + 1)
		var chi, squares, scaled float64
		for range draws {
			z := mat.NewVecDense(n, nil)
			for i := range n {
				z.SetVec(i, rng.NormFloat64())
			}
			z.MulVec(&lower, z)
			p := exact.Clone()
			for i := range leaves {
				for f := range d {
					p.Regressor(i)[f] += z.AtVec(i*(d+1) + f)
				}
				p.RegressorIntercepts[i] += z.AtVec(i*(d+1) + d)
			}
			e.Params, e.HAC = p, e.Covariance
			u, err := Match(e, j, inputs)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(u.Leaves, leaves) {
				t.Fatalf("%v matched to %v", leaves, u.Leaves)
			}
			chi += u.ChiSquared / draws
			if !u.Has(Open) {
				continue
			}
			got, se, hac := u.Candidate.flat(), u.Errors.flat(), u.HAC.flat()
			for i, v := range want.flat() {
				if se[i] > 0 {
					squares += math.Pow((got[i]-v)/se[i], 2)
					scaled++
				}
				if math.Abs(hac[i]-se[i]) > 1e-9*se[i] {
					t.Fatalf("the sandwich of the same covariance gives %v, want %v", hac[i], se[i])
				}
			}
		}
		u, err := Match(e, j, inputs)
		if err != nil {
			t.Fatal(err)
		}
		free := 0
		if u.Has(Open) {
			free = d + 1
		}
		if u.Has(Closed) {
			free++
		}
		df := float64(n - free)
		if u.DF != n-free || math.Abs(chi-df) > 4*math.Sqrt(2*df/draws)+1e-9 {
			t.Errorf("%v: χ² of %d degrees is %.3g in the mean, want %d", leaves, u.DF, chi, n-free)
		}
		// The coefficients of a draw are dependent: at most as few independent ones as there are draws.
		if scaled > 0 && math.Abs(squares/scaled-1) > 4*math.Sqrt(2.0/draws) {
			t.Errorf("%v: errors are %.3g times their standard errors", leaves, math.Sqrt(squares/scaled))
		}
	}
}

// TestMatchIsUnit: the mixture of a layer's unit gives the unit back, its gates too, and one that never
// switches is a bias.
func TestMatchIsUnit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l := random(rng, ResetAfter, 2, 3)
	var units []*Unit
	for j := range l.Hidden() {
		p := l.Unit(j)
		p.Tree = Shape
		u, err := Match(Estimates{Params: p, Keeps: true}, j, 2)
		if err != nil {
			t.Fatal(err)
		}
		if u.DF != 0 {
			t.Errorf("a test without a covariance")
		}
		units = append(units, u)
	}
	same(t, LayerOf(units, 2), l, 1e-14)
	u, err := Match(Estimates{Params: &model.Params{K: 1, D: 5, Regressors: make([]float64, 5), RegressorIntercepts: []float64{0}}, Keeps: true}, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	if update, reset := u.Switches(); update || reset || u.Update.B != Never || u.Reset.B != Never {
		t.Errorf("a unit that keeps its state: %+v", u)
	}
	if Soft.open(Never) != 1 || Soft.open(-Never) != 0 {
		t.Errorf("a bias of %v does not close a gate", Never)
	}
}

// same holds a layer against another.
func same(t *testing.T, got, want *Layer, tolerance float64) {
	t.Helper()
	for i, a := range []Affine{got.Update, got.Reset, got.Candidate} {
		b := []Affine{want.Update, want.Reset, want.Candidate}[i]
		if !mat.EqualApprox(a.W, b.W, tolerance) || !mat.EqualApprox(a.U, b.U, tolerance) || !near(a.B, b.B, tolerance) {
			t.Errorf("part %d differs: %v, want %v", i, a, b)
		}
	}
	if !near(got.RecurrentBias, want.RecurrentBias, tolerance) {
		t.Errorf("recurrent biases %v, want %v", got.RecurrentBias, want.RecurrentBias)
	}
}

func near(a, b []float64, tolerance float64) bool {
	return len(a) == len(b) && mat.EqualApprox(mat.NewVecDense(len(a), a), mat.NewVecDense(len(b), b), tolerance)
}
