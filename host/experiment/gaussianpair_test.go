package experiment

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
)

// TestPair: posterior, weights and score of a pair against its densities, written out:
// the fourth derivative of f along a line by differences.
func TestPair(t *testing.T) {
	covariance := mat.NewSymDense(3, []float64{1.5, 0.3, 0, 0.3, 0.8, -0.2, 0, -0.2, 1.1})
	unit := mat.NewSymDense(3, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1})
	m1, m2 := []float64{1, -0.5, 0.2}, []float64{-0.8, 0, 1}
	const p = 0.3
	x := []float64{0.4, -1.2, 2.1}
	b := &model.Block{N: 1, X: x}
	normal := func(mean []float64, of *mat.SymDense) *distmv.Normal {
		n, ok := distmv.NewNormal(mean, of, nil)
		if !ok {
			t.Fatal("not positive definite")
		}
		return n
	}
	for _, of := range []*mat.SymDense{covariance, unit} {
		one, two, standard := normal(m1, of), normal(m2, of), normal([]float64{0, 0, 0}, unit)
		density := func(x []float64) float64 { return p*one.Prob(x) + (1-p)*two.Prob(x) }
		l, err := newPair(p, m1, m2, of)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := l.posterior(b)[0], p*one.Prob(x)/density(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("posterior %.15g, want %.15g", got, want)
		}
		if got, want := l.weights(b)[0], standard.Prob(x)/density(x); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("weight %.15g, want %.15g", got, want)
		}
		if of == covariance {
			continue
		}
		u, h := []float64{2. / 3, -1. / 3, 2. / 3}, 0.02
		fourth := 0.0 // of f along u, with an error of h²/6·f⁽⁶⁾, some 1e−3 of it
		for i, c := range []float64{1, -4, 6, -4, 1} {
			at := make([]float64, 3)
			floats.AddScaledTo(at, x, h*float64(i-2), u)
			fourth += c * density(at) / math.Pow(h, 4)
		}
		data, score := &model.Data{N: 1, D: 3, Blocks: []model.Block{{N: 1, X: x, Y: []float64{0}}}}, 0.0
		for _, part := range l.parts(data) {
			z := floats.Dot(u, x) - floats.Dot(u, part.centre)
			score += part.rows.Blocks[0].Role[model.Weights][0] * (z*z*z*z - 6*z*z + 3)
			if math.Abs(part.share-part.rows.Blocks[0].Role[model.Weights][0]) > 1e-12 {
				t.Errorf("the share of a part is %v, the mean of its weights %v", part.share, part.rows.Blocks[0].Role[model.Weights][0])
			}
		}
		if want := fourth / density(x); math.Abs(score-want) > 5e-3*math.Abs(want) {
			t.Errorf("score %.6g, want %.6g", score, want)
		}
	}
}

// TestFitPair: EM finds the mixture that inputs were drawn from, either component first,
// within four standard errors: with posteriors known those of p are √(p(1−p)/n), of an
// entry of m_2 1/√((1−p)n); twice these where the components overlap as here.
func TestFitPair(t *testing.T) {
	const p, n = 0.2, 40000
	st, data, err := setting{mixture: mixture{g: "identity", k: 2, d: 4, sigma: 1, inputs: sample.Inputs{Mixture: true, P: p, Norm: 2}}}.openTable(t.Context(), 3, n)
	if err != nil {
		t.Fatal(err)
	}
	l, err := fitPair(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	got, mean := l.p, l.second
	if l.p > 0.5 {
		got, mean = 1-l.p, l.first
	}
	if math.Abs(got-p) > 8*math.Sqrt(p*(1-p)/n) {
		t.Errorf("p = %.4f, want %g", got, p)
	}
	for j, m := range st.sampler.Mean() {
		if math.Abs(mean[j]+m) > 8/math.Sqrt((1-p)*n) {
			t.Errorf("m_2[%d] = %.4f, want %.4f", j, mean[j], -m)
		}
	}
	if _, err := newPair(0.5, mean, mean, mat.NewSymDense(4, nil)); err == nil {
		t.Error("a covariance of 0 is taken")
	}
	if _, err := pairAround(mean, mat.NewSymDense(4, nil), 1, mean); err == nil {
		t.Error("an empty component is taken")
	}
}
