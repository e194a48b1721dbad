package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/relu"
)

// farKink is a problem of two ReLU experts, too large for a survey, with its truth. The second has one row
// in 200 and a kink that leaves a fifth of them on the side on which it is not 0.
func farKink(t testing.TB, n int) (p *problem.Problem, truth *model.Params) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		u, v := rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(r, []float64{u, v})
		z := 1 + u
		if r%200 == 0 {
			z = 3*v - 2.5
		}
		y[r] = max(z, 0) + 0.1*rng.NormFloat64()
	}
	p = load(t, dataset.Matrix(x, y), activation(t, relu.Family), problem.Request{K: 2, Intercept: true})
	q := p.Shape.Blank(0.1)
	copy(q.Regressors, []float64{1, 0, 0, 3})
	copy(q.RegressorIntercepts, []float64{1, -2.5})
	q.GatingIntercepts[0] = math.Log(199)
	return p, p.Shape.Adopt(p.Units.Into(q))
}

// TestOpeningIsTheLikelihood: with all rows open, its value is the log-likelihood up to a constant, as that of all
// rows computes it; and a climb never ends below where it began.
func TestOpeningIsTheLikelihood(t *testing.T) {
	p, truth := farKink(t, 4000)
	all, err := openings(t.Context(), p, truth, p.N(), math.Inf(-1))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d openings, %v", len(all), err)
	}
	l := likelihood(p, p.Rows)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, o := range all {
		constant := math.NaN()
		for range 5 {
			a := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
			v, err := o.value(t.Context(), p.G, a)
			if err != nil {
				t.Fatal(err)
			}
			want, err := l.LogLikelihood(t.Context(), o.with(truth, a))
			if err != nil {
				t.Fatal(err)
			}
			if math.IsNaN(constant) {
				constant = v - want
			}
			if math.Abs(v-want-constant) > 1e-8*math.Abs(want) { // rounding of 4,000 terms
				t.Errorf("expert %d at %.2f: %.9g, the likelihood %.9g", o.expert, a, v, want+constant)
			}
			if after, err := o.climb(t.Context(), p.G, a); err != nil || after < v {
				t.Errorf("expert %d: a climb from %.6g ends at %.6g, %v", o.expert, v, after, err)
			}
		}
	}
}

// TestPlaceRare: an expert of few rows that is 0 at all of them has no gradient, and is placed where the truth
// leads to; there it stays, to the byte.
func TestPlaceRare(t *testing.T) {
	p, truth := farKink(t, 20_500)
	dead := truth.Clone()
	clear(dead.Regressor(1))
	dead.RegressorIntercepts[1] = -1
	ends := func(q *model.Params) *Candidate {
		run := climbed(t, p, p.Rows, q)
		return &Candidate{Run: run, Params: likelihood(p, p.Rows).Params(run.X), Rows: p.N()}
	}
	c, best := ends(dead), ends(truth)
	n := float64(p.N())
	if below := n * (c.Run.Value - best.Run.Value); below < 20 {
		t.Fatalf("the dead expert is only %.3g below the best: the test shows nothing", below)
	}
	if err := placeRare(t.Context(), p, c); err != nil {
		t.Fatal(err)
	}
	if below := n * (c.Run.Value - best.Run.Value); below > slack {
		t.Errorf("placed %.3g below the best", below)
	}
	was := slices.Clone(best.Run.X)
	if err := placeRare(t.Context(), p, best); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(was, best.Run.X) && !(best.Run.Value < c.Run.Value) {
		t.Error("the best has moved and gained nothing")
	}
}
