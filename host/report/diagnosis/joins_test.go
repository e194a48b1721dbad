package diagnosis_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	hostterms "github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestJoins: four linear experts, each the least squares of its rows, which a column tells apart for certain. What a join
// costs is what the residual sum of squares rises by when one line is fitted to the rows of both, over 2σ²; the two that
// are alike come first.
func TestJoins(t *testing.T) {
	const n, k, sigma = 2000, 4, 0.3
	rng := rand.New(rand.NewPCG(3, 3))
	slope, level := [k]float64{1, -1, -1.02, 4}, [k]float64{0, 1, 1.01, -3}
	x := mat.NewDense(n, 2, nil)
	y, of := make([]float64, n), make([]int, n)
	for r := range n {
		of[r] = rng.IntN(k)
		x.Set(r, 0, rng.NormFloat64())
		x.Set(r, 1, float64(of[r]))
		y[r] = level[of[r]] + slope[of[r]]*x.At(r, 0) + sigma*rng.NormFloat64()
	}
	// line is the least squares of the rows of some experts, with its residual sum of squares.
	line := func(experts ...int) (a, b, rss float64) {
		var rows []int
		for r := range n {
			if slices.Contains(experts, of[r]) {
				rows = append(rows, r)
			}
		}
		columns, target := mat.NewDense(len(rows), 2, nil), mat.NewVecDense(len(rows), nil)
		for i, r := range rows {
			columns.Set(i, 0, x.At(r, 0))
			columns.Set(i, 1, 1)
			target.SetVec(i, y[r])
		}
		var beta, left mat.VecDense
		if err := beta.SolveVec(columns, target); err != nil {
			t.Fatal(err)
		}
		left.MulVec(columns, &beta)
		left.SubVec(target, &left)
		return beta.AtVec(0), beta.AtVec(1), mat.Dot(&left, &left)
	}
	p := model.NewParams(k, 2)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma[0] = make([]float64, k), make([]float64, k-1), sigma
	for i := range k {
		a, b, _ := line(i)
		p.Regressors[2*i], p.RegressorIntercepts[i] = a, b
		if i < k-1 { // the largest of c·(2·i·v − i²) is at v = i
			p.Gating[2*i+1] = 400 * float64(i-(k-1))
			p.GatingIntercepts[i] = -200 * float64(i*i-(k-1)*(k-1))
		}
	}
	m := &fitted.Model{Activation: stated.Activation{Name: "identity", Version: "1"}, D: 2, K: k, Features: []string{"x", "v"},
		Target: "y", Proportions: []float64{0.25, 0.25, 0.25, 0.25}, Design: &hostterms.Design{}}
	m.SetParams(p)
	m.Fit.N = n
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := diagnosis.Of(t.Context(), m, act, dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Joins) != k-1 || !reflect.DeepEqual(d.Joins[0].Experts, [2][]int{{1}, {2}}) {
		t.Fatalf("joins %+v", d.Joins)
	}
	for _, j := range d.Joins {
		_, _, first := line(j.Experts[0]...)
		_, _, second := line(j.Experts[1]...)
		_, _, both := line(slices.Concat(j.Experts[0], j.Experts[1])...)
		if want := (both - first - second) / (2 * sigma * sigma); math.Abs(j.Cost-want) > 1e-6*(1+want) { // of the ridge
			t.Errorf("%v costs %v, want %v", j.Experts, j.Cost, want)
		}
	}
	m.Hierarchy = "2x(2,2)"
	if d, err = diagnosis.Of(t.Context(), m, act, dataset.Matrix(x, y)); err != nil || d.Joins != nil {
		t.Error("experts of a tree are joined")
	}
}
