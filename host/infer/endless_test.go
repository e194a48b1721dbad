package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// TestEndless: all rows of the third level of a factor are of the first expert, so that its gate's coefficient has no finite
// optimum. The others have the covariance that they have where it is held; in the units of standardised columns the
// intercept is moved too, and in those of the columns it is not.
func TestEndless(t *testing.T) {
	const n, d = model.BlockRows, 3
	rng := rand.New(rand.NewPCG(7, 7))
	b := model.Block{N: n, X: make([]float64, n*d), Y: make([]float64, n)}
	mean, sd := make([]float64, d), make([]float64, d)
	for r := range n {
		level := rng.IntN(3)
		b.X[r] = 2 + 3*rng.NormFloat64()
		if level > 0 {
			b.X[level*n+r] = 1
		}
		if x := b.X[r]; level == 2 || rng.Float64() < 0.5 {
			b.Y[r] = 1 + x + 0.3*rng.NormFloat64()
		} else {
			b.Y[r] = -1 - x + 0.3*rng.NormFloat64()
		}
	}
	for j := range d {
		for _, v := range b.X[j*n : (j+1)*n] {
			mean[j] += v / n
			sd[j] += v * v / n
		}
		sd[j] = math.Sqrt(sd[j] - mean[j]*mean[j])
	}
	free := loss.All
	free.ExpertColumns = []int{0}
	at := func(standardised bool) (*loss.Likelihood, *model.Params) {
		own := model.Block{N: n, X: append([]float64(nil), b.X...), Y: b.Y}
		p := model.NewParams(2, d)
		p.RegressorIntercepts, p.GatingIntercepts, p.Sigma[0] = []float64{1, -1}, []float64{0}, 0.3
		p.Regressors[0], p.Regressors[d] = 1, -1
		if standardised {
			for j := range d {
				for r := range n {
					own.X[j*n+r] = (own.X[j*n+r] - mean[j]) / sd[j]
				}
			}
			p.Regressors[0], p.Regressors[d], p.RegressorIntercepts = sd[0], -sd[0], []float64{1 + mean[0], -1 - mean[0]}
		}
		l := loss.NewLikelihood(&model.Data{N: n, D: d, Blocks: []model.Block{own}}, identity{}, p, free, 1)
		theta := l.Theta(p)
		for range 300 {
			next := make([]float64, len(theta))
			if _, err := l.EMStep(t.Context(), next, theta); err != nil {
				t.Fatal(err)
			}
			theta = next
		}
		return l, l.Params(theta)
	}
	endless := loss.Parameter{Part: model.Gate, Feature: 2}

	l, p := at(false)
	ends, err := EndlessOf(t.Context(), l, p)
	if err != nil || ends == nil {
		t.Fatalf("directions %v, %v", ends, err)
	}
	for _, q := range l.Parameters() {
		if ends.Moves(q) != (q.Part == model.Gate && q.Feature == 2) {
			t.Errorf("%+v moves: %v", q, ends.Moves(q))
		}
	}
	held, err := EstimateGiven(t.Context(), l, p, Robust, nil, func(q loss.Parameter) bool { return q == endless }, nil)
	if err != nil {
		t.Fatal(err)
	}
	across, err := EstimateGiven(t.Context(), l, p, Robust, nil, none, ends)
	if err != nil {
		t.Fatal(err)
	}
	across.Without(ends.Moves)
	if !mat.EqualApprox(across.Matrix, held.Matrix, 1e-9) {
		t.Errorf("covariances differ:\n%v\n%v", mat.Formatted(across.Matrix), mat.Formatted(held.Matrix))
	}

	l, p = at(true)
	if ends, err = EndlessOf(t.Context(), l, p); err != nil || ends == nil {
		t.Fatalf("standardised: directions %v, %v", ends, err)
	}
	if !ends.Moves(loss.Parameter{Part: model.Gate, Feature: d}) {
		t.Error("standardised, the intercept is not moved")
	}
	if across, err = EstimateGiven(t.Context(), l, p, Robust, nil, none, ends); err != nil {
		t.Fatal(err)
	}
	across.Convert(mean, sd)
	ends = ends.Converted(mean, sd)
	across.Without(ends.Moves)
	if !mat.EqualApprox(across.Matrix, held.Matrix, 1e-6) { // EM ends at 1e-8 or so of the maximum, in either
		t.Errorf("converted, covariances differ:\n%v\n%v", mat.Formatted(across.Matrix), mat.Formatted(held.Matrix))
	}
	if l.PenaliseGate(1); !l.Ridge() {
		t.Error("there is no ridge")
	}
	if ends, err = EndlessOf(t.Context(), l, p); err != nil || ends != nil {
		t.Errorf("under a ridge: directions %v, %v", ends, err)
	}
}
